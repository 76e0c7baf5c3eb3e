"""Rules by which image files belong to entities, such as file names that begin with the id; each with its coverage."""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.knowledge.file_names import KeyTable
from indexes.knowledge.image_names import BEGINS, ENDS, NAME, keys_of, loose_key, stem_of
from retriever.types import Entity

OWN_FILE, OWN_TABLE = "", "#"
"""Fields of `Entity.named_after` for the path of the file that an entity comes from, relative to the folder that is
read: it is all of that file, or a part such as a row."""
FOLDER, BESIDE = "{%s}/*", "./*"
"""Further kinds of rules, as `--map image=…` takes them."""
_WORDS = {
    NAME: "file names that are the {}, apart from a number, a size or a view",
    FOLDER: "folders that are called like the {}",
    BEGINS: "file names that begin with the {}",
    ENDS: "file names that end with the {}",
    BESIDE: "the folder of the entity's own file",
}
"""All kinds of rules in words, the better first, except for the last, which is the best."""
_SURE = ("id", "slug", "title", "names")
"""Fields that name an entity, the best first: a few files called after them are no coincidence."""
_ENOUGH = 0.5  # share of the entities without images, or of the files, from which any rule is no coincidence
_CONFLICTS = 0.1
_FEWEST = 3  # fewest entities from which another field can be told from coincidence
_LONGEST = 100  # characters of a value that files may be called after
_MOST_FIELDS = 100
_LEVELS = 2  # folders above a file that may be called like the entity
_SHARED = -2  # the row of what belongs to several entities
_PAGE = re.compile(r"(?:(?:^|/)(?:_?index|readme|default))?(?:\.(?:x?html?|mdx?|markdown))?$", re.IGNORECASE)
"""The end of a path that says that it is a page, not which."""

Rows = NDArray[np.int32]


def home_of(entity: Entity) -> tuple[str, bool]:
    """Returns the path of the file that an entity comes from, "" if it is unknown, and whether it is all of it."""
    named = ((value, field == OWN_FILE) for field, value in entity.named_after if field in (OWN_FILE, OWN_TABLE))
    return next(named, ("", False))


def is_from(entity: Entity, folder: Path, part: Path) -> bool:
    """Returns whether an entity comes from a part of a folder, as one of its files says, or has no known file."""
    homes = [folder / value for field, value in entity.named_after if field in (OWN_FILE, OWN_TABLE)]
    return not homes or any(home.is_relative_to(part) for home in homes)


def last_name(id: str) -> str:
    """Returns the last name of an id that is a path or a URL: `fox` for `animals/fox/index.html`."""
    path = re.split("[?#]", id)[0] if "://" in id else id
    while path and (shorter := _PAGE.sub("", path.rstrip("/"))) != path:
        path = shorter
    return path.rpartition("/")[2] or id


class EntityKeys:
    """Collects what entities are called, in 14 bytes for each name, and the folders that their files are in."""

    def __init__(self) -> None:
        self.fields: dict[str, int] = {}
        self.lacking = array("b")
        self._hashes, self._fields, self._rows = array("q"), array("h"), array("i")
        self._in_folder: dict[str, int] = {}
        self._under_folder = Counter[str]()

    def add(self, entity: Entity, lacking: bool) -> None:
        """Adds the next entity."""
        row = len(self.lacking)
        self.lacking.append(lacking)
        values = [("id", last_name(entity.id)), ("title", entity.title), *(("names", name) for name in entity.names)]
        self._add_folder(*home_of(entity), row)
        for field, value in dict.fromkeys((*values, *entity.named_after)):
            if field in (OWN_FILE, OWN_TABLE) or len(value) > _LONGEST or not (key := loose_key(value)):
                continue
            if field in self.fields or len(self.fields) < _MOST_FIELDS:
                self._fields.append(self.fields.setdefault(field, len(self.fields)))
                self._hashes.append(hash(key))
                self._rows.append(row)

    def table(self) -> KeyTable:
        """Returns by key the rows of entities or `_SHARED`, each times `_MOST_FIELDS`, plus the number of the field."""
        hashes, fields = np.array(self._hashes, np.int64), np.array(self._fields, np.int64)
        order = np.lexsort((fields, hashes))
        hashes, fields, rows = hashes[order], fields[order], np.array(self._rows, np.int64)[order]
        first = np.ones(len(hashes), bool)
        first[1:] = (hashes[1:] != hashes[:-1]) | (fields[1:] != fields[:-1])
        starts = np.flatnonzero(first)
        if len(starts):
            is_shared = np.minimum.reduceat(rows, starts) != np.maximum.reduceat(rows, starts)
            rows = np.where(is_shared, _SHARED, rows[starts])
        return KeyTable(zip(hashes[first].tolist(), (rows * _MOST_FIELDS + fields[first]).tolist(), strict=True))

    def row_beside(self, folder: str) -> int:
        """Returns the row of the innermost entity that a folder is of: the only one with its file there or above.

        It is -1 if several have their file in the nearest folder with such files, if the only one has its file above
        the folder and others are below it, and if there are no such files.
        """
        here = folder
        while here and here not in self._in_folder:
            here = here.rpartition("/")[0]
        row = self._in_folder.get(here, _SHARED)
        return row if row >= 0 and (here == folder or self._under_folder[here] == 1) else -1

    def folder_keys(self, folder: str) -> Iterator[str]:
        """Yields the keys of a folder and of the one above it, as far as they are one entity's."""
        for _ in range(_LEVELS):
            if not folder or self._under_folder[folder] > 1:
                return
            folder, _, name = folder.rpartition("/")
            yield loose_key(name)

    def _add_folder(self, file: str, is_whole: bool, row: int) -> None:
        """Adds the folder of an entity's file; that of rows is no other one's, and neither are those around it."""
        folder = file.rpartition("/")[0]
        self._in_folder[folder] = _SHARED if folder in self._in_folder or not is_whole else row
        self._under_folder[folder] += 1
        while folder:
            folder = folder.rpartition("/")[0]
            self._under_folder[folder] += 1
            if not is_whole:
                self._in_folder[folder] = _SHARED


