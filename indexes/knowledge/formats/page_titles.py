"""The title of a page, without the name of its site."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SEPARATOR = re.compile(r"\s+[-|\u2013\u2014·:»]+\s|\s*[|\u2013\u2014·»]|:+\s")


def title_of(given: str, shared: str, headings: list[str]) -> str:
    """Returns the title of a page, without the name of its site.

    The `headings` are its first-level ones, then the content of its `<title>`; `shared` is its `og:title`.
    """
    for whole in filter(None, (given, shared, *headings[-1:])):
        own = [one for one in headings if whole.casefold().startswith(one.casefold()) and one != whole]
        if own and _SEPARATOR.match(whole[len(max(own, key=len)) :]):
            return max(own, key=len)
    return given or (headings[0] if headings and (not shared or headings[0] in shared) else shared)


def site_names(title: str) -> Iterator[str]:
    """Yields the ends of a title that may be the name of a site, with their separators."""
    places = list(_SEPARATOR.finditer(title))
    if places and title[: places[0].start()] and title[places[-1].end() :]:
        yield title[: places[0].end()]
        yield title[places[-1].start() :]


def without_site(title: str, sites: frozenset[str]) -> str:
    """Returns a title without the name of its site."""
    for name in site_names(title) if sites else ():
        if name in sites:
            return title.removeprefix(name).removesuffix(name).strip()
    return title
