"""The ledger of reading a knowledge base: how much was kept, what was left out, why, and one example of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from indexes.knowledge.sections import FACTS
from retriever.types import Entity
from retriever.unspaced import count_words
from retriever.wording import counted

Unit = Literal["words", "furniture", "images", "files", "entities"]
"""What is counted; furniture are words that are not of the text, see `FURNITURE`."""
Ledger = Mapping[str, Any]  # a ledger as JSON, see `Losses.to_json`

OTHER = "other reasons"
MOST_REASONS = 1000
"""Most reasons with a name; what is left out for further ones, such as rare templates, counts as `OTHER`."""
FURNITURE = frozenset(
    {"navigation", "forms and buttons", "advertisements", "comments", "notices", "text beside the main part"}
    | {"settings", "settings of notes", "settings of site generators", "settings of infoboxes", "template tags"}
    | {"code of drawings and queries", "code of components", "code that pages hide", "abbreviations", "coordinates"}
    | {"addresses and ids", "addresses and file names", "licenses and rights", "categories and languages"}
    | {
        "names and types of files",
        "details of images",
        "files within values",
        "long lists of numbers",
        "embedded notes that are missing or repeat",
    }
)
"""Reasons for which words are left out that no reader takes for the text: they are listed, but not of the source."""
SPOKEN = 0.02  # share of the words from which a build says what it left out; of images and entities, each one counts
_BATCH = 1 << 17  # characters that are counted at a time: enough for NumPy, and few enough for a processor's cache
_FEW = 4000  # characters up to which Python counts faster than NumPy
_EXAMPLE, _SHOWN = 80, 10


@dataclass(slots=True)
class Loss:
    """What was left out for one reason."""

    unit: Unit  # what is counted
    count: int  # how many of them
    places: int  # in how many places, such as lines, tables or templates
    example: str  # the first one, with its file and its line or entry


class Losses:
    """Counts what is kept and what is left out; the memory does not depend on the number of entities.

    The words of a source are those of its headings and texts as a reader of the page sees them, without the entity's
    title, the names of fields, and `FURNITURE`. Each is kept or left out, so they are the sum of both. Examples name
    places relative to `root`. Of `images`, the numbers of files that exist and of entities whose main image was found,
    and the rule that found them, are there as far as they are known; `notes` say in sentences what else there is to
    say.
    """

    def __init__(self, root: str = "") -> None:
        self.left_out: dict[str, Loss] = {}
        self.images: dict[str, Any] = {"files": 0, "found": 0, "rule": ""}
        self.notes: list[str] = []
        self._root, self._where, self._source = root, "", ""
        self._kept, self._pending, self._length = 0, list[str](), 0
        self._repeated, self._of_entry = 0, list[tuple[str, int]]()

    def at(self, where: str, source: str = "") -> None:
        """Begins an entry, for examples. Its file's text is the `source` if there are several lines to tell apart."""
        if source or where != self._where:
            self._where, self._source = where, source

    def leave_out(self, reason: str, text: str = "", count: int | None = None, unit: Unit = "words") -> None:
        """Counts something of the current entry that is left out.

        The reason is a noun phrase that says what it is, "navigation", and the text becomes the example. By default,
        the count is that of its words, or one of another unit.
        """
        if count is None:
            count = 1 if unit != "words" else words_in([text]) if text else 0
        unit = "furniture" if reason in FURNITURE else unit
        if not count:
            return
        if reason not in self.left_out and len(self.left_out) >= MOST_REASONS:
            reason = OTHER
        loss = self.left_out.get(reason)
        if loss is None:
            loss = self.left_out[reason] = Loss(unit, 0, 0, self._example(text))
        loss.count += count
        loss.places += 1
        if unit in ("words", "furniture"):
            self._of_entry.append((reason, count))

    def keep(self, *texts: str) -> None:
        """Counts texts that are kept."""
        self._pending += texts
        self._length += sum(map(len, texts))
        if self._length > _BATCH:
            self._count()

    def keep_entity(self, entity: Entity) -> None:
        """Counts the texts of an entity."""
        self.keep(*texts_of(entity))

    def repeat(self, words: int) -> None:
        """Counts words that are kept but not of the source, such as a column's name that is repeated in every row."""
        self._kept -= words
        self._repeated += words

    def next_entry(self) -> None:
        """Ends the current entry, which can then no longer be rejected or forgotten."""
        self._repeated = 0
        self._of_entry.clear()

    def reject(self, reason: str, entity: Entity | None = None) -> None:
        """Counts the words of the current entry, which is left out as a whole."""
        self._kept += self._repeated
        texts = texts_of(entity) if entity is not None else []
        self.leave_out(reason, "\n".join(texts[:1]), words_in(texts) - self._repeated if texts else 0)
        self._repeated = 0

    def forget(self) -> None:
        """Takes back what the current entry counted, because it is none of those to be read."""
        self._kept += self._repeated
        for reason, count in self._of_entry:
            loss = self.left_out[reason]
            loss.count, loss.places = loss.count - count, loss.places - 1
            if not loss.places:
                del self.left_out[reason]
        self.next_entry()

    def to_json(self) -> dict[str, Any]:
        """Returns the counts; the reasons with most words come first."""
        self._count()
        lost = sum(loss.count for loss in self.left_out.values() if loss.unit == "words")
        reasons = sorted(self.left_out.items(), key=lambda one: (one[0] == OTHER, -one[1].count))
        return {
            "words": {"source": self._kept + lost, "kept": self._kept},
            "pictures": self.images,
            "left_out": [{"reason": reason} | asdict(loss) for reason, loss in reasons],
            **({"notes": self.notes} if self.notes else {}),
        }

    def _count(self) -> None:
        self._kept += words_in(self._pending)
        self._pending, self._length = [], 0

    def _example(self, text: str) -> str:
        """Returns a place with its line, as far as it can be found, and the beginning of a text there."""
        place = self._where.removeprefix(self._root).lstrip("/: ") or self._where
        start = next(iter(text.strip().splitlines()), "").strip()[:_EXAMPLE]
        found = self._source.find(start) if start and self._source else -1
        if found >= 0:
            place += f":{self._source.count(chr(10), 0, found) + 1}"
        return ": ".join(filter(None, (place, start)))


