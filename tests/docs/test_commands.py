"""Every command in the documentation exists and accepts the flags shown."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from omgm.__main__ import parser
from omgm.commands import common
from omgm.profile import parse_overrides
from tests.paths import ROOT

PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")})
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


omgm = cache(parser)


def shown(page: Path) -> Iterator[str]:
    """Yields the commands in a page's shell blocks and inline code, each on one line."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in re.sub(r"\\\n", " ", block).splitlines():
            yield from re.split(r"&&|\||;", re.sub(r"(^|\s)#.*", "", line))
    for code in re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)):
        yield " ".join(code.split())


def unknown(command: str) -> list[str]:
    """Returns the words of a command that its program does not know."""
    command = re.sub(r"^(\$ |torchrun .* -m |python -m |python |[A-Z_]+=\S+ )+", "", command.strip())
    words = re.sub(r"^(benchmarks)\.(\w+)", r"\1/\2.py", re.sub(r'"[^"]*"', "", command)).split()
    if not words or re.fullmatch(r"omgm|make|benchmarks/\w+\.py", words[0]) is None:
        return []
    if words[0] == "make":
        targets = [word for word in words[1:] if re.fullmatch(r"[a-z][\w-]*", word)]
        return [target for target in targets if target not in TARGETS and not re.match(r"table\d|figure\d", target)]
    flags = [word.partition("=")[0] for word in words if re.match(r"--\w", word)]
    if words[0] != "omgm":
        script = (ROOT / words[0]).read_text(encoding="utf-8")
        adding = re.findall(r"^    (add_\w+)\(parser", script, re.MULTILINE)  # arguments shared with `omgm` commands
        script += "".join(inspect.getsource(getattr(common, name)) for name in adding)
        return [flag for flag in flags if f'"{flag}"' not in script]
    here = omgm()
    for word in words[1:]:
        below = [action for action in here._actions if isinstance(action, argparse._SubParsersAction)]
        if not below or not re.fullmatch(r"[a-z][a-z-]*", word):
            break
        if word not in below[0].choices:
            return [word]
        here = below[0].choices[word]
    known = here._option_string_actions
    parse_overrides([word for before, word in pairwise(words) if before == "--set" and "=" in word])
    return [flag for flag in flags if flag not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_flags_exist(page: Path) -> None:
    wrong = {command: words for command in shown(page) if (words := unknown(command))}
    assert wrong == {}


def test_what_does_not_exist_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Run `omgm nothing` or `make never`.\n```sh\nomgm ask --index i \\\n  --lost x  # --more\n```\n")
    found = [unknown(command) for command in shown(page)]
    assert found == [["--lost"], ["nothing"], ["never"]]
    assert unknown("torchrun --nproc-per-node 8 -m omgm train-reranker --lots") == ["--lots"]
    assert unknown("omgm index add --missing") == ["--missing"] and unknown("omgm index away") == ["away"]
    assert unknown("python -m benchmarks.load --seconds 1 --absent") == ["--absent"]
    with pytest.raises(ValueError, match=r"unknown key 'search\.q'"):
        unknown("omgm ask --set search.q=1")
