"""Prepares step 2's training: writes token ids and compact arrays of the articles that its questions need."""

from __future__ import annotations

import json
import logging
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any

import numpy as np

from indexes.article_images import ImageUse, MainImage, choose_further, keys_with_tokens
from indexes.image_source import main_candidates
from indexes.progress import progress_bar
from indexes.ranked_lists import check_coverage
from indexes.store.article_store import ArticleImages
from retriever.files import write_lines
from retriever.models.text_tokenizer import AnyTokenizer
from retriever.texts import blip_caption, section_passage
from training.copies import originals, text_hash
from training.negatives import MinedNegatives, read_negatives
from training.questions import TrainingQuestion, is_held_out
from training.reranker.data import RerankerData
from training.reranker.image_store import ImageName
from training.reranker.left_out import LeftOut
from training.reranker.rows import write_rows
from training.reranker.samples import SampleSet, offsets_of, without_surplus

logger = logging.getLogger(__name__)

TEXTS_NAME = "texts.bin"
PASSAGES_NAME = "passages.jsonl"
QUESTIONS_NAME = "questions.jsonl"
TOKEN_DTYPE = np.dtype(np.uint16)
"""Large enough for BERT's vocabulary of 30,522 pieces."""
_NOT_MINED = "no negatives were mined for the image"


@dataclass(frozen=True, slots=True)
class Preparation:
    """The result of `prepare`.

    Attributes:
        samples: One sample for each usable question; its images may still turn out to be unreadable.
        ids: The question id of each sample.
        images: The names of all images that samples may need.
        left_out: The questions that did not become samples.
    """

    samples: SampleSet
    ids: list[str]
    images: list[ImageName]
    left_out: LeftOut


def prepare(
    data: RerankerData,
    folder: Path,
    tokenizer: AnyTokenizer,
    *,
    max_tokens: int,
    most_similar: bool,
    validation_share: float,
    seed: int,
) -> Preparation:
    """Reads the articles that questions and their negatives name; writes `texts.bin`, the token ids of all texts.

    Held-out questions are also written as text: `questions.jsonl`, and `passages.jsonl` with their gold articles.
    Articles are not kept in memory, which grows by a few bytes per section and a few hundred per question.

    Args:
        data: The data.
        folder: Folder to write to.
        tokenizer: The tokenizer of the model in training.
        max_tokens: Length to which texts are cut.
        most_similar: Whether to pair a gold article with the one of its images that is most similar to the question's
            image, according to mining.
        validation_share: Share of the images to hold out.
        seed: Seed of that choice.

    Raises:
        ValueError: A file is malformed.
    """
    negatives = read_negatives(data.negatives, order=data.negatives_order, flag="--negatives-order")
    left_out = LeftOut()
    questions = list(_usable(data, negatives, left_out))
    golds = (key for question in questions for key in question.entity_ids)
    mined = chain.from_iterable(negatives[question.image_id].entities for question in questions)
    rows = {id: row for id in dict.fromkeys(chain(golds, mined)) if (row := data.index.row_of(id)) is not None}
    contents = [data.contents.get(question.image_id, question.image_id) for question in questions]
    held_out = [is_held_out(content, validation_share, seed) for content in contents]
    validated = list(compress(questions, held_out))
    shown = {key for question in validated for key in question.entity_ids}
    compared = shown.union(*(negatives[question.image_id].entities for question in validated))
    articles = _Articles(
        data.images,
        sorted({*rows.values()}),
        {rows[key] for key in shown if key in rows},
        {rows[key] for key in compared if key in rows},
        data.serving.use._replace(labeled=False),
    )
    if most_similar:
        urls = (url for question in questions for url in _positives(negatives[question.image_id], question))
        articles.positives.update(name for url in urls if (name := data.images.find(url)) is not None)
    texts = chain(articles.texts(), (blip_caption(question.question) for question in questions), [""])
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / TEXTS_NAME, _tokens(texts, tokenizer, max_tokens), TOKEN_DTYPE)
    write_lines(folder / PASSAGES_NAME, articles.passages)
    check_coverage(
        data.negatives,
        {question.id: negatives[question.image_id].entities for question in questions},
        len(questions) + sum(reason == _NOT_MINED for _, reason, _ in left_out.rows),
        rows.__contains__,
        partial_flag="" if data.negatives_partial else "--negatives-partial",
        training=True,
    )

    first = len(articles.published)
    shown_questions = ((first + i, q.question) for i, q in enumerate(questions) if held_out[i])
    write_lines(folder / QUESTIONS_NAME, shown_questions)

    places = {row: place for place, row in enumerate(articles.rows)}
    row_of = {id: places[row] for id, row in rows.items()}
    table = _Samples(articles, row_of, negatives, most_similar)
    # Several rows may ask the same of the same image, each about another entity; none is a negative of the others.
    queries = [(content, question.question) for content, question in zip(contents, questions, strict=True)]
    right = defaultdict[tuple[str, str], set[int]](set)
    for question, query in zip(questions, queries, strict=True):
        right[query] |= {row_of[key] for key in question.entity_ids if key in row_of}
    first_of = dict[str, str]()  # copies are one image, which a batch has at most once
    for number, question in enumerate(questions):
        image = first_of.setdefault(queries[number][0], str(data.query_image_of(question.image_id)))
        reason = table.add(number, question, image, held_out[number], right[queries[number]])
        if reason is not None:
            left_out.add(question.id, reason)
    table.report(len(questions))
    names = table.images()
    samples, kept, needed = without_surplus(table.samples(), seed, labeled=data.serving.use.labeled)
    for surplus in sorted({*range(len(table.ids))} - {*kept.tolist()}):
        left_out.add(table.ids[surplus], "held out, but enough others are validated on", bad=False)
    images = [names[image] for image in needed]
    return Preparation(samples, [table.ids[sample] for sample in kept], images, left_out)


