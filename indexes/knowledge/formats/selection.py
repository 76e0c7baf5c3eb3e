"""Which entries of a knowledge base are read: those that `--only` and `--skip` choose, in one language."""

from __future__ import annotations

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from posixpath import commonpath
from shlex import quote

from indexes.knowledge.formats.fields import Names
from indexes.knowledge.formats.losses import Losses
from retriever.wording import counted

ONLY, SKIP = "only", "skip"
"""The keys of `Names` for patterns, one per line, of the ids and files to read and to leave out."""
PAGES = "pages"  # the pattern for pages that list others or are about the site (`site_pages`)
_LANGUAGES = re.compile(
    "af|ar|bg|bn|ca|cs|cy|da|de|el|en|es|et|eu|fa|fi|fr|ga|gl|he|hi|hr|hu|hy|id|is|it|ja|ka|kk|km|ko|lt|lv|mk|ml|mn|mr"
    "|ms|my|nb|ne|nl|nn|no|pa|pl|ps|pt|ro|ru|sk|sl|sq|sr|sv|sw|ta|te|th|tl|tr|uk|ur|uz|vi|zh"
)
"""Two-letter codes of languages that sites are in."""
_CODE = re.compile(r"([a-z]{2})(?:[-_](?:[a-z]{2}|hans|hant))?", re.IGNORECASE)
_DOCUSAURUS = re.compile(r"(?:^|(?<=/))i18n/([^/]+)/docusaurus-plugin-content-(docs|blog|pages)[^/]*/(?:current/)?")
_ABOUT_SITE = re.compile(
    r"404|notfound|about(?:us)?|accessibility|acknowledge?ments|archives?|authors?|category|categories|changelog"
    r"|codeofconduct|compare|compatibility|contact(?:us)?|contribute|contributing|cookie(?:s|policy)?|credits"
    r"|dataprotection|datenschutz|disclaimer|downloads?|faqs?|feedback|help|home|impressum|imprint|index"
    r"|install(?:ation)?|legal|licen[cs]es?|links|log-?in|newsletter|policy|policies|privacy(?:policy)?|quiz|readme"
    r"|register|search|settings|sitemap|subscribe|support|tags?|team|terms(?:andconditions|ofservice|ofuse)?"
    r"|thank(?:s|you)|todo|tos"
)
"""Names of pages about a site, without spaces, hyphens and case."""
_MANY, _LISTED = 0.05, 5
_FEWEST, _MOST = 5, 0.75
_OTHERS, _SKIPPED = "entities other than those of --only", "entities of --skip"
_LISTS = ("index", "_index", "readme", "default")


class Selection:
    """Decides which entries of a knowledge base are read, and counts the others.

    Patterns are under `ONLY` and `SKIP` in `names`; they are compared with paths relative to `root`, the knowledge
    base. In formats with one entity per file, `files` are its entries.
    """

    def __init__(self, root: Path, files: Sequence[Path], names: Names, losses: Losses) -> None:
        self._root, self._losses = root, losses
        self._only, self._skip = (names[key].split("\n") if names.get(key) else [] for key in (ONLY, SKIP))
        paths = [file.relative_to(root).as_posix() for file in files]
        chosen = {path for path in paths if any(_matches(path, pattern) for pattern in self._only)}
        self._others = set(paths) - chosen if chosen else set()
        self._languages = other_languages(path for path in paths if path not in self._others)
        self._pages = site_pages(paths) if PAGES in self._skip else frozenset()

    def has_file(self, file: Path) -> bool:
        """Returns whether to read a file that is an entry."""
        path = file.relative_to(self._root).as_posix()
        reason = ""
        if path in self._others:
            reason = _OTHERS
        elif path in self._pages or any(_matches(path, pattern) for pattern in self._skip):
            reason = _SKIPPED
        elif language := self._languages.get(path):
            only = quote(_pattern_of(path, language))
            reason = f"pages in {language}, also there in another language (--only {only} reads them)"
        self._losses.leave_out(reason, path, int(bool(reason)), "entities")
        return not reason

    def has(self, where: str, id: str) -> bool:
        """Returns whether to keep the entry at a place with an id."""
        path = where.removeprefix(str(self._root)).lstrip("/").partition(": ")[0].partition(" (")[0]
        reason = ""
        if self._only and not any(_matches(one, pattern) for pattern in self._only for one in (id, path)):
            reason = _OTHERS
        elif any(_matches(one, pattern) for pattern in self._skip for one in (id, path)):
            reason = _SKIPPED
        self._losses.leave_out(reason, id, int(bool(reason)), "entities")
        return not reason


def in_same_languages(files: Sequence[Path], chosen: Sequence[Path], root: Path) -> Sequence[Path]:
    """Returns the files of a folder in the languages of the chosen ones: what they share is no text of each."""
    if len(files) == len(chosen):
        return files
    languages = {_split_language(file.relative_to(root).as_posix())[1] for file in chosen}
    return [file for file in files if _split_language(file.relative_to(root).as_posix())[1] in languages]


def _matches(name: str, pattern: str) -> bool:
    """Returns whether an id or a path fits a pattern; without `*`, it may be the name of a folder."""
    return fnmatchcase(name, pattern) or name.startswith(f"{pattern.rstrip('/')}/")


def without_selection(names: Names) -> Names:
    """Returns names of fields without patterns."""
    return {field: name for field, name in names.items() if field not in (ONLY, SKIP)}


