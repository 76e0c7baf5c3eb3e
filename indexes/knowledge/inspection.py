"""Inspects a knowledge base as it is read: counts, problems, and some entities as an index would contain them."""

from __future__ import annotations

import os
import random
import time
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from indexes import image_source
from indexes.account import Account, summary_of
from indexes.ids import hash_id
from indexes.image_source import ImageSource, thumbnail
from indexes.knowledge import sources
from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.folder import contents_of
from indexes.knowledge.groups import Groups
from indexes.knowledge.identity import SeenHashes
from indexes.knowledge.ledger import Ledger
from indexes.knowledge.matching import MatchReport, rule_lines, with_matched_images
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.sections import FACTS
from indexes.knowledge.understanding.fields import image_pattern
from indexes.knowledge.understanding.languages import is_foreign
from indexes.labeled_values import Names
from indexes.progress import progress_bar
from indexes.svg import is_pointer
from retriever.images import ImageError
from retriever.types import Entity
from retriever.unspaced import count_words
from retriever.wording import counted

LISTED = 5  # number of examples shown for each problem
_START, _PAGE_START = 160, 1200


@dataclass(frozen=True, slots=True)
class Specimen:
    """An entity as it was read, with its main image: its name, its size, or what is wrong with it."""

    entity: Entity
    image: str | None = None
    size: tuple[int, int] | None = None
    problem: str | None = None
    thumbnail: bytes | None = field(default=None, repr=False)


@dataclass(slots=True)
class Inspection:
    """The counts and problems of a knowledge base, with some of its entities."""

    path: Path
    format: str
    entities: int = 0
    sections: int = 0
    without_text: int = 0
    named: int = 0
    found: int = 0
    repeated_titles: int = 0
    not_english: int = 0
    seconds: float = 0.0
    skipped: SkippedEntries = field(default_factory=lambda: SkippedEntries(1))
    ledger: Ledger = field(default_factory=Ledger)
    groups: Groups = field(default_factory=Groups)
    missing: list[str] = field(default_factory=list)
    matched: MatchReport = field(default_factory=MatchReport)
    specimens: list[Specimen] = field(default_factory=list)

    def counts(self) -> dict[str, Any]:
        """Returns the counts and the problems, for JSON."""
        return {
            "format": self.format,
            "entities": self.entities,
            "sections": self.sections,
            "without_text": self.without_text,
            "repeated_titles": self.repeated_titles,
            "not_english": self.not_english,
            "images_named": self.named,
            "images_found": self.found,
            "images_missing": self.missing,
            "image_rules": self.matched.to_json(),
            "image_files_refused": self.matched.refused[:LISTED],
            "entries_skipped": self.skipped.count,
            "skipped": self.skipped.listed[:LISTED],
            "groups": [
                asdict(group) | {option: f"--{option} {quote(group.pattern)}" for option in ("only", "skip")}
                for group in self.groups.all()
            ],
            **self.account(),
        }

    def account(self) -> dict[str, Any]:
        """Converts the counts of kept and left-out words, images and files to JSON values."""
        self.ledger.images |= self.matched.counts() | {"found": self.found}
        return self.ledger.to_json()


def inspect_knowledge_base(
    path: Path,
    images: Path | None = None,
    *,
    format: str | None = None,
    names: Names | None = None,
    count: int = 10,
    seed: int = 0,
) -> Inspection:
    """Reads a knowledge base as a build would and returns the findings; writes nothing.

    By default, the images are those in the knowledge base, or in the folder it is in. Of the entities, `count` are
    chosen by `seed`.

    Raises:
        ValueError: The file cannot be read at all, or its format is unknown.
    """
    started = time.monotonic()
    contents = contents_of(path, format)
    kind = format or contents.format
    source = sources.open_images(images or sources.images_beside(path, kind), path, kind)
    result = Inspection(path, kind, ledger=Ledger(str(path)))
    draw = random.Random(seed)
    chosen: list[tuple[int, Entity]] = []
    titles = SeenHashes()
    entities: Iterable[Entity] = read_knowledge_base(
        path, format, names=names, skipped=result.skipped, ledger=result.ledger, groups=result.groups, contents=contents
    )
    entities = with_matched_images(entities, source, image_pattern(names or {}), result.matched)
    entities = result.groups.counting(entities)
    for entity in progress_bar(entities, desc="read", unit="entity"):
        result.entities += 1
        result.sections += len(entity.sections)
        result.without_text += not entity.sections
        result.repeated_titles += not titles.add(hash_id(entity.title))
        result.not_english += is_foreign(section.text for section in entity.sections if section.title != FACTS)
        _look_up(entity, source, result)
        if len(chosen) < count:
            chosen.append((result.entities, entity))
        elif (place := draw.randrange(result.entities)) < count:  # reservoir sampling
            chosen[place] = result.entities, entity
    result.specimens = [_specimen(entity, source) for _, entity in sorted(chosen, key=lambda item: item[0])]
    result.seconds = time.monotonic() - started
    return result


