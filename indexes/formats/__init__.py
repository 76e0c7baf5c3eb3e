"""Knowledge bases in the formats they are published in, one reader per file; docs/knowledge-bases.md describes them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from indexes.formats.evqa import is_evqa, read_evqa
from indexes.formats.fields import Names
from indexes.formats.huggingface import hash_huggingface, read_huggingface
from indexes.formats.json_rows import first_row, json_files
from indexes.formats.jsonl import read_jsonl
from indexes.formats.markdown import article_files, read_markdown
from indexes.formats.mediawiki import read_mediawiki
from indexes.formats.parquet import read_parquet
from indexes.formats.skipped import Entry, SeenHashes, SkippedEntries
from indexes.formats.source_file import HELP, format_of
from indexes.formats.sql import hash_sql, read_sql
from indexes.formats.streams import inner_name, is_pointer
from indexes.formats.table import read_table
from indexes.formats.website import page_files, read_website
from indexes.formats.wiki6m import read_wiki6m
from indexes.formats.xml_rows import read_xml, root_of
from indexes.formats.zim import is_zim, read_zim, zim_parts
from indexes.ids import hash_id
from indexes.images import IMAGE_SUFFIXES
from indexes.sections import DROPPED, DROPPED_BY_REFERENCE, title_rule, without_lists
from retriever.files import as_line, sha256_of
from retriever.types import Entity
from retriever.wording import counted

Reader = Callable[[Path, Names], Iterator[Entry]]
"""Yields each entity with its place in the file; in the place of one that cannot be used, the reason."""

FORMATS: dict[str, Reader] = {
    "evqa": read_evqa,
    "infoseek": read_evqa,  # the 100K subset has E-VQA's form
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
OWN_IMAGES = frozenset({"markdown", "zim", "website", "huggingface"})
"""Formats that hold their images themselves."""

_EXTENSIONS = {".json": "evqa", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".zim": "zim"} | {
    **dict.fromkeys((".yml", ".yaml"), "jsonl"),
    ".csv": "csv",
    ".tsv": "csv",
    ".xml": "mediawiki",
}
_PACKED = (".gz", ".bz2", ".zip")
_SHEETS = (".xlsx", ".xls", ".ods", ".numbers")


def read_knowledge_base(
    path: Path,
    format: str | None = None,
    drop_sections: Sequence[str] | None = None,
    *,
    names: Names | None = None,
    skipped: SkippedEntries | None = None,
) -> Iterator[Entity]:
    """Yields the entities of a knowledge base in the file's order, holding only a few of them in memory.

    Entries that cannot be used are skipped, among them any whose id an earlier one has.

    Args:
        path: The file, or the folder.
        format: A key of `FORMATS`; guessed when `None`.
        drop_sections: Titles of sections to drop, see `dropped_titles`.
        names: The names that the fields of an entity have there, where they are not the usual ones.
        skipped: Counts the entries that are skipped, and says how many may be; by default 1 %.

    Raises:
        ValueError: The format is unknown, the file is damaged, or too many entries cannot be used. The message names
            file, entry and field.
        OSError: The file cannot be read.
    """
    format = format or guess_format(path)
    reader = FORMATS.get(format)
    if reader is None:
        raise ValueError(f"knowledge base format {format!r} is unknown: use one of {', '.join(FORMATS)}")
    skipped = SkippedEntries() if skipped is None else skipped
    dropped = title_rule(dropped_titles(format, drop_sections))
    seen = SeenHashes()
    for where, entry in reader(path, names or {}):
        skipped.total += 1
        if isinstance(entry, ValueError):
            skipped.add(path, where, entry)
        elif place := _unpaired_surrogate(entry):
            skipped.add(path, where, ValueError(f"{where}: {place}: not valid Unicode (surrogates not allowed)"))
        elif not entry.id:
            skipped.add(path, where, ValueError(f"{where}: field 'id' is empty"))
        elif not seen.add(hash_id(entry.id)):
            reason = f"field 'id': {entry.id!r} occurs a second time; every entity needs its own"
            skipped.add(path, where, ValueError(f"{where}: {reason}"))
        else:
            yield without_lists(entry, dropped)
    skipped.close(path)


def _unpaired_surrogate(entity: Entity) -> str:
    """Returns where an entity has an unpaired surrogate, which JSON can spell and no file can hold; "" if it has none.

    Fields of the usual formats are checked by name when they are read, but any field of a row can end up in a section.
    """
    texts: dict[str, Iterable[str]] = {
        **{"id": (entity.id,), "title": (entity.title,), "url": (entity.url,), "image": (entity.image or "",)},
        **{"names": entity.names, "images": (f"{one.url} {one.caption}" for one in entity.images)},
    }
    for field, values in texts.items():
        if not all(map(_is_writable, values)):
            return f"field {field!r}"
    parts = (part for part in entity.sections if not (_is_writable(part.title) and _is_writable(part.text)))
    return next((f"section {part.title!r}" for part in parts), "")


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def dropped_titles(format: str, given: Sequence[str] | None = None) -> tuple[str, ...]:
    """Returns the titles of sections to drop from a knowledge base, in lower case; `*` matches any text.

    Args:
        format: Its format. E-VQA's own drops what the paper's code drops, so that results can be compared.
        given: The titles that the profile sets instead, if it does.
    """
    default = DROPPED_BY_REFERENCE if FORMATS.get(format) is read_evqa else DROPPED
    return default if given is None else tuple(title.lower() for title in given)


def guess_format(path: Path) -> str:
    """Returns the format of a knowledge base: a folder is Markdown or a website; of a file, extension or content tells.

    A folder of pages whose only Markdown is README files is a website.

    JSON that is a list, or has one object per line, is read as JSON lines, and JSON lines whose first line has a
    `wikidata_id` are Wiki6M's. In `.gz` and `.zip` files the file inside counts.

    Raises:
        ValueError: Neither extension nor content is known, or a ZIP archive holds several files.
    """
    if path.is_dir():
        return _guess_folder(path)
    name = Path(inner_name(path)) if path.suffix == ".zip" else path.with_suffix("") if path.suffix in _PACKED else path
    found = _EXTENSIONS.get(name.suffix.lower())
    if name.suffix.lower() == ".toml":
        return format_of(path)
    if name.suffix.lower() in (".db", ".sqlite", ".sqlite3"):
        raise ValueError(f"{path}: a database; write a file {path.stem}.toml beside it: {HELP}")
    if name.suffix.lower() == ".sql":
        raise ValueError(f"{path}: a dump of a database; load it into one, and write a file {path.stem}.toml: {HELP}")
    if name.suffix.lower() in _SHEETS:
        raise ValueError(f"{path}: a spreadsheet; save it as CSV in UTF-8, one file per sheet")
    if found is None:
        if is_zim(path):
            return "zim"
        known = ", ".join(f"{extension} ({name})" for extension, name in _EXTENSIONS.items())
        raise ValueError(f"{path}: unknown extension; known are {known}; name the format with --kb-format")
    if not path.is_file():
        return found
    if is_pointer(path):
        raise ValueError(f"{path}: is a Git LFS pointer, not the file itself; fetch the file with: git lfs pull")
    if found == "mediawiki" and root_of(path) not in ("mediawiki", ""):
        return "xml"
    if found not in ("evqa", "jsonl"):
        return found
    if found == "evqa":
        return "evqa" if is_evqa(path) else "jsonl"
    row = first_row(path)
    return "wiki6m" if row is not None and "wikidata_id" in row else "jsonl"


def _guess_folder(path: Path) -> str:
    articles, pages = article_files(path), page_files(path)
    if articles and not (pages and all(file.stem.lower() == "readme" for file in articles)):
        return "markdown"
    if pages:  # beside which a README is about the repository
        return "website"
    known = {*_EXTENSIONS, ".toml"} - {".json", ".jsonl", ".ndjson", ".yml", ".yaml"}
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in known)
    if not files and json_files(path):
        return "jsonl"
    if files:  # such as a table that describes the images in its folder
        raise ValueError(f"{path}: a folder without Markdown or pages; name the file in it: {files[0]}")
    images = sum(file.suffix.lower() in IMAGE_SUFFIXES for file in path.rglob("*"))
    reason = "is empty" if not any(path.iterdir()) else "holds no Markdown, pages, JSON or YAML"
    if images:
        reason += f"; describe its {counted(images, 'image')} in a table, as in images.csv with title,image,text"
    raise ValueError(f"{path}: the folder {reason}")


def name_of(path: Path) -> str:
    """Returns the name of a knowledge base: its file's, without the extensions of format and compression."""
    return Path(path.stem).stem if path.suffix in _PACKED else path.stem


def hash_knowledge_base(path: Path, format: str, names: Names | None = None) -> str:
    """Returns the SHA-256 of a knowledge base's file, or for a folder of its articles' names and hashes.

    The names of fields that are given count too, because they change what is read.
    """
    if format == "markdown":
        files = article_files(path)
    elif format == "website":
        files = page_files(path)
    elif format == "zim":
        files = zim_parts(path)
    elif path.is_dir():
        files = json_files(path)
    else:
        files = [path]
    rows = {"sql": hash_sql, "huggingface": hash_huggingface}.get(format)
    if files == [path] and not names and rows is None:
        return sha256_of(path)
    digest = hashlib.sha256(b"" if rows is None else rows(path).encode())
    for file in files:
        digest.update(as_line([file.relative_to(path if path.is_dir() else path.parent).as_posix(), sha256_of(file)]))
    if names:
        digest.update(as_line(dict(sorted(names.items()))))
    return digest.hexdigest()
