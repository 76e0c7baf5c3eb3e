"""What image files and entities are called after: runs of a name's words; ids, names, short values, folders."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import accumulate
from typing import NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from indexes.knowledge.image_names import split_name
from retriever.types import Entity, IntArray

NAME, BEGINS, ENDS = range(3)
"""What a key is of a file's name: all of it but for a number, size or view; its beginning; its end."""

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


class FileKeys(NamedTuple):
    """What a file may be called after.

    Attributes:
        texts: The keys, as `loose_key` writes them.
        kinds: For each key, `NAME`, `BEGINS` or `ENDS`.
        words: For each key, twice the number of its words, less one if a number was cut off the last: of several keys
            that name entities, the longest counts.
    """

    texts: list[str]
    kinds: list[int]
    words: list[int]


def loose_key(name: str) -> str:
    """Returns a name without differences in case, accents, punctuation and leading zeros.

    "Red Fox" is "redfox" as "red-fox" is, "Citroën" is "citroen", and "007" is "7", but "1-10" is not "11-0".
    """
    return _joined(words_of(name))


def words_of(name: str) -> list[str]:
    """Returns the words of a name in lower case, without accents."""
    if name.isascii():
        return _ASCII_WORD.findall(name.lower())
    name = normalize("NFC", _ACCENTS.sub("", normalize("NFD", name.casefold())))
    return [word for word in _BETWEEN.split(name) if word]


def keys_of(stem: str) -> FileKeys:
    """Returns the keys of a file's name, without its extension."""
    words = words_of(stem)[:_MOST_WORDS]
    count = len(words)
    start, end = 0, count
    while end and is_view(words[end - 1]):
        end -= 1
    while start < end and words[start] in _VIEWS:
        start += 1
    if start == end:  # the number is all that can be a name: `photo-12-front`
        start, end = 0, count
        while start < end - 1 and words[start] in _VIEWS:
            start += 1
        while end > start + 1 and words[end - 1] in _VIEWS:
            end -= 1
    texts = list(accumulate(words, _join))
    kinds = [BEGINS] * (end - 1) + [NAME] * (count - end + 1 if count else 0)
    lengths = list(range(2, 2 * count + 2, 2))
    if start:
        texts.append(_joined(words[start:end]))
        kinds.append(NAME)
        lengths.append(2 * (end - start))
    if end and words[end - 1][-1] in _DIGITS and (numbered := _NUMBERED.fullmatch(words[end - 1])):
        texts.append(_joined([*words[start : end - 1], numbered[1]]))
        kinds.append(NAME)
        lengths.append(2 * (end - start) - 1)
    if end - start > 1:
        texts += list(accumulate(words[:start:-1], lambda after, word: _join(word, after)))[count - end :]
        kinds += [ENDS] * (end - start - 1)
        lengths += range(2 * (count - end) + 2, 2 * (count - start), 2)
    if "0" in stem:
        texts = list(map(_number, texts))
    return FileKeys(texts, kinds, lengths)


def is_view(word: str) -> bool:
    """Returns whether a word is a number, a size, or says which image of a thing a file is."""
    if word in _VIEWS or len(word) == 1 or word.isdecimal():
        return True
    return word[0] in _DIGITS and _SIZE.fullmatch(word) is not None


def without_size(name: str, numbers: bool) -> str:
    """Returns a file's name without its extension and without the words for its size.

    If `numbers`, those of three or more digits are sizes.
    """
    words = words_of(split_name(name)[0])
    return _joined(word for word in words if not (is_size(word) or (numbers and is_large(word)))) or _joined(words)


def is_size(word: str) -> bool:
    """Returns whether a word says the size of an image: `thumb`, `300x200`, `2x`."""
    return word in _SIZES or _SIZE.fullmatch(word) is not None


def is_large(word: str) -> bool:
    """Returns whether a word is a number that may be a size in pixels."""
    return len(word) > 2 and word.isdecimal() and word[0] != "0"


def standing(name: str) -> int:
    """Returns how well an image stands for all of a thing, by its name; the best is 0."""
    words = words_of(split_name(name)[0])
    if (found := next((number for number, word in enumerate(_FIRST) if word in words), None)) is not None:
        return found
    return len(_FIRST) + len(words)


def _joined(words: Iterable[str]) -> str:
    return _number(reduce(_join, words, ""))


def _join(one: str, other: str) -> str:
    return f"{one}-{other}" if one and other and one[-1] in _DIGITS and other[0] in _DIGITS else one + other


def _number(word: str) -> str:
    return (word.lstrip("0") or "0") if word[:1] == "0" and word.isdecimal() else word


