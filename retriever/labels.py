"""Labels of values ("Population: total: 4 million"), and how well they match a question."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from retriever.lexical import tokenize

_LABEL = re.compile(r"[\W_]*([^:=|]{1,60}?)\s*(?:[:=|]|\s-)(?=\s|$)")
LONGEST_LABEL, LEVELS = 6, 3
"""Words of a label, and labels in a row that are read: "Elevation: highest point: Mount Gimie" has two."""


def labels_of(line: str, english: bool = True) -> Iterator[frozenset[str]]:
    """Yields the stems of the labels that a line begins with, of each alone and of all together.

    Example:
        >>> [sorted(label) for label in labels_of("Elevation: highest point: Mount Gimie 948 m")]
        [['elev'], ['highest', 'point'], ['elev', 'highest', 'point']]
    """
    found, place = list[frozenset[str]](), 0
    while len(found) < LEVELS and (match := _LABEL.match(line, place)):
        stems = frozenset(tokenize(match[1], english))
        if not stems or len(match[1].split()) > LONGEST_LABEL or (found and re.search(r"\d", match[1])):
            break
        found.append(stems)
        yield stems
        place = match.end()
    if len(found) > 1:
        yield frozenset(chain.from_iterable(found))


def best_label(
    labels: Iterable[frozenset[str]], asked: Iterable[str], own: Sequence[str], weight: Callable[[str], float]
) -> float:
    """Returns how well the best label matches a question, 0 to 1.

    This is the share of the label's words that are asked for, times the share of the question that they make up.

    Args:
        labels: The stems of each label.
        asked: The question's stems, and those that it implies.
        own: Those that it has itself.
        weight: Returns the weight of a stem.
    """
    known = set(asked)
    total, best = sum(map(weight, dict.fromkeys(own))), 0.0
    for label in labels:
        if common := sum(weight(word) for word in label & known):
            share = min(1.0, common / total) if total else 1.0
            best = max(best, common / sum(map(weight, label)) * share)
    return best