def texts_of(entity: Entity) -> list[str]:
    """Returns the texts of an entity, and the titles of its sections other than its own."""
    titles = [one.title for one in entity.sections if one.title not in (entity.title, FACTS)]
    return [*(one.text for one in entity.sections), *titles]


def words_in(texts: Iterable[str]) -> int:
    """Counts the words of texts as `count_words` does, many times as fast: runs of characters between white space.

    Spaces beyond ASCII do not count.
    """
    texts = tuple(texts)
    text = "\n".join(texts)
    if len(text) < _FEW and text.isascii():
        return len(text.split())
    data = np.frombuffer(text.encode(errors="replace"), np.uint8)
    if not len(data):
        return 0
    leads = data[data >= 0xE0]
    if ((leads != 0xE2) & (leads <= 0xE9)).any():  # first bytes of characters of scripts without spaces, among others
        return sum(map(count_words, texts))
    blank = data <= 32
    return int(np.count_nonzero(blank[:-1] > blank[1:])) + int(not blank[0])


def summary_of(ledger: Ledger) -> str:
    """Summarizes in one sentence how many words were kept, and the largest losses."""
    source, kept = ledger["words"]["source"], ledger["words"]["kept"]
    share = 100 * kept / source if source else 100
    listed = "; ".join(_shown(loss) for loss in ledger["left_out"][:_SHOWN])
    more = len(ledger["left_out"]) - _SHOWN
    others = f"; and for {counted(more, 'more reason')}" if more > 0 else ""
    text = f"kept {share:.1f} % of {counted(source, 'word')}"
    return text + (f"; left out: {listed}{others}" if listed else "")


def warning_of(ledger: Ledger) -> str:
    """Returns the sentence that a build prints, "" if it left out few words, and no image and no entity."""
    source, kept = ledger["words"]["source"], ledger["words"]["kept"]
    whole = any(loss["unit"] in ("images", "entities") for loss in ledger["left_out"])
    return summary_of(ledger) if whole or source - kept > SPOKEN * source else ""


def table_of(ledger: Ledger) -> Iterator[str]:
    """Yields the lines of a table of what was left out, for a terminal."""
    if losses := ledger["left_out"]:
        width = min(max(len(loss["reason"]) for loss in losses), _EXAMPLE // 2)
        yield f"{'left out':<{width}}  {'count':>9}  {'unit':<8}  {'places':>8}  first"
        for loss in losses:
            count, places = f"{loss['count']:,}", f"{loss['places']:,}"
            yield f"{loss['reason']:<{width}}  {count:>9}  {loss['unit']:<8}  {places:>8}  {loss['example']}"


def _shown(loss: Mapping[str, Any]) -> str:
    nouns = {"words": "word", "furniture": "word", "images": "image", "files": "file", "entities": "entity"}
    places = f" in {counted(loss['places'], 'place')}" if loss["unit"] in ("words", "furniture") else ""
    return f"{loss['reason']} {counted(loss['count'], nouns[loss['unit']])}{places}, e.g. {loss['example']}"
