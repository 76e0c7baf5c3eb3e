"""Gives entities the image files that belong to them though nothing names them, and says by which rules."""

from __future__ import annotations

import json
import re
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from indexes.knowledge import image_keys
from indexes.knowledge.file_names import FileNames
from indexes.knowledge.formats.fields import NO_IMAGES
from indexes.knowledge.formats.page_images import is_drawing, is_icon
from indexes.knowledge.formats.selection import advice
from indexes.knowledge.image_keys import BEGINS, ENDS, NAME, OWN_FILE, EntityKeys
from indexes.knowledge.image_names import is_remote, split_name
from indexes.knowledge.image_rules import Rows, Rule, match_files
from indexes.knowledge.sources import ImageSource, listings, main_candidates
from indexes.lines import from_row, to_row
from retriever.files import as_line
from retriever.images import ImageError
from retriever.types import ArticleImage, Entity
from retriever.wording import counted

_ICONS = re.compile(r"(?:^|/)(?:icons?|favicons?|emojis?)/", re.IGNORECASE)  # a folder of icons
_IN_MEMORY = 1 << 26
_SAMPLE = 50
_LISTED, _SHOWN = 3, 12


@dataclass(slots=True)
class MatchReport:
    """What rules give to the entities of a knowledge base.

    Attributes:
        files: Number of image files, except icons.
        lacking: Number of entities for which no image is found without rules, of `entities`.
        entities: Number of entities.
        given: Number of images that entities get by rules.
        rules: What each rule gives, those that come first in doubt first.
        examples: A file for each rule.
        refused: Links and folders that were not read, with the reasons.
        advice: What else is to be known about the entities, see `indexes.knowledge.formats.selection.advice`.
    """

    files: int = 0
    lacking: int = 0
    entities: int = 0
    given: int = 0
    rules: list[Rule] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, Any]:
        """Returns the number of image files, and the used rules in words, for the ledger of reading."""
        return {"files": self.files, "rule": "; ".join(self.used())}

    def notes(self) -> list[str]:
        """Describes the reading of a knowledge base: used rules, files that were not read, and advice."""
        refused = [f"image file not read: {one}" for one in self.refused[:_LISTED]]
        return [*(f"images of {line}" for line in self.used()), *refused, *self.advice]

    def used(self) -> list[str]:
        """Describes the used rules, those first that serve most entities."""
        used = [rule for rule in self.rules if rule.new and not self._is_part(rule)]
        used.sort(key=lambda rule: (-rule.entities, -rule.files))
        lacking = counted(self.lacking, "entity")
        return [f"{rule.entities:,} of {lacking} by {rule}: {counted(rule.more, 'image')}" for rule in used]

    def _is_part(self, rule: Rule) -> bool:
        """Returns whether another used rule with the same field gives all that a rule gives."""
        wider = (BEGINS, ENDS) if rule.kind == NAME else ()
        return any(one.new and one.field == rule.field and one.kind in wider for one in self.rules)

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
    keys, used, users, lacking, files = EntityKeys(), array("q"), array("i"), array("b"), list[str]()
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as spool:
        for entity in entities:
            found = [(url, name) for url in main_candidates(entity) if (name := source.find(url)) is not None]
            lacking.append(0 if found else 1)
            keys.add(entity, not found or _is_doubtful(*found[0]))
            sure = [hash(name) for url, name in found if not _is_doubtful(url, name)]
            used.extend(sure)
            users.extend([len(lacking) - 1] * len(sure))
            files.extend(value for name, value in entity.named_after if name == OWN_FILE)
            spool.write(as_line([to_row(entity), entity.named_after]))
        matches = match_files(names, keys, _namers(names, used, users), pattern)
        report.files, report.entities, report.lacking = len(names), len(lacking), sum(lacking)
        report.rules = matches.rules
        report.examples = [names[rule.example] for rule in matches.rules]
        photos = report.refused or (len(names) and not _ICONS.search(names[0]))
        if required and lacking and photos and all(lacking) and (matches.owners < 0).all():
            raise ValueError(_nothing_found(report, names))
        given = _Given(names, matches.owners, source)
        report.advice += advice(files, [not one or given.any(row) for row, one in enumerate(lacking)] if files else [])
        spool.seek(0)
        for row, line in enumerate(spool):
            entity, named_after = json.loads(line)
            images = given.of(row, named_after)
            report.given += len(images)
            yield _with_images(from_row(entity), images, bool(lacking[row]), bool(keys.lacking[row]))


def _namers(names: FileNames, used: array[int], users: array[int]) -> Rows:
    """Returns the row of an entity that names each file, or -1, from the hashes of used names and their entities."""
    known, rows = np.array(used, np.int64), np.array(users, np.int32)
    order = np.argsort(known, kind="stable")
    wanted = np.fromiter(map(hash, names), np.int64, len(names))
    place = np.searchsorted(known[order], wanted)
    inside = np.flatnonzero(place < len(known))
    hits = inside[known[order][place[inside]] == wanted[inside]]
    namers = np.full(len(names), -1, np.int32)
    namers[hits] = rows[order][place[hits]]
    return namers


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
    return replace(entity, image=images[0] if lacking else entity.image, images=(*entity.images, *more))


class _Given:
    """The files of each entity, without smaller copies, those that stand for all of it first."""

    def __init__(self, names: FileNames, owners: Rows, source: ImageSource) -> None:
        self._names, self._source = names, source
        self._files = np.flatnonzero(owners >= 0)
        self._files = self._files[np.argsort(owners[self._files], kind="stable")]
        self._owners = owners[self._files]

    def any(self, row: int) -> bool:
        """Returns whether an entity has files."""
        start = int(np.searchsorted(self._owners, row))
        return start < len(self._owners) and bool(self._owners[start] == row)

    def of(self, row: int, named_after: Sequence[tuple[str, str]]) -> list[str]:
        """Returns the files of an entity, see `Entity.named_after`: those that its fields name come first, in order."""
        start, end = np.searchsorted(self._owners, row, "left"), np.searchsorted(self._owners, row, "right")
        largest: dict[str, str] = {}
        for number in self._files[start:end].tolist():
            name = self._names[number]
            key = image_keys.without_size(_last(name), self._has_sizes)
            if key not in largest or self._size(name) > self._size(largest[key]):
                largest[key] = name
        places = {image_keys.loose_key(value): place for place, (_, value) in reversed(list(enumerate(named_after)))}

        def order(name: str) -> tuple[bool, int, int]:
            place = places.get(image_keys.loose_key(split_name(_last(name))[0]), len(named_after))
            return is_drawing(name), place, image_keys.standing(_last(name))

        return sorted(largest.values(), key=order)

    def _size(self, name: str) -> int:
        if is_drawing(name):
            return 0
        content = self._source.content(name)
        return content.stat().st_size if isinstance(content, Path) else len(content)

    @cached_property
    def _has_sizes(self) -> bool:
        """Whether numbers in file names are widths or heights in pixels, judged by some of them."""
        numbered = (self._names[number] for number in self._files.tolist())
        sample = list(
            islice(
                (name for name in numbered if any(map(image_keys.is_large, image_keys.words_of(_last(name))))), _SAMPLE
            )
        )
        true = sum(
            bool({*map(str, self._pixels(name))} & {*image_keys.words_of(split_name(_last(name))[0])})
            for name in sample
        )
        return true > len(sample) / 2

    def _pixels(self, name: str) -> tuple[int, int]:
        try:
            return self._source.load(name).size
        except ImageError:
            return 0, 0


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
