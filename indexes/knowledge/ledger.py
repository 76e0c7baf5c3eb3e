"""The ledger of reading a knowledge base: which words and pictures of its documents were left out, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from indexes.knowledge.document import Block, Document, Heading, Table
from indexes.knowledge.ledger_words import compared, content_of, lost_pictures, part_texts, picture_name, word_keys
from indexes.knowledge.ledger_words import texts_of as texts_of
from indexes.knowledge.ledger_words import words_in as words_in
from retriever.types import Entity

Unit = Literal["words", "furniture", "images", "files", "entities"]
"""What is counted; furniture are words that are not of the text, see `FURNITURE`."""
Reason = tuple[str, str]  # why something is left out, a noun phrase, and its text or address

OTHER = "other reasons"
OTHER_WORDS, OTHER_IMAGES = "other words", "other images"
MOST_REASONS = 1000
"""Most reasons with a name; what is left out for further ones, such as titles of sections, counts as `OTHER`."""
FURNITURE = frozenset(
    {"navigation", "forms and buttons", "advertisements", "comments", "notices", "text beside the main part"}
    | {"settings", "settings of notes", "settings of site generators", "settings of infoboxes", "template tags"}
    | {"code of drawings and queries", "code that pages hide", "abbreviations", "coordinates"}
    | {"addresses and ids", "addresses and file names", "licenses and rights", "categories and languages"}
    | {"names and types of files", "details of images", "files within values", "long lists of numbers"}
    | {"embedded notes that are missing or repeat"}
)
"""Reasons for which words are left out that no reader takes for the text: they are listed, but not of the source."""
_EXAMPLE = 80


@dataclass(slots=True)
class Loss:
    """What was left out for one reason."""

    unit: Unit  # what is counted
    count: int  # how many of them
    places: int  # in how many places, such as lines, tables or templates
    example: str  # the first one, with its file and its entry


class Ledger:
    """Counts what is kept and what is left out; the memory does not depend on the number of entities.

    The words of a source are those of its documents as far as a reader of the page sees them: headings, blocks, tables,
    values, and captions of pictures, or else the texts that replace these, without `FURNITURE`. Addresses, files in
    base64, the sizes of images and yes or no are no words, nor are labels: an entity names what it shows. A heading or
    a value that repeats a title or another text counts once. Each word is kept, which means that its entity has it,
    too, or left out. Examples name places relative to `root`. Of `images`, the numbers of files that exist and of
    entities whose main image was found, and the rule that found them, are there as far as they are known; `notes` say
    in sentences what else there is to say.
    """

    def __init__(self, root: str = "") -> None:
        self.left_out: dict[str, Loss] = {}
        self.images: dict[str, Any] = {"files": 0, "found": 0, "rule": ""}
        self.notes: list[str] = []
        self._root, self._kept = root, 0

    def count(
        self,
        source: Document | Entity | None,
        entity: Entity | None,
        words: Iterable[Reason],
        images: Iterable[Reason],
        place: str,
    ) -> None:
        """Counts the words and the pictures of an entry.

        Args:
            source: The entry as it was parsed, or as its reader yielded it; `None` if it could not be read.
            entity: What was made of it; `None` if it is left out, for the first of the reasons.
            words: Why words were left out, and which. This explains what the entity lacks; what it has in spite of it
                is kept.
            images: Why pictures were left out, and their addresses.
            place: The place of the entry, for examples.
        """
        if isinstance(source, Document):
            texts, pictures = content_of(source, entity)
            if entity is None:
                missing = word_keys("\n".join(texts))
                self._lose(next((reason for reason, _ in words), OTHER_WORDS), " ".join(missing), len(missing), place)
                return
            total, lacking = compared(texts, entity)
            self._kept += total - lacking.total()
            if lacking:
                labeled = ((part.kind, "\n".join(part_texts(part))) for part in _labeled(source))
                self._explain(lacking, [*words, *labeled], place)
            if lost := lost_pictures(pictures, entity) if pictures else {}:
                labeled_images = ((part.kind, picture.url) for part in _labeled(source) for picture in part.pictures)
                for reason, url in (*images, *labeled_images, *((OTHER_IMAGES, url) for url in lost.values())):
                    if lost.pop(picture_name(url), None) is not None:
                        self._lose(reason, url, 1, place, "images")
        elif source is not None and entity is None:
            reason = next((reason for reason, _ in words), OTHER_WORDS)
            self._lose(reason, source.title, words_in(texts_of(source)), place)
        elif entity is not None:
            self._kept += words_in(texts_of(entity))
            for reason, text in words:
                self._lose(reason, text.partition("\n")[2] or text, words_in([text]), place)

    def leave_out(self, reason: str, example: str = "", count: int = 1, unit: Unit = "entities") -> None:
        """Counts files or entities, or anything else that belongs to no entry."""
        self._lose(reason, "", count, example, unit)

    def to_json(self) -> dict[str, Any]:
        """Returns the counts; the reasons with most words come first."""
        lost = sum(loss.count for loss in self.left_out.values() if loss.unit == "words")
        reasons = sorted(self.left_out.items(), key=lambda item: (item[0] == OTHER, -item[1].count))
        return {
            "words": {"source": self._kept + lost, "kept": self._kept},
            "pictures": self.images,
            "left_out": [{"reason": reason} | asdict(loss) for reason, loss in reasons],
            **({"notes": self.notes} if self.notes else {}),
        }

    def _explain(self, missing: Counter[str], reasons: Iterable[Reason], place: str) -> None:
        for reason, text in reasons:
            explained = Counter(word_keys(text)) & missing
            missing -= explained
            self._lose(reason, text, explained.total(), place)
        self._lose(OTHER_WORDS, " ".join(missing), missing.total(), place)

    def _lose(self, reason: str, text: str, count: int, place: str, unit: Unit = "words") -> None:
        if not count:
            return
        unit = "furniture" if reason in FURNITURE and unit == "words" else unit
        if reason not in self.left_out and len(self.left_out) >= MOST_REASONS:
            reason = OTHER
        loss = self.left_out.get(reason)
        if loss is None:
            place = place.removeprefix(self._root).lstrip("/: ") or place
            start = next(iter(text.strip().splitlines()), "").strip()[:_EXAMPLE]
            loss = self.left_out[reason] = Loss(unit, 0, 0, ": ".join(filter(None, (place, start))))
        loss.count += count
        loss.places += 1


def _labeled(document: Document) -> Iterator[Block | Table]:
    """Yields the parts that are said to be something else than text."""
    return (part for part in document.parts if not isinstance(part, Heading) and part.kind)
