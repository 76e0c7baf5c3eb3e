"""Texts as the models read them: sections in the paper's form, BLIP's clean-up, batches by length."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PUNCTUATION = re.compile(r"[.!\"()*#:;~]")
_SPACES = re.compile(r"\s{2,}")
_WORD = re.compile(r"\w+")
_PASSAGE = re.compile(r"# Wiki Article: [^\n]*\n## Section Title: ([^\n]*)\n")


def section_passage(title: str, section_title: str, text: str) -> str:
    """Formats a section with its headings, as steps 2 and 3 and the generator's prompt read it."""
    return f"# Wiki Article: {title}\n## Section Title: {section_title}\n{text}"


def split_passage(passage: str) -> tuple[str, str]:
    """Returns the section's title and text of a passage by `section_passage`; the title of another text is empty.

    Example:
        >>> split_passage(section_passage("Peru", "Area", "1,285,216 sq km")), split_passage("Any text")
        (('Area', '1,285,216 sq km'), ('', 'Any text'))
    """
    found = _PASSAGE.match(passage)
    return (found[1], passage[found.end() :]) if found else ("", passage)


def only_repeats_titles(passage: str) -> bool:
    """Returns whether the text of a passage by `section_passage` has no word that its titles do not have.

    Example:
        >>> [only_repeats_titles(section_passage("The Alps", "Photos", text)) for text in ("Photos: the Alps", "high")]
        [True, False]
    """
    found = _PASSAGE.match(passage)
    if not found:
        return False
    titles = {word.casefold() for word in _WORD.findall(found[0])}
    return all(word[0].casefold() in titles for word in _WORD.finditer(passage, found.end()))


def blip_caption(text: str, max_words: int = 512) -> str:
    """Cleans `text` as BLIP-2 does: lower case, some punctuation replaced by spaces, at most `max_words` words.

    Example:
        >>> blip_caption("A 0.5 m Tree (old)!")
        'a 0 5 m tree old'
    """
    text = _PUNCTUATION.sub(" ", text.lower())
    text = _SPACES.sub(" ", text).rstrip("\n").strip(" ")
    return " ".join(text.split(" ")[:max_words])


def by_length(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Groups the positions of `lengths` into batches, shortest first.

    Padded to its longest text, a batch has at most `budget` tokens, unless it holds a single text.

    Example:
        >>> by_length([5, 30, 4, 5, 9], 15)
        [[2, 0, 3], [4], [1]]
    """
    batches: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not batches or (len(batches[-1]) + 1) * lengths[position] > budget:
            batches.append([])
        batches[-1].append(position)
    return batches
