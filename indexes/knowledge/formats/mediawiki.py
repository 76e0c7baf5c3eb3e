"""MediaWiki's XML dumps (`pages-articles.xml.bz2`, `Special:Export`): one article per page of the main namespace."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit
from xml.etree.ElementTree import Element, ParseError, iterparse

from indexes.extras import optional
from indexes.knowledge.formats.outline import split_article
from indexes.knowledge.formats.reading import Entry, Reading
from indexes.knowledge.formats.streams import opened, unreadable_value
from indexes.knowledge.formats.wiki_words import Namespaces
from indexes.knowledge.formats.wikitext import read_wikitext
from indexes.knowledge.ids import canonical_url
from retriever.types import ArticleImage, Entity

_WIKIMEDIA = re.compile(
    r"(?:[\w-]+\.)+(?:wikipedia|wikibooks|wikivoyage|wikisource|wikinews|wikiversity|wiktionary|wikiquote|wikimedia)\.org"
)
_COMMONS = "https://upload.wikimedia.org/wikipedia/commons"
_FILES = 6
_CATEGORIES = 14


class _Site(NamedTuple):
    """What a dump says about its wiki: the prefix of its pages' URLs, and its namespaces."""

    start: str = ""
    spaces: Namespaces = Namespaces()

    def image(self, name: str) -> str:
        """Returns the URL of an image for Wikimedia's wikis, or else its path in the wiki's folder `images`."""
        name = name.strip().replace(" ", "_")
        name = name[:1].upper() + name[1:]
        digest = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
        path = f"{digest[0]}/{digest[:2]}/{name}"
        return f"{_COMMONS}/{quote(path)}" if self.is_wikimedia() else path

    def url(self, title: str) -> str:
        """Returns the URL of a page, "" if the dump does not contain the wiki's address."""
        return self.start and self.start + re.sub("[%?#]", lambda sign: quote(sign[0]), title.replace(" ", "_"))

    def is_wikimedia(self) -> bool:
        """Returns whether this is a Wikimedia wiki, whose images are usually on Commons."""
        return _WIKIMEDIA.fullmatch(urlsplit(self.start).hostname or "") is not None


def read_mediawiki(path: Path, reading: Reading) -> Iterator[Entry]:
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
        for _, page in _pages(path):
            if (target := page.find("{*}redirect")) is not None and _is_article(page):
                row = (_title(target.get("title", "").partition("#")[0]), _text(page, "title"))
                redirects.execute("INSERT INTO names VALUES (?, ?)", row)
        redirects.execute("CREATE INDEX targets ON names (target)")
        number = 0
        for site, page in _pages(path):
            number += 1
            if not _is_article(page) or page.find("{*}redirect") is not None:
                continue
            title = _text(page, "title")
            where = f"{path}: page {number} ({title!r})"
            try:
                reading.losses.at(where)
                found = _entity(title, page, site, reading)
            except (ValueError, RecursionError) as error:
                yield where, ValueError(f"{where}: {unreadable_value(error)}")
                continue
            if found is not None:
                others = redirects.execute("SELECT name FROM names WHERE target = ? ORDER BY rowid", (title,))
                yield where, replace(found, names=tuple(dict.fromkeys(name for (name,) in others)))


def _entity(title: str, page: Element, site: _Site, reading: Reading) -> Entity | None:
    if not title:
        raise ValueError("field 'title' is missing")
    revision = page.findall("{*}revision")[-1:]  # the latest, if there are several
    model = _text(revision[0], "model") if revision else ""
    source = _text(revision[0], "text") if revision else ""
    if model not in ("", "wikitext") or not source.strip():
        return None
    text = read_wikitext(source, title, site.spaces, reading)
    if not any(words for _, words in text.sections):
        return None
    images = tuple(ArticleImage(site.image(one.url), one.section, one.caption) for one in text.images)
    url = site.url(title)
    return Entity(
        id=(canonical_url(url) if site.is_wikimedia() else url) or title,
        title=title,
        sections=split_article(text.sections, title, reading.losses),
        image=None if text.main is None else site.image(text.main),
        url=url,
        images=images,
    )


def _pages(path: Path) -> Iterator[tuple[_Site, Element]]:
    """Yields the pages of a dump, freeing each one afterwards.

    Raises:
        ValueError: The file is not XML, is truncated, or is not a dump.
    """
    site, number = _Site(), 0
    with opened(path) as file:
        try:
            root: Any = None
            for event, element in iterparse(file, ("start", "end")):
                name = element.tag.rpartition("}")[2]
                if root is None:
                    root = element
                    if name != "mediawiki":
                        raise ValueError(f"{path}: not MediaWiki's XML: its first element is <{name}>")
                if event == "end" and name == "siteinfo":
                    site = _site(element)
                elif event == "end" and name == "page":
                    number += 1
                    yield site, element
                    root.clear()
        except ParseError as error:
            raise ValueError(f"{path}: after page {number}: damaged or cut short ({error}); fetch it again") from error


def _site(element: Element) -> _Site:
    base = _text(element, "base")
    start = base[: base.rfind("/") + 1]
    if "/wiki/" in base:
        start = base[: base.index("/wiki/") + len("/wiki/")]
    spaces = [(int(one.get("key", "0")), (one.text or "").lower()) for one in element.iter() if one.get("key")]
    usual = Namespaces()
    files = usual.files.union(name for key, name in spaces if key == _FILES)
    return _Site(start, Namespaces(files, usual.dropped.union(name for key, name in spaces if key == _CATEGORIES)))


def _is_article(page: Element) -> bool:
    return _text(page, "ns") in ("0", "")


def _text(element: Element, name: str) -> str:
    found = element.find(f"{{*}}{name}")
    return "" if found is None else (found.text or "")


def _title(name: str) -> str:
    return " ".join(name.replace("_", " ").split())
