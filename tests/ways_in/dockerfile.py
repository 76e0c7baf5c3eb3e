"""Reads what the images' tests and the trial without Docker need of a Dockerfile and its .dockerignore."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import NamedTuple


class Instruction(NamedTuple):
    """An instruction: its name, such as RUN, its options without the dashes, and the rest of the line."""

    name: str
    options: tuple[str, ...]
    rest: str


def instructions(text: str, stage: str) -> list[Instruction]:
    """Returns the instructions of a stage, after those of the stages that it builds on, FROM included.

    Raises:
        ValueError: There is no such stage.
    """
    stages: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    for line in re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text)).splitlines():
        words = line.split()
        if not words:
            continue
        count = next((i for i, word in enumerate(words[1:]) if not word.startswith("--")), 0)
        found = Instruction(words[0].upper(), tuple(w[2:] for w in words[1 : count + 1]), " ".join(words[count + 1 :]))
        if found.name == "HEALTHCHECK":  # its options stand before CMD, which may be on a line of its own
            found = found._replace(rest=found.rest.removeprefix("CMD "))
        if found.name == "FROM":
            base, _, name = found.rest.partition(" AS ")
            current = stages[name or base] = list(stages.get(base, [found]))
        else:
            current.append(found)
    if stage not in stages:
        raise ValueError(f"the Dockerfile has no stage {stage!r}, only {', '.join(stages)}")
    return stages[stage]


def context(names: Iterable[str], ignore: str) -> list[str]:
    """Returns the files that a .dockerignore leaves in the context; of its rules, the last that fits decides."""
    rules = [line.strip() for line in ignore.splitlines() if line.strip() and not line.startswith("#")]
    kept = []
    for name in names:
        path = PurePosixPath(name)
        above = [str(path), *map(str, path.parents[:-1])]
        fitting = [rule for rule in rules if any(_pattern(rule).fullmatch(one) for one in above)]
        if not fitting or fitting[-1].startswith("!"):
            kept.append(name)
    return kept


def _pattern(rule: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*|\?)", rule.removeprefix("!").strip("/"))
    known = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(known.get(part, re.escape(part)) for part in parts))
