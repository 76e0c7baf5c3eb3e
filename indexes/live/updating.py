"""Updates an index from a knowledge base; compares both first, so that no image and no entity is lost unsaid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from posixpath import splitext
from typing import Protocol

from indexes.knowledge.article_images import note_unsearched
from indexes.knowledge.sources import ImageSource, find_main, main_candidates
from indexes.live.editor import Article, Editor, article_of, own_row
from indexes.live.index import LiveIndex
from retriever.types import Entity
from retriever.wording import counted

_WITH_PATHS = ("markdown", "website", "jsonl", "xml")
"""Formats in which a folder's files have their paths as ids."""
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
    *,
    batch: int = 32,
    accept_missing: bool = False,
    prune: bool = False,
    notes: list[str] | None = None,
) -> dict[str, int]:
    """Adds the entities of a knowledge base, or replaces those with the same ids, and returns what it did.

    An entity whose image is not there now keeps the images that it has in the index. If it names none any more,
    although the file is still there, it loses them.

    Args:
        editor: The index.
        read: Reads the knowledge base.
        source: Its images.
        batch: Number of articles at a time.
        accept_missing: Whether to go on if more than half of the images are not there.
        prune: Whether to remove the entities of the index that the knowledge base does not have.
        notes: Receives a sentence on the images of articles that are not searched, if there are any, as in a build.

    Raises:
        ValueError: More than half of the images are not there, or `prune` would remove all entities. Nothing is
            changed.
    """
    index, found = editor.index, _compare(read(compare=True), editor.index, source)
    gone = found.absent + found.unnamed
    if 2 * gone > found.shown and not accept_missing:
        raise ValueError(
            f"{gone} of {counted(found.shown, 'entity')} that have an image in the index have none now, the first "
            f"{found.first!r}; nothing was changed. Name the folder of the images with --images; if they are gone, "
            "--accept-missing changes only the texts, and the entities keep the images of the index"
        )
    absent = [row for row in index.rows() if row not in found.rows]
    if prune and len(absent) == len(index):
        raise ValueError(
            f"the knowledge base has none of the entities of the index; --prune would remove all {len(index):,}"
        )
    pruned = [index.entity(row).id for row in absent] if prune else []
    counts = dict.fromkeys(("added", "replaced", "unchanged", "images_kept", "images_lost"), 0)
    entities = note_unsearched(iter(read(compare=False)), editor.image_use.keys, [] if notes is None else notes)
    while articles := [article_of(entity, source, editor.image_use) for entity in islice(entities, batch)]:
        articles = [_with_images(article, editor, source) for article in articles]
        new = [article for article in articles if not editor.holds(article)]
        rows = [own_row(index, article.entity.id) for article in new]
        counts["added"] += rows.count(None)
        counts["replaced"] += len(rows) - rows.count(None)
        counts["unchanged"] += len(articles) - len(new)
        counts["images_kept"] += sum(bool(article.kept) for article in articles)
        lost = (row for row, article in zip(rows, new, strict=True) if row is not None and article.image is None)
        counts["images_lost"] += sum(_has_image(index, row) for row in lost)
        if new:
            editor.put(new)
    if pruned:
        editor.remove(pruned)
    return counts | {"pruned": len(pruned), "not_in_file": len(absent) - len(pruned)}


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


def _compare(entities: Iterable[Entity], index: LiveIndex, source: ImageSource | None) -> _Comparison:
    """Compares a knowledge base with an index; decodes no image."""
    found = _Comparison()
    for entity in entities:
        row = own_row(index, entity.id)
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
    return editor.keeping_images(article)


def root_of(kb: Path, index: LiveIndex) -> Path | None:
    """Returns the folder that an index was built from if `kb` is a note or a folder inside it, judged by the ids.

    These are paths in that folder, so they would be others if `kb` were read by itself. If none of the files of `kb` is
    in the index yet, the files beside it decide. Of several possible folders, it is the one in which most files have an
    id of the index, or the outermost of these.
    """
    if index.manifest.inputs.kb_format not in _WITH_PATHS:
        return None
    kb = kb.resolve()
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
    return None


def _files(path: Path, within: bool) -> Iterator[Path]:
    """Yields the files at a path that may be entities: all of a folder, or only those at most one folder below it."""
    found = [path] if path.is_file() else path.rglob("*") if within else chain(path.glob("*"), path.glob("*/*"))
    return (file for file in found if file.suffix.lower() in _SUFFIXES and file.is_file())
