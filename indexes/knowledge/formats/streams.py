"""Reads large files piece by piece: compressed files, and JSON objects with millions of members.

What is not JSON, is cut short or not UTF-8 is a `ValueError` that names the entry and the byte.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from indexes.knowledge.formats.encodings import BEGINNING, encoding_of, not_utf8
from indexes.knowledge.formats.fields import kind, unique_keys

Stream = IO[bytes] | gzip.GzipFile | bz2.BZ2File  # a file opened by `opened`, to read from and iterate over

CHUNK = 1 << 20  # bytes read at a time; a larger member is read in doubling steps
_MARGIN = 16
"""An error this close, in characters, to the end of the text read so far may only mean that more follows ("\\u12")."""
_SPACE = " \t\n\r"
_OPENERS: dict[str, Callable[[Path, str], Any]] = {".gz": gzip.open, ".bz2": bz2.open}


@contextmanager
def opened(path: Path) -> Iterator[Stream]:
    """Opens a file, decompressing `.gz` and `.bz2`; for a `.zip`, opens the only data file in it.

    Raises:
        ValueError: The archive is damaged or truncated, or contains several files.
    """
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive, archive.open(inner_name(path)) as unzipped:
                yield unzipped
        else:
            with _OPENERS.get(path.suffix, Path.open)(path, "rb") as file:
                yield file
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: damaged or cut short ({error}); fetch it again") from error


def encoding_in(path: Path) -> str:
    """Returns the encoding of a text file by its beginning, for a reader that opens it again.

    Going back to the beginning instead would end zipfile's check of the content, from Python 3.14 on.

    Raises:
        ValueError: As for `opened`.
    """
    with opened(path) as file:
        return encoding_of(file.read(BEGINNING))


@contextmanager
def opened_text(path: Path) -> Iterator[Stream]:
    """Opens a text file as UTF-8, also a compressed one; UTF-16 and UTF-32 are converted while they are read.

    Raises:
        ValueError: As for `opened`, or the text is in another encoding, which the message names.
    """
    encoding = encoding_in(path)
    with opened(path) as file:
        try:
            if encoding == "utf-8-sig":
                yield file
            else:
                yield cast(Stream, codecs.EncodedFile(cast(IO[bytes], file), "utf-8", encoding))
        except UnicodeDecodeError as error:
            raise not_utf8(str(path), path, error) from error


def inner_name(path: Path) -> str:
    """Returns the name of the only file in a ZIP archive, ignoring those that macOS adds.

    Raises:
        ValueError: The archive does not contain exactly one file, or is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path}: damaged or cut short ({error}); fetch it again") from error
    if len(names) != 1:
        raise ValueError(f"{path}: must contain one file, got {len(names)}; unpack it and name the file or the folder")
    return names[0]


