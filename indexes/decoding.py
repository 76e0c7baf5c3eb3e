"""Opens and decodes files: Unicode is read in any form; of other encodings, the most likely one is named.

Those are not read by guess, since a wrong guess would change words in silence.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

Stream = IO[bytes] | gzip.GzipFile | bz2.BZ2File
"""A file opened by `opened`, to read from and iterate over."""
PACKED = (".gz", ".bz2", ".zip")
"""Extensions of compressed files that are read; a ZIP archive must contain one file."""

_OPENERS: dict[str, Callable[[Path, str], Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_BEGINNING = 4096
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16's, which its own begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_FEWEST = 20  # one zero byte in this many means UTF-16 without a mark; fewer are damage
_SAMPLE = 1 << 16
_LIKELY = ["cp932", "euc_jp", "cp949", "gb18030", "big5", "cp1251", "koi8_r", "cp1250", "cp1252"]
"""Encodings in which files are still found; among all, those of old Macs and Iceland often fit a short text, too."""
_CENTRAL = re.compile("[ŁłŚśŠšŹźŽžŤťĄąŻżŞşĽľ][a-z]|[a-z][ŁłŚśŠšŹźŽžŤťĄąŻżŞşĽľ]")


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


def plain_name(path: Path) -> Path:
    """Returns the path of a file without the extension of its compression; for a `.zip`, the name of the file in it.

    Raises:
        ValueError: As for `inner_name`.
    """
    if path.suffix == ".zip":
        return Path(inner_name(path))
    return path.with_suffix("") if path.suffix in PACKED else path


def begins_with(start: bytes, *signs: bytes) -> bool:
    """Returns whether the first bytes of a file, after blanks and a mark of UTF-8, are one of some in lower case."""
    return start.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(signs)


def encoding_in(path: Path) -> str:
    """Returns the encoding of a text file by its beginning, for a reader that opens it again.

    Going back to the beginning instead would end zipfile's check of the content, from Python 3.14 on.

    Raises:
        ValueError: As for `opened`.
    """
    with opened(path) as file:
        return encoding_of(file.read(_BEGINNING))


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


def decoded(content: bytes, where: str) -> str:
    """Returns a text, without a byte order mark; `where` is its file, for messages.

    Raises:
        ValueError: The text is not in Unicode; the message names the likely encoding.
    """
    try:
        return content.decode(encoding_of(content[:_BEGINNING]))
    except UnicodeDecodeError as error:
        raise not_utf8(where, Path(where), error) from error


def encoding_of(start: bytes) -> str:
    """Returns the form of Unicode of a text, judged by its first bytes: UTF-16, UTF-32, or else "utf-8-sig"."""
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    even, odd = start[::2].count(0), start[1::2].count(0)
    fewer, more = sorted((even, odd))
    if more > max(4 * fewer, len(start) / _FEWEST):  # the other halves of ASCII characters
        return "utf-16-le" if odd > even else "utf-16-be"
    return "utf-8-sig"


def not_utf8(where: str, path: Path, error: UnicodeDecodeError) -> ValueError:
    """Returns an error that names the most likely encoding and how to convert the file."""
    if error.encoding.startswith(("utf-16", "utf-32", "utf_16", "utf_32")):
        return ValueError(f"{where}: damaged {error.encoding.upper().replace('_', '-')} ({error.reason})")
    what = f"{where}: not UTF-8 (0x{error.object[error.start]:02x}: {error.reason})"
    line = error.object.rfind(b"\n", 0, error.start) + 1
    sample = error.object[line : error.start + _SAMPLE]
    if b"\0" in sample:
        return ValueError(f"{what}, and no text in any encoding")
    name, plain = likely_encoding(sample), path.with_suffix("") if path.suffix in PACKED else path
    probably = f"but probably {name}; convert the file" if name else "in no encoding that is known; convert the file"
    convert = f"iconv --from-code {name or 'ENCODING'} --to-code UTF-8 {plain.name} > {plain.stem}.utf8{plain.suffix}"
    return ValueError(f"{what}, {probably}, as with: {convert}")


def likely_encoding(text: bytes) -> str:
    """Returns the name, as `iconv` knows it, of the most likely encoding of a text that is not UTF-8, or ""."""
    from charset_normalizer import from_bytes

    match = from_bytes(text, cp_isolation=_LIKELY).best()
    if match is None:
        return ""
    name = match.encoding
    if name == "cp1250" and not _CENTRAL.search(str(match)):  # its other letters are where 1252 has those of the West
        name = "cp1252"
    return name.replace("cp125", "windows-125").replace("_", "-").upper()