def site_pages(paths: Iterable[str]) -> frozenset[str]:
    """Returns the paths of pages that list the others in their folder, or are about a site, judged by their names."""
    paths = list(paths)
    under = Counter(folder for path in paths for folder in _folders(path))
    found = set[str]()
    for path in paths:
        folder, _, file = path.rpartition("/")
        stem = file.partition(".")[0].lower()
        called = folder.rpartition("/")[2] if stem in _LISTS else stem
        lists = stem == "_index" or (stem in _LISTS and under[folder] > 1)
        if lists or _ABOUT_SITE.fullmatch(re.sub(r"[\W_]+", "", called.lower())):
            found.add(path)
    return frozenset(found)


def advice(paths: Sequence[str], shown: Sequence[bool]) -> Iterator[str]:
    """Yields lines about entities that are probably not things like the others, and the options that leave them out.

    For the path of each entity's file, `shown` says whether it has an image.
    """
    pages = site_pages(paths)
    if pages:
        few = f"{len(pages):,} of {counted(len(paths), 'entity')}"
        yield f"{few} may be lists or pages about the site, such as {min(pages)}; --skip pages leaves them out"
    folders = [_folder_of(path) for path in paths]
    shared = commonpath([folder or "." for folder in folders]) if paths else ""
    start = 0 if shared in ("", ".") else len(shared) + 1
    count, with_image = Counter[str](), Counter[str]()
    for path, folder, has_image in zip(paths, folders, shown, strict=True):
        if path not in pages:
            top = folder[:start] + folder[start:].partition("/")[0] if len(folder) > start else ""
            count[top] += 1
            with_image[top] += has_image
    things = sorted(folder for folder in count if folder and 2 * with_image[folder] >= count[folder])
    others = sorted(folder for folder in count if 5 * with_image[folder] <= count[folder])
    other = sum(count[folder] for folder in others)
    if things and other > 1 and other >= _MANY * len(paths):
        listed = " ".join(f"--only {quote(folder + '/*')}" for folder in things[:_LISTED])
        names = ", ".join(folder or "the top folder" for folder in others[:_LISTED])
        yield (
            f"{counted(other, 'entity')} have hardly any image, in {names}{', …' if len(others) > _LISTED else ''}; "
            f"to read only the others: {listed}"
        )


def _folder_of(path: str) -> str:
    """Returns the folder that a page is in; a page that is called like a list has one of its own."""
    folder, name = posixpath.split(path)
    return posixpath.dirname(folder) if name.partition(".")[0].lower() in _LISTS else folder


def _folders(path: str) -> Iterable[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
    yield ""


def other_languages(paths: Iterable[str]) -> Mapping[str, str]:
    """Returns the pages that are there in a preferred language, too, with their own.

    A page's language is a folder of its path (`de/fox/index.html`) or before its extension (`fox.de.md`). Pages with
    the same path but for that are one page. So are those in a folder of a language at the top, if most of its pages are
    called like pages elsewhere, although their folders have translated names (`de/tiere/fox/`).

    The language of pages without one is preferred, then English, then the one with most pages. What only looks like a
    language has fewer than half of its pages in another one, and is not what another one is a translation of.
    """
    split = {path: _split_language(path) for path in paths}
    languages, names = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for page, language in split.values():
        languages[page].add(language)
        names[_last_name(page)].add(language)
    counts, same, called = Counter[str](), Counter[str](), Counter[str]()
    shared = Counter[tuple[str, str]]()
    for path, (page, language) in split.items():
        counts[language] += 1
        same[language] += len(languages[page]) > 1
        shared.update((language, other) for other in languages[page] - {language})
        called[language] += path.startswith(f"{language}/") and len(names[_last_name(page)]) > 1
    whole = {one for one in counts if one and counts[one] >= _FEWEST and called[one] >= _MOST * counts[one]}
    real = {one for one in counts if one and 2 * same[one] >= counts[one]} | whole
    real |= {other for (one, other), count in shared.items() if one in real and 2 * count >= counts[one]}
    order = sorted(real | ({""} & counts.keys()), key=lambda one: (one != "", one != "en", -counts[one], one))
    others: dict[str, str] = {}
    for path, (page, language) in split.items():
        better = order[: order.index(language)] if language in order else []
        if better and (language in whole or any(one in languages[page] for one in better)):
            others[path] = language
    return others


def _pattern_of(path: str, language: str) -> str:
    """Returns the pattern that the paths of all pages in the language of one have."""
    folder = next((part for part in path.split("/")[:-1] if part.lower() == language), None)
    if folder is None:
        return f"*.{path.rsplit('.', 2)[1]}.*"
    return f"{folder}/*" if path.startswith(f"{folder}/") else f"*/{folder}/*"


def _last_name(page: str) -> str:
    """Returns the last name of a path that tells pages apart."""
    parts = page.rpartition(".")[0].split("/")
    return next((part for part in reversed(parts) if part.lower() not in _LISTS), "")


def _split_language(path: str) -> tuple[str, str]:
    """Returns a path without its language, and the language, "" if it has none."""
    if found := _DOCUSAURUS.search(path):
        folder = "src/pages" if found[2] == "pages" else found[2]
        return f"{path[: found.start()]}{folder}/{path[found.end() :]}", found[1].lower()
    *folders, file = path.split("/")
    for place, folder in enumerate(folders):
        if _is_language(folder):
            return "/".join([*folders[:place], *folders[place + 1 :], file]), folder.lower()
    parts = file.split(".")
    if len(parts) > 2 and _is_language(parts[-2]):
        return "/".join([*folders, ".".join([*parts[:-2], parts[-1]])]), parts[-2].lower()
    return path, ""


def _is_language(name: str) -> bool:
    found = _CODE.fullmatch(name)
    return found is not None and _LANGUAGES.fullmatch(found[1].lower()) is not None
