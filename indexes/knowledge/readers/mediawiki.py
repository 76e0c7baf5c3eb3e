"""MediaWiki's XML dumps (`pages-articles.xml.bz2`, `Special:Export`): one article per page of the main namespace."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from xml.etree.ElementTree import Element, ParseError, iterparse

from indexes.decoding import decoded, opened
from indexes.extras import optional
from indexes.ids import canonical_url
from indexes.json_streams import unreadable_value
from indexes.knowledge.document import Block, Document, Table
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.wikitext import read_wikitext

_WIKIMEDIA = re.compile(
    r"(?:[\w-]+\.)+(?:wikipedia|wikibooks|wikivoyage|wikisource|wikinews|wikiversity|wiktionary|wikiquote|wikimedia)\.org"
)
_COMMONS = "https://upload.wikimedia.org/wikipedia/commons"
_FILES, _CATEGORIES = "6", "14"  # numbers of namespaces


class _Site:
    """What a dump says about its wiki: the beginning of its pages' URLs, "" if there is none, and its namespaces."""

    def __init__(self, info: Element | None = None) -> None:
        base = "" if info is None else _text(info, "base")
        self._start = base[: base.index("/wiki/") + 6] if "/wiki/" in base else base[: base.rfind("/") + 1]
        self.is_wikimedia = _WIKIMEDIA.fullmatch(urlsplit(self._start).hostname or "") is not None
        names = [] if info is None else [(one.get("key"), (one.text or "").lower()) for one in info.iter()]
        self.files = {"file", "image", *(name for number, name in names if number == _FILES)}
        self.hidden = {"category", *(name for number, name in names if number == _CATEGORIES)}

    def image(self, name: str) -> str:
        """Returns the URL of an image for Wikimedia's wikis, or else its path in the wiki's folder `images`."""
        name = "_".join(name.replace("_", " ").split())
        name = name[:1].upper() + name[1:]
        digest = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
        path = f"{digest[0]}/{digest[:2]}/{name}"
        return f"{_COMMONS}/{quote(path)}" if self.is_wikimedia else path

    def url(self, title: str) -> str:
        """Returns the URL of a page, "" if the dump does not contain the wiki's address."""
        return self._start and self._start + re.sub("[%?#]", lambda sign: quote(sign[0]), title.replace(" ", "_"))


def _read(path: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the pages of a dump's main namespace, in order, with their places; redirects become their other names.

    The id of a page is its URL if the dump names its wiki, or else its title. The file is read twice, first for its
    redirects, which are kept in a temporary database on disk. Images are named as in a wiki's folder `images`, which
    can be passed as `--images`: `a/ab/Name.jpg`.

    Raises:
        ValueError: mwparserfromhell is not installed, or the file cannot be read at all.
    """
    optional("mwparserfromhell", "mediawiki")
    with closing(sqlite3.connect("")) as redirects:  # on disk once it is large
        redirects.execute("CREATE TABLE names (target TEXT, name TEXT)")
        for _, _, page in _articles(path):
            if (target := page.find("{*}redirect")) is not None:
                title = " ".join(target.get("title", "").partition("#")[0].replace("_", " ").split())
                redirects.execute("INSERT INTO names VALUES (?, ?)", (title, _text(page, "title")))
        redirects.execute("CREATE INDEX targets ON names (target)")
        for number, site, page in _articles(path):
            if page.find("{*}redirect") is not None:
                continue
            title = _text(page, "title")
            place = f"{path}: page {number} ({title!r})"
            try:
                document = _document(title, page, site)
            except (ValueError, RecursionError) as error:
                yield place, ValueError(f"{place}: {unreadable_value(error)}")
                continue
            if document is not None:
                others = redirects.execute("SELECT name FROM names WHERE target = ? ORDER BY rowid", (title,))
                document.names = tuple(dict.fromkeys(name for (name,) in others))
                yield place, document


def _document(title: str, page: Element, site: _Site) -> Document | None:
    """Returns a page, `None` if it has no text."""
    if not title:
        raise ValueError("field 'title' is missing")
    revision = next(reversed(page.findall("{*}revision")), page)  # the latest, if there are several
    source = _text(revision, "text")
    if _text(revision, "model") not in ("", "wikitext") or not source.strip():
        return None
    parts, values = read_wikitext(source, title, site.files, site.hidden, site.image)
    if not any(isinstance(part, Block | Table) and not part.kind for part in parts):
        return None
    url = site.url(title)
    id = (canonical_url(url) if site.is_wikimedia else url) or title
    return Document(parts, values, id=id, title=title, url=url)


def _articles(path: Path) -> Iterator[tuple[int, _Site, Element]]:
    """Yields the pages of a dump's main namespace with their numbers, freeing each one afterwards.

    Raises:
        ValueError: The file is not XML, is truncated, or is not a dump.
    """
    site, number = _Site(), 0
    with opened(path) as file:
        try:
            root: Any = None
            for event, element in iterparse(file, ("start", "end")):
                name = element.tag.rpartition("}")[2]
                root = element if root is None else root
                if root is element and event == "start" and name != "mediawiki":
                    raise ValueError(f"{path}: not MediaWiki's XML: its first element is <{name}>")
                if event == "end" and name == "siteinfo":
                    site = _Site(element)
                elif event == "end" and name == "page":
                    number += 1
                    if _text(element, "ns") in ("0", ""):
                        yield number, site, element
                    root.clear()
        except ParseError as error:
            raise ValueError(f"{path}: after page {number}: damaged or cut short ({error}); fetch it again") from error


def _text(element: Element, name: str) -> str:
    child = element.find(f"{{*}}{name}")
    return "" if child is None else (child.text or "")


def _read_page(path: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the page in a file of wikitext, as repositories keep their wikis; images are paths."""
    try:
        source, id = decoded(path.read_bytes(), str(path)), path.relative_to(folder.root).with_suffix("").as_posix()
        parts, values = read_wikitext(source, path.stem, {"file", "image"}, {"category"}, str.strip)
        yield str(path), Document(parts, values, id=id)
    except (ValueError, RecursionError) as error:
        yield str(path), ValueError(f"{path}: {unreadable_value(error)}")


WIKITEXT = Reader("wikitext", (".mediawiki",), lambda path, start: path.suffix == ".mediawiki", _read_page)
MEDIAWIKI = Reader("mediawiki", (".xml",), lambda path, start: b"<mediawiki" in start.replace(b"\0", b""), _read)
"""Dumps of wikis; half of UTF-16 are zeros."""
