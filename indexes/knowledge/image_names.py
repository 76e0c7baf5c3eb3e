"""The names of image files: the words that a file may be called after."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import accumulate
from unicodedata import normalize
from urllib.parse import unquote

from indexes.image_paths import IMAGE_SUFFIXES, is_embedded

NAME, BEGINS, ENDS = "{%s}", "{%s}*", "*{%s}"
"""What a key is of a file's name: all of it but for a number, size or view; its beginning; its end."""

Key = tuple[str, str, int]
"""What a file may be called after, as `loose_key` writes it; what it is of the name; and twice the number of its words,
less one if a number was cut off the last."""

_ICON = re.compile(
    r"(?:^|[^a-z])(?:icon|badge|button|sprite|spacer|favicon|emoji|avatar|appstore|app-store|google-?play)s?(?:[^a-z]|$)"
    r"|apple-touch|android-chrome|mstile|favicon",
    re.IGNORECASE,
)
_ACCENTS = re.compile("[\u0300-\u036f]")
"""Accents of Latin, Greek and Cyrillic letters; combining marks of other scripts distinguish words."""
_ASCII_WORD = re.compile("[a-z0-9]+")
_BETWEEN = re.compile(
    r"[\s\x00-/:-@\[-`{-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf\xd7\xf7\u2000-\u2bff\u3000-\u3004\u3008-\u3020\u30fb"
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]+"
)
"""What separates words; combining marks do not."""
_NUMBERED = re.compile(r"(.*\D)\d{1,3}")
_MOST_WORDS = 12
_DIGITS = frozenset("0123456789")
_SIZES = frozenset(
    {"thumb", "thumbs", "thumbnail", "small", "medium", "large", "big", "full", "fullsize", "original", "originals"}
    | {"orig", "scaled", "resized", "min", "web", "hires", "lowres", "hd", "sm", "md", "lg", "xl", "xs", "th", "mini"}
)
"""Words for a copy of an image in another size."""
_FIRST = ("cover", "main", "primary", "hero", "feature", "featured", "front", "title", "lead", "header", "banner")
"""Words for the image of several that stands for all, the best first."""
_VIEWS = _SIZES | frozenset(
    {*_FIRST, "back", "side", "top", "bottom", "left", "right", "obverse", "reverse", "recto", "verso", "inside"}
    | {"source", "src", "image", "images", "img", "photo", "photos", "pic", "picture", "closeup", "detail", "view"}
    | {"cropped", "crop", "edited", "edit", "copy", "final", "preview", "logo", "box", "poster", "profile", "x"}
)
"""Words that say which image of a thing a file is."""
_SIZE = re.compile(r"\d+x\d+|\d+px|\d+w|[1-4]x")


def is_icon(path: str) -> bool:
    """Returns whether an image file is an icon of a page or a program, judged by its name."""
    return _ICON.search(posixpath.basename(path)) is not None


def is_drawing(name: str) -> bool:
    """Returns whether an image is an SVG, judged by its name."""
    return name.lower().endswith((".svg", ".svgz"))


def split_name(name: str) -> tuple[str, str]:
    """Returns the name of a file without the extension of an image, and this extension, "" if it has none."""
    stem, extension = posixpath.splitext(name)
    return (stem, extension) if extension.lower() in IMAGE_SUFFIXES else (name, "")


def stem_of(path: str) -> str:
    """Returns the name of an image file without its folders and its extension."""
    return split_name(path.rpartition("/")[2])[0]


def fold(name: str) -> str:
    """Returns a name without differences in letter case and the form of Unicode."""
    return name.lower() if name.isascii() else normalize("NFC", normalize("NFC", name).casefold())


def words_of(name: str) -> list[str]:
    """Returns the words of a name in lower case, without accents."""
    if name.isascii():
        return _ASCII_WORD.findall(name.lower())
    name = normalize("NFC", _ACCENTS.sub("", normalize("NFD", name.casefold())))
    return [word for word in _BETWEEN.split(name) if word]


def loose_key(name: str) -> str:
    """Returns a name without differences in case, accents, punctuation and leading zeros.

    "Red Fox" is "redfox" as "red-fox" is, "Citroën" is "citroen", and "007" is "7", but "1-10" is not "11-0".
    """
    return _joined(words_of(name))


def keys_of(stem: str) -> list[Key]:
    """Returns the keys of a file's name, without its extension."""
    words = words_of(stem)[:_MOST_WORDS]
    start, end = _without_views(words)
    beginnings = enumerate(accumulate(words, _join), 1)
    keys = [(text, NAME if count >= end else BEGINS, 2 * count) for count, text in beginnings]
    ends = enumerate(accumulate(words[:start:-1], lambda after, word: _join(word, after)), 1)
    keys += [(text, ENDS, 2 * count) for count, text in ends if count > len(words) - end]
    if start:
        keys.append((_joined(words[start:end]), NAME, 2 * (end - start)))
    if end and words[end - 1][-1] in _DIGITS and (numbered := _NUMBERED.fullmatch(words[end - 1])):
        keys.append((_joined([*words[start : end - 1], numbered[1]]), NAME, 2 * (end - start) - 1))
    return [(_number(text), kind, length) for text, kind, length in keys] if "0" in stem else keys


def _without_views(words: Sequence[str]) -> tuple[int, int]:
    """Returns where the words begin and end that say what a file shows; a number does if nothing else is there."""
    for is_last in (_is_view, _VIEWS.__contains__):
        start, end = 0, len(words)
        while end and is_last(words[end - 1]):
            end -= 1
        while start < end and words[start] in _VIEWS:
            start += 1
        if start < end:
            return start, end
    return 0, len(words)


def _is_view(word: str) -> bool:
    return word in _VIEWS or len(word) == 1 or word.isdecimal() or is_size(word)


def without_size(name: str) -> str:
    """Returns a file's name without its extension and without the words for its size."""
    words = words_of(split_name(name)[0])
    return _joined(word for word in words if not is_size(word)) or _joined(words)


def picture_name(url: str) -> str:
    """Returns the name of an image's file without its folders, extension and size; a text with the image is itself."""
    if is_embedded(url):
        return url
    name = posixpath.basename(unquote(re.split(r"[?#]", url.strip())[0]).replace("\\", "/"))
    return without_size(name) or url


def is_size(word: str) -> bool:
    """Returns whether a word says the size of an image: `thumb`, `300x200`, `2x`."""
    return word in _SIZES or (word[0] in _DIGITS and _SIZE.fullmatch(word) is not None)


def standing(path: str) -> int:
    """Returns how well an image stands for all of a thing, by its name; the best is 0."""
    words = words_of(stem_of(path))
    return next((number for number, word in enumerate(_FIRST) if word in words), len(_FIRST) + len(words))


def _joined(words: Iterable[str]) -> str:
    return _number(reduce(_join, words, ""))


def _join(word: str, other: str) -> str:
    return f"{word}-{other}" if word and other and word[-1] in _DIGITS and other[0] in _DIGITS else word + other


def _number(word: str) -> str:
    return (word.lstrip("0") or "0") if word[:1] == "0" and word.isdecimal() else word