def read_members(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields the members (key, value) of a file that is one JSON object.

    Raises:
        ValueError: The file is not such an object, is truncated or not UTF-8. The message names entry and byte.
    """
    with opened_text(path) as file:
        window = _Window(path, file)
        for key in window.members():
            yield key, window.value()
        window.end("object")


def read_parts(path: Path) -> Iterator[tuple[str, int, Any]]:
    """Yields the members (key, number, value) of a file that is one JSON object, with the items of lists one by one.

    Items are numbered from 1, and a member that is not a list has number 0; empty lists are left out.

    Raises:
        ValueError: The file is not such an object, is truncated or not UTF-8. The message names entry and byte.
    """
    with opened_text(path) as file:
        window = _Window(path, file)
        for key in window.members():
            if window.peek() == "[":
                yield from ((key, number, item) for number, item in window.items())
            else:
                yield key, 0, window.value()
        window.end("object")


def read_items(path: Path) -> Iterator[tuple[int, Any]]:
    """Yields the items of a file that is one JSON array, numbered from 1.

    Raises:
        ValueError: The file is not an array, is truncated or not UTF-8. The message names item and byte.
    """
    with opened_text(path) as file:
        window = _Window(path, file)
        if window.peek() != "[":
            raise window.error(f"expected a list, but found {window.describe()}")
        yield from window.items()
        window.end("list")


def read_values(path: Path) -> Iterator[tuple[int, Any]]:
    """Yields JSON values that follow each other, numbered from 1; a comma may stand between them.

    Raises:
        ValueError: As for `read_items`.
    """
    with opened_text(path) as file:
        window, number = _Window(path, file), 0
        while window.peek():
            number += 1
            window.place = f"value {number}: "
            yield number, window.value()
            if window.peek() == ",":
                window.take()


def starts_with(path: Path, character: str) -> bool:
    """Returns whether the first character of a text file, apart from white space, is `character`."""
    with opened_text(path) as file:
        start = file.read(256).removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="replace")
    return start.lstrip(_SPACE).startswith(character)


def unreadable_value(error: Exception) -> str:
    """Returns why a value cannot be read; Python's words for too many levels differ from version to version."""
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


class _Window:
    """The part of a file that is being parsed: text that has been read but not consumed."""

    def __init__(self, path: Path, file: Stream) -> None:
        self.place = ""
        self._path, self._file = path, file
        self._text, self._at, self._start = "", 0, 0  # _start: the byte offset of _text
        self._read, self._ended = 0, False
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._json = json.JSONDecoder(object_pairs_hook=unique_keys)

    def peek(self) -> str:
        """Returns the next non-space character, "" at the end."""
        while True:
            while self._at < len(self._text) and (self._text[self._at] in _SPACE or self._at_mark()):
                self._at += 1
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._more()

    def _at_mark(self) -> bool:
        return self._start == self._at == 0 and self._text[0] == "\ufeff"

    def take(self) -> None:
        """Consumes the character that `peek` returned."""
        self._at += 1

    def members(self) -> Iterator[str]:
        """Yields the keys of the file's object; the caller must consume each value before requesting the next key."""
        if self.peek() != "{":
            raise self.error(f"expected one JSON object, id to entry, but found {self.describe()}")
        self.take()
        number, more = 0, self.peek() != "}"
        while more:
            number += 1
            key = self.value()
            if not isinstance(key, str):
                raise self.error(f"expected the key of entry {number}, but found {kind(key)}")
            self.place = f"entry {number} ({key!r}): "
            if self.peek() != ":":
                raise self.error(f"expected ':' after the key, but found {self.describe()}")
            self.take()
            yield key
            self.place = f"after entry {number} ({key!r}): "
            more = self._take_comma("}")
        self.take()

    def items(self) -> Iterator[tuple[int, Any]]:
        """Consumes the list that comes next and yields its items, numbered from 1."""
        self.take()
        number, more, inside = 0, self.peek() != "]", self.place
        while more:
            number += 1
            self.place = f"{inside}item {number}: "
            yield number, self.value()
            self.place = f"{inside}after item {number}: "
            more = self._take_comma("]")
        self.take()

    def _take_comma(self, bracket: str) -> bool:
        if (found := self.peek()) not in (",", bracket):
            raise self.error(f"expected ',' or {bracket!r}, but found {self.describe()}")
        if found == ",":
            self.take()
            if self.peek() == bracket:
                raise self.error(f"a comma before {bracket!r}, which JSON does not allow; remove it")
        return found == ","

    def end(self, what: str) -> None:
        """Checks that nothing follows."""
        if self.peek():
            raise self.error(f"expected nothing after the {what}, but found {self.describe()}")

    def value(self) -> Any:
        """Consumes the next JSON value and returns it."""
        self.peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                open_end = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _MARGIN
                if self._ended or not open_end:
                    raise self.error(self._reason(error, open_end), error.pos) from error
            except (ValueError, RecursionError) as error:
                raise self.error(unreadable_value(error)) from error
            else:
                if end < len(self._text) or self._ended:  # a number may continue in the next piece
                    self._at = end
                    return value
            self._more()

    def _reason(self, error: json.JSONDecodeError, open_end: bool) -> str:
        """Returns why text is not JSON, in the words of its author's mistake if it is a usual one."""
        place = error.pos + self._text.startswith(",", error.pos)  # Python 3.13 names the comma, not what is after it
        found = self._text[place:].lstrip(_SPACE)[:1]
        before = self._text[:place].rstrip(_SPACE)[-1:]
        if before == "," and found in ("}", "]"):
            return f"a comma before {found!r}, which JSON does not allow; remove it"
        if found == "'":
            return "text in single quotes, which JSON does not have; was it written by Python's str instead of json?"
        if found in ("/", "#"):
            return "a comment, which JSON does not have; remove it"
        return f"{error.msg}, at the file's end: is it cut short?" if open_end else error.msg

    def describe(self) -> str:
        """Describes what comes next."""
        kinds = {"": "the file's end", "[": "a list", "{": "an object", '"': "text"}
        kinds |= dict.fromkeys("/#", "a comment, which JSON does not have")
        return kinds.get(self.peek(), repr(self.peek()))

    def error(self, message: str, at: int | None = None) -> ValueError:
        """Returns an error that names the place: `at` in the text, by default the current position."""
        byte = self._start + len(self._text[: self._at if at is None else at].encode(errors="surrogatepass"))
        return ValueError(f"{self._path}: {self.place}byte {byte}: {message}")

    def _more(self) -> None:
        rest = self._text[self._at :]
        self._start += len(self._text[: self._at].encode())
        data = self._file.read(max(CHUNK, len(rest)))
        pending = len(self._utf8.getstate()[0])
        try:
            self._text, self._at = rest + self._utf8.decode(data, final=not data), 0
        except UnicodeDecodeError as error:
            byte = self._read - pending + error.start
            raise not_utf8(f"{self._path}: byte {byte}", self._path, error) from error
        self._read += len(data)
        self._ended = not data
