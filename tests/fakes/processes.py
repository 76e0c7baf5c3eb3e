"""Runs Python in separate processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from tests.paths import ROOT


def run_python(
    *arguments: object, environment: Mapping[str, str] | None = None, check: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs Python with arguments such as `-m omgm` in the repository; returns its exit status and output."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=check)


def kill_omgm_when(reached: Callable[[], bool], arguments: Sequence[str]) -> None:
    """Starts `omgm` in a separate process and really kills it once a condition holds; it must not end before that."""
    with subprocess.Popen(
        [sys.executable, "-m", "omgm", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        while process.poll() is None and not reached():
            time.sleep(0.005)
        assert process.poll() is None, process.stderr and process.stderr.read()
        process.send_signal(signal.SIGKILL)
