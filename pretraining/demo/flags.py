"""Flag specifications, from which flags are drawn and described (pretraining/demo/README.md)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

FLAGS_FILE = Path(__file__).with_name("flags.toml")


@dataclass(frozen=True, slots=True)
class Layer:
    """A painted layer: an operation, its positional words and its `key=value` options, all as text.

    Example:
        >>> Layer("bands", ("h", "red", "white*2", "red")).words
        ('h', 'red', 'white*2', 'red')
    """

    operation: str
    words: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)

    def number(self, key: str, default: float) -> float:
        """Returns option `key` as a float, or `default`."""
        return float(self.options.get(key, default))

    def numbers(self, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """Returns option `key`, written `a,b,c`, as floats, or `default`."""
        text = self.options.get(key)
        return tuple(float(part) for part in text.split(",")) if text else default

    def places(self) -> list[tuple[float, float]]:
        """Returns option `at`, written `x,y/x,y`, as points."""
        text = self.options.get("at", "0.5,0.5")
        points = [tuple(float(v) for v in pair.split(",")) for pair in text.split("/")]
        return [(p[0], p[1]) for p in points]


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag: `ratio` is width over height, `layers` are painted in order."""

    ratio: float
    layers: tuple[Layer, ...]


def parse(line: str) -> Flag:
    """Parses a line of the flag language.

    Example:
        >>> parse("2:3; field white; disc red r=.3").layers[1].options
        {'r': '.3'}

    Raises:
        ValueError: The line does not start with `height:width`, or it has no layer.
    """
    head, *rest = [part.strip() for part in line.split(";")]
    try:
        height, width = (float(v) for v in head.split(":"))
    except ValueError:
        raise ValueError(f"flag {line!r}: must start with height:width, for example '2:3; field red'") from None
    layers = []
    for part in filter(None, rest):
        operation, *tokens = part.split()
        layers.append(
            Layer(
                operation,
                tuple(t for t in tokens if "=" not in t),
                dict(t.split("=", 1) for t in tokens if "=" in t),
            )
        )
    if not layers:
        raise ValueError(f"flag {line!r}: has no layer")
    return Flag(width / height, tuple(layers))


def load_flags() -> dict[str, Flag]:
    """Reads `flags.toml`, lines of `code = "layers"`; returns flags by ISO 3166 code.

    Raises:
        ValueError: A line cannot be parsed; the message names the file and the code.
    """
    flags = {}
    for code, line in tomllib.loads(FLAGS_FILE.read_text(encoding="utf-8")).items():
        try:
            flags[code] = parse(line)
        except ValueError as error:
            raise ValueError(f"{FLAGS_FILE}: {code}: {error}") from None
    return flags
