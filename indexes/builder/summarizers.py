"""Summaries of articles for step 1: the protocol of summarizers, one that extracts them, and the file of summaries."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice, tee
from pathlib import Path

from indexes.growing import GrowingLines
from indexes.progress import progress_bar
from retriever.lexical import words
from retriever.protocols import Summarizer
from retriever.types import Entity
from retriever.unspaced import first_words


def _stems(*lines: str) -> frozenset[str]:
    return frozenset(stem for line in lines for stem in words(line))


LOOKS = _stems(  # words that describe how something looks
    "red blue green yellow white black orange purple pink brown gray grey gold golden silver maroon crimson turquoise",
    "violet scarlet azure beige bronze cream ivory navy teal dark light bright pale colored color colour colorful",
    "stripe striped band horizontal vertical diagonal cross star crescent disk disc circle triangle square rectangle",
    "canton emblem shield sun moon eagle lion tree leaf wreath centered center corner edged outlined bordered pattern",
    "spotted speckled mottled checkered five-pointed round oval elongated pear-shaped shaped shape conical cylindrical",
    "flat curved pointed thin thick wide narrow tall long short small large smooth rough wrinkled velvety shiny glossy",
    "hairy ribbed peel skin shell flesh pulp stalk seed crown petal flower bark trunk plumage feather beak bill wing",
    "tail fur eye dome tower spire facade column arch roof window brick stone marble granite wooden glass steel",
    "bottle carton package label can jar box",
)
_UNSEEN = _stems(  # words of sentences that explain or narrate rather than describe
    "stand symbolize represent meaning mean history adopted legend commemorate recall signify signifies symbolizing",
    "taste tasting flavor recipe percent population",
)
_LOOK_TITLE = re.compile(r"\b(?:flag|description|appearance|look|looks|morphology|plumage|architecture|design)\b", re.I)
_LOOK_LABEL = re.compile(
    r"^(?:(?P<topic>[A-Z][\w ()-]{1,30}):\s+)?(?:description|appearance):\s+|^(?:Flag|Appearance):\s+", re.I
)
_AFTERWARDS = re.compile(r"[;,.]?\s*\b(?:meaning|history|notes?|etymology|symbolism|significance)\s*(?::| - )", re.I)
_LABELED = re.compile(r"^[^.:;]{1,50}:[\s;]")
_SENTENCE = re.compile(r"(?<=[^\W\d_]{2})[.!?](?=\s+[A-Z\"“])|(?<=[)\"”\d])[.!?](?=\s+[A-Z])|\n")
_CLAUSE = re.compile(r";|,\s+(?:and|but|which|where|who|while)\b|\s-\s")
_FEW = 6
"""If a description of looks has fewer words than this, other sentences of the article are added."""
_SHORT = 24
"""If such a summary has fewer words than this, it is extended with the article's first sentences."""


class ExtractiveSummarizer:
    """Extracts what an article says about looks first, cut to the number of words that a small text encoder reads.

    A summary is the title, followed by text labeled as a description ("Flag: description: ..." or a section named
    "Appearance"). If there is little such text, the first clause of the lead and the sentences richest in words for
    color, shape and material are added. A summary that is still short is extended with the article's first sentences.

    Args:
        max_words: Longest summary.

    Raises:
        ValueError: `max_words` is below 1.
    """

    def __init__(self, max_words: int = 64) -> None:
        if max_words < 1:
            raise ValueError(f"max_words must be at least 1, got {max_words}")
        self.max_words = max_words
        self.name = f"extractive-{max_words}"

    def stream(self, entities: Iterable[Entity]) -> Generator[str]:
        """Yields one summary per entity."""
        for entity in entities:
            yield self._summary(entity)

    def _summary(self, entity: Entity) -> str:
        described = list(_described(entity))
        parts = list(described)
        if len(" ".join(described).split()) < _FEW:
            parts += list(_lead(entity))
            ranked = sorted(_sentences(entity), key=_looks, reverse=True)
            parts += [sentence for sentence in ranked if _looks(sentence) > 0]
            for sentence in _sentences(entity):
                if len(" ".join(parts).split()) >= _SHORT:
                    break
                parts.append(sentence)
        text = " ".join(f"{part}." for part in _once([entity.title, *parts], self.max_words))
        return first_words(" ".join(text.split()), self.max_words).rstrip(",;:- ")


