"""Encodings of text files: Unicode is read in any form; of others, the most likely one is named for conversion.

Other encodings are not read by guess, since a wrong guess would change words in silence.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from pathlib import Path

BEGINNING = 4096  # bytes of a file that `encoding_of` needs
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16's, which its own begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SAMPLE = 1 << 16
_FEWEST = 20  # one zero byte in this many means UTF-16 without a mark; fewer are damage


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
    found = error.object[error.start : error.start + _SAMPLE]
    line = error.object.rfind(b"\n", 0, error.start) + 1
    if error.encoding.startswith(("utf-16", "utf-32", "utf_16", "utf_32")):
        return ValueError(f"{where}: damaged {error.encoding.upper().replace('_', '-')} ({error.reason})")
    if b"\0" in found:
        return ValueError(f"{where}: not UTF-8 (0x{found[0]:02x}: {error.reason}), and no text in any encoding")
    name = likely_encoding(error.object[line : error.start] + found)
    plain = Path(path.stem) if path.suffix in (".gz", ".bz2", ".zip") else path
    return ValueError(
        f"{where}: not UTF-8 (0x{found[0]:02x}: {error.reason}), but probably {name}; convert the file, as with: "
        f"iconv --from-code {name} --to-code UTF-8 {plain.name} > {plain.stem}.utf8{plain.suffix}"
    )


def likely_encoding(text: bytes) -> str:
    """Returns the name, as `iconv` knows it, of the most likely encoding of a text that is not UTF-8.

    Each encoding scores by the share of bytes beyond ASCII that mean common letters in it. Those of East Asia come
    first, since their pairs of bytes rarely fit by chance.
    """
    fits = {name: score(text) for name, (codec, score) in _ENCODINGS.items() if _decodes(text, codec)}
    return max(fits, key=fits.__getitem__, default="WINDOWS-1252")


def _decodes(text: bytes, codec: str) -> bool:
    try:
        codecs.getincrementaldecoder(codec)().decode(text)  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _pairs(common: bytes, pair: bytes = rb"[\x81-\xfe][\x40-\xfe]") -> Callable[[bytes], float]:
    """Returns a function that scores a text by the share of its pairs of bytes that match a pattern."""

    def score(text: bytes) -> float:
        found = re.findall(pair + rb"|[\x80-\xff]", text)
        return sum(bool(re.fullmatch(common, one)) for one in found) / max(len(found), 1)

    return score


def _runs(common: bytes) -> Callable[[bytes], float]:
    """Returns a function that scores a text by the share of bytes beyond ASCII within words that match a pattern."""

    def score(text: bytes) -> float:
        found = re.findall(rb"[A-Za-z\x80-\xff]*[\x80-\xff][A-Za-z\x80-\xff]*", text)
        size = sum(len(re.findall(rb"[\x80-\xff]", word)) for word in found)
        fit = sum(len(re.findall(rb"[\x80-\xff]", word)) for word in found if re.fullmatch(common, word))
        return 0.9 * fit / max(size, 1)

    return score


def _japanese(text: bytes) -> float:
    """Scores EUC-JP, in whose texts Chinese characters alone are rare, so that kana decide."""
    kana = _pairs(rb"[\xa4\xa5][\xa1-\xfe]")(text)
    return _pairs(rb"[\xa4\xa5\xb0-\xcf][\xa1-\xfe]")(text) + 0.1 if kana > 0.15 else 0.0


def _central_european(text: bytes) -> float:
    """Scores WINDOWS-1250 by letters such as ł, š and ż, where WINDOWS-1252 has signs, or letters that are rare."""
    return min(
        0.8,
        3
        * _runs(
            rb"(?=[\x80-\xff]*[A-Za-z])[A-Za-z\x80-\xff]*[\x8a\x8c-\x8f\x9a\x9c-\x9f\xa3\xa5\xaf\xb3\xb9\xbf][A-Za-z\x80-\xff]*"
        )(text),
    )


_ENCODINGS: dict[str, tuple[str, Callable[[bytes], float]]] = {
    "SHIFT-JIS": ("shift_jis", _pairs(rb"[\x82\x83\x88-\x97][\x40-\xfc]", rb"[\x81-\x9f\xe0-\xfc][\x40-\xfc]")),
    "CP932": ("cp932", _pairs(rb"[\x82\x83\x87-\x97][\x40-\xfc]", rb"[\x81-\x9f\xe0-\xfc][\x40-\xfc]")),
    "EUC-JP": ("euc_jp", _japanese),
    "CP949": ("cp949", _pairs(rb"[\xb0-\xc8][\xa1-\xfe]")),  # Korean
    "GB18030": ("gb18030", _pairs(rb"[\xb0-\xd7][\xa1-\xfe]")),
    "BIG5": ("big5", _pairs(rb"[\xa4-\xc6][\x40-\xfe]")),
    "WINDOWS-1251": ("cp1251", _runs(rb"[\xc0-\xdf\xa8]?[\xe0-\xff\xb8]{2,}|[\xc0-\xdf\xa8]{2,}")),
    "KOI8-R": ("koi8_r", _runs(rb"[\xe0-\xff\xb3]?[\xc0-\xdf\xa3]{2,}|[\xe0-\xff\xb3]{2,}")),
    "WINDOWS-1250": ("cp1250", _central_european),
    "WINDOWS-1252": ("latin_1", lambda text: 0.45),
}
