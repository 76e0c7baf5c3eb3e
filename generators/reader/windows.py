"""A question and a section as windows of tokens, the span model's input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tokenizers import Tokenizer

LENGTH = 256
"""Maximum number of tokens in a window."""
OVERLAP = 40
"""Tokens of a section that two neighboring windows share: longer than almost all answers."""
QUESTION, TITLE = 64, 24
"""Maximum number of tokens of a question, and of the titles before a section's text."""


class Window(NamedTuple):
    """A window: "[CLS] question [SEP] titles : text [SEP]".

    Attributes:
        ids: Token ids, [T].
        types: 0 for the question and 1 for what follows, [T].
        begin: Position of the first token of the text.
        places: Start and end, in characters of the section, of each token from `begin` on, without the last [SEP].
    """

    ids: list[int]
    types: list[int]
    begin: int
    places: list[tuple[int, int]]


def windows(tokenizer: Tokenizer, question: str, title: str, text: str, length: int = LENGTH) -> list[Window]:
    """Returns the windows of a section, of which neighbors share `OVERLAP` tokens; none if its text has no tokens.

    Args:
        tokenizer: BERT's tokenizer.
        question: The question.
        title: Titles of the article and the section, which help to judge the text but are no answers.
        text: The section.
        length: Maximum number of tokens in a window.
    """
    classify, separate = tokenizer.encode("").ids  # [CLS] and [SEP]
    whole = [part.encode("utf-8", "replace").decode() for part in (question, f"{title}:", text)]  # no lone surrogates
    asked, titled, read = tokenizer.encode_batch(whole, add_special_tokens=False)
    head = [classify, *asked.ids[:QUESTION], separate]
    types = [0] * len(head)
    head += titled.ids[-TITLE:]
    size, starts = _cut(len(read.ids), length - len(head) - 1, OVERLAP)
    return [
        Window(
            [*head, *read.ids[start : start + size], separate],
            types + [1] * (len(head) - len(types) + len(read.ids[start : start + size]) + 1),
            len(head),
            read.offsets[start : start + size],
        )
        for start in starts
    ]


def _cut(count: int, room: int, overlap: int) -> tuple[int, Sequence[int]]:
    """Returns size and starts of the fewest windows of about equal size over a number of tokens."""
    if count <= room:
        return count, [0] if count else []
    windows = math.ceil((count - overlap) / (room - overlap))
    size = math.ceil((count + (windows - 1) * overlap) / windows)
    return size, [min(i * (size - overlap), count - size) for i in range(windows)]