OWN_FILE = ""  # the field of `Entity.named_after` for the path of the file that an entity comes from
SHARED = -2  # the row of what belongs to several entities
_PAGE = re.compile(r"(?:(?:^|/)(?:_?index|readme|default))?(?:\.(?:x?html?|mdx?|markdown))?$", re.IGNORECASE)
"""The end of a path that says that it is a page, not which."""
_LONGEST = 100
_MOST_FIELDS = 100
_LEVELS = 2


def own_file(entity: Entity) -> str | None:
    """Returns the path of the file that an entity comes from, relative to the folder that is read, if it is known."""
    return next((value for field, value in entity.named_after if field == OWN_FILE), None)


class KeyRows(NamedTuple):
    """Entities by key, sorted by hash and field; `hash` is that of Python, so they hold in this process alone."""

    hashes: IntArray  # the hash of each key, int64
    fields: NDArray[np.int16]  # the number of the field that the key comes from
    rows: NDArray[np.int32]  # the row of the entity, or `SHARED`
    weak: NDArray[np.bool_]  # whether the key is a number, or shorter than three characters


class EntityKeys:
    """Collects the keys of entities, in 15 bytes each."""

    def __init__(self) -> None:
        self.fields: list[str] = []
        self.lacking = array("b")
        self._number: dict[str, int] = {}
        self._hashes, self._fields, self._rows, self._weak = array("q"), array("h"), array("i"), array("b")
        self._in_folder: dict[str, int] = {}
        self._under_folder = Counter[str]()

    def add(self, entity: Entity, lacking: bool) -> None:
        """Adds the next entity."""
        row = len(self.lacking)
        self.lacking.append(lacking)
        values = [("id", last_name(entity.id)), ("title", entity.title), *(("names", one) for one in entity.names)]
        if (file := own_file(entity)) is None:  # anywhere, so that nothing at the top is for sure another one's
            self._add_folder("", SHARED)
        else:
            self._add_folder(file.rpartition("/")[0], row)
        for field, value in dict.fromkeys((*values, *entity.named_after)):
            if field == OWN_FILE:
                continue
            if len(value) <= _LONGEST and (key := loose_key(value)) and (number := self._of(field)) is not None:
                self._hashes.append(hash(key))
                self._fields.append(number)
                self._rows.append(row)
                self._weak.append(len(key) < 3 or key.isdecimal())

    def table(self) -> KeyRows:
        """Returns the entities by key."""
        hashes, fields = np.array(self._hashes, np.int64), np.array(self._fields, np.int16)
        order = np.lexsort((fields, hashes))
        hashes, fields, rows = hashes[order], fields[order], np.array(self._rows, np.int32)[order]
        first = np.ones(len(hashes), bool)
        first[1:] = (hashes[1:] != hashes[:-1]) | (fields[1:] != fields[:-1])
        starts = np.flatnonzero(first)
        if len(starts):
            several = np.minimum.reduceat(rows, starts) != np.maximum.reduceat(rows, starts)
            rows = np.where(several, np.int32(SHARED), rows[starts])
        return KeyRows(hashes[first], fields[first], rows, np.array(self._weak, bool)[order][first])

    def row_beside(self, folder: str) -> int | None:
        """Returns the row of the innermost entity that a folder is of: the only one with its file there or above.

        It is `SHARED` if several have their file in the nearest folder with such files, or the only one has its file
        above the folder and others are below it, and `None` if there are no such files.
        """
        here = folder
        while here and here not in self._in_folder:
            here = here.rpartition("/")[0]
        return self._in_folder.get(here) if here == folder or self._under_folder[here] == 1 else SHARED

    def folder_keys(self, folder: str) -> Iterator[str]:
        """Yields the keys of a folder and of the one above it, as far as they are one entity's."""
        for _ in range(_LEVELS):
            if not folder or self._under_folder[folder] > 1:
                return
            folder, _, name = folder.rpartition("/")
            yield loose_key(name)

    def _of(self, field: str) -> int | None:
        if field not in self._number and len(self.fields) < _MOST_FIELDS:
            self._number[field] = len(self.fields)
            self.fields.append(field)
        return self._number.get(field)

    def _add_folder(self, folder: str, row: int) -> None:
        self._in_folder[folder] = SHARED if folder in self._in_folder else row
        self._under_folder[folder] += 1
        while folder:
            folder = folder.rpartition("/")[0]
            self._under_folder[folder] += 1


def last_name(id: str) -> str:
    """Returns the last name of an id that is a path or a URL: `fox` for `animals/fox/index.html`."""
    path = re.split("[?#]", id)[0] if "://" in id else id
    while path and (shorter := _PAGE.sub("", path.rstrip("/"))) != path:
        path = shorter
    return path.rpartition("/")[2] or id
