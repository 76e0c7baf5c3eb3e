"""Which files and entries of a knowledge base are read: those that `--only` and `--skip` choose, in one language."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from shlex import quote

from indexes.labeled_values import Names

ONLY, SKIP = "only", "skip"
"""The keys of `Names` for patterns, one per line, of the ids and files to read and to leave out."""
FIELDS = "fields"
"""The key of `Names` for the fields to search by, one per line: `category`, or `category=genre.name` if it has another
name in the knowledge base; `category?` if no entity needs to have one."""
PAGES = "pages"  # the pattern for pages that list others or are about the site (`site_pages`)
OTHERS, SKIPPED = "entities other than those of --only", "entities of --skip"
_LANGUAGES = re.compile(
    "af|ar|az|be|bg|bn|ca|cs|cy|da|de|el|en|es|et|eu|fa|fi|fr|ga|gl|he|hi|hr|hu|hy|id|is|it|ja|jp|ka|kk|km|ko|lt|lv|mk|ml|mn|mr"
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
_LISTS = ("index", "_index", "readme", "default")
_Names = tuple[str, ...]  # in a path, of folders and of the parts of the file's name between dots


class Selection:
    """Decides which files and entries are read, by patterns under `ONLY` and `SKIP` in `names`.

    Patterns are compared with ids and with paths relative to the knowledge base, such as the `paths` of the files in
    which each is an entity.
    """

    def __init__(self, paths: Sequence[str], names: Names) -> None:
        self._only, self._skip = (names[key].split("\n") if names.get(key) else [] for key in (ONLY, SKIP))
        chosen = {path for path in paths if any(_matches(path, pattern) for pattern in self._only)}
        # patterns that are no paths may be ids, which are known only once the files are read
        self._others = set(paths) - chosen if chosen else set()
        self._languages = other_languages(path for path in paths if path not in self._others)
        self._pages = site_pages(paths) if PAGES in self._skip else frozenset()

    def why_not(self, path: str, id: str = "", *, is_entry: bool = False) -> str:
        """Returns the reason not to read a file or an entry, "" if there is none."""
        if path in self._others:
            return OTHERS
        names = (id, path) if id else (path,)
        if is_entry and self._only and not any(_matches(name, pattern) for pattern in self._only for name in names):
            return OTHERS
        if path in self._pages or any(_matches(name, pattern) for pattern in self._skip for name in names):
            return SKIPPED
        if language := self._languages.get(path):
            only = quote(_pattern_of(path, language))
            return f"pages in {language}, also there in another language (--only {only} reads them)"
        return ""


def _matches(name: str, pattern: str) -> bool:
    """Returns whether an id or a path fits a pattern; without `*`, it may be the name of a folder."""
    return fnmatchcase(name, pattern) or name.startswith(f"{pattern.rstrip('/')}/")


def without_selection(names: Names) -> Names:
    """Returns names of an entity's own fields, without patterns."""
    return {field: name for field, name in names.items() if field not in (ONLY, SKIP, FIELDS)}


def site_pages(paths: Iterable[str]) -> frozenset[str]:
    """Returns the paths of pages that list the others in their folder, or are about a site, judged by their names."""
    paths = list(paths)
    pages = set(listing_pages(paths))
    for path in paths:
        folder, _, file = path.rpartition("/")
        stem = file.partition(".")[0].lower()
        name = folder.rpartition("/")[2] if stem in _LISTS else stem
        if _ABOUT_SITE.fullmatch(re.sub(r"[\W_]+", "", name.lower())):
            pages.add(path)
    return frozenset(pages)


def listing_pages(paths: Sequence[str]) -> frozenset[str]:
    """Returns the paths of index pages, which list the others in their folder or below it."""
    # a page and its source, as `index.html` and `index.Rmd`, are one
    under = Counter(folder for path in {path.rpartition(".")[0] for path in paths} for folder in _folders(path))

    def lists(path: str) -> bool:
        folder, _, file = path.rpartition("/")
        stem = file.partition(".")[0].lower()
        return stem == "_index" or (stem in _LISTS and under[folder] > 1)

    return frozenset(filter(lists, paths))


