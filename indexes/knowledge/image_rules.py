"""Rules by which image files belong to entities, such as file names that begin with the id; each with its coverage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.knowledge.image_keys import BEGINS, ENDS, NAME, SHARED, EntityKeys, FileKeys, KeyRows, keys_of
from indexes.knowledge.image_names import split_name
from retriever.types import IntArray

NO_IMAGES = "none"
"""What `--map image=…` takes for a knowledge base without images, in place of a rule."""
FOLDER, BESIDE = 3, 4
"""Further kinds of rules: files in a folder that is called like the entity, and files beside the entity's own."""
PATTERNS = {NAME: "{%s}", BEGINS: "{%s}*", ENDS: "*{%s}", FOLDER: "{%s}/*", BESIDE: "./*"}
"""How a rule is written in `--map image=…`, by its kind."""
_WORDS = {
    NAME: "file names that are the {}, apart from a number, a size or a view",
    BEGINS: "file names that begin with the {}",
    ENDS: "file names that end with the {}",
    FOLDER: "folders that are called like the {}",
    BESIDE: "the folder of the entity's own file",
}
_SURE = ("id", "slug", "title", "names")
"""Fields that name an entity, the best first: a few files called after them are no coincidence."""
_ENOUGH = 0.5  # share of the entities without images, or of the files, from which any rule is no coincidence
_CONFLICTS = 0.1
_FEWEST = 3  # fewest entities from which another field can be told from coincidence
_CHUNK = 1 << 16

Rows = NDArray[np.int32]


class Rule(NamedTuple):
    """A rule, and what it gives."""

    field: str  # the field that files are called after; "" if they lie beside the entity's file
    kind: int  # how they are called after it
    entities: int  # number of entities without an image that get one by this rule
    files: int  # number of files that it gives to one entity each
    conflicts: int  # number of files that it would give to several entities
    example: int  # the number of a file that it gives to an entity, or else of one in conflict
    used: bool = False
    new: int = 0  # number of files that it gives and no rule before it
    more: int = 0  # number of `files` that their entities do not name themselves

    @property
    def pattern(self) -> str:
        """The rule as `--map image=…` takes it."""
        return PATTERNS[self.kind].replace("%s", self.field)

    def __str__(self) -> str:
        """Returns the rule in words."""
        return _WORDS[self.kind].format(self.field)


class Matches(NamedTuple):
    """The rules that give anything, and what the used ones give."""

    rules: list[Rule]  # the rules, those that come first in doubt first
    owners: Rows  # the row of each file's entity, int32 [files], or -1


class _Claim(NamedTuple):
    """The files that a rule gives to entities: their numbers, the row of each entity or `SHARED`, and its strength."""

    files: IntArray
    rows: Rows
    weak: NDArray[np.bool_]  # whether each file is called like it by chance, such as by a number

    def of(self, kept: NDArray[np.bool_]) -> _Claim:
        """Returns the claim to some of the files."""
        return _Claim(self.files[kept], self.rows[kept], self.weak[kept])

    @property
    def is_weak(self) -> bool:
        """Whether most of it may be chance."""
        return bool(self.weak.mean() > 1 / 2)


