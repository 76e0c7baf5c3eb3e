"""Cuts long texts into chunks and ranks them for a question, so that any page fits into the model's context."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retriever.models.bm25 import BM25

CHUNK_CHARACTERS = 1200
"""About 200 words, 300 tokens."""
MAX_CHARACTERS = 4_000_000
"""Maximum characters of a page that are read, about a million tokens."""
_BREAK = re.compile(r"\n\s*\n|\n|(?<=[.!?。])\s")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a text, with its start and end in characters."""

    text: str
    start: int
    end: int


def chunks_of(text: str, size: int = CHUNK_CHARACTERS) -> list[Chunk]:
    """Cuts a text at the ends of paragraphs and sentences; sentences longer than `size` characters are cut too.

    Example:
        >>> chunks_of("One. Two. Three.", size=9)
        [Chunk(text='One. Two.', start=0, end=9), Chunk(text='Three.', start=10, end=16)]
    """
    text = text[:MAX_CHARACTERS]
    ends = [match.start() for match in _BREAK.finditer(text)]
    chunks: list[Chunk] = []
    start, next_end = 0, 0
    while start < len(text):
        limit, end = start + size, len(text)
        if limit < len(text):
            best = -1
            while next_end < len(ends) and ends[next_end] <= limit:
                best = ends[next_end]
                next_end += 1
            end = best if best > start else limit
        stripped = text[start:end].strip()
        if stripped:
            at = text.index(stripped, start)
            chunks.append(Chunk(stripped, at, at + len(stripped)))
        start = end
    return chunks


def best_chunks(question: str, chunks: Sequence[Chunk], limit: int) -> list[Chunk]:
    """Returns the `limit` best chunks for a question by BM25, best first; ties keep the order of the text."""
    [scores] = BM25().score([question], [[chunk.text for chunk in chunks]])
    order = np.argsort(-scores, kind="stable")[:limit]
    return [chunks[at] for at in order]
