"""Knowledge bases in the formats they are published in, one reader per file; docs/data-formats.md describes them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from indexes.knowledge.file_names import sorted_files, unread_folders
from indexes.knowledge.formats.fields import Names, without_pattern
from indexes.knowledge.formats.guess import PACKED, READABLE
from indexes.knowledge.formats.guess import guess_format as guess_format
from indexes.knowledge.formats.json_rows import json_files
from indexes.knowledge.formats.jsonl import read_jsonl
from indexes.knowledge.formats.losses import Losses, words_in
from indexes.knowledge.formats.markdown import read_markdown
from indexes.knowledge.formats.mediawiki import read_mediawiki
from indexes.knowledge.formats.note_files import MARKDOWN, article_files, text_files
from indexes.knowledge.formats.parquet import read_parquet
from indexes.knowledge.formats.published import read_evqa, read_wiki6m
from indexes.knowledge.formats.reading import Entry, Reading, SeenHashes, SkippedEntries, unreadable
from indexes.knowledge.formats.selection import Selection, without_selection
from indexes.knowledge.formats.source_file import hash_huggingface, hash_sql, read_huggingface, read_sql
from indexes.knowledge.formats.table import read_table
from indexes.knowledge.formats.website import page_files, read_website
from indexes.knowledge.formats.xml_rows import read_xml, xml_files
from indexes.knowledge.formats.zim import read_zim, zim_parts
from indexes.knowledge.ids import hash_id
from indexes.knowledge.sections import DROPPED, DROPPED_BY_REFERENCE, FACTS, divided, title_rule, without_lists
from retriever.files import as_line, sha256_of
from retriever.texts import is_unicode
from retriever.types import Entity, Section

Reader = Callable[[Path, Reading], Iterator[Entry]]
"""Yields each entity with its place in the file or, if an entry cannot be used, its place and the reason; counts what
it leaves out of an entity. Raises `ValueError` if the file cannot be read at all, if an extra is not installed, or if
no entry has a field that `Reading.names` names."""

FORMATS: dict[str, Reader] = {
    "evqa": read_evqa,
    "infoseek": read_evqa,  # the 100K subset has E-VQA's format
    "wiki6m": read_wiki6m,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "csv": read_table,
    "mediawiki": read_mediawiki,
    "xml": read_xml,
    "markdown": read_markdown,
    "zim": read_zim,
    "website": read_website,
    "sql": read_sql,
    "huggingface": read_huggingface,
}
_TWICE = "every entity needs its own"
_ENCYCLOPEDIAS = ("zim", "mediawiki", "wiki6m")
_SUFFIXES = (".md", ".markdown", ".mdx", ".qmd", ".rmd", ".html", ".htm", ".xhtml", ".json", ".jsonl", ".yml", ".xml")
"""The extensions of files in folders that are knowledge bases."""
_FILES = {"markdown": article_files, "website": page_files}  # the files of formats with an entity in each
OWN_IMAGES = frozenset({"markdown", "zim", "website", "huggingface"})  # formats that contain their images


def read_knowledge_base(
    path: Path,
    format: str | None = None,
    drop_sections: Sequence[str] | None = None,
    *,
    names: Names | None = None,
    keep_navigation: bool = False,
    skipped: SkippedEntries | None = None,
    losses: Losses | None = None,
    only: Path | None = None,
) -> Iterator[Entity]:
    """Yields the entities of a knowledge base in the file's order, holding only a few of them in memory.

    Entries that cannot be used are skipped, including those that repeat the id of an earlier entry.

    Args:
        path: The file, or the folder.
        format: A key of `FORMATS`; guessed if `None`.
        drop_sections: Titles of sections to drop, see `dropped_titles`.
        names: The names of an entity's fields there, if they differ from the usual ones.
        keep_navigation: Whether to keep lists of links, comments and the like on pages and in notes.
        skipped: Counts skipped entries and limits their share; by default to 1 %.
        losses: Counts what is kept and what is left out.
        only: A file or a folder inside the folder `path`; entities from elsewhere are left out.

    Raises:
        ValueError: The format is unknown, the file is damaged, or too many entries cannot be used. The message names
            the file, the entry and the field.
        OSError: The file cannot be read.
    """
    format = format or guess_format(path)
    reader = FORMATS.get(format)
    if reader is None:
        raise ValueError(f"knowledge base format {format!r} is unknown; use one of {', '.join(FORMATS)}")
    skipped = SkippedEntries() if skipped is None else skipped
    dropped = title_rule(dropped_titles(format, drop_sections))
    seen = SeenHashes()
    ledger = Losses() if losses is None else losses
    selection = Selection(path, _files_of(path, format) if path.is_dir() else (), names or {}, ledger)
    fields = without_pattern(without_selection(names or {}))
    closed, elsewhere = unread_folders(path, _SUFFIXES)
    for link, count in elsewhere.items():
        ledger.leave_out("files in linked folders; read these as knowledge bases of their own", link, count, "entities")
    if others := _files_beside(path, format):
        first = others[0].relative_to(path).as_posix()
        ledger.leave_out("files of other formats, each a knowledge base of its own", first, len(others), "files")
    refused = ((str(path / inner), unreadable(path / inner, error)) for inner, error in closed.items())
    reading = Reading(fields, ledger, dropped, keep_navigation, selection.has_file)
    for where, entry in _one_by_one(chain(refused, reader(path, reading)), ledger):
        if only is not None and not where.startswith((f"{only}/", f"{only}:")) and where != str(only):
            ledger.forget()
            continue
        if not selection.has(where, entry.id if isinstance(entry, Entity) else ""):
            ledger.forget()
            continue
        skipped.total += 1
        ledger.at(where)
        if not isinstance(entry, ValueError) and (reason := _unusable(entry, seen)):
            ledger.reject("text of entries that cannot be used", entry)
            several = "; to read one file: --only FILE" if ": " in where and path.is_dir() else ""
            entry = ValueError(f"{where}: {reason}{several if reason.endswith(_TWICE) else ''}")
        if isinstance(entry, ValueError):
            ledger.reject("text of entries that cannot be used")
            skipped.add(path, where, entry)
            ledger.leave_out("entries that cannot be used", str(entry).removeprefix(f"{where}: "), unit="entities")
            continue
        kept = without_lists(entry, dropped)
        if losses is not None:
            losses.keep_entity(kept)
            gone = (one for one in entry.sections if one not in kept.sections) if kept is not entry else ()
            for section in gone:
                _leave_out(losses, f"sections titled {section.title}", (section,), entry.title)
        yield kept if reader is read_evqa else divided(kept)
    skipped.close(path)


def _one_by_one(entries: Iterable[Entry], ledger: Losses) -> Iterator[Entry]:
    """Yields entries; the ledger begins each anew."""
    for entry in entries:
        yield entry
        ledger.next_entry()


def _files_beside(path: Path, format: str) -> list[Path]:
    """Returns the files in a folder that could be knowledge bases, but are not read as a format."""
    if not path.is_dir():
        return []
    read = _files_of(path, format)
    suffixes = {file.suffix.lower() for file in read}.union(MARKDOWN)  # notes beside others describe the folder
    others = [file for file in sorted_files(path, READABLE) if file.suffix.lower() not in suffixes]
    return others + [file for file in text_files(path) if ".txt" not in suffixes]


def _unusable(entity: Entity, seen: SeenHashes) -> str:
    """Returns why an entity cannot be used, "" if it can; its id is then seen."""
    if place := _unpaired_surrogate(entity):
        return f"{place}: not valid Unicode (surrogates not allowed)"
    if not entity.id:
        return "field 'id' is empty"
    if not seen.add(hash_id(entity.id)):
        return f"field 'id': {entity.id!r} occurs a second time; {_TWICE}"
    return ""


def _leave_out(losses: Losses, reason: str, sections: Iterable[Section], title: str) -> None:
    """Counts sections that are left out, with those of their titles that are not just the entity's."""
    for one in sections:
        losses.leave_out(reason, one.text, words_in([one.text, "" if one.title in (title, FACTS) else one.title]))


