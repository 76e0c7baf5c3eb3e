"""SIGHUP: a service outlives that of `systemctl reload` and of logrotate, and stops when its terminal is closed."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from types import FrameType

logger = logging.getLogger(__name__)

_closed = threading.Event()


def outlive_hangups() -> None:
    """Makes SIGHUP harmless from now on, by default the end of a process and of its requests.

    A reload has nothing to do, since changes of the index are followed as they are written. Without the terminal that
    it was started from, the service ends as after SIGTERM; under `nohup` it goes on.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # `nohup`
        return
    attached = _has_terminal()

    def hung_up(_number: int, _frame: FrameType | None) -> None:
        if attached and not _has_terminal():
            logger.warning("SIGHUP: the terminal was closed, so the service stops; nohup keeps it")
            _closed.set()
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            logger.warning("SIGHUP: nothing is reloaded; changes of the index are followed, settings need a restart")

    signal.signal(signal.SIGHUP, hung_up)


def exit_if_hung_up() -> None:
    """Ends the process with SIGHUP's status if its terminal was closed: a status of 0 means that somebody asked for it.

    Raises:
        SystemExit: The terminal was closed.
    """
    if _closed.is_set():
        sys.exit(128 + signal.SIGHUP)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