def match_files(names: Sequence[str], keys: EntityKeys, namers: Rows, pattern: str = "") -> Matches:
    """Finds out by which rules image files belong to entities.

    A file that no entity names belongs to the innermost one that it stands in: the only one whose own file is in its
    folder, see `EntityKeys.row_beside`. For the others, a rule by names is used if it gives images to at least half of
    the entities that have none, or entities to half of the files. If it concerns whole file names and ids or titles
    that are not just numbers, a single file suffices. At most a tenth of its files may belong to several entities or,
    by a rule before it, to other ones; such files are left out. Files that entities name belong to others only if they
    are called like these; `namers`, int32 [files], has the row of the entity that names a file, or -1. A given
    `pattern`, as `--map image=…` takes it, is the only rule, whatever it gives.
    """
    taken = namers >= 0
    lacking = np.array(keys.lacking, bool)
    owners = np.full(len(names), -1, np.int32)
    rules, found = [], list[Rule]()
    claims = _claims(names, keys)
    if (beside := claims.pop(("", BESIDE), None)) is not None:
        beside = _innermost(beside.of((beside.rows >= 0) & ~taken[beside.files]), claims, len(names))
    if beside is not None and len(beside.files):
        served, count = np.unique(beside.rows), len(beside.files)
        rule = Rule("", BESIDE, int(lacking[served].sum()), count, 0, int(beside.files[0]), new=count, more=count)
        used = pattern in ("", rule.pattern)
        found.append(rule._replace(used=used, new=count if used else 0))
        if used:
            owners[beside.files] = beside.rows
            lacking[served] = False
    free = int((~taken & (owners < 0)).sum())
    for (field, kind), claim in claims.items():
        claim = claim.of(owners[claim.files] < 0)
        if not (field in _SURE and kind == NAME and len(claim.files) and not claim.is_weak):
            claim = claim.of(~taken[claim.files])
        if not len(claim.files):
            continue
        own = claim.rows >= 0
        gained = int(lacking[np.unique(claim.rows[own])].sum())
        example = int(claim.files[own if own.any() else ~own][0])
        rules.append((Rule(field, kind, gained, int(own.sum()), int((~own).sum()), example), claim))
    for rule, claim in sorted(rules, key=lambda one: _rank(one[0])):
        own = claim.rows >= 0
        files, rows = claim.files[own], claim.rows[own]
        other = (owners[files] >= 0) & (owners[files] != rows)
        used = rule.pattern == pattern
        if not pattern:
            used = _is_convincing(rule, claim.is_weak, int(lacking.sum()), free)
            used = used and int(other.sum()) <= _CONFLICTS * len(files)
        new = int((owners[files] < 0).sum()) if used else 0
        more = int((namers[files] != rows).sum())
        if used:
            owners[files] = np.where(owners[files] >= 0, owners[files], rows)
        found.append(rule._replace(used=used, new=new, more=more))
    return Matches(found, owners)


def _innermost(beside: _Claim, claims: dict[tuple[str, int], _Claim], count: int) -> _Claim:
    """Returns the files of folders without those of folders that are no one entity's.

    Such a folder has a page about all of them: most of its files are called like several other entities.
    """
    nearest, others = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    nearest[beside.files] = beside.rows
    for (field, kind), claim in claims.items():
        if field in _SURE and kind == NAME:
            sure = claim.of((claim.rows >= 0) & ~claim.weak)
            own = (sure.rows == nearest[sure.files]) | (others[sure.files] == SHARED)
            others[sure.files] = np.where(own, SHARED, sure.rows)
    called = others[beside.files]
    kept = np.ones(len(beside.files), bool)
    for row in np.unique(beside.rows[called >= 0]):
        files = beside.rows == row
        rows = called[files & (called >= 0)]
        kept[files] = len(np.unique(rows)) < 2 or 2 * len(rows) <= files.sum()
    return beside.of(kept)


def _rank(rule: Rule) -> tuple[bool, int, int, int]:
    """Returns the place of a rule in doubt: whole names first, and of these the id."""
    sure = _SURE.index(rule.field) if rule.field in _SURE else len(_SURE)
    return sure == len(_SURE), (NAME, FOLDER, BEGINS, ENDS).index(rule.kind), sure, -rule.entities


def _is_convincing(rule: Rule, weak: bool, lacking: int, free: int) -> bool:
    if not rule.entities or rule.conflicts > _CONFLICTS * (rule.conflicts + rule.files):
        return False
    if rule.field in _SURE and rule.kind == NAME and not weak:
        return True
    if rule.field not in _SURE and rule.entities < _FEWEST:
        return False
    several = rule.entities > 1 or rule.kind == NAME
    return rule.entities >= _ENOUGH * lacking or (rule.files >= _ENOUGH * free and several)


