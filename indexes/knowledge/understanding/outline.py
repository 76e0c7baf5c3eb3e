"""Puts the sections of an article in order: numbers them, and joins headings without text to what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from retriever.types import Section


def split_article(sections: Iterable[tuple[str, str]]) -> tuple[Section, ...]:
    """Returns the sections (title, text) that have text, each with its position among all of them."""
    return tuple(Section(title, text, index) for index, (title, text) in enumerate(sections) if text.strip())


def without_below(
    sections: Iterable[tuple[int, str, str]], dropped: Callable[[str], bool]
) -> Iterator[tuple[str, str]]:
    """Yields (title, text) of each section (level, title, text), empty for those below one whose title is `dropped`."""
    inside = 0
    for level, title, text in sections:
        if inside and level > inside:
            yield "", ""
        else:
            inside = level if level > 1 and dropped(title) else 0
            yield title, text


def outlined(sections: Sequence[tuple[int, str, str]]) -> list[tuple[str, str]]:
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
    result, groups = list[tuple[str, str]](), [""] * len(sections)
    for number, (_, title, _) in enumerate(sections):
        group = groups[above[number]] if number else ""
        title = f"{group}: {title}" if group else title
        is_line = number > 0 and number not in parents and not texts[number]
        if not texts[number] and number in parents and number:
            groups[number] = title
        result.append(("", "") if is_line or groups[number] else (title, "\n".join(texts[number])))
    return result
