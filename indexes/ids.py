"""Entity ids: as 64-bit hashes, in their spellings, as columns of TREC's files, and as questions name them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from unicodedata import normalize
from urllib.parse import quote, unquote, urlsplit

import numpy as np

from indexes.growing import save_array
from retriever.types import Entity, IntArray


def hash_id(entity_id: str) -> int:
    """Returns a signed 64-bit hash of an entity's id."""
    return int.from_bytes(hashlib.blake2b(entity_id.encode(), digest_size=8).digest(), "big", signed=True)


def canonical_url(url: str) -> str:
    """Returns the canonical spelling of an article's URL: `https`, percent-decoded, with underscores.

    >>> canonical_url("http://en.m.wikipedia.org/wiki/Say%27s%20phoebe?oldid=1#Song")
    "https://en.wikipedia.org/wiki/Say's_phoebe"

    URLs outside of wikis keep their query.
    """
    try:
        parts = urlsplit(url.strip())
    except ValueError:  # brackets that are not an IPv6 address
        return url
    if not parts.netloc:
        return url
    wiki = "/wiki/" in parts.path
    host = parts.netloc.lower().replace(".m.", ".", 1) if wiki else parts.netloc.lower()
    path = unquote(parts.path).replace(" ", "_")
    return f"https://{host}{path}" + (f"?{parts.query}" if parts.query and not wiki else "")


def spellings(entity_id: str) -> Iterator[str]:
    """Yields the ids to look an entity up by: the id in each form of Unicode, then the canonical spelling of a URL."""
    yield from unicode_forms(entity_id)
    if "://" in entity_id and (canonical := canonical_url(entity_id)) != entity_id:
        yield canonical


def unicode_forms(text: str) -> Iterator[str]:
    """Yields a text as given, then composed and decomposed: file systems and archives change an id that is a path.

    >>> [len(form) for form in unicode_forms("\u00e9t\u00e9")]
    [3, 5]
    """
    yield text
    if not text.isascii():
        for form in ("NFC", "NFD"):
            if (other := normalize(form, text)) != text:
                yield other


def other_ids(entity: Entity) -> Iterator[str]:
    """Yields the ids that an entity would have under its other names; these are URLs if its id is a wiki page's URL.

    >>> fox = Entity("https://en.wikipedia.org/wiki/Red_fox", "Red fox", (), names=("Vulpes vulpes",))
    >>> list(other_ids(fox))
    ['https://en.wikipedia.org/wiki/Vulpes_vulpes']
    """
    start, wiki, _ = entity.id.partition("/wiki/")
    for name in entity.names:
        yield f"{start}{wiki}{name.replace(' ', '_')}" if wiki else name


def save_ids(path: Path, hashes: IntArray, others: IntArray) -> None:
    """Writes the lookup table of `Index.row_of`: int64 [2, N + M], the sorted hashes and their rows.

    Args:
        path: The `.npy` file.
        hashes: `hash_id` of every entity's id, in order, int64 [N].
        others: Hash and row of each of the entities' `other_ids`, int64 [M, 2]; the table has `~row` for them.
    """
    found = np.concatenate([hashes, others[:, 0]])
    rows = np.concatenate([np.arange(len(hashes)), ~others[:, 1]])
    order = np.argsort(found, kind="stable")
    save_array(path, np.stack([found[order], rows[order]]).astype(np.int64))


ENCODED = "%:"
"""Begins an encoded id. No URL begins with it, so ids that others wrote are not mistaken for encoded ones."""


def to_column(id: str) -> str:
    """Returns an id as a column: unchanged, or `%:` and the id with all but letters, digits and `_.-~` percent-encoded.

    An id is encoded if it is empty, contains white space or a character that is not printable, or begins with `%:`.

    Example:
        >>> to_column("https://kb.example/San%20Marino"), to_column("New Zealand"), to_column("")
        ('https://kb.example/San%20Marino', '%:New%20Zealand', '%:')
    """
    if id and id.isprintable() and " " not in id and not id.startswith(ENCODED):
        return id
    return ENCODED + quote(id, safe="", errors="surrogatepass")


class WantedIds:
    """Ids as questions spell them, and the rows of the entities they mean.

    Memory use grows with the number of wanted ids, not with the number of entities read.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        self._wanted = dict.fromkeys(ids)  # a set would not keep their order
        self._respelled: dict[str, list[str]] = {}
        for wanted in self._wanted:
            for spelling in spellings(wanted):
                if spelling != wanted:
                    self._respelled.setdefault(spelling, []).append(wanted)
        self._by_id: dict[str, int] = {}
        self._by_name: dict[str, int] = {}

    def __len__(self) -> int:
        """Returns the number of wanted ids."""
        return len(self._wanted)

    def meaning(self, entity: Entity) -> list[str]:
        """Returns the wanted ids that may mean an entity; spellings of its own id come first."""
        found: list[str] = []
        for name in (entity.id, *other_ids(entity)):
            if name in self._wanted:
                found.append(name)
            found += self._respelled.get(name, ())
        return list(dict.fromkeys(found))

    def add(self, entity: Entity, row: int) -> list[str]:
        """Records the row of an entity if any wanted id may mean it; returns these ids, see `meaning`."""
        if found := self.meaning(entity):
            self._by_id[entity.id] = row
            for name in other_ids(entity):
                if name in self._wanted or name in self._respelled:
                    self._by_name.setdefault(name, row)
        return found

    def rows(self) -> dict[str, int]:
        """Returns the row of each wanted id that means an entity; others are absent.

        The given spelling takes precedence over the canonical one, ids over other names, and earlier entities over
        later ones.
        """
        rows: dict[str, int] = {}
        for wanted in self._wanted:
            for spelling in spellings(wanted):
                row = self._by_id.get(spelling, self._by_name.get(spelling))
                if row is not None:
                    rows.setdefault(wanted, row)
        return rows


def meant(id: str, known: Callable[[str], bool]) -> str:
    """Returns an id as it is known: as written, or else percent-decoded, since many write a blank as `%20`."""
    return id if "%" not in id or known(id) or not known(decoded := unquote(id)) else decoded