def _claims(names: Sequence[str], keys: EntityKeys) -> dict[tuple[str, int], _Claim]:
    """Returns the files that each rule gives to entities, by field and kind."""
    table = keys.table()
    parts: dict[tuple[int, int], list[_Claim]] = {}
    files, folders = enumerate(names), _Folders(keys)
    while chunk := list(islice(files, _CHUNK)):
        for place, claim in _claims_of(chunk, table, folders):
            parts.setdefault(place, []).append(claim)
    found = {}
    for (field, kind), claims in parts.items():
        rows = np.concatenate([claim.rows for claim in claims])
        weak = np.concatenate([claim.weak for claim in claims])
        name = keys.fields[field] if kind != BESIDE else ""
        found[name, kind] = _Claim(np.concatenate([claim.files for claim in claims]), rows, weak)
    return found


class _Folders:
    """The keys of folders, and the entities beside whose files their images are."""

    def __init__(self, keys: EntityKeys) -> None:
        self._keys, self._name = keys, ""
        self._found = FileKeys([], [], []), -1

    def of(self, folder: str) -> tuple[FileKeys, int]:
        """Returns the keys of a folder and of the one above it, of which the inner counts, and the row beside it."""
        if folder != self._name:
            row = self._keys.row_beside(folder)
            texts = list(self._keys.folder_keys(folder))
            keys = FileKeys(texts, [FOLDER] * len(texts), list(range(len(texts), 0, -1)))
            self._name, self._found = folder, (keys, -1 if row is None else row)
        return self._found


def _claims_of(
    named: Iterable[tuple[int, str]], table: KeyRows, folders: _Folders
) -> Iterator[tuple[tuple[int, int], _Claim]]:
    """Yields the files of a chunk that rules give to entities, by the number of the field and the kind of rule."""
    texts, kinds, lengths, numbers, counts = list[str](), list[int](), list[int](), list[int](), list[int]()
    beside: dict[int, int] = {}
    for number, path in named:
        folder, _, name = path.rpartition("/")
        around, row = folders.of(folder)
        before = len(texts)
        for keys in (keys_of(split_name(name)[0]), around):
            texts += keys.texts
            kinds += keys.kinds
            lengths += keys.words
        numbers.append(number)
        counts.append(len(texts) - before)
        if row != -1:
            beside[number] = row
    if beside:
        rows = np.array(list(beside.values()), np.int32)
        yield (0, BESIDE), _Claim(np.array(list(beside), np.int64), rows, np.zeros(len(rows), bool))
    start, end = _ranges(table.hashes, np.fromiter(map(hash, texts), np.int64, len(texts)))
    hits = end - start
    entry = np.repeat(np.arange(len(texts)), hits)
    place = np.arange(len(entry)) - np.repeat(np.cumsum(hits) - hits, hits) + start[entry]
    fields, rows, weak = table.fields[place], table.rows[place], table.weak[place]
    of_files = np.repeat(np.array(numbers, np.int64), counts)[entry]
    kind, words = np.array(kinds, np.int8)[entry], np.array(lengths, np.int8)[entry]
    for rule, included in {NAME: (NAME,), BEGINS: (NAME, BEGINS), ENDS: (NAME, ENDS), FOLDER: (FOLDER,)}.items():
        fitting = np.flatnonzero(np.isin(kind, included))
        order = fitting[np.lexsort((-words[fitting], of_files[fitting], fields[fitting]))]
        first = np.ones(len(order), bool)
        first[1:] = (fields[order][1:] != fields[order][:-1]) | (of_files[order][1:] != of_files[order][:-1])
        best = order[first]
        for field in np.unique(fields[best]).tolist():
            own_field = best[fields[best] == field]
            files = of_files[own_field]
            yield (field, rule), _Claim(files, rows[own_field], weak[own_field])


def _ranges(known: IntArray, wanted: IntArray) -> tuple[IntArray, IntArray]:
    """Returns where each of some hashes begins and ends in a sorted array of them; an unknown one is empty."""
    order = np.argsort(wanted)  # so that look-ups near each other follow each other
    start = np.empty(len(wanted), np.int64)
    start[order] = np.searchsorted(known, wanted[order])
    end = start.copy()
    found = order[start[order] < len(known)]
    found = found[known[start[found]] == wanted[found]]
    end[found] = np.searchsorted(known, wanted[found], "right")
    return start, end
