"""The command line: `omgm COMMAND`, one module of `omgm.commands` each."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import select
import signal
import sys
from collections.abc import Sequence

from omgm import __version__

COMMANDS = (
    "demo",
    "doctor",
    "download",
    "push",
    "images",
    "kb",
    "build-index",
    "index",
    "train-encoder",
    "train-sections",
    "mine-negatives",
    "train-reranker",
    "train-generator",
    "import-encoder",
    "import-reranker",
    "import-index",
    "dataset",
    "evaluate",
    "compare",
    "sweep",
    "calibrate",
    "tokens",
    "tables",
    "ask",
    "web",
    "serve",
    "key",
    "mcp",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit status: 0, or 2 for errors that the user can fix, explained in one line.

    As usual, it exits silently with 130 after Ctrl-C, and with 141 if the reader of its output has closed the pipe.
    """
    args = parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO if args.verbose else logging.WARNING, format="%(levelname)s %(message)s")
    try:
        args.run(args)
        sys.stdout.flush()  # now, so that a closed pipe raises here
    except (ValueError, OSError, MemoryError, FloatingPointError) as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            return 128 + signal.SIGPIPE
        if args.verbose:
            logging.exception("the traceback of the error")
        print(f"omgm: error: {' '.join(_explained(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _nobody_reads() -> bool:
    """Returns whether the reader of standard output has closed the pipe, as in `omgm ask … | head`.

    If so, redirects standard output to the null device, since Python would report the error again at exit.
    """
    output, poll = sys.stdout.fileno(), select.poll()
    poll.register(output, 0)  # errors only
    if not poll.poll(0):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    return True


def _explained(error: Exception) -> str:
    """Returns an error's message; for OS errors about a path, without the error number and with advice."""
    if not isinstance(error, OSError) or error.filename is None or error.strerror is None:
        return str(error)
    path = error.filename if error.filename2 is None else error.filename2
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{path}: is a file or inside one, but a folder is needed; choose another place"
    if isinstance(error, IsADirectoryError):
        return f"{path}: is a folder, but a file is needed; choose another name"
    return f"{path}: {error.strerror}"


def parser() -> argparse.ArgumentParser:
    """Returns the parser of all commands. Heavy imports are deferred until a command runs."""
    top = argparse.ArgumentParser(prog="omgm", description="Answers questions about images from an encyclopedia.")
    top.add_argument("--version", action="version", version=f"omgm {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        module = importlib.import_module(f"omgm.commands.{name.replace('-', '_')}")
        summary = (module.__doc__ or "").strip()
        command = commands.add_parser(name, help=summary.rstrip("."), description=summary)
        module.add_arguments(command)
        command.add_argument("--verbose", action="store_true", help="print log messages")
        command.set_defaults(run=module.run)
    return top


if __name__ == "__main__":
    sys.exit(main())
