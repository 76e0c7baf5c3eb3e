"""The paths that a written path or URL of an image may mean, in every spelling that people and programs use."""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from unicodedata import normalize
from urllib.parse import parse_qsl, unquote, unquote_plus, urlsplit

IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".webp", ".gif", ".bmp", ".dib", ".tif", ".tiff", ".avif"),
    *(".heic", ".heif", ".jxl", ".jp2", ".j2k", ".ico", ".tga", ".ppm", ".pgm", ".pbm", ".pnm", ".svg", ".svgz"),
)
"""Image file extensions, in lower case."""

Parts = tuple[str, ...]  # the names that make up a path

_REMOTE = re.compile(r"(?:https?|ftp)://|//[^/]", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:/*", re.IGNORECASE)
"""A scheme, unlike the letter of a drive; `file:///C:/a.png` has both."""
_DRIVE = re.compile(r"[a-z]:(?=/)", re.IGNORECASE)
_EXTENSIONS = frozenset(IMAGE_SUFFIXES)
_ICON = re.compile(
    r"(?:^|[^a-z])(?:icon|badge|button|sprite|spacer|favicon|emoji|avatar|appstore|app-store|google-?play)s?(?:[^a-z]|$)"
    r"|apple-touch|android-chrome|mstile|favicon",
    re.IGNORECASE,
)
_QUOTES = ("''", '""', "<>", "``")


def is_remote(written: str) -> bool:
    """Returns whether an image is named by its address on the web."""
    return _REMOTE.match(written.strip()) is not None


def is_embedded(written: str) -> bool:
    """Returns whether an image is contained in a text: its address is its content, or `embedded:FILE#NAME`."""
    return written.lstrip()[:9].lower().startswith(("data:", "embedded:"))


def names_of(written: str, own_file: str = "") -> Iterator[str]:
    """Yields the paths under a folder that a written path or URL may have there, likeliest first.

    These are the whole paths in each spelling (`paths_of`), and then their suffixes, the longest first: for
    `https://host/images/flag/fr.jpg`, first `images/flag/fr.jpg`, then `flag/fr.jpg` and `fr.jpg`. It may be relative
    to the file that it is written in, `own_file`.
    """
    paths = list(paths_of(written, own_file))
    yield from dict.fromkeys(map("/".join, paths))
    for length in range(max(map(len, paths), default=0) - 1, 0, -1):
        yield from dict.fromkeys("/".join(path[-length:]) for path in paths if len(path) > length)


def paths_of(written: str, own_file: str = "") -> Iterator[Parts]:
    """Yields the paths that a written path or URL may mean, each once, likeliest first.

    A relative path may start at the folder of its file, or at the address at which site generators serve that file:
    `../fox.png` in `animals/fox.md` is `fox.png` or, seen from `animals/fox/`, `animals/fox.png`.

    A query is part of the name of a remote image whose path does not name one, as in `show.php?id=7`.
    """
    written = written.strip()
    if written[:1] + written[-1:] in _QUOTES:
        written = written[1:-1].strip()
    if not written or is_embedded(written) or "\0" in written:
        return
    plain = written.replace("\\", "/")
    spelled = list(dict.fromkeys(_of_remote(plain) if is_remote(written) else _of_local(plain)))
    rooted = plain.startswith("/") or _SCHEME.match(plain) or _DRIVE.match(plain)
    starts = ("",) if rooted or not own_file else (posixpath.dirname(own_file), posixpath.splitext(own_file)[0])
    found = (_parts(posixpath.join("/", start, path.lstrip("/"))) for start in starts for path in spelled)
    yield from dict.fromkeys(filter(None, found))


def plain_path(path: str, own_file: str = "") -> str:
    """Returns a path that no file has, as its author most probably means it: decoded, without query and fragment."""
    spelled = unquote(re.split(r"[?#]", path.strip().replace("\\", "/"))[0])
    start = "" if spelled.startswith("/") else posixpath.dirname(own_file)
    return "/".join(_parts(posixpath.join("/", start, spelled.lstrip("/"))))


def _of_local(path: str) -> Iterator[str]:
    """Yields the spellings of a path: as written, then without scheme and drive, decoded, and without what follows."""
    yield path
    bare = _DRIVE.sub("", _SCHEME.sub("", path) if _SCHEME.match(path) else path)
    cut = re.split(r"[?#]", bare)[0]
    for one in (bare, cut):
        yield one
        yield unquote(one)
    if "&" in cut:
        yield html.unescape(cut)
    if "+" in cut:
        yield unquote_plus(cut)
    yield from _in_query(bare)


def _of_remote(url: str) -> Iterator[str]:
    try:
        _, _, path, query, _ = urlsplit(url)
    except ValueError:  # brackets that are not an IPv6 address
        return
    name = ""
    if query and path.strip("/") and not path.lower().endswith(IMAGE_SUFFIXES):
        name = f"?{query.replace('/', '%2F')}"
    yield path + name
    yield unquote(path) + name
    if "+" in path:
        yield unquote_plus(path) + name
    yield from _in_query(url)


def _in_query(url: str) -> Iterator[str]:
    """Yields the paths in a query, as of services that scale images: `/_next/image?url=%2Ffox.jpg&w=640`."""
    for _, value in parse_qsl(url.partition("?")[2]):
        if value.lower().endswith(IMAGE_SUFFIXES):
            yield value.partition("//")[2].partition("/")[2] if is_remote(value) else value


def _parts(path: str) -> Parts:
    return tuple(part for part in posixpath.normpath(path).split("/") if part not in ("", ".", ".."))


def split_name(name: str) -> tuple[str, str]:
    """Returns the name of a file without the extension of an image, and this extension, "" if it has none."""
    stem, extension = posixpath.splitext(name)
    return (stem, extension) if extension.lower() in _EXTENSIONS else (name, "")


def fold(name: str) -> str:
    """Returns a name without differences in letter case and the form of Unicode."""
    return name.lower() if name.isascii() else normalize("NFC", normalize("NFC", name).casefold())


def is_icon(path: str) -> bool:
    """Returns whether an image file is an icon of a page or a program, judged by its name."""
    return _ICON.search(posixpath.basename(path)) is not None


def is_drawing(name: str) -> bool:
    """Returns whether an image is an SVG, judged by its name."""
    return name.lower().endswith((".svg", ".svgz"))
