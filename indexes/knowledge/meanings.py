"""From files to what they mean: reads the documents of a reader, looks at what they share, and understands each."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, groupby, islice
from pathlib import Path
from typing import NamedTuple

from indexes.image_paths import is_remote, plain_path
from indexes.image_source import ImageSource
from indexes.knowledge.bad_entries import unreadable
from indexes.knowledge.document import Document, Heading, Part
from indexes.knowledge.identity import common_names, is_whole_file
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.published import own_entity
from indexes.knowledge.selection import language_of
from indexes.knowledge.sources import FolderImages
from indexes.knowledge.understanding.entities import Meaning, meaning_of
from indexes.knowledge.understanding.fields import field_of
from indexes.knowledge.understanding.furniture import SAMPLE, Furniture, furniture_of, pictures_of, why_no_photo
from indexes.knowledge.understanding.records import related
from indexes.knowledge.understanding.settings import SECRETS, is_account
from indexes.knowledge.understanding.shapes import Context, Shape, shape_of
from indexes.svg import size_of
from retriever.images import ImageError
from retriever.types import Entity

_Read = tuple[Path, str, Document | Entity | ValueError]  # an entry with its file and its place
_SMALL = 1 << 22  # most bytes of a table that others of its folder may refer to
_FEWEST = 3  # fewest headings of a document that are things
_ROWS = 50  # rows that determine which field is what
_NO_PAGES = {
    "redirect": "pages that lead to others",
    "no page": "files that are no pages",
    "main page": "pages that list others",
}
"""Why a page is no thing, by its setting `kind`."""


class Understood(NamedTuple):
    """What an entry means.

    Attributes:
        place: Its place, for messages.
        path: The path of its file in the knowledge base.
        document: What was read, `None` if its reader yielded an entity, or could not read it.
        meaning: The entity; why there is none; or what it is instead of a thing, such as "pages that lead to others".
    """

    place: str
    path: str
    document: Document | None
    meaning: Meaning | ValueError | str


class Images:
    """The images of a knowledge base while its documents are understood."""

    def __init__(self, source: ImageSource, *, is_folder: bool) -> None:
        self._source = source
        self._files = source.files if is_folder and isinstance(source, FolderImages) else None
        self.measure = lru_cache(maxsize=4096)(self._measured)

    def resolve(self, written: str, path: str) -> str:
        """Returns the path of an image, or its address if it is remote, from what the document at a path names."""
        if written.endswith("/") or not written:
            return ""
        if self._files is not None:
            return self._files.path_of(written, path)
        return written.partition("#")[0] if is_remote(written) else plain_path(written, path)

    def has(self, url: str) -> bool:
        """Returns whether the file of an image is there."""
        return self._source.find(url) is not None

    def _measured(self, name: str) -> tuple[int, int]:
        file = self._source.find(name)
        try:
            return (0, 0) if file is None else size_of(self._source.content(file), name)
        except ImageError:
            return 0, 0


def meanings_of(
    reader: Reader, files: Sequence[Path], folder: Folder, context: Context, images: Images
) -> Iterator[Understood]:
    """Yields what the entries of files mean, in order.

    Args:
        reader: Reads all of them.
        files: Those to read.
        folder: The folder that they are in, with all files of the reader.
        context: What is known of them; their shape and what they share is found here.
        images: The images of the knowledge base.

    Raises:
        ValueError: The only file cannot be read at all.
        OSError: The same.
    """
    context, shapes = replace(context, common=common_names(folder.files)), dict[frozenset[str], Shape]()
    path_of = lru_cache(maxsize=1)(lambda file: file.relative_to(folder.root).as_posix())
    source_of, read = _sources(reader, files), defaultdict[str, deque[tuple[Path, str]]](deque)
    for _, source in groupby(_read(reader, files, folder), lambda entry: source_of(entry)[0]):
        linked = related(_noted(source, source_of, read), folder.names)  # tables of one folder may refer to each other
        for _, entries in groupby(linked, lambda entry: read[entry[0]][0][1]):
            sample = list(islice(entries, _ROWS))
            documents = [entry for _, entry in sample if isinstance(entry, Document)]
            is_note = not reader.of_rows and any(document.parts and not document.is_page for document in documents)
            # records of many folders, all with the same fields, have one shape
            fields = frozenset(name for one in documents for name in one.values)
            if fields not in shapes:
                shapes[fields] = shape_of(documents, folder.names, images.has, is_note=is_note)
            shape = shapes[fields]
            documents = documents if reader.of_rows else _spread(documents, reader, files, folder)
            divides = describe_things(documents)
            furniture = (
                Furniture() if reader.of_rows or context.keep_navigation else furniture_of(documents, images.resolve)
            )
            known = replace(context, shape=shape, furniture=furniture)
            for place, entry in chain(sample, entries):
                path = path_of(read[place].popleft()[0])
                if not read[place]:
                    del read[place]
                if isinstance(entry, Document):
                    yield from _understood(entry, place, path, known, divides=divides)
                else:
                    yield Understood(
                        place, path, None, entry if isinstance(entry, ValueError) else Meaning(entry, is_whole=True)
                    )


def _understood(document: Document, place: str, path: str, context: Context, *, divides: bool) -> Iterator[Understood]:
    """Yields what a document means, or each of the things that it describes."""
    is_file = is_whole_file(place, path)
    for thing in things_in(document) if divides else [document]:
        id = field_of(thing.values, "id", context.shape.names)[1]
        where = f"{place} ({str(id)!r})" if isinstance(id, str | int) and not is_file else place
        meaning: Meaning | ValueError | str = _why_no_thing(thing)
        if not meaning and isinstance(thing.values.get("sections"), list) and not thing.parts:
            meaning = _own(thing, where, context)
        elif not meaning:
            meaning = meaning_of(thing, where, path, context)
        if isinstance(meaning, Meaning) and _says_nothing(thing, meaning.entity, is_file):
            meaning = "pages and notes without text"
        yield Understood(where, path, thing, meaning)


def _own(document: Document, place: str, context: Context) -> Meaning | ValueError:
    """Returns the entity of a row in the project's own format, or why it cannot be used."""
    try:
        return Meaning(
            is_whole=True, entity=own_entity({"id": document.id or None, **document.values}, place, context.shape.names)
        )
    except ValueError as error:
        return error


