"""Guesses the format of a knowledge base from its name and content, or says how to convert an unsupported one."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain, islice
from pathlib import Path

from indexes.knowledge.file_names import sorted_files
from indexes.knowledge.formats.encodings import encoding_of
from indexes.knowledge.formats.json_rows import first_row, json_files
from indexes.knowledge.formats.note_files import markdown_files, text_files
from indexes.knowledge.formats.published import is_evqa
from indexes.knowledge.formats.source_file import HELP, format_of
from indexes.knowledge.formats.streams import inner_name, opened
from indexes.knowledge.formats.website import page_files
from indexes.knowledge.formats.xml_rows import root_of, xml_files
from indexes.knowledge.formats.zim import is_zim
from indexes.knowledge.image_names import IMAGE_SUFFIXES
from retriever.files import is_pointer
from retriever.wording import counted

PACKED = (".gz", ".bz2", ".zip")

_EXTENSIONS = {".json": "evqa", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".zim": "zim"} | {
    **dict.fromkeys((".yml", ".yaml"), "jsonl"),
    ".csv": "csv",
    ".tsv": "csv",
    ".xml": "mediawiki",
}
_PANDOC = "convert it to Markdown, as with: pandoc {name} --to gfm --extract-media . --output {stem}.md"
_TIDDLERS = "tiddlywiki . --rendertiddlers '[!is[system]]' $:/core/templates/static.tiddler.html static text/html"
_ADVICE = (
    {".db": f"a database; write a file {{stem}}.toml beside it: {HELP}"}
    | {".sql": f"a dump of a database; load it into one, and write a file {{stem}}.toml: {HELP}"}
    | {".xlsx": "a spreadsheet; save it as CSV in UTF-8, one file per sheet"}
    | {".rst": f"reStructuredText; build its pages, as with sphinx-build, or {_PANDOC}"}
    | {".adoc": "AsciiDoc; make pages of it, as with: asciidoctor --destination-dir pages {name}"}
    | {".docx": f"a document; {_PANDOC}"}
    | {".ipynb": "a notebook; convert it to Markdown, as with: jupyter nbconvert --to markdown {name}"}
    | {".ttl": "RDF; query it with SPARQL, and save the results as CSV or JSON"}
    | {".pdf": "a PDF; convert it to Markdown or HTML"}
    | {".tid": f"a tiddler; make pages, as with: {_TIDDLERS}"}
    | {".bib": "a bibliography; make rows of it, as with: pandoc {name} --to csljson --output {stem}.json"}
    | {".feather": "a data frame; save it as Parquet, in pandas: read_feather('{name}').to_parquet('{stem}.parquet')"}
    | {".shp": "geodata; make GeoJSON of it, as with: ogr2ogr {stem}.geojson {name}"}
    | {".pkl": "a pickle, which could run programs; save its data as JSON or Parquet"}
    | {".epub": "a book; unpack it, and name the folder: unzip {name} -d {stem}"}
    | {".tar": "an archive; unpack it, and name the file or the folder in it"}
    | {".md": "one article; name the folder that it is in"}
)
"""Descriptions of unsupported files, and how to convert them, by extension."""
_ALIKE = {
    ".db": (".sqlite", ".sqlite3"),
    ".xlsx": (".xls", ".ods", ".numbers"),
    ".adoc": (".asciidoc", ".asc"),
    ".docx": (".odt", ".rtf", ".org", ".tex", ".textile", ".doc", ".fb2", ".mediawiki", ".creole", ".opml", ".typ"),
    ".feather": (".arrow",),
    ".shp": (".gpkg",),
    ".pkl": (".pickle",),
    ".ttl": (".nt", ".n3", ".nq", ".trig"),
    ".tar": (".tgz", ".7z", ".rar", ".xz", ".zst"),
    ".md": (".markdown", ".mdx", ".qmd", ".rmd", ".html", ".htm", ".xhtml"),
}
_ADVICE |= {other: _ADVICE[known] for known, others in _ALIKE.items() for other in others}
READABLE = (*_EXTENSIONS, *_ADVICE)
"""Extensions of files that are a knowledge base of their own, or can become one."""
_DOCUMENTS = (
    *(".rst", ".adoc", ".asciidoc", ".asc", ".org", ".tex", ".textile", ".docx", ".odt", ".ipynb", ".tid"),
    *(".mediawiki", ".creole", ".typ"),
)
"""Extensions of unsupported articles; a folder with more of them than of supported ones is refused."""
_TABLES = (".txt", ".tab", ".dat")
_COLUMNS = {"|": 1, ";": 1, ",": 2}
"""Column separators, each with its minimum number per line of a table; prose has commas, too."""
_LONGEST = 1 << 16
_WIKI_HEADING = re.compile(rb"^(={2,6})[^=\n]*[^=\s][^=\n]*\1[ \t]*$", re.MULTILINE)


def guess_format(path: Path) -> str:
    """Returns the format of a knowledge base, from the files of a folder or from a file's extension or content.

    A folder is Markdown, a website, JSON or XML. If it has pages or JSON and its only Markdown is README files, it is a
    website or JSON. Text files are read like Markdown if there is nothing else.

    JSON that is a list, or has one object per line, is read as JSON lines, and JSON lines whose first line has a
    `wikidata_id` as Wiki6M. For `.gz` and `.zip` files, the file inside is examined. Files with other extensions are
    JSON, XML or a table if they look like one.

    Raises:
        ValueError: The format is unknown or unsupported, or a ZIP archive contains several files. The message says what
            to do with the file.
    """
    if path.is_dir():
        return _guess_folder(path)
    name = path
    if path.suffix == ".zip":
        name = Path(inner_name(path))
    elif path.suffix in PACKED:
        name = path.with_suffix("")
    suffix = name.suffix.lower()
    if suffix == ".toml":
        return format_of(path)
    if suffix in _ADVICE:
        raise ValueError(f"{path}: {_advice(name)}")
    if path.is_file() and is_pointer(path):
        raise ValueError(f"{path}: is a Git LFS pointer, not the file itself; fetch the file with: git lfs pull")
    found = _EXTENSIONS.get(suffix) or _by_content(path)
    if found is None:
        known = ", ".join(_EXTENSIONS)
        raise ValueError(
            f"{path}: unknown extension; known are folders of Markdown (.md) or pages (.html), and files {known}; "
            "name the format with --kb-format"
        )
    if not path.is_file():
        return found
    if found == "mediawiki" and root_of(path) not in ("mediawiki", ""):
        return "xml"
    if found not in ("evqa", "jsonl"):
        return found
    if found == "evqa":
        return "evqa" if is_evqa(path) else "jsonl"
    row = first_row(path)
    return "wiki6m" if row is not None and "wikidata_id" in row else "jsonl"


def _by_content(path: Path) -> str | None:
    """Returns the format that a file with another extension looks like, such as GeoJSON, KML or a `.txt` table."""
    if is_zim(path):
        return "zim"
    if not path.is_file():
        return None
    try:
        with opened(path) as file:
            start = file.read(_LONGEST)
    except PermissionError:  # the reader will report it
        return None
    text = start.decode(encoding_of(start), "replace").lstrip("\ufeff\n\r ")
    first, second = islice(chain(filter(None, text.splitlines()), ("", "")), 2)
    if text[:1] in ("{", "["):
        return "evqa"
    if text[:1] == "<" and root_of(path) not in ("", "html"):
        return "mediawiki"
    is_table = any(first.count(sign) == second.count(sign) >= least for sign, least in _COLUMNS.items())
    return "csv" if (is_table or ("\t" in first and "\t" in second)) and "\0" not in first else None


def _guess_folder(path: Path) -> str:
    articles, pages, rows = markdown_files(path), page_files(path), json_files(path)
    visible = sorted_files(path, ("",))
    unread = Counter(file.suffix.lower() for file in visible if file.suffix.lower() in _DOCUMENTS)
    if unread.total() > len(articles) + len(pages):
        ((suffix, count),) = unread.most_common(1)
        raise ValueError(f"{path}: holds {counted(count, 'file')} *{suffix}, {_advice(Path('FILE' + suffix))}")
    known = {*_EXTENSIONS, ".toml"} - {".json", ".jsonl", ".ndjson", ".yml", ".yaml"}
    own_files = [file for file in visible if file.is_file()]
    beside = [file for file in own_files if file.parent == path] or own_files
    tables = [file for file in beside if file.suffix.lower() in _TABLES and _by_content(file) == "csv"]
    files = [file for file in beside if file.suffix.lower() in known] + tables
    own = [file for file in articles if file.stem.lower() != "readme"]
    # A README next to pages or data describes the repository.
    if own or (len(articles) > 1 and not pages) or (articles and not (pages or rows or files)):
        return "markdown"
    if pages:
        return "website"
    if not files and rows:
        return "jsonl"
    if len(records := xml_files(path)) > 1 and all(file in records for file in files):
        return "xml"
    if files:  # such as a table that describes the images in its folder
        which = "the file in it:" if len(files) == 1 else f"one of its {len(files)} files, such as"
        largest = max(files, key=lambda file: file.stat().st_size)
        raise ValueError(f"{path}: a folder without Markdown or pages; name {which} {largest}")
    if texts := text_files(path):
        if 2 * sum(map(_is_wikitext, texts)) > len(texts):
            how = f"pandoc {texts[0].name} --from dokuwiki --to gfm --output {texts[0].stem}.md"
            raise ValueError(
                f"{path}: texts in a wiki's markup; convert them to Markdown, as with: {how} (or mediawiki)"
            )
        return "markdown"
    images = sum(file.suffix.lower() in IMAGE_SUFFIXES for file in visible)
    reason = "is empty" if not any(path.iterdir()) else "holds no Markdown, pages, JSON, YAML or texts"
    suffixes = Counter(file.suffix.lower() for file in visible if file.is_file() and file.suffix)
    if not images and suffixes:
        ((suffix, count),) = suffixes.most_common(1)
        reason += f", but {counted(count, 'file')} *{suffix}"
    if images:
        reason += f"; describe its {counted(images, 'image')} in a table, as in images.csv with title,image,text"
    raise ValueError(f"{path}: the folder {reason}")


def _is_wikitext(file: Path) -> bool:
    """Returns whether a text file has headings like those of DokuWiki and MediaWiki."""
    try:
        with file.open("rb") as opened:
            return _WIKI_HEADING.search(opened.read(_LONGEST)) is not None
    except OSError:  # the reader will report it
        return False


def _advice(name: Path) -> str:
    """Returns a description of an unsupported file, and how to convert it."""
    return _ADVICE[name.suffix.lower()].format(name=name.name, stem=name.stem)
