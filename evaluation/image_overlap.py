"""Questions that a profile was trained on, or whose images are elsewhere, too: in the index, a training or a sweep.

Images are compared by content (`indexes.image_copies`), not by name. Builds with labeled images, trainings and sweeps
note theirs in a file beside what they write. Trainings on texts note their questions.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from evaluation.datasets import Question, find_query_image
from evaluation.metrics import Outcome, figures_of, mean, percent
from evaluation.own_answers import own_tokens
from indexes.image_copies import KnownImages
from indexes.store.article_store import ArticleStore
from indexes.store.index import Index
from retriever.files import read_object, write_json
from retriever.wording import counted

logger = logging.getLogger(__name__)

NOTE = "images.npz"
"""The file that notes images: beside an index its labeled ones, beside a profile those that it was trained or tuned on,
in a run those of its questions. It is no part of the index, so that equal builds elsewhere are equal."""
_QUESTIONS = "trained-questions.json"
"""The file beside a profile with the questions of trainings on texts, by the ids of their entities."""
PLACES = {
    "labeled": "labeled images of the index",
    "profile": "images that the profile was trained or tuned on",
    "question": "questions that the profile was trained on",
    "main": "main images of their entities",
}
"""Where a question or its image can be, too, and the words for it; of several places, the first one counts."""


@dataclass(frozen=True, slots=True)
class ImageOverlap:
    """Where else questions and their images are.

    Attributes:
        images: The image of each question, by the question's id.
        places: One place for each question that is elsewhere, or whose image is, by the question's id.
        repeated: How many questions are about the same image as an earlier one, in the same words.
    """

    images: KnownImages
    places: Mapping[str, str]
    repeated: int = 0

    @classmethod
    def of(
        cls,
        questions: Sequence[Question],
        images: KnownImages,
        index: Index,
        folder: Path,
        trained: Sequence[Path] = (),
    ) -> Self:
        """Compares questions and their images with an index, and with what a profile was trained or tuned on.

        Args:
            questions: The questions.
            images: Their images, by the question's id (`images_of`).
            index: The index.
            folder: The index's folder.
            trained: The folders that note what the profile was trained or tuned on.
        """
        places = dict.fromkeys(_with_main_image(questions, images, index), "main")
        if asked := {pair for noted in trained for pair in _noted_questions(noted)}:
            places |= {question.id: "question" for question in questions if asked & _pairs_of(question)}
        for noted in trained:
            places |= dict.fromkeys(images.copies_in(KnownImages.load(noted / NOTE)), "profile")
        labeled = index.manifest.inputs.labeled != "none"
        if labeled:
            places |= dict.fromkeys(images.copies_in(KnownImages.load(folder / NOTE)), "labeled")
        if labeled and not (folder / NOTE).is_file():
            what = "whether they are those of the questions is unknown until it is built again"
            logger.warning(
                "%s: the index has labeled images, but no note of their content (%s): %s", folder, NOTE, what
            )
        pixels = {id: row.tobytes() for id, row in zip(images.ids, images.signatures, strict=True)}
        shown = [(pixels[one.id], one.question) for one in questions if one.id in pixels]
        return cls(images, places, len(shown) - len(set(shown)))

    def __call__(self, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        """Returns the entries for `metrics.json`: which questions, their share, and the figures of all others."""
        return self._entries(len(outcomes), figures_of([one for one in outcomes if one.id not in self.places]))

    def of_scores(self, scores: Mapping[str, float]) -> dict[str, Any]:
        """Returns the entries for the `metrics.json` of an agent's run, given the score of each question."""
        others = [score for id, score in scores.items() if id not in self.places]
        return self._entries(len(scores), {"n": len(others), "accuracy": mean(others)})

    def _entries(self, n: int, others: Mapping[str, Any]) -> dict[str, Any]:
        count = n - others["n"]
        overlap = {"share": count / n, "questions": dict(self.places), "others": others}
        return {"n_overlap": count, "n_repeated": self.repeated, "overlap": overlap}


def images_of(questions: Iterable[Question], folder: Path) -> KnownImages:
    """Reads the image of each question, by the question's id."""
    return KnownImages.of({question.id: find_query_image(folder, question.image_id) for question in questions})


def read_images(ids: Iterable[str], folder: Path) -> KnownImages:
    """Reads the images of questions, given their ids."""
    return KnownImages.of({id: find_query_image(folder, id) for id in dict.fromkeys(ids)})


