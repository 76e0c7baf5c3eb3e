"""The named colors of flags."""

from __future__ import annotations

from functools import lru_cache

RGB = tuple[int, int, int]

COLORS: dict[str, RGB] = {
    "red": (206, 17, 38),
    "darkred": (168, 20, 34),
    "maroon": (120, 20, 50),
    "orange": (244, 120, 30),
    "saffron": (255, 153, 51),
    "gold": (252, 196, 24),
    "yellow": (255, 222, 0),
    "lightyellow": (250, 240, 150),
    "green": (0, 135, 62),
    "darkgreen": (0, 90, 50),
    "lightgreen": (80, 180, 70),
    "teal": (0, 140, 140),
    "lightblue": (100, 170, 225),
    "skyblue": (0, 155, 220),
    "blue": (0, 80, 170),
    "darkblue": (10, 50, 130),
    "navy": (0, 33, 91),
    "purple": (110, 40, 130),
    "pink": (230, 120, 150),
    "brown": (140, 90, 45),
    "gray": (150, 150, 150),
    "black": (0, 0, 0),
    "white": (255, 255, 255),
}


@lru_cache(maxsize=4096)
def color(word: str) -> RGB:
    """Returns the color of `name` or `name#rrggbb`.

    Example:
        >>> color("red#ff0010")
        (255, 0, 16)

    Raises:
        ValueError: The name is not in `COLORS`, or `#` is not followed by six hexadecimal digits.
    """
    name, exact, digits = word.partition("#")
    if name not in COLORS:
        raise ValueError(f"unknown color {name!r}: use one of {', '.join(COLORS)}")
    if not exact:
        return COLORS[name]
    if len(digits) != 6 or any(d not in "0123456789abcdefABCDEF" for d in digits):
        raise ValueError(f"color {word!r}: write six hexadecimal digits after '#', as in red#ce1126")
    return int(digits[0:2], 16), int(digits[2:4], 16), int(digits[4:6], 16)
