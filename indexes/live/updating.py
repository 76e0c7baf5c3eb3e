"""Updates an index from a knowledge base; compares both first, so that no image and no entity is lost unsaid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from posixpath import splitext
from typing import Any, Protocol

from indexes.article_images import note_unsearched
from indexes.builder.report import ImageSummary, image_problem
from indexes.image_source import ImageSource, find_main, main_candidates
from indexes.knowledge.knowledge_base import name_of
from indexes.live.articles import Article, article_of, called_as_indexed, keeping_images, own_row
from indexes.live.editor import Editor
from indexes.live.index import LiveIndex
from indexes.live.pruning import Gaps, Origins
from retriever.types import Entity
from retriever.wording import counted

_ONE_FILE = ("evqa", "infoseek", "wiki6m", "mediawiki", "zim", "huggingface")
"""Formats of a single file, or of a folder that is read as one."""
_SUFFIXES = frozenset(
    (".md", ".markdown", ".mdx", ".qmd", ".rmd", ".html", ".htm", ".xhtml", ".json", ".yml", ".yaml", ".xml")
)
_SAMPLE, _LEVELS = 100, 5


class Read(Protocol):
    """Reads the knowledge base, which happens twice: at first only to compare."""

    def __call__(self, compare: bool) -> Iterable[Entity]:
        """Returns the entities."""


def update(
    editor: Editor,
    read: Read,
    source: ImageSource | None,
    origins: Origins,
    *,
    batch: int = 32,
    accept_missing: bool = False,
    prune: Callable[[], Gaps] | None = None,
    notes: list[str] | None = None,
) -> Outcome:
    """Adds the entities of a knowledge base, or replaces those with the same ids, and returns what it did.

    An entity whose image is not there now keeps the images that it has in the index. If it names none any more,
    although the file is still there, it loses them.

    Args:
        editor: The index.
        read: Reads the knowledge base.
        source: Its images.
        origins: Compares the knowledge base with the sources of the index's entities.
        batch: Number of articles at a time.
        accept_missing: Whether to go on if more than half of the images are not there.
        prune: Says what was not read; called after the first reading. If given, entities of the index are removed that
            the knowledge base had and no longer has, see `Origins.why_kept`.
        notes: Receives a sentence on the images of articles that are not searched, if there are any, as in a build.

    Raises:
        ValueError: More than half of the images are not there, or `prune` is given, and the knowledge base has none of
            the entities of the index. Nothing is changed.
    """
    index, found = editor.index, _compare(read(compare=True), editor.index, source, origins)
    gone = found.absent + found.unnamed
    if 2 * gone > found.shown and not accept_missing:
        row = own_row(index, found.first)
        other = "" if row is None else index.entity(row).source
        whose = "" if origins.has(other) else f" (there from another knowledge base, {origins.named(other)})"
        raise ValueError(
            f"{gone} of {counted(found.shown, 'entity')} that have an image in the index have none now, the first "
            f"{found.first!r}{whose}; nothing was changed. Name the folder of the images with --images; if they "
            "are gone, --accept-missing changes only the texts, and the entities keep the images of the index"
        )
    absent = [row for row in index.rows() if row not in found.rows]
    if prune is not None and len(absent) == len(index):
        raise ValueError(
            f"the knowledge base has none of the {len(index):,} entities of the index, so that --prune would remove "
            "all that it had; nothing was changed. Leave out --prune to add to them"
        )
    outcome = Outcome(not_in_file=len(absent))
    pruned = _pruned(absent, index, origins, prune(), outcome) if prune is not None else []
    entities = note_unsearched(iter(read(compare=False)), editor.image_use.keys, [] if notes is None else notes)
    called = (called_as_indexed(entity, index) for entity in entities)
    while articles := [article_of(entity, source, editor.image_use) for entity in islice(called, batch)]:
        articles = [_with_images(article, editor, source) for article in articles]
        new = [article for article in articles if not editor.holds(article)]
        outcome.unchanged += len(articles) - len(new)
        outcome.images_kept += sum(bool(article.kept) for article in articles)
        for article in new:
            outcome.count(article, index, origins)
        if new:
            editor.put([one._replace(entity=_from(one.entity, index, origins)) for one in new])
    if pruned:
        editor.remove(pruned)
    return outcome


def _pruned(absent: Iterable[int], index: LiveIndex, origins: Origins, gaps: Gaps, outcome: Outcome) -> list[str]:
    """Returns the ids of the entities to remove, and counts the others with the reasons why they stay."""
    pruned = list[str]()
    for row in absent:
        entity = index.entity(row)
        if reason := origins.why_kept(entity, gaps):
            count, first = outcome.stay.get(reason, (0, entity.id))
            outcome.stay[reason] = count + 1, first
        else:
            pruned.append(entity.id)
    outcome.pruned, outcome.not_in_file = len(pruned), outcome.not_in_file - len(pruned)
    return pruned


def _from(entity: Entity, index: LiveIndex, origins: Origins) -> Entity:
    """Returns an entity with its source, which stays as it was in the index if it is of the same knowledge base."""
    row, known = own_row(index, entity.id), "" if origins.has("") else origins.source
    old = known if row is None else index.entity(row).source
    return replace(entity, source=old if origins.has(old) else known)


@dataclass
class Outcome:
    """What an update did, in numbers of entities.

    Attributes:
        added: New ones.
        replaced: Changed ones.
        unchanged: Ones that the index has as they are.
        images_kept: Ones whose image is not there now, and that keep those of the index.
        images_lost: Ones that no longer name their image.
        images: Problems with the main images of new ones.
        pruned: Ones of the index that were removed.
        not_in_file: Other ones of the index that were not read.
        stay: How many of them were to be pruned, and the first one's id, by the reasons why they were not.
        replaced_from: How many replaced ones were from another source, and the first one's id, by its name.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    images_kept: int = 0
    images_lost: int = 0
    images: ImageSummary = field(default_factory=ImageSummary)
    pruned: int = 0
    not_in_file: int = 0
    stay: dict[str, tuple[int, str]] = field(default_factory=dict)
    replaced_from: dict[str, tuple[int, str]] = field(default_factory=dict)

    def counts(self) -> dict[str, Any]:
        """Returns the numbers, and the reasons with theirs, for JSON."""
        return {name: value for name, value in vars(self).items() if name != "images"}

    def count(self, article: Article, index: LiveIndex, origins: Origins) -> None:
        """Counts an article that is new or has changed."""
        row = own_row(index, article.entity.id)
        if row is None:
            if article.main.problem is not None:
                self.images.add(image_problem(self.added, article.entity, article.main))
            self.added += 1
            return
        self.replaced += 1
        self.images_lost += article.image is None and _has_image(index, row)
        if not origins.has(old := index.entity(row).source):
            count, first = self.replaced_from.get(origins.named(old), (0, article.entity.id))
            self.replaced_from[origins.named(old)] = count + 1, first


