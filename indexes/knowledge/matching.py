"""Gives entities the image files that belong to them though nothing names them, and says by which rules."""

from __future__ import annotations

import json
import re
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any

import numpy as np

from indexes.knowledge import image_keys
from indexes.knowledge.file_names import FileNames
from indexes.knowledge.image_keys import OWN_FILE, EntityKeys, own_file
from indexes.knowledge.image_names import is_drawing, is_icon, is_remote, split_name
from indexes.knowledge.image_owners import Claim, claims_of, losers, without_images
from indexes.knowledge.image_rules import NO_IMAGES, Rows, Rule, match_files
from indexes.knowledge.image_sizes import without_copies
from indexes.knowledge.sources import ImageSource, listings, main_candidates
from indexes.lines import from_row, to_row
from retriever.files import as_line
from retriever.types import ArticleImage, Entity
from retriever.wording import counted

_ICONS = re.compile(r"(?:^|/)(?:icons?|favicons?|emojis?)/", re.IGNORECASE)  # a folder of icons
_IN_MEMORY = 1 << 26
_LISTED, _SHOWN = 3, 12


@dataclass(slots=True)
class MatchReport:
    """What rules give to the entities of a knowledge base.

    Attributes:
        files: Number of image files, except icons.
        lacking: Number of entities for which no image is found without rules, of `entities`.
        entities: Number of entities.
        given: Number of images that entities get by rules.
        lost: Number of entities that name images of other ones, which are searched as these only; and an example.
        rules: What each rule gives, those that come first in doubt first.
        examples: A file for each rule.
        refused: Links and folders that were not read, with the reasons.
    """

    files: int = 0
    lacking: int = 0
    entities: int = 0
    given: int = 0
    lost: tuple[int, str] = (0, "")
    rules: list[Rule] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, Any]:
        """Returns the number of image files, and the used rules in words, for the ledger of reading."""
        return {"files": self.files, "rule": "; ".join(self.used())}

    def notes(self) -> list[str]:
        """Describes the reading of a knowledge base: used rules, and files that were not read."""
        refused = [f"image file not read: {one}" for one in self.refused[:_LISTED]]
        whose, lost = counted(self.lost[0], "entity"), list[str]()
        if self.lost[0]:
            lost.append(f"images of {whose} belong to others that name them, and are searched there: {self.lost[1]}")
        return [*(f"images of {line}" for line in self.used()), *lost, *refused]

    def used(self) -> list[str]:
        """Describes the used rules, those first that serve most entities."""
        used = [rule for rule in self.rules if rule.new]
        used.sort(key=lambda rule: (-rule.entities, -rule.files))
        lacking = counted(self.lacking, "entity")
        return [f"{rule.entities:,} of {lacking} by {rule}: {counted(rule.more, 'image')}" for rule in used]

    def to_json(self) -> list[dict[str, Any]]:
        """Returns the rules for JSON."""
        fields = ("entities", "conflicts", "used")
        return [
            {"rule": str(rule), "pattern": rule.pattern, "example": example, "files": rule.more}
            | {name: getattr(rule, name) for name in fields}
            for rule, example in zip(self.rules, self.examples, strict=True)
        ]


def rule_lines(report: MatchReport) -> Iterator[str]:
    """Yields lines for a terminal: what the used rules give; if images are lacking, a table of those that give any."""
    yield from report.notes()
    pairs = zip(report.rules, report.examples, strict=True)
    rows = [(rule, example) for rule, example in pairs if rule.used or rule.entities or rule.conflicts]
    if not report.lacking or not rows:
        return
    lacking = counted(report.lacking, "entity")
    yield f"rules for the images of {lacking} for which none is named and there (--map image=RULE):"
    yield f"  {'rule':<16} {'entities':>9} {'images':>9} {'conflicts':>9}  used  example"
    for rule, example in rows[:_SHOWN]:
        numbers = f"{rule.entities:>9,} {rule.more:>9,} {rule.conflicts:>9,}"
        yield f"  {rule.pattern:<16} {numbers}  {'yes' if rule.used else 'no':<4}  {example}"