def _folders(path: str) -> Iterable[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
    yield ""


def other_languages(paths: Iterable[str]) -> Mapping[str, str]:
    """Returns the pages that are there in a preferred language, too, with their own.

    A page's language is a folder of its path (`de/fox/index.html`), before its extension (`fox.de.md`), or its file's
    whole name in several folders (`fox/de.json`). Pages with the same path but for that are one page.

    The language of pages without one is preferred, then English, then the one with most pages. What only looks like a
    language has fewer than half of its pages in another one, or as many other names as languages in the same place, as
    `ko-fi` has in a folder of companies, and is not what another one is a translation of.
    """
    split = {path: _split(path) for path in paths}
    languages = defaultdict[_Names, set[str]](set)
    counts = Counter(language for _, language, _ in split.values())
    of_languages = Counter(place for _, language, place in split.values() if language)
    beside = Counter(place for path in split if of_languages for place in _places(path))
    for page, language, _ in split.values():
        languages[page].add(language)
    same, shared = Counter[str](), Counter[tuple[str, str]]()
    for path, (page, language, place) in split.items():
        is_alone = counts[language] == 1 and len(place) == path.count("/") + 2 and place[-2] == "*"
        same[language] += len(languages[page]) > 1 and 2 * of_languages[place] > beside[place] and not is_alone
        shared.update((language, other) for other in languages[page] - {language})
    real = {code for code in counts if code and 2 * same[code] >= counts[code]}
    real |= {other for (code, other), count in shared.items() if code in real and 2 * count >= counts[code]}
    order = sorted(real | ({""} & counts.keys()), key=lambda code: (code != "", code != "en", -counts[code], code))
    others: dict[str, str] = {}
    for path, (page, language, _) in split.items():
        better = order[: order.index(language)] if language in order else []
        if any(code in languages[page] for code in better):
            others[path] = language
    return others


def _pattern_of(path: str, language: str) -> str:
    """Returns the pattern that the paths of all pages in the language of one have."""
    folder = next((part for part in path.split("/")[:-1] if part.lower() == language), None)
    if folder is None:
        *before, name, _ = path.rpartition("/")[2].split(".")
        return f"*{'.' if before else '/'}{name}.*"
    return f"{folder}/*" if path.startswith(f"{folder}/") else f"*/{folder}/*"


def language_of(path: str) -> str:
    """Returns the language of a path, "" if it has none."""
    return _split(path)[1]


def _split(path: str) -> tuple[_Names, str, _Names]:
    """Returns the names in a path without its language, the language, and the names with `*` in its place."""
    if docs := _DOCUSAURUS.search(path):
        folder = "src/pages" if docs[2] == "pages" else docs[2]
        return _names(f"{path[: docs.start()]}{folder}/{path[docs.end() :]}"), docs[1].lower(), ()
    names = _names(path)
    for place in dict.fromkeys((*range(path.count("/")), max(len(names) - 2, 0))):
        if _is_language(names[place]):
            return names[:place] + names[place + 1 :], names[place].lower(), (*names[:place], "*", *names[place + 1 :])
    return names, "", ()


def _places(path: str) -> Iterable[_Names]:
    """Returns the names in a path with `*` in place of each of them in turn, but for the extension."""
    names = _names(path)
    return ((*names[:place], "*", *names[place + 1 :]) for place in range(len(names) - 1))


def _names(path: str) -> _Names:
    folder, _, file = path.rpartition("/")
    return (*(folder.split("/") if folder else ()), *file.split("."))


def _is_language(name: str) -> bool:
    code = _CODE.fullmatch(name)
    return code is not None and _LANGUAGES.fullmatch(code[1].lower()) is not None