def _why_no_thing(document: Document) -> str:
    """Returns why a document is no entity, such as "pages that list others"; "" if it may be one."""
    if reason := _NO_PAGES.get(document.settings.get("kind", "")):
        return reason
    if not document.parts and is_account(document.values):
        return SECRETS
    kinds = {getattr(part, "kind", "") for part in document.parts}
    return kinds.pop() if len(kinds) == 1 and not document.values and not document.title else ""


def _says_nothing(document: Document, entity: Entity, is_file: bool) -> bool:
    """Returns whether a page has no text, or a note neither text nor image."""
    if entity.sections:
        return False
    # an empty file is a document without anything
    return document.is_page or (is_file and not entity.image and bool(document.parts or not document.values))


def _spread(documents: list[Document], reader: Reader, files: Sequence[Path], folder: Folder) -> list[Document]:
    """Returns a sample of all documents of a reader in the languages of `files`, also if only few of these are read."""
    alike = folder.files
    if len(files) < len(alike):
        language = {file: language_of(file.relative_to(folder.root).as_posix()) for file in alike}
        languages = {language[file] for file in files}
        alike = [file for file in alike if language[file] in languages]
    if len(alike) > len(documents):  # the first ones may be of one part of a site
        spread = alike[:: max(len(alike) // SAMPLE, 1)]
        documents = [entry for _, _, entry in _read(reader, spread, folder) if isinstance(entry, Document)]
    return documents


def _read(
    reader: Reader, files: Sequence[Path], folder: Folder
) -> Iterator[tuple[Path, str, Document | Entity | ValueError]]:
    """Yields the entries of files; one that cannot be read at all is an entry of a folder, but the end of a file."""
    for file in files:
        try:
            for place, entry in reader.read(file, folder):
                yield file, place, entry
        except (OSError, ValueError) as error:
            if folder.is_alone:
                raise
            yield file, str(file), unreadable(file, error) if isinstance(error, OSError) else error


def _sources(reader: Reader, files: Sequence[Path]) -> Callable[[_Read], tuple[str, str]]:
    """Returns a function that maps an entry to its source, and to the part of it whose entries have the same fields.

    These are a folder and a table in it, and for rows in files of their own the files of a folder, or of its siblings.
    """
    siblings = Counter(file.parent for file in files)

    @lru_cache(maxsize=1)
    def of_table(file: Path) -> tuple[str, str]:
        is_small = not file.exists() or file.stat().st_size <= _SMALL
        return str(file.parent if is_small else file), str(file)

    @lru_cache(maxsize=1)
    def of_file(file: Path) -> tuple[str, str]:
        folder = str(file.parent if siblings[file.parent] > 1 else file.parent.parent / "*")
        return folder, folder

    def source_of(entry: _Read) -> tuple[str, str]:
        file, place, _ = entry
        if not reader.of_rows:
            return "", ""
        table = of_table(file)
        return table if ": " in place.removeprefix(table[1]) else of_file(file)

    return source_of


def _noted(
    source: Iterator[_Read], source_of: Callable[[_Read], tuple[str, str]], read: dict[str, deque[tuple[Path, str]]]
) -> Iterator[Entry]:
    """Yields entries, and notes the file and the part of each in `read`."""
    for file, place, entry in source:
        read[place].append((file, source_of((file, place, entry))[1]))
        yield place, entry


def describe_things(documents: Sequence[Document]) -> bool:
    """Returns whether the headings in documents of one source are things, or only sections of illustrated articles.

    They are things if there are at least as many of them as there are other documents with pictures.
    """
    counts = [(len(things_in(document)), document) for document in documents]
    others = sum(count == 1 and bool(_photos(document.parts)) for count, document in counts)
    return sum(count for count, _ in counts if count > 1) >= others


def things_in(document: Document) -> list[Document]:
    """Returns the documents of the things that a document describes: usually only itself.

    A picture belongs to the innermost thing that it stands in. If all pictures of a document stand under headings of
    one level, and each of these has text and pictures that no other one has, each heading is a thing, whose id is that
    of the document with `#` and the heading.
    """
    levels = Counter(part.level for part in document.parts if isinstance(part, Heading))
    level = min((level for level, count in levels.items() if count >= _FEWEST), default=0)
    starts = [n for n, part in enumerate(document.parts) if isinstance(part, Heading) and part.level == level]
    if not starts or document.settings.get("og:image"):
        return [document]
    before, after = document.parts[: starts[0]], document.parts[starts[0] :]
    sections = [document.parts[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
    photos = [_photos(section) for section in sections]
    is_shared = max(Counter(url for urls in photos for url in urls).values(), default=0) > 1
    is_inside = any(isinstance(part, Heading) and part.level < level for part in after)
    if is_shared or is_inside or _photos(before) or not all(photos) or not all(map(_has_text, sections)):
        return [document]
    things = [_thing(document, section) for section in sections]
    return [replace(document, parts=before), *things] if _has_text(before) else things


def _photos(parts: Sequence[Part]) -> set[str]:
    return {picture.url for picture in pictures_of(parts) if not why_no_photo(picture.url)}


def _has_text(parts: Sequence[Part]) -> bool:
    return any(not isinstance(part, Heading) and not part.kind and getattr(part, "text", "rows") for part in parts)


def _thing(document: Document, parts: list[Part]) -> Document:
    title = getattr(parts[0], "text", "")
    anchor = "-".join(title.split())
    return replace(document, parts=parts, values={}, id=f"{document.id}#{anchor}", title=title, names=(), settings={})
