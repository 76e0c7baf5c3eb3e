"""The ledger of reading a knowledge base: which words and pictures of its documents were left out, and why."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Literal

from indexes.image_paths import is_embedded
from indexes.knowledge.document import Block, Document, Heading, Table
from indexes.knowledge.image_names import picture_name
from indexes.knowledge.sections import FACTS
from indexes.knowledge.understanding.facts import LISTS, scalar_of
from indexes.knowledge.understanding.fields import looks_like_image
from indexes.knowledge.understanding.image_texts import pictures_in
from indexes.knowledge.understanding.settings import SECRETS
from indexes.labeled_values import folded
from retriever.types import Entity
from retriever.unspaced import UNSPACED, count_words

Unit = Literal["words", "furniture", "images", "files", "entities"]  # what is counted; see `FURNITURE`
Reason = tuple[str, str]  # why something is left out, a noun phrase, and its text or address

OTHER = "other reasons"
OTHER_WORDS, OTHER_IMAGES = "other words", "other images"
MOST_REASONS = 1000  # with a name; what is left out for further ones, such as titles of sections, counts as `OTHER`
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
_LONG, _AHEAD = 16, 20_000
"""Characters from which a text that an entity has as it is was kept, and not found by chance; how far it is sought."""
_WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")
_MARKUP = re.compile(
    r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|</?[a-z][^<>]*>|\]\([^()\s]*\)", re.DOTALL | re.IGNORECASE
)
"""Tags of HTML, and the addresses of links in Markdown."""
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*://|mailto:|data:)\S+", re.IGNORECASE)
_BLOB = re.compile(r"[A-Za-z0-9+/_=-]{60}\s*[A-Za-z0-9+/_=-]{60}")  # the beginning of a file in base64
_SIZES = frozenset({"width", "height", "filesize", "size", "bytes"})  # fields, as by `folded`, beside an image


@dataclass(slots=True)
class Loss:
    """What was left out for one reason: how many, in how many lines, tables or entries, and the first one."""

    unit: Unit
    count: int
    places: int
    example: str


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
        if entity is None:
            reason = next((reason for reason, _ in words), OTHER_WORDS)
            if isinstance(source, Document):
                missing = word_keys("\n".join(_content_of(source, None)[0]))
                self._lose(reason, " ".join(missing), len(missing), place)
            elif source is not None:
                self._lose(reason, source.title, words_in(texts_of(source)), place)
        elif isinstance(source, Document):
            self._compare(source, entity, words, images, place)
        else:
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

    def _compare(
        self, source: Document, entity: Entity, words: Iterable[Reason], images: Iterable[Reason], place: str
    ) -> None:
        texts, pictures = _content_of(source, entity)
        total, missing = _compared(texts, entity)
        self._kept += total - missing.total()
        labeled = [part for part in source.parts if not isinstance(part, Heading) and part.kind]
        for reason, text in chain(words, ((part.kind, "\n".join(_texts_in(part))) for part in labeled)):
            if not missing:
                break
            explained = Counter(word_keys(text)) & missing
            missing -= explained
            self._lose(reason, text, explained.total(), place)
        self._lose(OTHER_WORDS, " ".join(missing), missing.total(), place)
        if lost := _lost_pictures(pictures, entity):
            reasons = (*images, *((part.kind, picture.url) for part in labeled for picture in part.pictures))
            for reason, url in (*reasons, *((OTHER_IMAGES, url) for url in lost.values())):
                if lost.pop(picture_name(url), None) is not None:
                    self._lose(reason, url, 1, place, "images")

    def _lose(self, reason: str, text: str, count: int, place: str, unit: Unit = "words") -> None:
        if not count:
            return
        unit = "furniture" if reason in FURNITURE and unit == "words" else unit
        if reason not in self.left_out and len(self.left_out) >= MOST_REASONS:
            reason = OTHER
        loss = self.left_out.get(reason)
        if loss is None:
            inner = place.removeprefix(self._root)  # unlike `fox.csv` in `fox`
            place = inner.lstrip("/: ") or place if inner[:1] in "/:" else place
            start = "" if reason == SECRETS else next(iter(text.strip().splitlines()), "").strip()[:_EXAMPLE]
            loss = self.left_out[reason] = Loss(unit, 0, 0, ": ".join(filter(None, (place, start))))
        loss.count += count
        loss.places += 1


def words_in(texts: Iterable[str]) -> int:
    """Counts the words of texts."""
    return count_words("\n".join(texts))


def texts_of(entity: Entity) -> list[str]:
    """Returns the texts of an entity, and the titles of its sections other than its own."""
    titles = [section.title for section in entity.sections if section.title not in (entity.title, FACTS)]
    return [*(section.text for section in entity.sections), *titles]


def word_keys(text: str) -> list[str]:
    """Returns the words of a text in lower case, without markup, each without signs: `fox/dog` is two."""
    if "<" in text or "](" in text:
        text = _MARKUP.sub(" ", text)
    return _WORD.findall((html.unescape(text) if "&" in text else text).casefold())


def _compared(texts: Iterable[str], entity: Entity) -> tuple[int, Counter[str]]:
    """Returns the number of words of texts, and those that an entity lacks, in order and as by `word_keys`."""
    captions = [image.caption for image in entity.images if image.caption]
    whole = "\n".join((*texts_of(entity), entity.title, entity.id, *entity.names, *captions))
    kept, changed, others, place = list[str](), list[str](), list[str](), 0
    for text in texts:  # most are in the entity as they are, in this order
        start = -1
        if len(text) >= _LONG:
            after = place + (place > 0)
            start = after if whole.startswith(text, after) else whole.find(text, place, place + len(text) + _AHEAD)
        end = start + len(text)
        if start >= 0 and not (whole[start - 1 : start] + whole[end : end + 1]).strip():
            others.append(whole[place:start])
            kept.append(text)
            place = end
        else:
            changed.append(text)
    wanted = word_keys("\n".join(changed))
    there = word_keys("\n".join((*others, whole[place:]))) if wanted else []
    return words_in(kept) + len(wanted), Counter(wanted) - Counter(there)


def _content_of(document: Document, entity: Entity | None) -> tuple[list[str], list[str]]:
    """Returns the texts of a document but for the names of its entity, and the addresses of its pictures."""
    seen = {FACTS} if entity is None else {FACTS, entity.title, entity.id, *entity.names}
    texts, pictures, others = list[str](), list[str](), list[str]()
    for part in document.parts:
        if isinstance(part, Heading):
            texts += [] if part.text in seen else [part.text]
            continue
        whole = _texts_in(part)
        texts += whole
        for picture in part.pictures:
            pictures.append(picture.url)
            caption = picture.caption or picture.alt
            others += [] if any(caption in text for text in whole) else [caption]
    seen.update(texts)
    for text in (*others, *_leaves(document.values)):
        if not text or text in seen:
            continue
        if "." in text[-6:] and looks_like_image(text):
            pictures += [url for url, _ in pictures_in(text)] or [text]
        elif text[:5] in ("data:", "embed") and is_embedded(text):
            pictures += [text] if text[:11] == "data:image/" else []
        elif not (":" in text and _ADDRESS.fullmatch(text)) and not (len(text) > 120 and _BLOB.match(text)):
            seen.add(text)
            texts.append(text)
    return texts, pictures


def _texts_in(part: Block | Table) -> list[str]:
    """Returns the texts of a part, one for each cell of a table."""
    return [part.text] if isinstance(part, Block) else [cell.text for row in part.rows for cell in row if cell.text]


def _leaves(values: Mapping[str, Any]) -> Iterator[str]:
    """Yields the texts within values, which may be nested deeper than Python's stack."""
    waiting: list[tuple[Any, bool]] = [(values, False)]
    while waiting:
        value, in_file = waiting.pop()
        if type(value) is str:
            if not in_file or is_embedded(value) or not looks_like_image(value):  # what a file is called is no picture
                yield value.strip()
        elif isinstance(value, dict):
            texts = [item for item in value.values() if type(item) is str]
            in_file = in_file or (value is not values and any(map(is_embedded, texts)))
            sizes = [name for name in value if type(value[name]) is int and folded(str(name)) in _SIZES]
            beside = sizes if in_file or any(map(looks_like_image, texts if sizes else ())) else ()
            waiting += [(item, in_file) for name, item in reversed(value.items()) if name not in beside]
        elif isinstance(value, LISTS):
            waiting += [(item, in_file) for item in reversed(value)]
        elif not isinstance(value, bool) and (text := scalar_of(value)):
            yield text


def _lost_pictures(urls: Iterable[str], entity: Entity) -> dict[str, str]:
    """Returns those addresses of pictures that are none of an entity's images, by `picture_name`.

    Sizes of one file are one picture. A picture that is contained in a text has no name: an entity has as many of them
    as images that nothing else names.
    """
    there = {image.url for image in entity.images} | ({entity.image} if entity.image else set())
    lost = {picture_name(url): url for url in urls if url not in there}
    names = set(map(picture_name, there)) if lost else set()
    names.update([name for name in lost if is_embedded(lost[name])][: sum(map(is_embedded, there))])
    return {name: url for name, url in lost.items() if name not in names}
