"""Python in processes of its own."""

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
    """Runs Python with arguments, such as `-m omgm`, from the repository; returns its status and what it printed."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=check)


def kill_omgm_when(reached: Callable[[], bool], arguments: Sequence[str]) -> None:
    """Starts `omgm` in a process of its own and kills it for real once a condition holds; it must not end before."""
    with subprocess.Popen(
        [sys.executable, "-m", "omgm", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        while process.poll() is None and not reached():
            time.sleep(0.005)
        assert process.poll() is None, process.stderr and process.stderr.read()
        process.send_signal(signal.SIGKILL)
