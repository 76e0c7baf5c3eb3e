"""The command line: `omgm COMMAND`; `omgm.commands` finds the commands, one module each."""

from __future__ import annotations

import argparse
import logging
import os
import select
import shutil
import signal
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType
from typing import Any, NoReturn

from omgm import __version__
from omgm.commands import GROUP, RENAMED, REPLACED_FLAGS, about, actions_of, commands, groups
from retriever.entry_points import named
from retriever.key_marks import without_keys


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit status: 0, or 2 for errors that the user can fix, explained in one line.

    As usual, it exits silently with 130 after Ctrl-C, and with 141 if the reader of its output has closed the pipe.
    """
    words = _by_new_name(sys.argv[1:] if argv is None else argv)
    try:
        top = parser(words[0] if words else "")
    except ValueError as error:  # of the installation
        print(f"omgm: error: {error}", file=sys.stderr)
        return 2
    args, unknown = top.parse_known_args(words)
    if unknown:
        _refuse(top, unknown)
    logging.basicConfig(level=logging.INFO if args.verbose else logging.WARNING, format="%(levelname)s %(message)s")
    try:
        with _alone(args):
            args.run(args)
        sys.stdout.flush()  # now, so that a closed pipe raises here
    except (ValueError, OSError, MemoryError, FloatingPointError) as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            return 128 + signal.SIGPIPE
        if args.verbose:
            logging.exception("the traceback of the error")
        print(f"omgm: error: {without_keys(' '.join(_explained(error).split()))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


@contextmanager
def _alone(args: argparse.Namespace) -> Iterator[None]:
    """Keeps other processes from working in the same `--out`; of one training's processes, the first does."""
    with ExitStack() as held:
        if "lock" in args and os.environ.get("RANK", "0") == "0":
            from indexes.store.lock import locked

            with suppress(OSError):  # the file system has no locks, or the command will say what is wrong
                held.enter_context(locked(args.lock(args.out), f"works on {args.out}"))
        yield


def _by_new_name(words: Sequence[str]) -> list[str]:
    """Returns the words of a command line, of a renamed command under its new name, which is then said."""
    for count in (2, 1):
        old = " ".join(words[:count])
        if new := RENAMED.get(old):
            print(f"omgm: `omgm {old}` is now `omgm {new}`", file=sys.stderr)
            return [*new.split(), *words[count:]]
    return list(words)


def _refuse(top: argparse.ArgumentParser, unknown: Sequence[str]) -> NoReturn:
    """Exits because of words that a command does not know; for a flag that is a setting now, says which."""
    flags = [word.partition("=")[0] for word in unknown]
    replaced = [f"{flag} is now {REPLACED_FLAGS[flag]}" for flag in flags if flag in REPLACED_FLAGS]
    if replaced:
        top.exit(2, f"omgm: error: {'; '.join(replaced)}\n")
    top.error(f"unrecognized arguments: {' '.join(unknown)}")


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


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """Returns the parser of all commands.

    Args:
        command: Only this command gets its arguments, so that the modules of the others need not be imported.
    """
    top = _Top(
        prog="omgm",
        description="Answers questions about images from an encyclopedia.",
        usage="omgm COMMAND … (omgm COMMAND --help lists its arguments)",
    )
    top.add_argument("--version", action="version", version=f"omgm {__version__}")
    top.add_argument("--completion", choices=("bash", "zsh", "fish"), action=_Completion, help="print a script")
    choices = top.add_subparsers(dest="command", required=True, metavar="COMMAND", prog="omgm", parser_class=_Command)
    for name in commands():
        if command is not None and command != name:
            choices.add_parser(name)
            continue
        chosen = choices.add_parser(name, description=f"{about(name)}.")
        if not (actions := actions_of(name)):
            _fill(chosen, name)
            continue
        below = chosen.add_subparsers(dest="action", required=True, metavar="ACTION")
        for action in actions:
            what = about(f"{name} {action}")
            _fill(below.add_parser(action, help=what, description=f"{what}."), f"{name} {action}")
    return top


def _fill(command: argparse.ArgumentParser, name: str) -> None:
    """Adds the arguments of a command, from its module."""
    module = named(GROUP, name.replace(" ", "."), {}, ModuleType)
    module.add_arguments(command)
    command.add_argument("--verbose", action="store_true", help="print log messages")
    command.set_defaults(run=module.run)


class _Command(argparse.ArgumentParser):
    """The parser of a command, whose words may stand among its options even if the first may be missing."""

    _is_mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses options first, and then the words that are left."""
        if self._is_mixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._is_mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_mixing = False


class _Top(argparse.ArgumentParser):
    """The parser of the command's name, whose help groups the commands by what people do."""

    def format_help(self) -> str:
        """Returns the help of `omgm`."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, [], [])
        formatter.add_text(self.description)
        text = formatter.format_help()
        for group, names in groups().items():
            text += f"\n{group}:\n" + _listed({name: about(name) + _actions_in(name) for name in names})
        flags = {"--version": "print the version", "--completion SHELL": "print a script for bash, zsh or fish"}
        return text + "\n" + _listed(flags)


class _Completion(argparse.Action):
    """Prints the script that completes commands and flags in a shell, and exits."""

    def __call__(self, top: argparse.ArgumentParser, _space: Any, shell: Any, _flag: str | None = None) -> NoReturn:
        from omgm.completion import script

        print(script(parser(), shell), end="")
        top.exit()


def _actions_in(command: str) -> str:
    return f": {', '.join(actions)}" if (actions := actions_of(command)) else ""


def _listed(rows: Mapping[str, str]) -> str:
    width = min(shutil.get_terminal_size().columns, 120)
    indent = " " * 21
    wrap = textwrap.TextWrapper(width, initial_indent=indent, subsequent_indent=indent)
    return "".join(f"  {name:<19}{wrap.fill(about)[len(indent) :]}\n" for name, about in rows.items())


if __name__ == "__main__":
    sys.exit(main())