def _usable(data: RerankerData, negatives: dict[str, MinedNegatives], left_out: LeftOut) -> Iterator[TrainingQuestion]:
    """Yields the questions that may become samples, checked without their articles.

    Negatives that are under the name of an image's file, as in EchoSight's, are added under its id.
    """
    seen: set[str] = set()
    found: dict[str, bool] = {}
    for question in data.questions:
        if isinstance(question, ValueError):
            left_out.add("", f"the row is malformed: {question}")
            continue
        image_id = question.image_id
        if image_id not in found:
            path = data.query_image_of(image_id)
            found[image_id] = path is not None
            if path is not None and path.stem in negatives:
                negatives.setdefault(image_id, negatives[path.stem])
        if question.id in seen:
            left_out.add(question.id, "the id is a duplicate")
        elif not found[image_id]:
            left_out.add(question.id, "the image is missing")
        elif not question.entity_ids:
            left_out.add(question.id, "no gold entity is named", bad=False)
        elif question.section_index is None:
            left_out.add(question.id, "the evidence section is unknown", bad=False)
        elif image_id not in negatives:
            left_out.add(question.id, _NOT_MINED, bad=False)
        else:
            yield question
        seen.add(question.id)


def _tokens(
    texts: Iterable[str], tokenizer: AnyTokenizer, max_tokens: int
) -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    waiting = iter(texts)
    while part := list(islice(waiting, 1024)):
        for row in tokenizer(part, truncation=True, max_length=max_tokens)["input_ids"]:
            yield np.array(row)


@dataclass(slots=True)
class _Articles:
    """The entities that samples need, which are those at `rows` of the index; filled by `texts`.

    From then on, an entity is identified by its place in `rows`. Passages are kept for the entities at `shown` rows,
    images with their own tokens for those at `compared` ones, and of the images in `positives`, those that an entity
    has.
    """

    images: ArticleImages
    rows: list[int]
    shown: set[int]
    compared: set[int]
    use: ImageUse
    main: list[str | None] = field(default_factory=list)
    own: dict[int, list[str]] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)
    published: array[int] = field(default_factory=lambda: array("i"))
    passages: list[tuple[int, list[str]]] = field(default_factory=list)
    text: array[int] = field(default_factory=lambda: array("Q"))
    positives: set[str] = field(default_factory=set)
    has: dict[int, set[str]] = field(default_factory=dict)

    def texts(self) -> Iterator[str]:
        """Yields the text of every section in the form that the model reads."""
        for place, row in enumerate(progress_bar(self.rows, desc="articles", unit="article")):
            entity, main = self.images.articles.entity(row), self.images.main(row)
            self.main.append(main)
            if row in self.compared:
                further = choose_further(entity, MainImage(main), self.use, self.images.find).keys
                self.own[place] = keys_with_tokens(main, further, self.use)
            if self.positives:
                names = (self.images.find(url) for url in main_candidates(entity))
                self.has[place] = {name for name in names if name is not None and name in self.positives}
            self.text.append(text_hash(entity))
            self.lengths.append(len(entity.sections))
            self.published.extend(section.index for section in entity.sections)
            passages = [section_passage(entity.title, section.title, section.text) for section in entity.sections]
            if row in self.shown:
                self.passages.append((place, passages))
            yield from map(blip_caption, passages)


