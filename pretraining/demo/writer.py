"""A small grammar of wordings (pretraining/demo/wording.toml) and a writer that chooses among them."""

from __future__ import annotations

import functools
import random
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Wordings = dict[str, dict[str, list[str]]]
Tree = tuple[Any, ...]  # ("text", str) | ("name", str) | ("either", trees) in a row


@functools.cache
def _wordings() -> Wordings:
    return tomllib.loads(Path(__file__).with_name("wording.toml").read_text(encoding="utf-8"))


@functools.cache
def _tree(text: str) -> Tree:
    """Parses a wording with `[a|b]` choices and `{name}` references."""
    rows: list[list[list[Any]]] = [[[]]]
    start = 0
    for at, sign in enumerate(text):
        if sign not in "[|]{}" or (sign == "|" and len(rows) == 1):
            continue
        if at > start:
            rows[-1][-1].append(("name" if sign == "}" else "text", text[start:at]))
        start = at + 1
        if sign == "[":
            rows.append([[]])
        elif sign == "|":
            rows[-1].append([])
        elif sign == "]":
            choices = rows.pop()
            rows[-1][-1].append(("either", [tuple(choice) for choice in choices]))
    if start < len(text):
        rows[-1][-1].append(("text", text[start:]))
    return tuple(rows[0][0])


class Writer:
    """Chooses wordings: always the first or, with `rng`, a random one, preferring earlier ones."""

    def __init__(self, rng: random.Random | None) -> None:
        self.rng = rng
        self.words = _wordings()
        self.colors: dict[str, str] = {}

    def chance(self, probability: float) -> bool:
        """Returns True with this probability; always False without `rng`."""
        return self.rng is not None and self.rng.random() < probability

    def pick(self, options: Sequence[Any]) -> Any:
        """Returns the first option or, with `rng`, a random one, preferring earlier ones."""
        return options[0] if self.rng is None else options[int(len(options) * self.rng.random() ** 1.3)]

    def say(self, section: str, key: str, **values: str) -> str:
        """Returns a wording of an entry, filled in."""
        return self.expand(_tree(self.pick(self.words[section][key])), values)

    def expand(self, tree: Tree, values: dict[str, str]) -> str:
        """Returns the text of a parsed wording."""
        parts = []
        for kind, value in tree:
            if kind == "text":
                parts.append(value)
            elif kind == "either":
                parts.append(self.expand(self.pick(value), values))
            elif value in values:
                parts.append(values[value])
            else:
                parts.append(self.expand(_tree(self.pick(self.words["word"][value])), values))
        return "".join(parts)

    def color(self, word: str) -> str:
        """Returns words for `name`, `name#rrggbb` or `name*2`, mostly consistent within a description."""
        name = word.split("*")[0].split("#")[0]
        if name not in self.colors or self.chance(0.12):
            options = self.words["color"].get(name, [name])
            self.colors[name] = options[0] if self.chance(0.5) else self.pick(options)
        return self.colors[name]

    def colors_of(self, words: Sequence[str]) -> str:
        """Returns words for a thing's one or two main colors."""
        names = list(dict.fromkeys(self.color(word) for word in words))
        if len(names) > 2 or self.chance(0.5):
            return "-and-".join(names[:2])
        return " and ".join(names)

    def number(self, n: int) -> str:
        """Returns a number in letters or digits."""
        return str(self.pick(self.words["number"].get(str(n), [str(n)])))

    def points(self, n: int) -> str:
        """Returns `five-pointed `, or nothing."""
        word = self.number(n) if n < 14 else str(n)
        return self.say("word", "points", n="two" if word == "a pair of" else word)