class Rule(NamedTuple):
    """A rule, and what it gives."""

    field: str  # the field that files are called after; "" if they lie beside the entity's file
    kind: str  # how they are called after it
    entities: int  # number of entities without an image that get one by this rule
    files: int  # number of files that it gives to one entity each
    conflicts: int  # number of files that it would give to several entities
    example: int  # the number of a file that it gives to an entity, or else of one in conflict
    more: int  # number of `files` that their entities do not name themselves
    used: bool = False  # whether it gives files that no rule before it gives

    @property
    def pattern(self) -> str:
        """The rule as `--map image=…` takes it."""
        return self.kind.replace("%s", self.field)

    def __str__(self) -> str:
        """Returns the rule in words."""
        return _WORDS[self.kind].format(self.field)


class _Claim(NamedTuple):
    """What a rule gives, for each file: the row of the entity, `_SHARED`, or -1; and whether it may be chance."""

    rows: Rows
    weak: NDArray[np.bool_]  # whether the file is called like the entity by chance, such as by a number

    def of(self, files: NDArray[np.bool_]) -> _Claim:
        """Returns the claim to some of the files."""
        return _Claim(np.where(files, self.rows, np.int32(-1)), self.weak)

    @property
    def is_weak(self) -> bool:
        """Whether most of it may be chance."""
        return 2 * int(self.weak[self.rows != -1].sum()) > int((self.rows != -1).sum())


def match_files(names: Sequence[str], keys: EntityKeys, namers: Rows, pattern: str = "") -> tuple[list[Rule], Rows]:
    """Finds out by which rules image files belong to entities.

    A file that no entity names belongs to the innermost one that it stands in: the only one whose own file is in its
    folder, see `EntityKeys.row_beside`. For the others, a rule by names is used if it gives images to at least half of
    the entities that have none, or entities to half of the files. If it concerns whole file names and ids or titles
    that are not just numbers, a single file suffices. At most a tenth of its files may belong to several entities or,
    by a rule before it, to other ones; such files are left out. Files that entities name belong to others only if they
    are called like these; `namers`, int32 [files], has the row of the entity that names a file, or -1. A given
    `pattern`, as `--map image=…` takes it, is the only rule, whatever it gives.

    Returns:
        The rules that give anything, those that come first in doubt first; what the used ones give, the row of each
        file's entity or -1, int32 [files].
    """
    lacking = np.array(keys.lacking, bool)
    claims, beside = _claims(names, keys)
    beside = _without_galleries(beside.of(namers < 0), claims)
    weighed = [(_rule("", BESIDE, beside, lacking, namers), beside)]
    others = np.ones(len(names), bool)
    if pattern in ("", BESIDE):
        others = beside.rows < 0
        lacking[beside.rows[~others]] = False
    for (field, kind), claim in claims.items():
        claim = claim.of(others)
        if field not in _SURE or kind != NAME or claim.is_weak:
            claim = claim.of(namers < 0)
        weighed.append((_rule(field, kind, claim, lacking, namers), claim))
    rules, owners, free = list[Rule](), np.full(len(names), -1, np.int32), int((others & (namers < 0)).sum())
    weighed = [pair for pair in weighed if pair[0].files or pair[0].conflicts]
    for rule, claim in sorted(weighed, key=lambda pair: _rank(pair[0])):
        is_new = (claim.rows >= 0) & (owners < 0)
        if pattern:
            used = rule.pattern == pattern
        else:
            contrary = (claim.rows >= 0) & (owners >= 0) & (owners != claim.rows)
            used = _is_convincing(rule, claim.is_weak, int(lacking.sum()), free)
            used = used and int(contrary.sum()) <= _CONFLICTS * rule.files
        if used:
            owners = np.where(is_new, claim.rows, owners)
        rules.append(rule._replace(used=used and bool(is_new.any())))
    return rules, owners


