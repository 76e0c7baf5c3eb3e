"""A folder is the union of its files: which reader reads which file, what no reader reads, and what is no entity."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from indexes.decoding import opened, plain_name
from indexes.image_paths import IMAGE_SUFFIXES
from indexes.knowledge.file_names import sorted_files, unread_folders
from indexes.knowledge.readers import Reader
from indexes.knowledge.readers.registry import BEGINNING, beginning_of, reader_named, readers
from indexes.knowledge.readers.source_file import settings_in
from indexes.knowledge.selection import listing_pages
from indexes.knowledge.understanding.settings import SECRETS
from retriever.wording import counted

_PANDOC = "convert it to Markdown, as with: pandoc {name} --to gfm --extract-media . --output {stem}.md"
_TIDDLERS = "tiddlywiki . --rendertiddlers '[!is[system]]' $:/core/templates/static.tiddler.html static text/html"
_ADVICE = {
    (".sql",): "a dump of a database; load it into the one that it is from, and save its tables as CSV",
    (".xlsx", ".xls", ".ods", ".numbers"): "a spreadsheet; save it as CSV in UTF-8, one file per sheet",
    (".rst",): f"reStructuredText; build its pages, as with sphinx-build, or {_PANDOC}",
    (".adoc", ".asciidoc", ".asc"): "AsciiDoc; make pages of it, as with: asciidoctor --destination-dir pages {name}",
    (".docx", ".odt", ".rtf", ".org", ".tex", ".textile", ".doc", ".fb2"): f"a document; {_PANDOC}",
    (".creole", ".opml", ".typ"): f"a document; {_PANDOC}",
    (".ipynb",): "a notebook; convert it to Markdown, as with: jupyter nbconvert --to markdown {name}",
    (".ttl", ".nt", ".n3", ".nq", ".trig"): "RDF; query it with SPARQL, and save the results as CSV or JSON",
    (".pdf",): "a PDF; convert it to Markdown or HTML",
    (".tid",): f"a tiddler; make pages, as with: {_TIDDLERS}",
    (".bib",): "a bibliography; make rows of it, as with: pandoc {name} --to csljson --output {stem}.json",
    (".feather", ".arrow"): (
        "a data frame; save it as Parquet, in pandas: read_feather('{name}').to_parquet('{stem}.parquet')"
    ),
    (".shp", ".gpkg"): "geodata; make GeoJSON of it, as with: ogr2ogr {stem}.geojson {name}",
    (".pkl", ".pickle"): "a pickle, which could run programs; save its data as JSON or Parquet",
    (
        ".zip",
        ".tar",
        ".tgz",
        ".7z",
        ".rar",
        ".xz",
        ".zst",
    ): "an archive; unpack it, and name the file or the folder in it",
}
"""Descriptions of files that are not read, and how to convert them, by extension."""
_BY_SUFFIX = {suffix: text for suffixes, text in _ADVICE.items() for suffix in suffixes}
_CODE = (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".dart", ".swift", ".kt", ".php", ".py", ".rb", ".lua")
"""Extensions of programs, in which people keep lists of things."""
_DATUM = re.compile(r"""\s*["']?\w[\w -]*["']?\s*(?:=>|:|=)\s*(?:["'`\d\[{]|-\d|true\b|false\b|null\b).*,?\s*""")
_BRACKETS = re.compile(r"\s*[\[\](){},;]*\s*(?:\w+\()?\s*[\[\](){},;]*\s*")
_FEWEST, _SHARE, _LARGEST = 30, 0.7, 1 << 24

UNREAD = tuple(_BY_SUFFIX)
"""Extensions of files that are named as not read."""

_PROJECT = re.compile(
    r"(?i:readme|licen[cs]e|changelog|contributing|code_of_conduct|(?:pull_request|issue)_template)"
    r"|COPYING|NOTICE|CHANGES|SECURITY|SUPPORT|GOVERNANCE|AUTHORS|CONTRIBUTORS|MAINTAINERS|AGENTS|CLAUDE|GEMINI"
)
"""Names of files about a project; words that notes may be about are so only in capitals."""
_PROGRAMS = re.compile(
    r"package(?:-lock)?\.json|[tj]sconfig[\w.-]*\.json|(?:composer|bower|lerna|nx|turbo|vercel|firebase|angular|eslint\w*"
    r"|renovate|babel|biome|deno|netlify|capacitor\.config|ionic\.config|tslint|ngsw-config|launchsettings|eas|app|cypress"
    r"|cspell)\.json|[\w.-]*\.config\.json"
    r"|(?:pnpm-|docker-)[\w.-]+\.ya?ml|_config[\w.-]*\.ya?ml|(?:mkdocs|pubspec|netlify|appveyor|codecov|dependabot"
    r"|_?quarto|cloudbuild|buildspec|antora|render|serverless|chart|environment|openapi|azure-pipelines|database|storage"
    r"|cable|webpacker|sidekiq)\.ya?ml|(?:nav|navigation|sidebars?)\.(?:ya?ml|json)"
    r"|(?:pom|sitemap\w*|phpunit|androidmanifest|browserconfig)\.xml"
    r"|config-[\w-]+\.csv|metadata-template\.csv|_category_\.(?:ya?ml|json)"
    r"|(?:robots|humans|llms[\w-]*|requirements[\w-]*|constraints|cmakelists|cname)\.txt",
    re.IGNORECASE,
)
"""Files that only set up programs."""
_SETTINGS = "settings of programs"
_OF_PROGRAMS = re.compile(r"(?:.*/)?(?:[^/]+\.xcassets|src/main/res(?!/raw/)|(?:test|spec)/fixtures|htmlcov)/.*")
"""Folders with the icons and texts of apps, and with what tests read and write."""
_PARTS = re.compile(r"[\w.-]+\.component\.html|(?:404|422|500)\.(?:html?|md)", re.IGNORECASE)
"""Parts of Angular's pages, and pages for errors."""
_SECRETS = re.compile(r"\.?(?:htpasswd|passwords?|credentials?|secrets)(?:\.(?:txt|ya?ml|json|csv))?", re.IGNORECASE)
"""Files of accounts and secrets."""
_TEMPLATES = frozenset(
    {"_layouts", "_includes", "_templates", "layouts", "layout", "templates", "partials", "includes", "archetypes"}
    | {"Templates", "themes", "shortcodes", "_sass", "_plugins", "node_modules"}
)
"""Folders with parts of pages that are filled in later."""
_DATA = re.compile(r".+\.(?:jsonl?|ndjson|geojson|jsonld|csv|tsv|ya?ml|xml|parquet)(?:\.gz|\.bz2)?", re.IGNORECASE)
_TAG = re.compile(
    r"\{%-?\s*(?:extends|block|include|for|if|load|set|macro|assign|render|layout|import)\b|\{\{[^{}\"]*\}\}|<%"
)
_TRANSLATIONS = frozenset({"i18n", "locales", "locale", "_locales", "intl"})
"""Folders with the texts of a program in several languages."""
_PAGES = (".html", ".htm", ".xhtml")
_FILLED = (".json", ".csv", ".xml")
_BEGINS = re.compile(r"\ufeff?\s*(?:\{%|\{\{|---\r?\n)")

UNION = "folder"  # the format of a folder whose files have several
_LISTED = 3
_POINTER = b"version https://git-lfs"
POINTERS = "Git LFS pointers instead of files; fetch these with: git lfs pull"


@dataclass(slots=True)
class Contents:
    """The files of a knowledge base.

    Attributes:
        root: The folder that paths are relative to.
        files: The files of each reader, in order; the readers in the order of their first files.
        every: All files in the folder, none for a single file.
        left_out: What is read by a reader, but left out: (reason, example, number of files).
        closed: Folders that cannot be read, with the errors.
        elsewhere: Links to folders outside, in words, with their numbers of files.
    """

    root: Path
    files: dict[Reader, list[Path]]
    every: Sequence[Path] = ()
    left_out: list[tuple[str, str, int]] = field(default_factory=list)
    closed: dict[str, OSError] = field(default_factory=dict)
    elsewhere: dict[str, int] = field(default_factory=dict)

    @property
    def format(self) -> str:
        """The name of the only reader, or `UNION`."""
        return next(iter(self.files)).name if len(self.files) == 1 else UNION

    @property
    def paths(self) -> list[Path]:
        """All files that are read, by their paths."""
        return sorted(path for files in self.files.values() for path in files)


def contents_of(path: Path, format: str | None = None) -> Contents:
    """Returns which files of a knowledge base are read, and by which readers.

    Args:
        path: The folder, or the file.
        format: The name of the only reader to use; by default, each file is read by the first that recognizes it.

    Raises:
        ValueError: No reader reads any file; the message says how to convert what is there. The format is unknown.
        FileNotFoundError: There is no such file.
    """
    reader = None if format in (None, UNION) else reader_named(str(format))
    if not path.is_dir():
        return Contents(path.parent, {reader or _reader_of(path): [path]})
    candidates = (reader,) if reader else readers()
    suffixes = tuple({suffix for one in candidates for suffix in one.suffixes})
    every = sorted_files(path, ("",))
    contents = Contents(path, {}, every)
    contents.closed, contents.elsewhere = unread_folders(path, suffixes)
    recognized, templates, pointers = list[tuple[Path, Reader]](), set[Path](), list[Path]()
    for file in every:
        # each file is opened once, since there may be a hundred thousand
        suffix = inner_path(file).suffix.lower()
        if fitting := [one for one in candidates if suffix in one.suffixes]:
            start = beginning_of(file)
            if start.startswith(_POINTER):
                pointers.append(file)
            elif (one := reader or next((one for one in fitting if one.recognizes(file, start)), None)) is not None:
                recognized.append((file, one))
                templates |= {file} if is_template(file, start) else set()
    if pointers:
        contents.left_out.append((POINTERS, pointers[0].relative_to(path).as_posix(), len(pointers)))
    if archives := [file for file, one in recognized if one.name == "zim"]:
        reason = "archives, each a knowledge base of its own; name the file"
        contents.left_out.append((reason, archives[0].relative_to(path).as_posix(), len(archives)))
        recognized = [(file, one) for file, one in recognized if one.name != "zim"]
    if not recognized:
        raise ValueError(f"{path}: {len(pointers):,} {POINTERS}" if pointers else _nothing_in(path, every))
    files = defaultdict[Reader, list[Path]](list)
    for file, one in _things(path, recognized, templates, contents):
        files[one].append(file)
    if not files:
        raise ValueError(_nothing_in(path, every))
    contents.files = dict(files)
    return contents


def _reader_of(path: Path) -> Reader:
    """Returns the reader of a single file."""
    named = plain_name(path)
    if advice := advice_on(named.suffix, named.stem):
        raise ValueError(f"{path}: {advice}")
    start = beginning_of(path)
    if start.startswith(_POINTER):
        raise ValueError(f"{path}: is a Git LFS pointer, not the file itself; fetch the file with: git lfs pull")
    every = readers()
    by_name = (one for one in every if named.suffix.lower() in one.suffixes and one.recognizes(path, start))
    by_content = (one for one in every if start and one.recognizes(path, start))
    if (reader := next(by_name, None) or next(by_content, None)) is None:
        if named.suffix.lower() == ".toml":
            settings_in(path)  # says what is missing
        with opened(path) as content:  # says if it is damaged
            content.read(BEGINNING)
        suffixes = {suffix for one in every for suffix in one.suffixes}
        if named.suffix.lower() in suffixes:
            raise ValueError(f"{path}: no reader recognizes its content; name the format with --kb-format")
        known = ", ".join(sorted(suffixes))
        raise ValueError(f"{path}: unknown extension; known are {known}; name the format with --kb-format")
    return reader


def _things(
    root: Path, recognized: Iterable[tuple[Path, Reader]], templates: Collection[Path], contents: Contents
) -> list[tuple[Path, Reader]]:
    """Returns the files that are no README, template, index page and the like, unless nothing else is there.

    Settings of programs and secrets are never among them.
    """
    pairs = list(recognized)
    names = {file: file.relative_to(root).as_posix() for file, _ in pairs}
    reasons = {file: why_no_entity(name) for file, name in names.items()}
    lists = listing_pages([names[file] for file, reason in reasons.items() if not reason])
    for file in (file for file, reason in reasons.items() if not reason):
        if names[file] in lists:
            reasons[file] = "pages that list others"
        elif file in templates:
            reasons[file] = "templates and parts of pages"
    read = {""} if "" in reasons.values() else {*reasons.values()} - {SECRETS, _SETTINGS}
    for reason, count in Counter(reason for reason in reasons.values() if reason not in read).items():
        example = next(names[file] for file, why in reasons.items() if why == reason)
        contents.left_out.append((reason, example, count))
    return [(file, one) for file, one in pairs if reasons[file] in read]


def unread_in(root: Path, files: Sequence[Path]) -> list[tuple[str, str, int]]:
    """Counts the files that no reader reads, by kind, each with the command that converts it."""
    count, examples = Counter[str](), dict[str, str]()
    for file in files:
        if (suffix := file.suffix.lower()) in UNREAD:
            count[suffix] += 1
            examples.setdefault(suffix, file.relative_to(root).as_posix())
    left_out = [(f"files *{suffix}: {advice_on(suffix)}", examples[suffix], number) for suffix, number in count.items()]
    if code := data_in_code(files):
        reason = f"data in programs (*{code[0].suffix}); save the list as JSON, and read that"
        left_out.append((reason, code[0].relative_to(root).as_posix(), len(code)))
    return left_out


def _nothing_in(path: Path, files: Sequence[Path]) -> str:
    """Returns the message for a folder in which no file is read."""
    for reason, example, count in unread_in(path, files):
        return f"{path}: nothing is read in this folder, but it has {count:,} {reason} (such as {example})"
    images = sum(file.suffix.lower() in IMAGE_SUFFIXES for file in files)
    reason = "holds no Markdown, pages, tables, JSON, YAML or texts" if files else "is empty"
    suffixes = Counter(file.suffix.lower() for file in files if file.suffix)
    if images:
        reason += f"; describe its {counted(images, 'image')} in a table, as in images.csv with title,image,text"
    elif suffixes:
        reason += ", but " + ", ".join(f"{counted(n, 'file')} *{suffix}" for suffix, n in suffixes.most_common(_LISTED))
    return f"{path}: the folder {reason}"


def inner_path(path: Path) -> Path:
    """Returns a path without the extension of a compressed file: `animals.csv` for `animals.csv.gz`."""
    return path.with_suffix("") if path.suffix.lower() in (".gz", ".bz2") else path


def advice_on(suffix: str, name: str = "FILE") -> str:
    """Describes the files with an extension, with the command that converts one; "" if the extension is not known."""
    text = _BY_SUFFIX.get(suffix.lower(), "")
    return text.format(name=f"{name}{suffix}", stem=name) if text else ""


def why_no_entity(path: str) -> str:
    """Returns why a file is no entity where something else is, judged by its relative path; "" for others."""
    *folders, name = path.split("/")
    if _SECRETS.fullmatch(name):
        return SECRETS
    if _PROGRAMS.fullmatch(name) or _OF_PROGRAMS.fullmatch(path):
        return _SETTINGS
    if "_site" in folders:
        return "pages that a site generator made from others"
    if _DATA.fullmatch(name) and not _TRANSLATIONS.isdisjoint(folders):
        return "texts of programs in several languages"
    if _PARTS.fullmatch(name):
        return "templates and parts of pages"
    if _DATA.fullmatch(name) and {"themes", "node_modules"}.isdisjoint(folders):
        return ""  # such names mean something else there, as in archetypes/artifact.json
    if _PROJECT.fullmatch(name.partition(".")[0]):
        return "files about a project, such as its README and license"
    if not _TEMPLATES.isdisjoint(folders):
        return "templates and parts of pages"
    return ""


def is_template(file: Path, start: bytes) -> bool:
    """Returns whether a page has tags that a program replaces, or a table begins with one or with front matter.

    Texts within a table may have tags, such as wikitext.
    """
    text, suffix = start.decode(errors="replace"), file.suffix.lower()
    if suffix in _PAGES:
        return _TAG.search(text) is not None
    return suffix in _FILLED and _BEGINS.match(text) is not None


def data_in_code(files: Iterable[Path]) -> list[Path]:
    """Returns the programs that are mostly data: lines `name: "value"` and brackets."""
    return [file for file in files if file.suffix.lower() in _CODE and _is_data(file)]


def _is_data(file: Path) -> bool:
    try:
        if file.stat().st_size > _LARGEST or file.name.endswith((".min.js", ".config.js", ".d.ts")):
            return False
        lines = [line for line in file.read_text("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        return False
    data = sum(_DATUM.fullmatch(line) is not None for line in lines)
    brackets = sum(_BRACKETS.fullmatch(line) is not None for line in lines)
    return data >= _FEWEST and data + brackets >= _SHARE * len(lines)
