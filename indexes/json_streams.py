"""Reads JSON of any size piece by piece: the members of an object, the items of a list, or values in a row.

What is not JSON, is cut short or not UTF-8 is a `ValueError` that names the entry and the line. Python's parser reads
the values, since NaN, whole numbers of any size and unpaired surrogates must not change or end the file, as in ijson.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from indexes.decoding import Stream, encoding_in, not_utf8, opened, opened_text
from retriever.strict_json import unique_keys

CHUNK = 1 << 20
"""Bytes read at a time; a larger value is read in doubling steps."""

_LONGEST_LINE = 1 << 24
"""Bytes of the first line to read to tell JSON lines from one object: E-VQA's is a single line of gigabytes."""
_MARGIN = 16
"""An error this close, in characters, to the end of the text read so far may only mean that more follows ("\\u12")."""
_SPACE = re.compile(r"[ \t\n\r]*")
_KINDS = {"": "the file's end", "[": "a list", "{": "an object", '"': "text"}
_NO_COMMENTS = "a comment, which JSON does not have; remove it"
_KINDS |= dict.fromkeys("/#", _NO_COMMENTS)


def unreadable_value(error: Exception) -> str:
    """Returns why a value cannot be read; Python's words for too many levels differ from version to version."""
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def starts_with(path: Path, character: str) -> bool:
    """Returns whether the first character of a text file, apart from white space, is `character`."""
    with opened_text(path) as file:
        start = file.read(256).removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="replace")
    return start.lstrip().startswith(character)