def with_matched_images(
    entities: Iterable[Entity],
    source: ImageSource | None,
    pattern: str = "",
    report: MatchReport | None = None,
    *,
    required: bool = False,
) -> Iterator[Entity]:
    """Yields entities; those to which image files belong by a rule (`match_files`) get them as their images.

    All entities are read before the first one is yielded, if the source has a list of its files. By default, each rule
    that is convincing is used, otherwise `pattern` alone. If `required`, it is an error if image files are there and no
    entity has one.

    Raises:
        ValueError: No entity has an image, although there are image files.
    """
    report = MatchReport() if report is None else report
    folders = [] if source is None or pattern == NO_IMAGES else listings(source)
    if source is None or not folders:
        yield from entities
        return
    names = _without_icons(FileNames(f"{prefix}{name}" for prefix, files in folders for name in files.names))
    report.refused = [one for _, files in folders for one in files.refused]
    keys, named, lacking = EntityKeys(), _Named(), array("b")
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as spool:
        for row, entity in enumerate(entities):
            found = {url: name for url in main_candidates(entity) if (name := source.find(url)) is not None}
            lacking.append(0 if found else 1)
            keys.add(entity, not found or _is_doubtful(*next(iter(found.items()))))
            named.add(row, own_file(entity), [name for url, name in found.items() if not _is_doubtful(url, name)])
            spool.write(as_line([to_row(entity), entity.named_after, found]))
        matches = match_files(names, keys, named.rows_of(names), pattern)
        report.files, report.entities, report.lacking = len(names), len(lacking), sum(lacking)
        report.rules = matches.rules
        report.examples = [names[rule.example] for rule in matches.rules]
        photos = report.refused or (len(names) and not _ICONS.search(names[0]))
        if required and lacking and photos and all(lacking) and (matches.owners < 0).all():
            raise ValueError(_nothing_found(report, names))
        given, lost = _Given(names, matches.owners), _lost(spool, named.contested())
        spool.seek(0)
        for row, line in enumerate(spool):
            entity, named_after, found = _parsed(line)
            if row in lost:
                report.lost = report.lost[0] + 1, report.lost[1] or f"{min(lost[row])} of {entity.title}"
                entity = without_images(entity, {url for url, name in found.items() if name in lost[row]}, found)
            images = given.of(row, named_after)
            report.given += len(images)
            entity = _with_images(entity, images, bool(lacking[row]), bool(keys.lacking[row]))
            yield without_copies(entity, found | dict(zip(images, images, strict=True)), source)


def _parsed(line: bytes) -> tuple[Entity, list[tuple[str, str]], dict[str, str]]:
    """Returns an entity, what it is named after, and the names of its images that are there by their URLs."""
    entity, named_after, found = json.loads(line)
    return from_row(entity), named_after, found


class _Named:
    """The images that entities name, by hash, in 16 bytes each."""

    def __init__(self) -> None:
        self._hashes, self._rows, self._files = array("q"), array("i"), array("q")

    def add(self, row: int, file: str | None, names: Sequence[str]) -> None:
        """Adds the next entity, with its own file."""
        self._hashes.extend(map(hash, names))
        self._rows.extend([row] * len(names))
        self._files.append(hash(file) if file else 0)

    def rows_of(self, names: FileNames) -> Rows:
        """Returns the row of an entity that names each file, or -1."""
        known, rows = np.array(self._hashes, np.int64), np.array(self._rows, np.int32)
        order = np.argsort(known, kind="stable")
        wanted = np.fromiter(map(hash, names), np.int64, len(names))
        place = np.searchsorted(known[order], wanted)
        inside = np.flatnonzero(place < len(known))
        hits = inside[known[order][place[inside]] == wanted[inside]]
        namers = np.full(len(names), -1, np.int32)
        namers[hits] = rows[order][place[hits]]
        return namers

    def contested(self) -> dict[int, bool]:
        """Returns the rows of entities that name the same image and are not all of one file.

        For each, it is said whether it is a document, which means that no other entity has the same file.
        """
        hashes, rows, files = (np.array(one) for one in (self._hashes, self._rows, self._files))
        if not len(rows):
            return {}
        _, number, count = np.unique(files, return_inverse=True, return_counts=True)
        documents = (files != 0) & (count[number] == 1)
        _, number, count = np.unique(hashes, return_inverse=True, return_counts=True)
        of_several = (count > 1) & (np.bincount(number, documents[rows]) > 0)
        return {row: bool(documents[row]) for row in rows[of_several[number]].tolist()}


