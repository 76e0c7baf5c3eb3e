"""Advice is advice: an option that a message names exists in each command that can print the message."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from omgm.__main__ import parser
from tests.paths import ROOT

PACKAGES = (
    *("chat_models", "retriever", "generators", "indexes", "training", "evaluation", "serving", "search_agents"),
    "omgm",
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")
OTHER_PROGRAMS = re.compile(
    r"(?:asciidoctor|hf download|iconv|jupyter|pandoc|pip install|ray start|start the container|tiddlywiki|torchrun)"
    r"\b[^;,`]*"
)
"""Commands that are not of this project, as messages show them."""
NOT_SHOWN = (
    "search_agents.browsing.chromium",
    "search_agents.browsing.devtools",
    "evaluation.commit",
    "omgm.__main__",
    "omgm.commands",
    "omgm.machine",
    "retriever.models.model_card",
)
"""Modules that pass options to other programs, write documentation, or list commands (checked in test_cli)."""
NEVER = {"omgm kb inspect --max-bad"}
"""What no command says: `kb inspect` accepts any share of bad entries."""
SAID_BY = {
    "evaluation.datasets": "--dataset",
    "evaluation.judge": "--judge-url",
    "evaluation.search.tasks": "--canary",
    "indexes.builder.build": "--kb-format",
    "indexes.builder.estimate": "--dry-run",
    "indexes.knowledge": "--kb-format",
    "indexes.knowledge.image_files": "--images",
    "indexes.knowledge.matching": "--map",
    "indexes.knowledge.sources": "--images",
    "indexes.rankings": "--negatives-order",
    "indexes.store.index": "--set",
    "omgm.commands.common": "--query-images",
    "omgm.commands.evaluate": "--step1",
    "omgm.commands.evaluate_agent": "--judge-url",
    "omgm.commands.index_add": "--prune",
    "omgm.commands.serve": "--kb",
    "omgm.downloads.images.reasons": "--retry",
    "omgm.downloads.images.settings": "--contact",
    "omgm.indexing": "--kb-format",
    "omgm.kept_index": "--kb",
    "omgm.profile": "--set",
    "omgm.workers": "--workers",
    "retriever.base_models": "--profile",
    "retriever.identity": "--overwrite",
    "training.record": "--minutes",
}
"""The option that a command has if it calls what a module's messages are about; other commands only import it."""


def options() -> dict[str, frozenset[str]]:
    """Returns the options of each command, and of each action of a command with actions."""

    def below(one: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, frozenset[str]]]:
        actions = [action for action in one._actions if isinstance(action, argparse._SubParsersAction)]
        for called, action in actions[0].choices.items() if actions else ():
            yield from below(action, f"{name} {called}".strip())
        if not actions:
            yield name, frozenset(option for action in one._actions for option in action.option_strings)

    return dict(below(parser(), ""))


@cache
def modules() -> dict[str, ast.Module]:
    """Returns the code of all modules, without imports for types."""
    found = {}
    for file in (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = Runtime().visit(ast.parse(file.read_text(encoding="utf-8")))
    return found


class Runtime(ast.NodeTransformer):
    """Removes what does not run: imports for types, and documentation."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        is_typing = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return None if is_typing else self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return ast.Pass() if isinstance(node.value, ast.Constant) else self.generic_visit(node)


@cache
def imports(module: str) -> frozenset[str]:
    """Returns the modules of this project that a module imports, in functions too."""
    found = set[str]()
    for one in ast.walk(modules()[module]):
        if isinstance(one, ast.ImportFrom) and one.module:
            found |= {one.module, *(f"{one.module}.{alias.name}" for alias in one.names)}
        elif isinstance(one, ast.Import):
            found |= {alias.name for alias in one.names}
    return frozenset(found & modules().keys())


@cache
def reached_from(command: str) -> frozenset[str]:
    """Returns the modules that a command may use."""
    own = f"omgm.commands.{command.replace(' ', '_').replace('-', '_')}"
    seen, waiting = {own}, [*imports(own)]
    while waiting:
        if (module := waiting.pop()) not in seen:
            seen.add(module)
            waiting += imports(module)
    return frozenset(seen)


def messages(module: str) -> Iterator[str]:
    """Yields the texts of a module; `{}` stands for a value."""
    inside = set[int]()
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(value) for value in node.values}
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def lacking(module: str, text: str, known: dict[str, frozenset[str]]) -> Iterator[str]:
    """Yields the options that a message names, each with a command that can print it and lacks the option."""
    text = OTHER_PROGRAMS.sub("", text)
    for found in re.finditer(r"omgm ([a-z-]+(?: [a-z]+)?)([^;)]*)", text):  # a command that is shown
        name = next((one for one in (found[1], found[1].partition(" ")[0]) if one in known), None)
        if name is not None:
            yield from (f"omgm {name} {option}" for option in OPTION.findall(found[2]) if option not in known[name])
            text = text.replace(found[0], "")
    about_given = text.startswith("--") or "other commands" in text
    prefixes = [one for one in SAID_BY if f"{module}.".startswith(f"{one}.")]
    for option in OPTION.findall(text):
        if about_given:  # an option that was given, or one of another command
            yield from () if any(option in one for one in known.values()) else [f"any command {option}"]
            continue
        for command, has in known.items():
            says = module in reached_from(command) and all(SAID_BY[one] in has for one in prefixes)
            if says and option not in has and f"omgm {command} {option}" not in NEVER:
                yield f"omgm {command} {option}"


MESSAGES = [
    (module, text)
    for module in modules()
    if module not in NOT_SHOWN
    for text in messages(module)
    if OPTION.search(text) and not OPTION.fullmatch(text) and "var(--" not in text
]


def test_options_that_messages_name_exist() -> None:
    known = options()
    wrong = {(module, text): found for module, text in MESSAGES if (found := sorted(set(lacking(module, text, known))))}
    assert not wrong
    assert len(MESSAGES) > 100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pass --map title=NAME", []),
        ("pass --mapping title=NAME", ["omgm index add --mapping", "omgm build-index --mapping"]),
        ("run `omgm index remove --prune`", ["omgm index remove --prune"]),
        ("as with: iconv --from-code X", []),
        ("--cluster needs Ray", []),
        ("--clusters needs Ray", ["any command --clusters"]),
    ],
)
def test_the_check_finds_what_is_wrong(text: str, expected: list[str]) -> None:
    found = list(lacking("indexes.knowledge.reading", text, options()))
    assert set(expected) <= set(found) if expected else not found
