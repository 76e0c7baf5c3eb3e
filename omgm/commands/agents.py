"""Arguments of the commands that run agents."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path


def add_agent(parser: argparse.ArgumentParser, modes: str, corpus: str) -> argparse._ArgumentGroup:
    """Adds `--mode` and `--corpus` as a group of arguments and returns the group.

    Args:
        parser: The command's parser.
        modes: The help of `--mode`.
        corpus: The help of `--corpus`.
    """
    about = "a chat model (generator.base_url, generator.model) plans and calls tools, as agents.* say; docs/agents.md"
    agent = parser.add_argument_group("agents", about)
    agent.add_argument("--mode", metavar="MODE", help=modes)
    agent.add_argument("--corpus", type=Path, metavar="DIR", help=corpus)
    return agent


def refuse_without_mode(args: argparse.Namespace, options: Iterable[str]) -> None:
    """Rejects options for agents on a command line without `--mode`.

    Raises:
        ValueError: One of the options was given.
    """
    for option in options:
        if getattr(args, option):
            raise ValueError(f"--{option.replace('_', '-')} needs --mode")
