"""How an article becomes sections: which are dropped, and how the rest are numbered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from retriever.types import Section

WORDS = 250
"""Words that a section of a text without headings has at most, unless one paragraph has more: what step 2 can read."""

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


def split_text(title: str, text: str) -> Iterator[tuple[str, str]]:
    """Yields (title, text) of the sections of an article that comes as one text.

    A line `== Title ==` begins a section, deeper headings stay in its text; what comes before is under the article's
    title. A text without such lines is cut between paragraphs into sections of at most `WORDS` words, each under the
    article's title; a paragraph is never cut.
    """
    parts = _HEADING.split(text.strip())
    if len(parts) > 1:
        yield from ((name, body.strip()) for name, body in zip([title, *parts[1::2]], parts[::2], strict=True) if body)
        return
    section: list[str] = []
    for paragraph in filter(str.strip, text.splitlines()):
        if section and sum(len(one.split()) for one in [*section, paragraph]) > WORDS:
            yield title, "\n".join(section)
            section = []
        section.append(paragraph.strip())
    if section:
        yield title, "\n".join(section)


_HEADING = re.compile(r"^==[ \t]*([^=\n].*?)[ \t]*==[ \t]*$", re.MULTILINE)