def note_images(
    folder: Path, images: KnownImages, trained: Sequence[Path] = (), questions: Sequence[Question] = ()
) -> None:
    """Notes images beside an index, a run or a profile, and the questions of a training on texts.

    What the folders in `trained` note is noted, too. Images of several data sets may have the same id. If there is
    nothing to note, an earlier note goes.
    """
    asked = [*map(_pairs_of, questions), *map(_noted_questions, trained)]
    texts = defaultdict[str, list[str]](list)
    for entity, words in sorted({pair for pairs in asked for pair in pairs}):
        texts[entity].append(words)
    if texts:
        write_json(folder / _QUESTIONS, texts)
    else:
        (folder / _QUESTIONS).unlink(missing_ok=True)
    noted = [images, *(KnownImages.load(one / NOTE) for one in trained)]
    pairs = dict.fromkeys((id, row.tobytes()) for one in noted for id, row in zip(one.ids, one.signatures, strict=True))
    if pairs:
        signatures = np.frombuffer(b"".join(row for _, row in pairs), np.uint8).reshape(len(pairs), -1)
        KnownImages([id for id, _ in pairs], signatures).save(folder / NOTE)
    else:
        (folder / NOTE).unlink(missing_ok=True)


def _pairs_of(question: Question) -> set[tuple[str, str]]:
    """Returns the question as pairs of an entity and the words that count, so that spelling makes no difference."""
    words = " ".join(own_tokens(question.question))
    return {(entity, words) for entity in question.entity_ids}


def _noted_questions(folder: Path) -> set[tuple[str, str]]:
    texts = read_object(folder / _QUESTIONS) if (folder / _QUESTIONS).is_file() else {}
    return {(entity, words) for entity, asked in texts.items() for words in asked}


def overlap_text(metrics: Mapping[str, Any]) -> list[str]:
    """Returns which share of a run's questions is elsewhere, too, or has its image there, as lines, if any."""
    overlap = metrics.get("overlap") or {}
    if not overlap.get("questions"):
        return []
    counts, others = Counter(overlap["questions"].values()), overlap["others"]
    where = ", ".join(f"{count:,} among {PLACES[place]}" for place, count in counts.most_common())
    figures = ", ".join(f"{name.replace('_', ' ')} {percent(others[name])}" for name in _SHOWN if name in others)
    rest = f"the other {counted(others['n'], 'question')}: {figures}" if others["n"] else "no other questions"
    return [f"overlap known {percent(overlap['share'])} ({where}); {rest}"]


_SHOWN = ("step1_recall@1", "step2_recall@1", "section_recall@1", "accuracy")


def warn_of_labeled(images: Mapping[str, Path | None], index: Path, noun: str = "image", advice: str = "") -> None:
    """Warns if images that an index is asked with are its labeled images: each of them is its own best candidate."""
    known = KnownImages.of(images).copies_in(KnownImages.load(index / NOTE))
    if known:
        share = f"{percent(len(known) / len(images))} percent"
        what = "are its labeled images, and find themselves, as images that are asked later will not"
        logger.warning("%s: %d of %s (%s) %s%s", index, len(known), counted(len(images), noun), share, what, advice)


def warn_of_main(questions: Sequence[Question], images: Mapping[str, Path | None], index: ArticleStore) -> None:
    """Warns if images are the main images of their entities, on which a training is trained, too."""
    known = KnownImages.of({question.id: images.get(question.image_id) for question in questions})
    if same := _with_main_image(questions, known, index):
        share = f"{percent(len(same) / len(questions))} percent"
        what = "have the main image of their entity, on which the encoder is trained, too"
        logger.warning("%d of %s (%s) %s", len(same), counted(len(questions), "question"), share, what)


def _with_main_image(questions: Sequence[Question], images: KnownImages, index: ArticleStore) -> set[str]:
    """Returns the ids of the questions whose image is the main image of a gold entity."""
    rows = ((question.id, index.row_of(entity)) for question in questions for entity in question.entity_ids)
    pairs = [(id, str(row)) for id, row in rows if row is not None]
    main = KnownImages.of({row: index.image_path(int(row)) for row in {row for _, row in pairs}})
    return {id for id, _ in images.same(main, pairs)}


def main_copies(index: ArticleStore, rows: Iterable[int]) -> list[list[str]]:
    """Returns the ids of those entities whose main images are copies of one another, the largest group first."""
    names = KnownImages.of({str(row): index.image_path(row) for row in rows}).names()
    groups = defaultdict(list)
    for row, name in names.items():
        groups[name].append(index.entity(int(row)).id)
    return sorted((group for group in groups.values() if len(group) > 1), key=len, reverse=True)
