"""Gives entities the image files that belong to them though nothing names them, and says by which rules."""

from __future__ import annotations

import json
import re
import tempfile
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import IO, Any

import numpy as np

from indexes.image_source import ImageSource, main_candidates
from indexes.knowledge.image_names import is_drawing, is_icon, loose_key, standing, stem_of
from indexes.knowledge.image_owners import Claim, claims_of, losers, without_copies, without_images
from indexes.knowledge.image_rules import EntityKeys, Rows, Rule, home_of, match_files
from indexes.knowledge.sources import listings
from indexes.knowledge.twins import SharedImages, things_in, united
from indexes.knowledge.understanding.fields import NO_IMAGES
from indexes.lines import from_row, to_row
from retriever.files import as_line
from retriever.types import ArticleImage, Entity
from retriever.wording import counted

_ICONS = re.compile(r"(?:^|/)(?:icons?|favicons?|emojis?)/", re.IGNORECASE)  # a folder of icons
_RULE = re.compile(r"\*?\{[^{}*]+\}|\{[^{}*]+\}/?\*|\./\*")
_IN_MEMORY = 1 << 26
_LISTED, _SHOWN = 3, 12


@dataclass(slots=True)
class MatchReport:
    """What rules give to the entities of a knowledge base."""

    files: int = 0  # number of image files, except icons
    lacking: int = 0  # number of entities for which no image is found without rules
    entities: int = 0
    given: int = 0  # number of images that entities get by rules
    united: tuple[int, str] = (0, "")  # number of entities that are one with those of other files; an example
    lost: tuple[int, str] = (0, "")  # number of entities that name images of others; an example
    unused: list[str] = field(default_factory=list)  # image files of no entity
    rules: list[Rule] = field(default_factory=list)  # those that come first in doubt first
    examples: list[str] = field(default_factory=list)  # a file for each rule
    refused: list[str] = field(default_factory=list)  # why links and folders were not read

    def counts(self) -> dict[str, Any]:
        """Returns the number of image files, and the used rules in words, for the ledger of reading."""
        return {"files": self.files, "rule": "; ".join(self.used())}

    def notes(self) -> list[str]:
        """Describes the reading of a knowledge base: used rules, and files that were not read."""
        notes = [f"images of {line}" for line in self.used()]
        if self.united[0]:
            records, title = counted(self.united[0], "entity"), self.united[1]
            notes.append(f"{records} joined with others that share main image and name in other files, such as {title}")
        if self.lost[0]:
            whose = counted(self.lost[0], "entity")
            notes.append(f"{whose} lost images that belong to others, such as {self.lost[1]}")
        if self.unused:
            notes.append(f"{counted(len(self.unused), 'image file')} of no entity, such as {self.unused[0]}")
        return notes + [f"image file not read: {reason}" for reason in self.refused[:_LISTED]]

    def used(self) -> list[str]:
        """Describes the used rules, those first that serve most entities."""
        rules = sorted(filter(lambda rule: rule.used, self.rules), key=lambda rule: (-rule.entities, -rule.files))
        lacking = counted(self.lacking, "entity")
        return [f"{rule.entities:,} of {lacking} by {rule}: {counted(rule.more, 'image')}" for rule in rules]

    def to_json(self) -> list[dict[str, Any]]:
        """Returns the rules for JSON."""
        return [
            {"rule": str(rule), "pattern": rule.pattern, "example": example, "files": rule.more}
            | {"entities": rule.entities, "conflicts": rule.conflicts, "used": rule.used}
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

    All entities are read before the first one is yielded, if the source lists image files. By default, each rule
    that is convincing is used, otherwise `pattern` alone. If `required`, it is an error if image files are there and no
    entity has one.

    Raises:
        ValueError: There is no such pattern. No entity has an image, although there are image files.
    """
    report = MatchReport() if report is None else report
    if pattern not in ("", NO_IMAGES) and not _RULE.fullmatch(pattern):
        rules = "{FIELD}, {FIELD}*, *{FIELD}, {FIELD}/* and ./*"
        raise ValueError(f"--map image={pattern}: no such rule; rules are {rules}, or {NO_IMAGES} for no images")
    folders = [] if source is None or pattern == NO_IMAGES else listings(source)
    names = _without_icons([f"{prefix}{name}" for prefix, files in folders for name in files.names])
    report.refused = [reason for _, files in folders for reason in files.refused]
    if source is None or not (names or report.refused):
        yield from entities
        return
    keys, named, shared, lacking = EntityKeys(), _Named(), SharedImages(), array("b")
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as spool:
        for row, entity in enumerate(entities):
            there = {url: name for url in main_candidates(entity) if (name := source.find(url)) is not None}
            lacking.append(0 if there else 1)
            keys.add(entity, not there)
            named.add(row, there.values(), home_of(entity)[1])
            shared.add(entity, next(iter(there.values()), None))
            spool.write(as_line([to_row(entity), entity.named_after, there]))
        namers = named.rows_of(names)
        report.rules, owners = match_files(names, keys, namers, pattern)
        report.unused = [names[file] for file in np.flatnonzero((owners < 0) & (namers < 0))]
        report.examples = [names[rule.example] for rule in report.rules]
        report.files, report.entities, report.lacking = len(names), len(lacking), sum(lacking)
        photos = report.refused or (names and not _ICONS.search(names[0]))
        if required and lacking and photos and all(lacking) and (owners < 0).all():
            raise ValueError(_nothing_found(report, names))
        one, parts = _united(spool, shared.groups())
        report.united = len(parts), next((entity.title for entity, _ in one.values()), "")
        more = _Files(names, np.array([parts.get(row, row) for row in owners.tolist()], np.int32) if parts else owners)
        given = defaultdict[int, list[str]](list)  # files by rules that others name
        for file in np.flatnonzero((owners >= 0) & (namers >= 0) & (owners != namers)).tolist():
            given[int(owners[file])].append(names[file])
            named.contested |= {int(owners[file]), int(namers[file])}
        lost = _lost(spool, named.contested - one.keys() - parts.keys(), given)
        for row, (entity, named_after, there) in enumerate(_read(spool)):
            if row in parts:
                continue
            entity = replace(entity, named_after=tuple((name, value) for name, value in named_after))
            if row in one:
                entity, there = one[row]
            elif row in lost:
                report.lost = report.lost[0] + 1, report.lost[1] or f"{min(lost[row])} of {entity.title}"
                entity = without_images(entity, {url for url, name in there.items() if name in lost[row]}, there)
            images = more.of(row, named_after)
            report.given += len(images)
            entity = _with_images(entity, images, is_main=bool(lacking[row]))
            yield without_copies(entity, there | dict(zip(images, images, strict=True)), source)


def _read(spool: IO[bytes]) -> Iterator[tuple[Entity, list[tuple[str, str]], dict[str, str]]]:
    """Yields the entities again, what each is named after, and the names of its images that are there by their URLs."""
    spool.seek(0)
    for line in spool:
        row, named_after, there = json.loads(line)
        yield from_row(row), named_after, there


def _united(
    spool: IO[bytes], groups: Sequence[Sequence[int]]
) -> tuple[dict[int, tuple[Entity, dict[str, str]]], dict[int, int]]:
    """Returns entities in several files as one, with its images that are there, and by its parts' rows its own row."""
    wanted, held = set(chain.from_iterable(groups)), dict[int, tuple[Entity, dict[str, str]]]()
    for row, (entity, named_after, there) in enumerate(_read(spool) if wanted else ()):
        if row in wanted:
            held[row] = replace(entity, named_after=tuple((name, value) for name, value in named_after)), there
    entities = {row: entity for row, (entity, _) in held.items()}
    titles = Counter(entity.title for entity in entities.values())
    one, parts = dict[int, tuple[Entity, dict[str, str]]](), dict[int, int]()
    for rows in chain.from_iterable(things_in(group, entities) for group in groups):
        whole = united([entities[row] for row in rows], titles)
        one[rows[0]] = whole, dict(chain.from_iterable(held[row][1].items() for row in rows))
        parts |= dict.fromkeys(rows[1:], rows[0])
    return one, parts


class _Named:
    """The images that entities name, and the rows of those that name the same ones, one of them a document."""

    def __init__(self) -> None:
        self.contested = set[int]()
        self._rows: dict[int, int] = {}
        self._documents = array("b")

    def add(self, row: int, names: Iterable[str], is_document: bool) -> None:
        """Adds the next entity; it is a document if it is all of its own file."""
        self._documents.append(is_document)
        for first in [self._rows.setdefault(hash(name), row) for name in names]:
            if first != row and (is_document or self._documents[first]):
                self.contested |= {first, row}

    def rows_of(self, names: Sequence[str]) -> Rows:
        """Returns the row of the first entity that names each file, or -1."""
        return np.fromiter((self._rows.get(hash(name), -1) for name in names), np.int32, len(names))


def _lost(spool: IO[bytes], contested: set[int], given: Mapping[int, Sequence[str]]) -> dict[int, set[str]]:
    """Returns the images that documents name and that belong to other entities, by row, see `losers`.

    Others name them, too, or are `given` them by a rule.
    """
    claims, lost = defaultdict[str, list[Claim]](list), defaultdict[int, set[str]](set)
    for row, (entity, named_after, there) in enumerate(_read(spool) if contested else ()):
        if row in contested:
            entity = replace(entity, named_after=tuple((name, value) for name, value in named_after))
            claimed = list(dict.fromkeys((*there.values(), *given.get(row, ()))))
            for name, claim in claims_of(entity, row, claimed).items():
                claims[name].append(claim)
    for name, several in claims.items():
        for row in losers(name, several):
            lost[row].add(name)
    return lost


def _without_icons(names: Sequence[str]) -> list[str]:
    """Returns the names that are no icons, judged by their folders as well unless that leaves none."""
    kept = [name for name in names if not is_icon(name)]
    return [name for name in kept if not _ICONS.search(name)] or kept


def _with_images(entity: Entity, images: Sequence[str], *, is_main: bool) -> Entity:
    """Returns an entity with further images; if it has none, or they are not there, the first is its main image."""
    if not images:
        return entity
    known = {image.url for image in entity.images}
    more = tuple(ArticleImage(name) for name in images if name not in known)
    is_main = is_main or not (entity.image or entity.images)
    return replace(entity, image=images[0] if is_main else entity.image, images=(*entity.images, *more))


class _Files:
    """The files of each entity, those that stand for all of it first."""

    def __init__(self, names: Sequence[str], owners: Rows) -> None:
        order = np.argsort(owners, kind="stable")
        self._names, self._files, self._owners = names, array("q", order.tolist()), array("i", owners[order].tolist())

    def of(self, row: int, named_after: Sequence[tuple[str, str]]) -> list[str]:
        """Returns the files of an entity: those that its fields name (`Entity.named_after`) come first, in order."""
        start, end = bisect_left(self._owners, row), bisect_right(self._owners, row)
        files = [self._names[number] for number in self._files[start:end]]
        if len(files) < 2:
            return files
        places = {loose_key(value): place for place, (_, value) in reversed(list(enumerate(named_after)))}

        def order(name: str) -> tuple[bool, int, int]:
            return is_drawing(name), places.get(loose_key(stem_of(name)), len(named_after)), standing(name)

        return sorted(files, key=order)


def _nothing_found(report: MatchReport, names: Sequence[str]) -> str:
    examples = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
    best = max(report.rules, key=lambda rule: (rule.entities, rule.conflicts), default=None)
    nearest = ""
    if best is not None and best.entities:
        gives = f"{counted(best.entities, 'entity')} and {counted(best.conflicts, 'conflict')}"
        nearest = f"; nearest to a rule are {best}, with {gives}: --map 'image={best.pattern}'"
    elif best is not None:
        nearest = f"; by {best}, each of {best.conflicts:,} belongs to several entities: read one file with --only FILE"
    refused = f"; {report.refused[0]}" if report.refused else ""
    files = f", but there are {counted(len(names), 'image file')}: {examples}" if names else ""
    return (
        f"none of {counted(report.entities, 'entity')} has an image{files}{nearest}{refused}; name the field with "
        f"--map image=FIELD, or build without images with --map image={NO_IMAGES}"
    )