def _lost(spool: IO[bytes], contested: dict[int, bool]) -> dict[int, set[str]]:
    """Returns the images that documents name and that belong to other entities, by row, see `losers`."""
    claims: dict[str, list[Claim]] = {}
    lost: dict[int, set[str]] = {}
    spool.seek(0)
    for row, line in enumerate(spool if contested else ()):
        if row in contested:
            entity, named_after, found = _parsed(line)
            names = list(dict.fromkeys(name for url, name in found.items() if not _is_doubtful(url, name)))
            for name, claim in claims_of(
                entity, dict(named_after).get(OWN_FILE, ""), row, names, contested[row]
            ).items():
                claims.setdefault(name, []).append(claim)
    for name, several in claims.items():
        for row in losers(name, several) if len(several) > 1 else ():
            lost.setdefault(row, set()).add(name)
    return lost


def _is_doubtful(url: str, name: str) -> bool:
    """Returns whether only the last part of a URL agrees with a file, since many images are called `icon.svg`."""
    return is_remote(url) and "/" not in name


def _without_icons(names: FileNames) -> FileNames:
    """Returns the names that are no icons, judged by their folders as well unless that leaves none."""
    kept = FileNames(name for name in names if not is_icon(name))
    outside = FileNames(name for name in kept if not _ICONS.search(name))
    return outside or kept


def _with_images(entity: Entity, images: Sequence[str], lacking: bool, doubtful: bool) -> Entity:
    """Returns an entity with further images; if it lacks one, the first of them is its main image.

    The first of them also replaces a `doubtful` main image if its file is called like the entity.
    """
    if not images:
        return entity
    if doubtful and not lacking:
        called = image_keys.loose_key(split_name(_last(images[0]))[0])
        lacking = called in (image_keys.loose_key(entity.id), image_keys.loose_key(entity.title))
    more = tuple(ArticleImage(name) for name in images if all(name != one.url for one in entity.images))
    lacking = lacking or not (entity.image or entity.images)
    return replace(entity, image=images[0] if lacking else entity.image, images=(*entity.images, *more))


class _Given:
    """The files of each entity, those that stand for all of it first."""

    def __init__(self, names: FileNames, owners: Rows) -> None:
        self._names = names
        self._files = np.flatnonzero(owners >= 0)
        self._files = self._files[np.argsort(owners[self._files], kind="stable")]
        self._owners = owners[self._files]

    def of(self, row: int, named_after: Sequence[tuple[str, str]]) -> list[str]:
        """Returns the files of an entity, see `Entity.named_after`: those that its fields name come first, in order."""
        start, end = np.searchsorted(self._owners, row, "left"), np.searchsorted(self._owners, row, "right")
        places = {image_keys.loose_key(value): place for place, (_, value) in reversed(list(enumerate(named_after)))}

        def order(name: str) -> tuple[bool, int, int]:
            place = places.get(image_keys.loose_key(split_name(_last(name))[0]), len(named_after))
            return is_drawing(name), place, image_keys.standing(_last(name))

        return sorted((self._names[number] for number in self._files[start:end].tolist()), key=order)


def _nothing_found(report: MatchReport, names: FileNames) -> str:
    shown = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
    best = max(report.rules, key=lambda rule: (rule.entities, -rule.conflicts), default=None)
    nearest = ""
    if best is not None and best.entities:
        gives = f"{counted(best.entities, 'entity')} and {counted(best.conflicts, 'conflict')}"
        nearest = f"; nearest to a rule are {best}, with {gives}: --map 'image={best.pattern}'"
    refused = f"; {report.refused[0]}" if report.refused else ""
    files = f", but there are {counted(len(names), 'image file')}: {shown}" if names else ""
    return (
        f"none of {counted(report.entities, 'entity')} has an image{files}{nearest}{refused}; name the field with "
        f"--map image=FIELD, or build without images with --map image={NO_IMAGES}"
    )


def _last(name: str) -> str:
    return name.rpartition("/")[2]
