"""A service outlives SIGHUP, unless its terminal was closed; and it never ends with status 0 unless it was asked to."""

from __future__ import annotations

import logging
import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.applications import Starlette

from omgm.hangups import outlive_hangups
from omgm.server import AnnouncedServer, run_server
from tests.fakes.listening import free_port
from tests.paths import ROOT

SERVED = """
import fcntl, os, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the terminal on standard input is now its own
from starlette.applications import Starlette
import uvicorn
from omgm.server import run_server
run_server(uvicorn.Config(Starlette(), port={port}, log_level="error"), lambda: print("ready", flush=True))
"""


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup, and processes inherit that
    yield
    signal.signal(signal.SIGHUP, before)


def config() -> uvicorn.Config:
    return uvicorn.Config(Starlette(), host="127.0.0.1", port=free_port(), log_level="error")


def test_a_reload_leaves_the_service_running(caplog: pytest.LogCaptureFixture) -> None:
    """As by `systemctl reload`, logrotate's `postrotate` and `kill -HUP`."""
    settings, connected = config(), []

    def announce() -> None:
        for _ in range(2):
            signal.raise_signal(signal.SIGHUP)
        with socket.create_connection((settings.host, settings.port), timeout=10):
            connected.append(True)
        signal.raise_signal(signal.SIGTERM)

    with caplog.at_level(logging.WARNING, "omgm"):
        run_server(settings, announce)
    assert connected == [True]
    assert [line for line in caplog.messages if "nothing is reloaded" in line] == [caplog.messages[0]] * 2


def test_nohup_is_left_as_it_is() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    outlive_hangups()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.slow
def test_without_its_terminal_the_service_ends_with_the_signal_s_status() -> None:
    terminal, own = pty.openpty()
    command = [sys.executable, "-c", SERVED.format(port=free_port())]
    with subprocess.Popen(command, cwd=ROOT, stdin=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as service:
        os.close(own)
        assert service.stdout is not None and service.stderr is not None
        assert service.stdout.readline() == b"ready\n"
        os.close(terminal)
        try:
            assert service.wait(30) == 128 + signal.SIGHUP
        finally:
            service.kill()
        assert b"the terminal was closed" in service.stderr.read()


def test_an_end_that_nobody_asked_for_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async def end(server: AnnouncedServer, _: int) -> bool:
        return server.started

    monkeypatch.setattr(AnnouncedServer, "on_tick", end)
    with pytest.raises(SystemExit) as ended:
        run_server(config(), lambda: None)
    assert ended.value.code == 3
