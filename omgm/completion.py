"""Writes scripts that complete the commands and flags of `omgm` in a shell: `omgm --completion bash`."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

_SETUP = {"bash": "", "zsh": "autoload -U +X compinit bashcompinit && compinit -u && bashcompinit\n"}
_BASH = """_omgm() {{
  local before="${{COMP_WORDS[*]:1:$((COMP_CWORD-1))}}" current="${{COMP_WORDS[COMP_CWORD]}}" words=""
  case "$before " in
{cases}
  esac
  [[ "$words" == --* && "$current" != -* ]] && words=""  # file names
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _omgm omgm
"""


def script(top: argparse.ArgumentParser, shell: str) -> str:
    """Returns the script for "bash", "zsh" or "fish"; other words are completed as file names."""
    levels = list(_levels(top, ""))
    if shell == "fish":
        return "".join(_fish(path, parser) for path, parser in levels)
    # The deepest first: "index add" before "index", and last the names of the commands.
    cases = [f'    {shlex.quote(f"{path} ")}*) words="{" ".join(_words(parser))}" ;;' for path, parser in levels[::-1]]
    return _SETUP[shell] + _BASH.format(cases="\n".join(cases))


def _levels(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yields each parser with the words that lead to it."""
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from _levels(below, f"{path} {name}".strip())


def _words(parser: argparse.ArgumentParser) -> list[str]:
    """Returns the commands that can follow, or the flags of a command without any."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return list(action.choices)
    return [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]


def _fish(path: str, parser: argparse.ArgumentParser) -> str:
    """Returns the lines of a parser for fish."""
    seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in path.split())
    words = _words(parser)
    if not words[0].startswith("--"):
        last = f"{seen}; and not __fish_seen_subcommand_from {' '.join(words)}" if seen else "__fish_use_subcommand"
        return f"complete -c omgm -f -n '{last}' -a '{' '.join(words)}'\n"
    return "".join(f"complete -c omgm -n '{seen}' -l {word[2:]}\n" for word in words)