class _Samples:
    """Collects samples, one question at a time; `row_of` has the entities that questions and negatives name."""

    def __init__(
        self, articles: _Articles, row_of: Mapping[str, int], negatives: dict[str, MinedNegatives], most_similar: bool
    ):
        self.articles, self.row_of, self.negatives, self.most_similar = articles, row_of, negatives, most_similar
        self.first_section = offsets_of(articles.lengths)
        self.published = np.frombuffer(articles.published, np.int32)
        self.ids: list[str] = []
        self._names: dict[ImageName, int] = {}
        self._columns: dict[str, array[int]] = {
            name: array("i") for name in ("question", "query_image", "gold", "evidence", "positive_image", "held_out")
        }
        self._found, self._right, self._similarity = array("i"), array("b"), array("f")
        self._lengths: list[int] = []
        self._original = originals(articles.text)
        self._strange, self._copies = list[str](), dict[str, tuple[str, str]]()

    def add(self, number: int, question: TrainingQuestion, image: str, held_out: bool, right: set[int]) -> str | None:
        """Adds the sample of a question, to which `right` entities are no negatives; else returns why that fails."""
        rows = [self.row_of[key] for key in question.entity_ids if key in self.row_of]
        if not rows:
            return "the gold entity is not in the index"
        gold = next((row for row in rows if self.articles.main[row] is not None), None)
        if gold is None:
            return "the gold entity has no image"
        first, last = (int(row) for row in self.first_section[gold : gold + 2])
        evidence = next((row for row in range(first, last) if self.published[row] == question.section_index), None)
        if evidence is None:
            return "the article has no such section, or it is empty"
        mined = self.negatives[question.image_id]
        positive = self._positive(question, mined, gold) if self.most_similar else None
        values = {
            "question": len(self.published) + number,
            "query_image": self._image(ImageName("query", image)),
            "gold": gold,
            "evidence": evidence,
            "positive_image": self._image(ImageName("article", positive or str(self.articles.main[gold]))),
            "held_out": held_out,
        }
        for name, value in values.items():
            self._columns[name].append(value)
        self.ids.append(question.id)
        known: dict[int, float] = {}
        same = self._original[rows]
        for key, similarity in mined.items():
            if (row := self.row_of.get(key)) is None or (row in right and row not in rows):
                continue
            if row not in rows and self._original[row] in same:
                self._copies.setdefault(question.id, (key, question.entity_ids[0]))
            else:
                known.setdefault(row, similarity)  # two names may mean one entity
        self._lengths.append(len(known))
        for row, similarity in known.items():
            self._found.append(row)
            self._right.append(row in rows)
            self._similarity.append(similarity)
        return None

    def _positive(self, question: TrainingQuestion, mined: MinedNegatives, gold: int) -> str | None:
        """Returns the name of the gold entity's image that was mined; `None` if there is none, or it is another's."""
        names = [self.articles.images.find(url) for url in _positives(mined, question)]
        own = next((name for name in names if name is not None and name in self.articles.has.get(gold, ())), None)
        if own is None and any(name is not None for name in names):
            self._strange.append(question.id)
        return own

    def report(self, total: int) -> None:
        """Logs how many of `total` questions have a mined image of another entity, or copies of their article."""
        if self._strange:
            what = "the mined positive image is none of the question's entity, whose main image is used"
            logger.warning("%d of %d questions: %s, such as %s", len(self._strange), total, what, self._strange[0])
        if self._copies:
            copy, gold = next(iter(self._copies.values()))
            what = "articles with the same text as the question's are no negatives"
            logger.warning("%d of %d questions: %s, such as %s and %s", len(self._copies), total, what, copy, gold)

    def images(self) -> list[ImageName]:
        """Returns the names of all images by row; those of samples come first, then those of candidates."""
        for row in (*sorted(set(self._found)), *sorted(set(self._columns["gold"]))):
            if (main := self.articles.main[row]) is not None and self.articles.lengths[row]:
                self._image(ImageName("article", main))
        for _, name in self._own():
            self._image(name)
        return list(self._names)

    def samples(self) -> SampleSet:
        """Returns all samples."""
        main = [-1 if name is None else self._names.get(ImageName("article", name), -1) for name in self.articles.main]
        columns = {name: np.array(values, dtype=np.int32) for name, values in self._columns.items()}
        own = self._own()
        return SampleSet(
            **{name: column for name, column in columns.items() if name != "held_out"},
            held_out=columns["held_out"].astype(bool),
            first_found=offsets_of(self._lengths),
            found=np.array(self._found, dtype=np.int32),
            similarity=np.array(self._similarity, dtype=np.float32),
            right=np.array(self._right, dtype=bool),
            first_section=self.first_section,
            published=self.published,
            main_image=np.array(main, dtype=np.int32),
            image_owners=np.array([row for row, _ in own], dtype=np.int32),
            own_images=np.array([self._names[name] for _, name in own], dtype=np.int32),
            original=self._original.astype(np.int32),
        )

    def _own(self) -> list[tuple[int, ImageName]]:
        return [(row, ImageName("article", name)) for row, names in self.articles.own.items() for name in names]

    def _image(self, name: ImageName) -> int:
        return self._names.setdefault(name, len(self._names))


def _positives(mined: MinedNegatives, question: TrainingQuestion) -> list[str]:
    """Returns the mined positive images that may be of a question's entity, the best first."""
    own = (mined.positives[key] for key in question.entity_ids if key in mined.positives)
    return [*own, *([mined.positive] if mined.positive else [])]


def read_by_row(path: Path) -> dict[int, Any]:
    """Returns the passages of held-out gold articles by entity, or held-out questions by text."""
    with path.open(encoding="utf-8") as file:
        return dict(map(json.loads, file))
