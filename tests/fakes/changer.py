"""Another process that changes an index: reads commands from standard input, and answers each with a line.

put NAME [SEED]     adds or replaces an article
remove NAME         removes it
compact             compacts the index
close               lets other processes change the index
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.fakes.live import World, article
from tests.paths import ROOT


class Changer:
    """The other process, as seen by a test.

    Args:
        process: It.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._to: IO[str] = process.stdin
        self._from: IO[str] = process.stdout

    def __call__(self, command: str) -> None:
        """Returns when a command has been carried out."""
        print(command, file=self._to, flush=True)
        assert self._from.readline() == f"{command}: done\n"


@contextmanager
def other_process(world: World) -> Iterator[Changer]:
    """Yields a process that has an index open for changes until the end of the block."""
    command = [sys.executable, "-m", "tests.fakes.changer", str(world.folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        changer = Changer(process)
        changer("open")
        yield changer
        changer("close")
    assert process.returncode == 0


def _main() -> None:
    world = World.at(Path(sys.argv[1]))
    editor = world.editor()
    for line in sys.stdin:
        command, *words = line.split()
        if command == "put":
            world.put(editor, article(words[0], int(words[1]) if words[1:] else 0))
        elif command == "remove":
            editor.remove([f"kb/{words[0]}"])
        elif command == "compact":
            assert editor.index.compact()
        elif command == "close":
            editor.close()
        print(f"{line.rstrip()}: done", flush=True)


if __name__ == "__main__":
    _main()
