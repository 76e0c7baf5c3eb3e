"""Starts processes for benchmarks: a service, and processes that answer lines of JSON."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omgm.commands.demo import omgm

Address = tuple[str, int]


@contextmanager
def service(
    profile: str, index: Path, settings: Sequence[str] = (), workers: int = 1
) -> Iterator[tuple[subprocess.Popen[bytes], Address]]:
    """Starts a service on a free port; yields its process and address once it accepts requests.

    Args:
        profile: The name or file of its profile.
        index: The index.
        settings: Overrides of the profile's settings, as `KEY=VALUE`.
        workers: Number of worker processes.

    Raises:
        OSError: It did not start; standard error says why.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = [part for value in settings for part in ("--set", value)]
    command = omgm("serve", "--profile", profile, *given, "--index", index, "--port", port, "--workers", workers)
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        if not process.stdout.readline():  # printed once all workers accept requests
            raise OSError("the service did not start; standard error says why")
        yield process, ("127.0.0.1", port)
    finally:
        process.terminate()
        process.wait(timeout=60)


class Answerer:
    """A process that runs `answer_lines`.

    Raises:
        OSError: It did not start; standard error says why.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        if self._answers.readline() != "ready\n":
            self.close()
            raise OSError(f"{' '.join(command)} did not start; standard error says why")

    def ask(self, question: Any) -> Any:
        """Returns the answer to a question."""
        self._questions.write(json.dumps(question) + "\n")
        self._questions.flush()
        return json.loads(self._answers.readline())

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def answer_lines(answer: Callable[[Any], Any]) -> None:
    """Prints a line when ready, then answers each line of standard input with a line on standard output."""
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
