"""What no reader reads, by kind, and how to convert it; files about a project, which are no entities."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_PANDOC = "convert it to Markdown, as with: pandoc {name} --to gfm --extract-media . --output {stem}.md"
_TIDDLERS = "tiddlywiki . --rendertiddlers '[!is[system]]' $:/core/templates/static.tiddler.html static text/html"
_ADVICE = {
    (".sql",): "a dump of a database; load it into one, and name that, as with: sqlite3 {stem}.db < {name}",
    (".xlsx", ".xls", ".ods", ".numbers"): "a spreadsheet; save it as CSV in UTF-8, one file per sheet",
    (".rst",): f"reStructuredText; build its pages, as with sphinx-build, or {_PANDOC}",
    (".adoc", ".asciidoc", ".asc"): "AsciiDoc; make pages of it, as with: asciidoctor --destination-dir pages {name}",
    (".docx", ".odt", ".rtf", ".org", ".tex", ".textile", ".doc", ".fb2"): f"a document; {_PANDOC}",
    (".mediawiki", ".creole", ".opml", ".typ"): f"a document; {_PANDOC}",
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
    r"|renovate|babel|biome|deno|netlify|capacitor\.config|ionic\.config)\.json|[\w.-]*\.config\.json"
    r"|(?:pnpm-|docker-)[\w.-]+\.ya?ml|_config[\w.-]*\.ya?ml|(?:mkdocs|pubspec|netlify|appveyor|codecov|dependabot"
    r"|_?quarto|cloudbuild|buildspec|antora)\.ya?ml|(?:pom|sitemap\w*|phpunit|androidmanifest|browserconfig)\.xml"
    r"|(?:robots|humans|llms[\w-]*|requirements[\w-]*|constraints|cmakelists|cname)\.txt",
    re.IGNORECASE,
)
"""Files that only set up programs."""
_TEMPLATES = frozenset(
    {"_layouts", "_includes", "_templates", "layouts", "layout", "templates", "partials", "includes", "archetypes"}
    | {"themes", "shortcodes", "_sass", "_plugins", "node_modules"}
)
"""Folders with parts of pages that are filled in later."""
_DATA = re.compile(r".+\.(?:jsonl?|ndjson|geojson|csv|tsv|ya?ml|xml|parquet)(?:\.gz|\.bz2)?", re.IGNORECASE)
_TAG = re.compile(
    r"\{%-?\s*(?:extends|block|include|for|if|load|set|macro|assign|render|layout|import)\b|\{\{[^{}\"]*\}\}"
)
_TRANSLATIONS = frozenset({"i18n", "locales", "locale", "_locales", "intl"})
"""Folders with the texts of a program in several languages."""
_PAGES = (".html", ".htm", ".xhtml")
_FILLED = (".json", ".csv", ".xml")
_BEGINS = re.compile(r"\ufeff?\s*(?:\{%|\{\{|---\r?\n)")


def advice_on(suffix: str, name: str = "FILE") -> str:
    """Returns what files with an extension are, and how to convert one, "" for an extension that says nothing."""
    text = _BY_SUFFIX.get(suffix.lower(), "")
    return text.format(name=f"{name}{suffix}", stem=name) if text else ""


def why_no_entity(path: str) -> str:
    """Returns why a file is no entity where something else is, judged by its relative path; "" for others."""
    *folders, name = path.split("/")
    if _PROGRAMS.fullmatch(name):
        return "settings of programs"
    if _DATA.fullmatch(name) and not _TRANSLATIONS.isdisjoint(folders):
        return "texts of programs in several languages"
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
