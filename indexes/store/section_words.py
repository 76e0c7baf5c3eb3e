"""How the words of sections are searched, and the names of their entities, for questions without an image."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from indexes.store.postings import InvertedLists, Layout, Learned, TermArray
from retriever.lexical import STOP_WORDS, cut, implied, is_english, rarity, tokenize, words
from retriever.types import Entity, FloatArray, IntArray

SECTION_WORDS = "section_words"
"""The name of the column (`indexes.section_words`)."""
FINGERPRINT = "stems and names, 1"
"""Changes with what the terms of a text are; an index with other terms is searched as one without."""
K1, B, RARITY = 1.2, 0.75, 0.7
"""As in step 3 (`retriever.models.bm25`)."""
_TITLE, _HEADING = 2, 1
"""How many more times the words of an entity's names and of a section's title count than those of its text."""
_IMPLIED = 0.5
"""Weight of a word that a question implies, relative to one that it has."""
_LONGEST_NAME = 8
_NAME = "\t"
"""What the term of a name begins with."""
_SUFFIX = re.compile(r"\s*\([^()]*\)\s*$|\s*,.*$")


@lru_cache(maxsize=1 << 18)
def _hashed(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def documents_of(row: int, entity: Entity) -> Iterator[tuple[int, str]]:
    """Yields an entity's row with each of its sections: a line of its names, one of the section's title, the text."""
    names = "\t".join(" ".join(name.split()) for name in dict.fromkeys((entity.title, *entity.names)))
    for section in entity.sections:
        yield row, f"{names}\n{' '.join(section.title.split())}\n{section.text}"


def name_terms(name: str) -> Iterator[str]:
    """Yields the terms by which a name is found in a question: people also call "The Rings (film)" just "Rings".

    Example:
        >>> [term.lstrip() for term in name_terms("The Rings (film)")]
        ['the ring film', 'the ring', 'ring']
    """
    stems = [words(spelling) for spelling in dict.fromkeys((name, _SUFFIX.sub("", name)))]
    stems += [own[1:] for own in stems[-1:] if own[:1] == ["the"]]
    for own in stems:
        if len(own) <= _LONGEST_NAME and not STOP_WORDS.issuperset(own):
            yield _NAME + " ".join(own)


def terms_of(document: str) -> tuple[TermArray, IntArray]:
    """Returns the terms of a section: its stems, those that other languages inflect cut short, too, and its names."""
    names, title, text = document.split("\n", 2)
    counts = Counter(tokenize(text))
    for line, more in ((names, 1 + _TITLE), (title, 1 + _HEADING)):
        for stem in tokenize(line):
            counts[stem] += more
    for stem, count in list(counts.items()):
        if (short := cut(stem)) != stem:
            counts[short] += count
    counts.update({term: 1 for name in names.split("\t") for term in name_terms(name)})
    hashes = np.fromiter(map(_hashed, counts), np.uint64, len(counts))
    order = np.argsort(hashes)
    return hashes[order], np.fromiter(counts.values(), np.int64, len(counts))[order]


LAYOUT = Layout(
    ("section_terms.npy", "section_starts.npy", "section_postings.npy", "section_documents.npy"), terms_of, False
)


class QuestionWords:
    """The words of a question and the names in it, to score sections by.

    Of names that entities have, the longest count, without those that are within others: "Eiffel" within "Eiffel
    Tower" is nobody else's. Of a question in another language than English, words in small letters that no section has
    count for nothing: the sections may be English, and they are its "how many".

    Args:
        question: The question, without the words that only point at an image.
        lists: The inverted lists of all sections that are searched.
        learned: What weights are learned from, instead of what each of the lists names.
    """

    def __init__(self, question: str, lists: Iterable[Learned], learned: Learned | None = None) -> None:
        self._learned = learned
        english = is_english(question)
        own = tokenize(question, english)
        small = [
            word for number, word in enumerate(question.split()) if word.islower() or (word.istitle() and not number)
        ]
        common = [] if english else tokenize(" ".join(small), english)
        self._own, self._common = _terms(own), _terms(common)
        weights = {_hashed(stem): _IMPLIED * math.pow(rarity(stem), RARITY) for stem in implied(question)}
        weights |= {_hashed(stem): math.pow(rarity(stem), RARITY) for stem in own}
        self.names = _names_in(words(question), list(lists))
        self._terms = np.array([*weights, *self.names], np.uint64)
        self._weights = np.array([*weights.values(), *(0.0 for _ in self.names)], np.float32)

    def scores(self, lists: InvertedLists) -> tuple[FloatArray, FloatArray]:
        """Returns a score for each section: BM25 as a share of what the question could reach, and for its name.

        The second is the share of the question's words, by their rarity, that are the name of the section's entity.
        """
        count = len(lists.documents)
        shares = np.zeros(count, np.float32)
        learned = self._learned or lists.learned
        frequencies = learned.occurrences(self._terms)
        weights = self._weights * _idf(frequencies, learned.count)
        counted = np.isin(self._terms, self._own) & ~(np.isin(self._terms, self._common) & (frequencies == 0))
        reachable = float(weights[counted].sum()) * (K1 + 1)
        numbers, sizes, postings = lists.read(self._terms)
        documents, often = postings["document"], postings["count"].astype(np.float32)
        norms = K1 * (1 - B + B * lists.documents["length"][documents] / learned.mean_length)
        values = np.repeat(weights[numbers], sizes) * often * (K1 + 1) / (often + norms)
        sums = np.bincount(documents, weights=values, minlength=count).astype(np.float32)
        ends = np.cumsum([0, *sizes]).tolist()
        for number, first, last in zip(numbers.tolist(), ends, ends[1:], strict=False):
            if share := self.names.get(int(self._terms[number])):
                shares[documents[first:last]] = np.maximum(shares[documents[first:last]], np.float32(share))
        return sums / max(reachable, 1e-9), shares


def terms_in(question: str) -> TermArray:
    """Returns all terms that sections may be scored by for a question, ascending: its words, and possible names."""
    stems = {*implied(question), *tokenize(question, is_english(question))}
    return np.array(sorted({*map(_hashed, stems), *_spans(words(question)).values()}), np.uint64)


def _terms(stems: Iterable[str]) -> TermArray:
    return np.array([_hashed(stem) for stem in dict.fromkeys(stems)], np.uint64)


def _idf(frequencies: IntArray, documents: int) -> NDArray[np.float32]:
    weights: NDArray[np.float32] = np.log1p((documents - frequencies + 0.5) / (frequencies + 0.5)).astype(np.float32)
    return weights


def _spans(stems: list[str]) -> dict[tuple[int, int], int]:
    """Returns the terms of the names that words in a row may be, by the first and the end of these."""
    return {
        (first, last): _hashed(_NAME + " ".join(stems[first:last]))
        for first in range(len(stems))
        for last in range(first + 1, min(first + _LONGEST_NAME, len(stems)) + 1)
    }


def _names_in(stems: list[str], lists: list[Learned]) -> dict[int, float]:
    """Returns the terms of the names in a question, and the share of its words, by their rarity, that each covers."""
    spans = _spans(stems)
    wanted = np.array(sorted(set(spans.values())), np.uint64)
    known = {term for own in lists for term in wanted[own.occurrences(wanted) > 0].tolist()}
    weights = [0.0 if stem in STOP_WORDS else rarity(stem) for stem in stems]
    total, taken, names = sum(weights) or 1.0, set[int](), dict[int, float]()
    for (first, last), term in sorted(spans.items(), key=lambda span: span[0][0] - span[0][1]):
        if term in known and taken.isdisjoint(range(first, last)):
            taken.update(range(first, last))
            names[term] = sum(weights[first:last]) / total
    return names
