"""Reads knowledge bases: the files of a folder, each by its reader, as entities, in memory that does not grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby
from pathlib import Path

from indexes.knowledge.bad_entries import NoThing, SkippedEntries, unreadable
from indexes.knowledge.entity_fields import EntityFields
from indexes.knowledge.folder import Contents, contents_of, unread_in
from indexes.knowledge.groups import Groups
from indexes.knowledge.identity import Identities, is_whole_file
from indexes.knowledge.image_rules import home_of
from indexes.knowledge.ledger import Ledger
from indexes.knowledge.meanings import Images, Understood, meanings_of
from indexes.knowledge.readers import Folder, Reader
from indexes.knowledge.readers.rows import NO_ROWS
from indexes.knowledge.readers.source_file import settings_in
from indexes.knowledge.sections import DROPPED, DROPPED_BY_REFERENCE, divided, title_rule, without_lists
from indexes.knowledge.selection import Selection, without_selection
from indexes.knowledge.sources import FolderImages, open_images
from indexes.knowledge.understanding.entities import Meaning
from indexes.knowledge.understanding.fields import field_of, without_pattern
from indexes.knowledge.understanding.shapes import Context
from indexes.labeled_values import Names
from retriever.types import Entity

ENCYCLOPEDIAS = ("zim", "mediawiki", "wiki6m")
_PUBLISHED = ("evqa", "infoseek")
_NO_TITLE = "entries without a title; if it has another name, pass --map title=NAME"


def read_knowledge_base(
    path: Path,
    format: str | None = None,
    drop_sections: Sequence[str] | None = None,
    *,
    names: Names | None = None,
    keep_navigation: bool = False,
    skipped: SkippedEntries | None = None,
    ledger: Ledger | None = None,
    groups: Groups | None = None,
    only: Path | None = None,
    others: bool = False,
    contents: Contents | None = None,
) -> Iterator[Entity]:
    """Yields the entities of a knowledge base in the order of its files, holding only a few of them in memory.

    Entries that cannot be used are skipped, including those that repeat the id of an earlier entry of the same file.

    Args:
        path: The file, or the folder.
        format: The name of a reader, which then reads alone; by default, each file is read by the first that
            recognizes it.
        drop_sections: Titles of sections to drop, see `dropped_titles`.
        names: The names of an entity's fields there, if they differ from the usual ones.
        keep_navigation: Whether to keep lists of links, comments and the like on pages and in notes.
        skipped: Counts skipped entries and limits their number.
        ledger: Counts what is kept and what is left out.
        groups: Gets the group of each entity.
        only: A file or a folder inside the folder `path`; entities from elsewhere are left out.
        others: Whether to yield these, too, if their file is known (`home_of`): the same thing may be in both.
        contents: Its files, if they are already known.

    Raises:
        ValueError: The format is unknown, the file is damaged, or too many entries cannot be used. The message names
            the file, the entry and the field.
        OSError: The file cannot be read.
    """
    skipped = SkippedEntries() if skipped is None else skipped
    contents = contents_of(path, format) if contents is None else contents
    reading = _Reading(path, contents, drop_sections, names or {}, keep_navigation, ledger)
    yield from reading.entities(skipped, Groups() if groups is None else groups, only, others)
    skipped.close(path)


class _Reading:
    """One reading of a knowledge base."""

    def __init__(
        self,
        path: Path,
        contents: Contents,
        drop_sections: Sequence[str] | None,
        names: Names,
        keep_navigation: bool,
        ledger: Ledger | None,
    ) -> None:
        self._path, self._contents = path, contents
        # comparing each document with its entity takes an eighth of the time of reading rows
        self._ledger, self._compares = Ledger() if ledger is None else ledger, ledger is not None
        self._is_folder = path.is_dir()
        fields = without_pattern(without_selection(names))
        if path.suffix.lower() == ".toml" and not self._is_folder:
            fields = {**settings_in(path).get("map", {}), **fields}
        self._fields, self._unseen, self._columns = fields, set(fields), list[str]()
        self._searched = EntityFields(names)
        self._drop_sections, self._keep_navigation = drop_sections, keep_navigation
        source = open_images(None, path, contents.format) or FolderImages(contents.root, listed=False)
        self._images = Images(source, is_folder=self._is_folder)
        self._selection = Selection([self._relative(file) for file in contents.paths] if self._is_folder else [], names)
        self._identities = Identities(several=len(contents.paths) > 1)
        self._untitled: NoThing | None = None

    def entities(self, skipped: SkippedEntries, groups: Groups, only: Path | None, others: bool) -> Iterator[Entity]:
        """Yields the entities that can be used, and counts the others."""
        self._name_the_unread(skipped)
        for reader, files in self._contents.files.items():
            dropped = title_rule(dropped_titles(reader.name, self._drop_sections))
            for path, entries in groupby(self._entries(reader, files, dropped), lambda entry: entry.path):
                errors: list[Understood] = []
                count = 0
                for entry in entries:
                    place, meaning = entry.place, self._usable(entry)
                    if only is not None and not place.startswith((f"{only}/", f"{only}:")) and place != str(only):
                        if others and isinstance(meaning, Meaning) and home_of(meaning.entity)[0]:
                            yield divided(without_lists(meaning.entity, dropped))
                        continue
                    if isinstance(meaning, ValueError):
                        errors.append(entry._replace(meaning=meaning))
                    elif meaning is not None:
                        count += 1
                        skipped.total += 1
                        groups.add(reader.name, path, is_file=is_whole_file(place, path))
                        yield self._kept(meaning, entry, dropped, is_whole=reader.name in _PUBLISHED)
                    if errors and (count or not self._is_folder):
                        self._reject(errors, skipped)
                # a file of a folder without any entity is one bad entry, however many it has
                self._reject(errors[:1], skipped)
        if self._untitled is not None and not skipped.total and only is None:
            raise self._untitled
        self._searched.check(self._columns)
        for field in sorted(self._unseen if self._columns else ()):
            columns = ", ".join(dict.fromkeys(self._columns))
            raise ValueError(
                f"{self._path}: --map {field}={self._fields[field]}: no entry has it; fields are {columns}"
            )

    def _entries(self, reader: Reader, files: Sequence[Path], dropped: Callable[[str], bool]) -> Iterator[Understood]:
        """Yields the entries of a reader's files with what they mean, and looks for the fields that are named."""
        folder = Folder(self._contents.root, files, self._fields, len(self._contents.paths) == 1)
        context = Context(
            folder=self._contents.root.resolve().name,
            drops=dropped,
            keep_navigation=self._keep_navigation,
            resolve=self._images.resolve,
            measure=self._images.measure,
        )
        chosen = [file for file in files if self._is_chosen(file)]
        for entry in meanings_of(reader, chosen, folder, context, self._images):
            if (self._unseen or not self._columns) and entry.document is not None:
                values = entry.document.settings if entry.document.is_page else entry.document.values
                self._columns = self._columns or [name for name in values if not str(name).startswith("_")]
                self._unseen -= {name for name in self._unseen if field_of(values, name, self._fields)[1] is not None}
            yield entry

    def _is_chosen(self, file: Path) -> bool:
        reason = self._selection.why_not(self._relative(file)) if self._is_folder else ""
        if reason:
            self._ledger.leave_out(reason, self._relative(file), 1, "entities")
        return not reason

    def _usable(self, entry: Understood) -> Meaning | ValueError | None:
        """Returns the meaning of an entry, with a unique id, or why it is bad; `None` if it is left out on purpose."""
        place, path, document, meaning = entry
        id = meaning.entity.id if isinstance(meaning, Meaning) else ""
        if isinstance(meaning, str):
            if is_whole_file(place, path):
                self._ledger.leave_out(meaning, path, 1, "files")
                if meaning == NO_ROWS:
                    self._identities.skip()
            else:
                self._ledger.count(document, None, [(meaning, "")], [], place)
            return None
        reason = self._selection.why_not(path, id, is_entry=True)
        if not reason and isinstance(meaning, NoThing) and self._is_folder:
            reason, self._untitled = _NO_TITLE, self._untitled or meaning
        if isinstance(meaning, ValueError):
            self._identities.skip()
            if not reason:
                return meaning
        if not reason and isinstance(meaning, Meaning):
            entity = self._identities.of(meaning.entity, place, path)
            if entity is not None:
                return entity if isinstance(entity, ValueError) else replace(meaning, entity=entity)
            reason = "copies of entities in other files"
        self._ledger.leave_out(reason, id or place, 1, "entities")
        return None

    def _kept(self, meaning: Meaning, entry: Understood, dropped: Callable[[str], bool], *, is_whole: bool) -> Entity:
        """Returns an entity without the sections to drop, and counts what it has of its document."""
        kept = self._searched.added(without_lists(meaning.entity, dropped), entry.document, entry.path)
        if self._compares:
            left = set(map(id, kept.sections))
            gone = [one for one in meaning.entity.sections if id(one) not in left]
            words = chain(meaning.words, ((f"sections titled {one.title}", f"{one.title}\n{one.text}") for one in gone))
            source = meaning.entity if meaning.is_whole else entry.document
            self._ledger.count(source, kept, words, meaning.images, entry.place)
        return kept if is_whole else divided(kept)

    def _name_the_unread(self, skipped: SkippedEntries) -> None:
        contents = self._contents
        read = set(contents.paths)
        unread = unread_in(contents.root, [file for file in contents.every if file not in read])
        for reason, example, count in (*contents.left_out, *unread):
            self._ledger.leave_out(reason, example, count, "files")
        for link, count in self._contents.elsewhere.items():
            reason = "files in linked folders; read these as knowledge bases of their own"
            self._ledger.leave_out(reason, link, count, "entities")
        for inner, error in self._contents.closed.items():
            place = str(self._path / inner)
            self._reject([Understood(place, inner, None, unreadable(place, error))], skipped)

    def _reject(self, errors: list[Understood], skipped: SkippedEntries) -> None:
        for place, _, document, error in errors:
            assert isinstance(error, ValueError)
            skipped.total += 1
            self._ledger.count(document, None, [("text of entries that cannot be used", "")], [], place)
            skipped.add(self._path, place, error)
            example = f"{place}: {str(error).removeprefix(f'{place}: ')}"
            self._ledger.leave_out("entries that cannot be used", example, 1, "entities")
        errors.clear()

    def _relative(self, file: Path) -> str:
        return file.relative_to(self._contents.root).as_posix()


def dropped_titles(format: str, titles: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the titles of sections to drop from a knowledge base, in lower case; `*` matches any text.

    Only encyclopedias lose lists, since their titles mean lists there; for E-VQA's, the same sections as in the paper's
    code are dropped, so that results are comparable. The `titles` of a profile replace the default.
    """
    if titles is not None:
        return tuple(title.lower() for title in titles)
    if format in _PUBLISHED:
        return DROPPED_BY_REFERENCE
    return DROPPED if format in ENCYCLOPEDIAS else ()
