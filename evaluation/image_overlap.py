"""Questions whose images are elsewhere, too: in the index, or among those that a profile was trained or tuned on.

Images are compared by content (`indexes.image_copies`), not by name. Builds with labeled images, trainings and sweeps
note theirs in a file beside what they write.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from evaluation.datasets import Question, find_query_image
from evaluation.metrics import Outcome, figures_of, percent
from indexes.image_copies import KnownImages, are_copies
from indexes.store.article_store import ArticleStore
from indexes.store.index import Index
from retriever.wording import counted

logger = logging.getLogger(__name__)

NOTE = "images.npz"
"""The file beside an index or a profile that notes its labeled images, or those that it was trained or tuned on. It is
no part of the index, so that equal builds elsewhere are equal."""
PLACES = {
    "labeled": "labeled images of the index",
    "profile": "images that the profile was trained or tuned on",
    "main": "main images of their entities",
}
"""Where the image of a question can be, too, and the words for it; of several places, the first one counts."""


@dataclass(frozen=True, slots=True)
class ImageOverlap:
    """Where else the images of questions are.

    Attributes:
        places: One place for each question whose image is elsewhere, by the question's id.
    """

    places: Mapping[str, str]

    @classmethod
    def of(
        cls, questions: Sequence[Question], query_images: Path, index: Index, folder: Path, profile: Path | None = None
    ) -> Self:
        """Compares the images of questions with those of an index, and with those that a profile was made from.

        Args:
            questions: The questions.
            query_images: The folder of their images.
            index: The index.
            folder: The index's folder.
            profile: The folder of the profile, if it has one.
        """
        asked = read_images((question.image_id for question in questions), query_images)
        places = dict.fromkeys(_with_main_image(questions, asked, index), "main")
        labeled = index.manifest.inputs.labeled != "none"
        for place, noted in (("profile", profile), ("labeled", folder if labeled else None)):
            copies = set() if noted is None else asked.copies_in(KnownImages.load(noted / NOTE))
            places |= {question.id: place for question in questions if question.image_id in copies}
        if labeled and not (folder / NOTE).is_file():
            what = "whether they are those of the questions is unknown until it is built again"
            logger.warning(
                "%s: the index has labeled images, but no note of their content (%s): %s", folder, NOTE, what
            )
        return cls(places)

    def __call__(self, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        """Returns the entries for `metrics.json`: which questions, their share, and the figures of all others."""
        others = [outcome for outcome in outcomes if outcome.id not in self.places]
        count = len(outcomes) - len(others)
        overlap = {"share": count / len(outcomes), "questions": dict(self.places), "others": figures_of(others)}
        return {"n_overlap": count, "overlap": overlap}


def read_images(ids: Iterable[str], folder: Path) -> KnownImages:
    """Reads the images of questions, given their ids."""
    return KnownImages.of({id: find_query_image(folder, id) for id in dict.fromkeys(ids)})


def note_images(folder: Path, images: KnownImages, profile: Path | None = None) -> None:
    """Notes images beside an index or a profile; with `profile`, also those that the profile in that folder notes.

    Images of several data sets may have the same id. If there are no images, an earlier note goes.
    """
    noted = [images, KnownImages.load(profile / NOTE)] if profile else [images]
    pairs = dict.fromkeys((id, row.tobytes()) for one in noted for id, row in zip(one.ids, one.signatures, strict=True))
    if pairs:
        signatures = np.frombuffer(b"".join(row for _, row in pairs), np.uint8).reshape(len(pairs), -1)
        KnownImages([id for id, _ in pairs], signatures).save(folder / NOTE)
    else:
        (folder / NOTE).unlink(missing_ok=True)


def overlap_text(metrics: Mapping[str, Any]) -> list[str]:
    """Returns which share of a run's questions has an image that is elsewhere, too, as lines of text, if any has."""
    overlap = metrics.get("overlap") or {}
    if not overlap.get("questions"):
        return []
    counts, others = Counter(overlap["questions"].values()), overlap["others"]
    where = ", ".join(f"{count:,} among {PLACES[place]}" for place, count in counts.most_common())
    figures = ", ".join(f"{name.replace('_', ' ')} {percent(others[name])}" for name in _SHOWN)
    rest = f"the other {counted(others['n'], 'question')}: {figures}" if others["n"] else "no other questions"
    return [f"overlap known images {percent(overlap['share'])} ({where}); {rest}"]


_SHOWN = ("step1_recall@1", "step2_recall@1", "section_recall@1", "accuracy")


def warn_of_labeled(images: Mapping[str, Path | None], index: Path) -> None:
    """Warns if images that an index is asked with are its labeled images: each of them is its own best candidate."""
    known = KnownImages.of(images).copies_in(KnownImages.load(index / NOTE))
    if known:
        share = f"{percent(len(known) / len(images))} percent"
        what = "are its labeled images, and find themselves, as images that are asked later will not"
        logger.warning("%s: %d of %d images (%s) %s", index, len(known), len(images), share, what)


def warn_of_main(questions: Sequence[Question], images: Mapping[str, Path | None], index: ArticleStore) -> None:
    """Warns if images are the main images of their entities, on which a training is trained, too."""
    if same := list(_with_main_image(questions, KnownImages.of(images), index)):
        share = f"{percent(len(same) / len(questions))} percent"
        what = "have the main image of their entity, on which the encoder is trained, too"
        logger.warning("%d of %s (%s) %s", len(same), counted(len(questions), "question"), share, what)


def _with_main_image(questions: Sequence[Question], asked: KnownImages, index: ArticleStore) -> Iterator[str]:
    """Yields the ids of the questions whose image is the main image of a gold entity."""
    pairs = [
        (question, row)
        for question in questions
        for entity in question.entity_ids
        if (row := index.row_of(entity)) is not None
    ]
    main = KnownImages.of({str(row): index.image_path(row) for row in {row for _, row in pairs}})
    place, main_place = (dict(zip(known.ids, range(len(known.ids)), strict=True)) for known in (asked, main))
    pairs = [(question, row) for question, row in pairs if question.image_id in place and str(row) in main_place]
    ones = asked.signatures[[place[question.image_id] for question, _ in pairs]]
    others = main.signatures[[main_place[str(row)] for _, row in pairs]]
    yield from (question.id for (question, _), same in zip(pairs, are_copies(ones, others), strict=True) if same)
