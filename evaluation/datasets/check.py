"""Can a data set be used as it lies here? Its rows, its pictures, its doubles."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from evaluation.datasets.coverage import Kind, Sections, coverage
from evaluation.datasets.images import locate
from evaluation.datasets.question import Item, LeftOut, Question
from retriever.images import ImageError, open_image

EXAMPLES = 20
"""Errors and pictures of each sort that a report names."""
MISSING, UNREADABLE = "missing", "unreadable"


@dataclass(slots=True)
class Findings:
    """What one reading of a question file found.

    Attributes:
        kinds: How many questions there are of each kind.
        left_out: How many rows were left out, by why.
        errors: One for each row that cannot be used and for each picture that is not what it should be.
        missing: Ids of pictures that are not there, in the file's order.
        pictures: By the id of a picture its layout, `MISSING` or `UNREADABLE`; empty where they were not looked for.
        repeated: Questions whose words and picture an earlier one has; a note, for data sets have such.
        answers: Questions by how many different answers count as right.
    """

    kinds: Counter[Kind] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    pictures: dict[str, str] = field(default_factory=dict)
    repeated: int = 0
    answers: Counter[int] = field(default_factory=Counter)

    @property
    def entities(self) -> set[str]:
        """The entities that questions are about."""
        return {entity for kind in self.kinds for entity in kind.entities}


def examine(items: Iterable[Item], query_images: Path | None = None) -> Findings:
    """Returns the findings about rows, read one at a time, and about their pictures, of which only headers are read.

    Args:
        items: What `read` yields.
        query_images: The folder with the questions' pictures; `None` leaves them unchecked.
    """
    found = Findings()
    asked: set[int] = set()
    owners: dict[Path, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # a large picture is a usable one
        for item in items:
            if isinstance(item, LeftOut):
                found.left_out[item.reason] += 1
            elif isinstance(item, ValueError):
                found.errors.append(str(item))
            else:
                if query_images is not None and item.image_id not in found.pictures:
                    found.pictures[item.image_id] = _picture(query_images, item.image_id, found, owners)
                found.kinds[_kind(item, found.pictures.get(item.image_id, ""))] += 1
                found.answers[len(set(item.answers))] += 1
                words = hash((item.question, item.image_id))
                found.repeated += words in asked
                asked.add(words)
    return found


def report(found: Findings, known: Sections | None = None) -> dict[str, Any]:
    """Returns the findings ready for JSON; with the sections of a knowledge base their `coverage` too.

    `usable` is false when there is no question, when a row or a picture cannot be used, and when the knowledge base
    has none of the entities that the questions name.
    """
    n = found.kinds.total()
    lost = [status for status in found.pictures.values() if status in (MISSING, UNREADABLE)]
    strange = known is not None and bool(found.entities) and not known
    return {
        "usable": bool(n) and not found.errors and not lost and not strange,
        "questions": n,
        "left_out": dict(found.left_out),
        "errors": len(found.errors),
        "first_errors": found.errors[:EXAMPLES],
        "repeated": found.repeated,
        "entities": len(found.entities),
        "answers_mean": round(sum(k * count for k, count in found.answers.items()) / n, 3) if n else None,
        "with_several_answers": sum(count for k, count in found.answers.items() if k > 1),
        **{f"by_{name}": _counts(found.kinds, name) for name in ("question_type", "split", "category")},
        "pictures": dict(sorted(Counter(found.pictures.values()).items())),
        "pictures_by_category": _by_category(found.kinds) if found.pictures else {},
        "first_missing": found.missing[:EXAMPLES],
        "coverage": None if known is None else coverage(found.kinds, known),
    }


def _kind(question: Question, picture: str) -> Kind:
    return Kind(
        question_type=question.question_type,
        split=question.data_split,
        category=question.category,
        picture=picture,
        entities=question.entity_ids,
        section=question.section_index,
    )


def _picture(folder: Path, image_id: str, found: Findings, owners: dict[Path, str]) -> str:
    place = locate(folder, image_id)
    if place is None:
        found.missing.append(image_id)
        return MISSING
    layout, file = place
    if layout == "path" and (owner := owners.setdefault(file, image_id)) != image_id:
        found.errors.append(f"{file}: is the picture of {owner} and of {image_id}; keep the folders of their paths")
    try:
        with open_image(file):
            return layout
    except ImageError as error:
        found.errors.append(str(error))
        return UNREADABLE


def _counts(kinds: Mapping[Kind, int], name: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for kind, n in kinds.items():
        counts[getattr(kind, name)] += n
    return {value: n for value, n in sorted(counts.items()) if value}


def _by_category(kinds: Mapping[Kind, int]) -> dict[str, dict[str, int]]:
    """Returns, by where pictures come from, how many questions' pictures lie in which layout or are lost."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for kind, n in kinds.items():
        counts[kind.category][kind.picture] += n
    return {category: dict(sorted(row.items())) for category, row in sorted(counts.items())}
