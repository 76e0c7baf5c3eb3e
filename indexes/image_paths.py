"""The paths of image files: which ones a written path or URL may mean, and which of them there is."""

from __future__ import annotations

import html
import os
import posixpath
import re
from collections.abc import Iterator
from mimetypes import guess_type
from pathlib import Path
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
    paths = (_parts(posixpath.join("/", start, path.lstrip("/"))) for start in starts for path in spelled)
    yield from dict.fromkeys(filter(None, paths))


def plain_path(path: str, own_file: str = "") -> str:
    """Returns a path that no file has, as its author most probably means it: decoded, without query and fragment."""
    spelled = unquote(re.split(r"[?#]", path.strip().replace("\\", "/"))[0])
    start = "" if spelled.startswith("/") else posixpath.dirname(own_file)
    return "/".join(_parts(posixpath.join("/", start, spelled.lstrip("/"))))


def _of_local(path: str) -> Iterator[str]:
    """Yields the spellings of a path: as written, then without scheme and drive, decoded, and without what follows."""
    bare = _DRIVE.sub("", _SCHEME.sub("", path) if _SCHEME.match(path) else path)
    cut = re.split(r"[?#]", bare)[0]
    yield from (path, bare, unquote(bare), cut, unquote(cut), html.unescape(cut), unquote_plus(cut))
    yield from _in_query(bare)


def _of_remote(url: str) -> Iterator[str]:
    try:
        _, _, path, query, _ = urlsplit(url)
    except ValueError:  # brackets that are not an IPv6 address
        return
    is_named = not query or not path.strip("/") or path.lower().endswith(IMAGE_SUFFIXES)
    name = "" if is_named else f"?{query.replace('/', '%2F')}"
    yield from (path + name, unquote(path) + name, unquote_plus(path) + name)
    yield from _in_query(url)


def _in_query(url: str) -> Iterator[str]:
    """Yields the paths in a query, as of services that scale images: `/_next/image?url=%2Ffox.jpg&w=640`."""
    for _, value in parse_qsl(url.partition("?")[2]):
        if value.lower().endswith(IMAGE_SUFFIXES):
            yield value.partition("//")[2].partition("/")[2] if is_remote(value) else value


def _parts(path: str) -> Parts:
    return tuple(part for part in posixpath.normpath(path).split("/") if part not in ("", ".", ".."))


def find_image(folder: Path, url: str) -> Path | None:
    """Returns the file under `folder` at the longest suffix of the URL's path, or `None`; no link leads out of it."""
    root = os.path.realpath(folder)
    name = next((name for name in files_at(root, url) if is_inside(os.path.join(root, name), root)), None)
    return None if name is None else folder / name


def files_at(root: str, written: str, own_file: str = "") -> Iterator[str]:
    """Yields those paths of `names_of` at which there is a file under a folder, also through links out of it.

    No image by its name is a file that macOS made, or a sound, a text or a program.
    """
    for name in names_of(written, own_file):
        if os.path.isfile(os.path.join(root, name)) and not _is_other(name):
            yield name


def is_inside(path: str, root: str) -> bool:
    """Returns whether a path, its links resolved, is under a folder given by its real path."""
    return os.path.realpath(path).startswith(os.path.join(root, ""))


def _is_other(name: str) -> bool:
    kind = guess_type(name)[0] or "image"
    return name.rpartition("/")[2].startswith("._") or not kind.startswith("image")