def _unpaired_surrogate(entity: Entity) -> str:
    """Returns where an entity has an unpaired surrogate, which JSON can express but UTF-8 cannot; "" if nowhere.

    Fields of the usual formats are checked by name when they are read, but any field of a row can end up in a section.
    """
    texts: dict[str, Iterable[str]] = {
        **{"id": (entity.id,), "title": (entity.title,), "url": (entity.url,), "image": (entity.image or "",)},
        **{"names": entity.names, "images": (f"{one.url} {one.caption}" for one in entity.images)},
    }
    for field, values in texts.items():
        if not all(map(is_unicode, values)):
            return f"field {field!r}"
    parts = (part for part in entity.sections if not (is_unicode(part.title) and is_unicode(part.text)))
    return next((f"section {part.title!r}" for part in parts), "")


def dropped_titles(format: str, given: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the titles of sections to drop from a knowledge base, in lower case; `*` matches any text.

    Only encyclopedias lose lists, since their titles mean lists there; for E-VQA's, the same sections as in the paper's
    code are dropped, so that results are comparable. Titles `given` by the profile replace the default.
    """
    default: tuple[str, ...] = DROPPED if format in _ENCYCLOPEDIAS else ()
    if FORMATS.get(format) is read_evqa:
        default = DROPPED_BY_REFERENCE
    return default if given is None else tuple(title.lower() for title in given)


def name_of(path: Path) -> str:
    """Returns the name of a knowledge base: its file name without the extensions for format and compression."""
    return Path(path.stem).stem if path.suffix in PACKED else path.stem


def hash_knowledge_base(path: Path, format: str, names: Names | None = None) -> str:
    """Returns the SHA-256 of a knowledge base's file or, for a folder, of its articles' names and hashes.

    The given names of fields are included, because they change what is read.
    """
    files = _files_of(path, format)
    rows = {"sql": hash_sql, "huggingface": hash_huggingface}.get(format)
    if files == [path] and not names and rows is None:
        return sha256_of(path)
    digest = hashlib.sha256(b"" if rows is None else rows(path).encode())
    for file in files:
        digest.update(as_line([file.relative_to(path if path.is_dir() else path.parent).as_posix(), _hash_of(file)]))
    if names:
        digest.update(as_line(dict(sorted(names.items()))))
    return digest.hexdigest()


def _files_of(path: Path, format: str) -> list[Path]:
    """Returns the files of a knowledge base."""
    listed = (_FILES | {"zim": zim_parts}).get(format)
    if listed is None and path.is_dir():
        listed = xml_files if format == "xml" else json_files
    return [path] if listed is None else listed(path)


def _hash_of(file: Path) -> str:
    """Returns the SHA-256 of a file in a folder; one that may not be read is a bad entry, not the end."""
    try:
        return sha256_of(file)
    except PermissionError:
        return "unreadable"