def _rule(field: str, kind: str, claim: _Claim, lacking: NDArray[np.bool_], namers: Rows) -> Rule:
    (files,), (conflicts,) = np.nonzero(claim.rows >= 0), np.nonzero(claim.rows == _SHARED)
    rows = claim.rows[files]
    example = int(next(iter([*files[:1], *conflicts[:1]]), 0))
    more = int((namers[files] != rows).sum())
    return Rule(field, kind, int(lacking[np.unique(rows)].sum()), len(files), len(conflicts), example, more)


def _without_galleries(beside: _Claim, claims: dict[tuple[str, str], _Claim]) -> _Claim:
    """Returns the files of folders without those of folders that are no one entity's.

    Such a folder has a page about all of them: most of its files are called like several other entities, or a field of
    theirs.
    """
    called = np.full(len(beside.rows), -1, np.int32)  # the row of another entity that a file is called like
    for (_, kind), claim in claims.items():
        if kind == NAME:
            sure = (claim.rows >= 0) & ~claim.weak
            is_own = (sure & (claim.rows == beside.rows)) | (called == _SHARED)
            called = np.where(is_own, np.int32(_SHARED), np.where(sure, claim.rows, called))
    others: dict[int, list[int]] = defaultdict(list)
    for file in np.flatnonzero((called >= 0) & (beside.rows >= 0)):
        others[int(beside.rows[file])].append(int(called[file]))
    sizes = Counter(beside.rows.tolist())
    galleries = [row for row, rows in others.items() if len(set(rows)) > 1 and 2 * len(rows) > sizes[row]]
    return beside.of(~np.isin(beside.rows, galleries))


def _rank(rule: Rule) -> tuple[bool, bool, int, int, int]:
    """Returns the place of a rule in doubt: what is beside the entity, then whole names, and of these the id."""
    sure = _SURE.index(rule.field) if rule.field in _SURE else len(_SURE)
    return rule.kind != BESIDE, sure == len(_SURE), [*_WORDS].index(rule.kind), sure, -rule.entities


def _is_convincing(rule: Rule, is_weak: bool, lacking: int, free: int) -> bool:
    if rule.kind == BESIDE:
        return True
    if not rule.entities or rule.conflicts > _CONFLICTS * (rule.conflicts + rule.files):
        return False
    if rule.field in _SURE and rule.kind == NAME and not is_weak:
        return True
    if rule.field not in _SURE and rule.entities < _FEWEST:
        return False
    several = rule.entities > 1 or rule.kind == NAME
    return rule.entities >= _ENOUGH * lacking or (rule.files >= _ENOUGH * free and several)


def _claims(names: Sequence[str], keys: EntityKeys) -> tuple[dict[tuple[str, str], _Claim], _Claim]:
    """Returns the files that each rule gives to entities, by field and kind of rule, and those in their folders."""
    table, fields = keys.table(), list(keys.fields)
    none = array("i", [-1]) * len(names)
    rows: dict[tuple[int, str], array[int]] = defaultdict(lambda: none[:])
    weak: dict[tuple[int, str], bytearray] = defaultdict(lambda: bytearray(len(names)))
    beside, last, around, row_beside = none[:], None, list[tuple[str, str, int]](), -1
    for number, name in enumerate(names):
        folder = name.rpartition("/")[0]
        if folder != last:  # files of one folder follow each other
            last, row_beside = folder, keys.row_beside(folder)
            around = [(key, FOLDER, -level) for level, key in enumerate(keys.folder_keys(folder))]
        beside[number] = row_beside
        best: dict[tuple[int, str], int] = {}
        for key, of_name, length in (*keys_of(stem_of(name)), *around):
            for code in table[key]:
                row, field = divmod(code, _MOST_FIELDS)
                for place in [(field, kind) for kind in ((NAME, BEGINS, ENDS) if of_name == NAME else (of_name,))]:
                    if place not in best or length > best[place]:  # the longest key counts
                        best[place] = length
                        rows[place][number] = row
                        weak[place][number] = len(key) < 3 or key.isdecimal()
    claims = {
        (fields[field], kind): _Claim(np.array(rows[field, kind]), np.frombuffer(weak[field, kind], bool))
        for field, kind in rows
    }
    return claims, _Claim(np.array(beside), np.zeros(len(names), bool))
