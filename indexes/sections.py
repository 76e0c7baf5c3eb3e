"""How an article becomes sections: which are dropped, and how the rest are numbered."""

from __future__ import annotations

from collections.abc import Iterable

from retriever.types import Section

_DROPPED_TITLES = ("external links", "references")


def is_kept(title: str, text: str) -> bool:
    """Returns whether a section can be evidence: it has text and is no list of links or references."""
    lowered = title.lower()
    return bool(text.strip()) and not any(dropped in lowered for dropped in _DROPPED_TITLES)


def split_article(sections: Iterable[tuple[str, str]]) -> tuple[Section, ...]:
    """Returns the kept sections of an article, each with its position among all of them.

    Args:
        sections: (title, text) of every section, in the article's order. Both are kept as they are written.
    """
    return tuple(Section(title, text, index) for index, (title, text) in enumerate(sections) if is_kept(title, text))