def read_members(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields the members (key, value) of a file that is one JSON object.

    Raises:
        ValueError: The file is not such an object, is truncated or not UTF-8. The message names entry and line.
    """
    with _window(path) as window:
        for key in window.members():
            yield key, window.value()
        window.end("object")


def read_parts(path: Path) -> Iterator[tuple[str, int, Any]]:
    """Yields the members (key, number, value) of a file that is one JSON object, with the items of lists one by one.

    Items are numbered from 1, and a member that is not a list has number 0; empty lists are left out.

    Raises:
        ValueError: As for `read_members`.
    """
    with _window(path) as window:
        for key in window.members():
            if window.peek() == "[":
                yield from ((key, number, item) for number, item in window.items())
            else:
                yield key, 0, window.value()
        window.end("object")


def read_items(path: Path) -> Iterator[tuple[int, Any]]:
    """Yields the items of a file that is one JSON array, numbered from 1.

    Raises:
        ValueError: As for `read_members`, of an array.
    """
    with _window(path) as window:
        if window.peek() != "[":
            raise window.unexpected("a list")
        yield from window.items()
        window.end("list")


def read_values(path: Path) -> Iterator[tuple[int, Any]]:
    """Yields JSON values that follow each other, numbered from 1; a comma may stand between them.

    Raises:
        ValueError: As for `read_members`, of values.
    """
    with _window(path) as window:
        number = 0
        while window.peek():
            number += 1
            window.place = f"value {number}: "
            yield number, window.value()
            if window.peek() == ",":
                window.take()


def has_lines(path: Path) -> bool:
    """Returns whether a file has one JSON value per line, judged by its name, or because its first line is a value."""
    return any(suffix.lower() in (".jsonl", ".ndjson") for suffix in path.suffixes[-2:]) or all(first_line(path))


def first_line(path: Path) -> tuple[bool, bytes]:
    """Returns whether the first line of a file is a JSON value, and the beginning of what follows."""
    with opened_text(path) as file:
        line, following = file.readline(_LONGEST_LINE), file.read(4096).lstrip()
    try:
        value_in(line)
    except (ValueError, RecursionError):
        return False, following
    return True, following


def value_in(line: bytes) -> Any:
    """Returns the JSON value in a line, after which a comma may stand, as in a list.

    Raises:
        ValueError: The line is not JSON, or not UTF-8.
        RecursionError: It is nested too deeply.
    """
    text = line.decode("utf-8-sig").strip()
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except json.JSONDecodeError:
        if not text.endswith(","):
            raise
        return json.loads(text[:-1], object_pairs_hook=unique_keys)


@contextmanager
def _window(path: Path) -> Iterator[_Window]:
    encoding = encoding_in(path)
    with opened(path) as file:
        yield _Window(path, file, encoding)


class _Window:
    """The part of a file that is being parsed: text that has been read but not consumed."""

    def __init__(self, path: Path, file: Stream, encoding: str) -> None:
        self.place = ""
        self._path, self._file = path, file
        self._text, self._at, self._line, self._ended = "", 0, 1, False  # _line: the number of _text's first line
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._json = json.JSONDecoder(object_pairs_hook=unique_keys)

    def peek(self) -> str:
        """Returns the next non-space character, "" at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._more()

    def take(self) -> None:
        """Consumes the character that `peek` returned."""
        self._at += 1

    def members(self) -> Iterator[str]:
        """Yields the keys of the file's object; the caller must consume each value before requesting the next key."""
        if self.peek() != "{":
            raise self.unexpected("one JSON object, id to entry")
        self.take()
        number, more = 0, self.peek() != "}"
        while more:
            number += 1
            if self.peek() != '"':
                raise self.unexpected(f"the key of entry {number}")
            key = self.value()
            self.place = f"entry {number} ({key!r}): "
            if self.peek() != ":":
                raise self.unexpected("':' after the key")
            self.take()
            yield key
            self.place = f"after entry {number} ({key!r}): "
            more = self._take_comma("}")
        self.take()

    def items(self) -> Iterator[tuple[int, Any]]:
        """Consumes the list that comes next and yields its items, numbered from 1."""
        self.take()
        number, more, outside = 0, self.peek() != "]", self.place
        while more:
            number += 1
            self.place = f"{outside}item {number}: "
            yield number, self.value()
            self.place = f"{outside}after item {number}: "
            more = self._take_comma("]")
        self.take()

    def _take_comma(self, bracket: str) -> bool:
        sign = self.peek()
        if sign not in (",", bracket):
            raise self.unexpected(f"',' or {bracket!r}")
        if sign == ",":
            self.take()
            if self.peek() == bracket:
                raise self._error(f"a comma before {bracket!r}, which JSON does not allow; remove it")
        return sign == ","

    def end(self, what: str) -> None:
        """Checks that nothing follows."""
        if self.peek():
            raise self.unexpected(f"nothing after the {what}")

    def value(self) -> Any:
        """Consumes the next JSON value and returns it."""
        self.peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_open = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _MARGIN
                if self._ended or not is_open:
                    raise self._error(self._reason(error, is_open), error.pos) from error
            except (ValueError, RecursionError) as error:
                raise self._error(unreadable_value(error)) from error
            else:
                if end < len(self._text) - _MARGIN or self._ended:  # else 1. may become 1.5
                    self._at = end
                    return value
            self._more()

    def _reason(self, error: json.JSONDecodeError, is_open: bool) -> str:
        """Returns why text is not JSON, in the words of its author's mistake if it is a usual one."""
        place = error.pos + self._text.startswith(",", error.pos)  # Python 3.13 names the comma, not what is after it
        before, sign = self._text[:place].rstrip()[-1:], self._text[place:].lstrip()[:1]
        if before == "," and sign in ("}", "]"):
            return f"a comma before {sign!r}, which JSON does not allow; remove it"
        if sign == "'":
            return "text in single quotes, which JSON does not have; was it written by Python's str instead of json?"
        if sign in ("/", "#"):
            return _NO_COMMENTS
        return f"{error.msg}, at the file's end: is it cut short?" if is_open else error.msg

    def unexpected(self, what: str) -> ValueError:
        """Returns an error that says what was expected, and what comes instead."""
        return self._error(f"expected {what}, but found {_KINDS.get(self.peek(), repr(self.peek()))}")

    def _error(self, message: str, at: int | None = None) -> ValueError:
        line = self._line + self._text.count("\n", 0, self._at if at is None else at)
        return ValueError(f"{self._path}: {self.place}line {line}: {message}")

    def _more(self) -> None:
        self._line += self._text.count("\n", 0, self._at)
        rest = self._text[self._at :]
        data = self._file.read(max(CHUNK, len(rest)))
        try:
            self._text, self._at = rest + self._decoder.decode(data, final=not data), 0
        except UnicodeDecodeError as error:
            line = self._line + rest.count("\n") + error.object.count(b"\n", 0, error.start)
            raise not_utf8(f"{self._path}: line {line}", self._path, error) from error
        self._ended = not data
