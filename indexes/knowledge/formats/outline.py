"""Puts the sections of an article in order: numbers them, and joins headings without text to what follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.sections import FACTS
from retriever.types import Section
from retriever.unspaced import count_words


def split_article(sections: Iterable[tuple[str, str]], article: str, losses: Losses) -> tuple[Section, ...]:
    """Returns the sections of an article that have text, each with its position among all of them."""
    found = []
    for index, (title, text) in enumerate(sections):
        if text.strip():
            found.append(Section(title, text, index))
        elif title not in (article, FACTS):
            losses.leave_out("headings without text", title)
    return tuple(found)


def without_below(
    sections: Iterable[tuple[int, str, str]], dropped: Callable[[str], bool], losses: Losses
) -> Iterator[tuple[str, str]]:
    """Yields (title, text) of each section, empty for those below one whose title is `dropped`."""
    inside = 0
    for level, title, text in sections:
        if inside and level > inside:
            losses.leave_out("sections below others that are left out", f"{title}\n{text}".rstrip("\n"))
            yield "", ""
        else:
            inside = level if level > 1 and dropped(title) else 0
            yield title, text


def outlined(sections: Sequence[tuple[int, str, str]], losses: Losses) -> list[tuple[str, str]]:
    """Returns (title, text) of each section of an outline, with what headings without text say.

    A heading without text is put before the titles of those below it ("Care: Diet"). If there are none below it, it is
    a line of the section that it is in. The first section, (level, title, text), is above all others.
    """
    above, path = [0] * len(sections), [0]
    for number in range(1, len(sections)):
        while len(path) > 1 and sections[path[-1]][0] >= sections[number][0]:
            path.pop()
        above[number] = path[-1]
        path.append(number)
    parents, texts = set(above), [[text] if text.strip() else [] for _, _, text in sections]
    for number in range(1, len(sections)):
        if not texts[number] and number not in parents:
            texts[above[number]].append(sections[number][1])
    found, groups = list[tuple[str, str]](), [""] * len(sections)
    for number, (_, title, _) in enumerate(sections):
        group = groups[above[number]] if number else ""
        title = f"{group}: {title}" if group else title
        is_line = number > 0 and number not in parents and not texts[number]
        if not texts[number] and number in parents and number:
            groups[number] = title
        found.append(("", "") if is_line or groups[number] else (title, "\n".join(texts[number])))
    used = Counter(groups[above[number]] for number in range(1, len(sections)) if found[number][1])
    losses.repeat(sum((count - 1) * count_words(group) for group, count in used.items() if group))
    return found