def text_lines(result: Inspection) -> Iterator[str]:
    """Yields the findings as lines for a terminal."""
    for specimen in result.specimens:
        entity = specimen.entity
        yield f"{entity.title}  [{entity.id}]"
        if entity.url and entity.url != entity.id:
            yield f"  url    {entity.url}"
        if entity.names:
            yield f"  names  {_start('; '.join(entity.names), _START)}"
        yield f"  image  {_image_words(specimen)}"
        for section in entity.sections:
            start = _start(" ".join(section.text.split()), _START)
            yield f"  {section.index:>5}  {section.title}: {start} ({counted(count_words(section.text), 'word')})"
        yield ""
    account = result.account()
    if account["left_out"]:
        yield from (*table_of(account), "")
    yield from _summary_lines(result)


def table_of(account: Account) -> Iterator[str]:
    """Yields the lines of a table of what was left out, for a terminal."""
    if losses := account["left_out"]:
        width = min(max(len(loss["reason"]) for loss in losses), 40)
        yield f"{'left out':<{width}}  {'count':>9}  {'unit':<8}  {'places':>8}  first"
        for loss in losses:
            count, places = f"{loss['count']:,}", f"{loss['places']:,}"
            yield f"{loss['reason']:<{width}}  {count:>9}  {loss['unit']:<8}  {places:>8}  {loss['example']}"


def _summary_lines(result: Inspection) -> Iterator[str]:
    """Yields the counts and the problems, with examples."""
    yield (
        f"{result.path} ({result.format}): {counted(result.entities, 'entity')}, "
        f"{counted(result.sections, 'section')}, {result.named:,} with an image, {result.found:,} of them found "
        f"({result.seconds:.1f} s)"
    )
    yield from result.groups.notes()
    yield summary_of(result.account())
    if result.without_text:
        yield f"{counted(result.without_text, 'entity')} without text"
    if result.repeated_titles:
        repeated = counted(result.repeated_titles, "title")
        yield f"{repeated} already used by an earlier entity; choose another field with --map title=…"
    if result.not_english:
        few = counted(result.not_english, "entity")
        yield f"{few} not in English: the extractive reader answers English questions only (docs/models.md#languages)"
    if result.missing:
        hint = image_source.advice_on(result.missing)
        yield f"{counted(result.named - result.found, 'image')} missing, such as {'; '.join(result.missing)}{hint}"
    yield from rule_lines(result.matched)
    if result.skipped.count:
        listed = "; ".join(f"{one['place']}: {one['reason']}" for one in result.skipped.listed[:LISTED])
        yield f"{result.skipped.count} of {result.skipped.total} entries cannot be used: {listed}"


def html_page(result: Inspection) -> bytes:
    """Returns the findings as an HTML page with its images embedded."""
    loader = PackageLoader("indexes.knowledge", ".")
    template = Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template("inspection.html")
    cards = []
    for specimen in result.specimens:
        sections = [
            (one, _start(one.text, _PAGE_START), counted(count_words(one.text), "word"))
            for one in specimen.entity.sections
        ]
        data = None if specimen.thumbnail is None else b64encode(specimen.thumbnail).decode()
        cards.append({"entity": specimen.entity, "image": _image_words(specimen), "data": data, "sections": sections})
    summary = list(_summary_lines(result))
    name = Path(os.path.abspath(result.path)).name
    return template.render(name=name, summary=summary, ledger=result.account(), cards=cards).encode()


def _look_up(entity: Entity, source: ImageSource | None, result: Inspection) -> None:
    """Counts the main image of an entity."""
    first = next(iter(image_source.main_candidates(entity)), None)
    result.named += first is not None
    name = None if source is None or first is None else image_source.find_main(source, entity)
    if source is not None and name is not None:
        result.found += 1
        with suppress(OSError):  # a build reports it
            content = source.content(name)
            if isinstance(content, Path) and is_pointer(content):
                reason = "Git LFS pointers instead of images; run git lfs pull"
                result.ledger.leave_out(reason, f"{entity.id}: {name}", 1, "images")
    elif first is not None and len(result.missing) < LISTED:
        why = "" if source is None else f" ({image_source.why_missing(source, entity)})"
        result.missing.append(f"{first} of {entity.id}{why}")


def _specimen(entity: Entity, source: ImageSource | None) -> Specimen:
    first = next(iter(image_source.main_candidates(entity)), None)
    name = None if source is None or first is None else image_source.find_main(source, entity)
    if source is None or name is None:
        return Specimen(entity, first, problem=None if first is None else "missing")
    try:
        image = source.load(name)
    except ImageError as error:
        return Specimen(entity, name, problem=error.reason)
    return Specimen(entity, name, image.size, thumbnail=thumbnail(image))


def _image_words(specimen: Specimen) -> str:
    if specimen.image is None:
        return "none"
    size = "" if specimen.size is None else f" ({specimen.size[0]} x {specimen.size[1]})"
    return f"{specimen.image}{size}" + ("" if specimen.problem is None else f": {specimen.problem}")


def _start(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length].rsplit(' ', 1)[0]} …"