def _once(parts: Sequence[str], most: int) -> list[str]:
    """Returns the parts without repetition, up to `most` words; a sentence replaces its own first clause."""
    title, kept, count = parts[0].strip(" .;,"), list[str](), 0
    for part in (part.strip(" .;,") for part in parts[1:]):
        begun = next((i for i, earlier in enumerate(kept) if part.startswith(earlier)), None)
        if begun is not None:
            kept[begun] = part
        elif part and count < most:  # comparing all sentences of a long list with each other would take hours
            kept.append(part)
            count += len(part.split())
    return [title, *kept]


def _described(entity: Entity) -> Iterator[str]:
    """Yields texts labeled as a description of looks, in the article's order."""
    for section in entity.sections:
        for line in section.text.splitlines():
            if label := _LOOK_LABEL.match(line):
                yield _AFTERWARDS.split(line[label.end() :])[0]
    for section in entity.sections:
        if _LOOK_TITLE.search(section.title) and section.title != entity.title:
            for sentence in _SENTENCE.split(section.text):
                if sentence.strip() and not _LABELED.match(sentence) and _looks(sentence) > 0:
                    yield sentence


def _lead(entity: Entity) -> Iterator[str]:
    """Yields the first clause of the first full sentence, and before it any shorter sentences, such as "Pear"."""
    for sentence in _sentences(entity):
        yield _CLAUSE.split(sentence)[0]
        if len(sentence.split()) > 3:
            return


def _sentences(entity: Entity) -> Iterator[str]:
    """Yields the sentences of prose, without labeled lines."""
    title = set(words(entity.title))
    for section in entity.sections:
        for sentence in _SENTENCE.split(section.text):
            sentence = sentence.strip(" \ufeff.;")
            if named := re.fullmatch(rf"{re.escape(entity.title)}\s*\((.+)\)", sentence):
                sentence = named[1]  # "Pear" in "Anjou (Pear)"
            if not _LABELED.match(sentence) and not set(words(sentence)) <= title:
                yield sentence


def _looks(sentence: str) -> float:
    """Scores how well a sentence describes looks: descriptive words add to it; explanations and length subtract."""
    found = words(sentence)
    seen = len({word for word in found if word in LOOKS})
    unseen = sum(word in _UNSEEN for word in found)
    return seen - 1.5 - 1.5 * unseen - 0.05 * len(found)


def summarize_all(entities: Sequence[Entity], summarizer: Summarizer, path: Path, batch: int = 32) -> int:
    """Writes `{"id", "summary"}` of entity i to line i of `path`; returns the number of new summaries.

    Summaries that are already in the file are kept, so a killed run resumes after its last complete line.

    Args:
        entities: The articles, in the order of the file; only those being summarized are held in memory.
        summarizer: Writes the summaries.
        path: A JSON lines file; created if absent.
        batch: Number of lines between syncs to disk.

    Raises:
        ValueError: The file belongs to other entities, or the summarizer returns too few texts.
    """
    with GrowingLines(path, 1, len(entities)) as lines:
        start = lines.done
        _check_ids(path, entities, start)
        left = (entities[row] for row in range(start, len(entities)))
        with closing(_rows(left, summarizer)) as made:
            rows = iter(progress_bar(made, total=len(entities), initial=start, desc="summarize", unit="entity"))
            for first in rows:
                lines.append(chain([first], islice(rows, batch - 1)))
        return lines.done - start


def _rows(entities: Iterable[Entity], summarizer: Summarizer) -> Generator[dict[str, str]]:
    """Yields the rows of the file as soon as the summarizer yields their summaries."""
    asked, named = tee(entities)
    with closing(summarizer.stream(asked)) as summaries:
        for entity in named:
            summary = next(summaries, None)
            if summary is None:
                raise ValueError(f"{summarizer.name}: returned no summary for entity {entity.id!r}")
            yield {"id": entity.id, "summary": summary}


def _check_ids(path: Path, entities: Sequence[Entity], done: int) -> None:
    with path.open("rb") as file:
        for number, (line, row) in enumerate(zip(file, range(done), strict=False), start=1):
            try:
                found = json.loads(line)["id"]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}: line {number}: not a summary ({error}); delete the file") from error
            if found != entities[row].id:
                raise ValueError(
                    f"{path}: line {number}: expected entity {entities[row].id!r}, got {found!r}; delete the file"
                )