@dataclass
class _Comparison:
    """What a knowledge base has for the entities of an index.

    Attributes:
        shown: Entities of both that have an image in the index.
        absent: Those of them whose image is not there now.
        unnamed: Those of them that name no image now, although the old one is there.
        first: The id of the first entity whose image is absent or not named.
        rows: Rows of the entities of both.
    """

    shown: int = 0
    absent: int = 0
    unnamed: int = 0
    first: str = ""
    rows: set[int] = field(default_factory=set)


def _compare(entities: Iterable[Entity], index: LiveIndex, source: ImageSource | None, origins: Origins) -> _Comparison:
    """Compares a knowledge base with an index; decodes no image."""
    found = _Comparison()
    for entity in entities:
        row = own_row(index, entity.id)
        origins.add(entity, row)
        if row is None:
            continue
        found.rows.add(row)
        if not _has_image(index, row):
            continue
        found.shown += 1
        if source is None or find_main(source, entity) is None:
            unnamed = _names_none(entity, index.entity(row), source)
            found.unnamed, found.absent = found.unnamed + unnamed, found.absent + (not unnamed)
            found.first = found.first or entity.id
    return found


def _has_image(index: LiveIndex, row: int) -> bool:
    """Returns whether an entity has a main image of its own, not one of a question."""
    return index.image_path(row) is not None and not index.main_is_labeled(row)


def _names_none(entity: Entity, old: Entity, source: ImageSource | None) -> bool:
    """Returns whether an entity names no image any more, although the one that it had is still there."""
    return source is not None and not any(main_candidates(entity)) and find_main(source, old) is not None


def _with_images(article: Article, editor: Editor, source: ImageSource | None) -> Article:
    """Returns an article with the images of the index if it has none now, unless it no longer names them."""
    row = own_row(editor.index, article.entity.id) if article.image is None else None
    if row is None or _names_none(article.entity, editor.index.entity(row), source):
        return article
    return keeping_images(article, editor.index)


def root_of(kb: Path, index: LiveIndex) -> Path | None:
    """Returns the folder that an index was built from if `kb` is a note or a folder inside it, judged by the ids.

    These are paths in that folder, so they would be others if `kb` were read by itself. If none of the files of `kb` is
    in the index yet, the files beside it decide. Of several possible folders, it is the one in which most files have an
    id of the index, or the outermost of these.
    """
    kb, name = kb.resolve(), index.manifest.name
    if index.manifest.inputs.kb_format in _ONE_FILE:
        return None
    for near in [kb, *islice(kb.parents, _LEVELS)]:
        files = list(islice(_files(near, within=near == kb), _SAMPLE))
        best, most = None, 0
        for root in kb.parents if kb.is_file() else [kb, *kb.parents]:
            paths = [file.relative_to(root).as_posix() for file in files if file.is_relative_to(root)]
            known = sum(any(own_row(index, id) is not None for id in (one, splitext(one)[0])) for one in paths)
            if known and known >= most:
                best, most = root, known
        if best is not None:
            return None if best == kb else best
    parents = () if name in ("", name_of(kb)) else islice(kb.parents, _LEVELS)
    return next((folder for folder in parents if folder.name == name), None)


def _files(path: Path, within: bool) -> Iterator[Path]:
    """Yields the files at a path that may be entities: all of a folder, or only those at most one folder below it."""
    found = [path] if path.is_file() else path.rglob("*") if within else chain(path.glob("*"), path.glob("*/*"))
    with suppress(OSError):  # a folder nearby, such as one of another program, is closed or vanishes
        yield from (file for file in found if file.suffix.lower() in _SUFFIXES and file.is_file())
