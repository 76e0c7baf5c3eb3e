"""Checks whether the rows and images of a question file are usable."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from evaluation.datasets.coverage import QuestionGroup, Sections, coverage, unknown_entities
from evaluation.datasets.images import locate
from evaluation.datasets.question import Item, Question, SkippedRow
from retriever.images import ImageError, load_image
from retriever.wording import counted

EXAMPLES = 20  # errors and missing images that a report lists
PRINTED = 5  # errors and missing images that are printed
MISSING, UNREADABLE = "missing", "unreadable"
_DRAFT = 64  # pixels; decodes JPEG's faster


@dataclass(slots=True)
class Findings:
    """The result of reading a question file once.

    Attributes:
        groups: Number of questions in each group.
        skipped: Number of skipped rows by reason.
        errors: One for each invalid row and each unusable image.
        missing: Ids of missing images, in file order.
        images: The layout of each image, `MISSING` or `UNREADABLE`, by id; empty if images were not checked.
        repeated: Number of questions with the same text and image as an earlier one; not an error, data sets have them.
        answers: Number of questions by number of distinct right answers.
    """

    groups: Counter[QuestionGroup] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    images: dict[str, str] = field(default_factory=dict)
    repeated: int = 0
    answers: Counter[int] = field(default_factory=Counter)

    @property
    def entities(self) -> set[str]:
        """Ids of the entities that the questions are about."""
        return {entity for group in self.groups for entity in group.entities}


def examine(items: Iterable[Item], query_images: Path | None = None) -> Findings:
    """Examines rows one at a time, and their images.

    Args:
        items: The rows, as `read` yields them.
        query_images: The folder of query images; `None` skips checking them.
    """
    findings = Findings()
    hashes: set[int] = set()
    owners: dict[Path, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # large images are usable
        for item in items:
            if isinstance(item, SkippedRow):
                findings.skipped[item.reason] += 1
            elif isinstance(item, ValueError):
                findings.errors.append(str(item))
            else:
                if query_images is not None and item.image_id not in findings.images:
                    findings.images[item.image_id] = _image_status(query_images, item.image_id, findings, owners)
                findings.groups[_group(item, findings.images.get(item.image_id, ""))] += 1
                findings.answers[len(set(item.answers))] += 1
                digest = hash((item.question, item.image_id))
                findings.repeated += digest in hashes
                hashes.add(digest)
    return findings


def report(findings: Findings, known: Sections | None = None, example: str = "") -> dict[str, Any]:
    """Returns the findings ready for JSON, with `coverage` if the sections of a knowledge base are given.

    `usable` is false if there are no questions, if a row or image is unusable, or if the knowledge base has none of the
    entities that the questions name (`unrelated` then has the message).

    Args:
        findings: The findings.
        known: The sections of the knowledge base.
        example: The id of any of its entities.
    """
    n = findings.groups.total()
    lost = [status for status in findings.images.values() if status in (MISSING, UNREADABLE)]
    unrelated = known is not None and bool(findings.entities) and not known
    answers_sum = sum(k * count for k, count in findings.answers.items())
    return {
        "usable": bool(n) and not findings.errors and not lost and not unrelated,
        "questions": n,
        "left_out": dict(findings.skipped),
        "errors": len(findings.errors),
        "first_errors": findings.errors[:EXAMPLES],
        "repeated": findings.repeated,
        "entities": len(findings.entities),
        "answers_mean": round(answers_sum / n, 3) if n else None,
        "with_several_answers": sum(count for k, count in findings.answers.items() if k > 1),
        **{f"by_{name}": _counts(findings.groups, name) for name in ("question_type", "split", "category")},
        "images": dict(sorted(Counter(findings.images.values()).items())),
        "images_by_category": _by_category(findings.groups) if findings.images else {},
        "first_missing": findings.missing[:EXAMPLES],
        "unrelated": unknown_entities(findings.entities, example) if unrelated else None,
        "coverage": None if known is None else coverage(findings.groups, known),
    }


def as_text(result: Mapping[str, Any]) -> str:
    """Returns a report, with its `dataset` and `queries`, as text for the terminal."""
    return "\n".join(_lines(result))


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    n, entities = result["questions"], result["entities"]
    about = f"{counted(n, 'question')} about {counted(entities, 'entity')}"
    yield f"{result['dataset']}, {result['queries']}: {about}"
    if n and not entities:
        yield "  entities       no question names one, so there is no Recall@K"
    for reason, n in result["left_out"].items():
        yield f"  skipped        {n:,} ({reason})"
    if result["repeated"]:
        yield f"  repeated       {result['repeated']:,} with the text and image of an earlier question"
    if result["answers_mean"] is not None:
        several = result["with_several_answers"]
        yield f"  answers        {result['answers_mean']:.2f} per question; several for {counted(several, 'question')}"
    for name in ("question_type", "split", "category"):
        if result[f"by_{name}"]:
            yield f"  {name.replace('question_', ''):14} {_pairs(result[f'by_{name}'])}"
    if result["images"]:
        yield f"  images         {_pairs(result['images'])}"
        if len(result["images_by_category"]) > 1:
            for category, counts in result["images_by_category"].items():
                yield f"    {category or '(none)':12} {_pairs(counts)} (by question)"
    yield from _examples("missing images", result["first_missing"], result["images"].get(MISSING, 0))
    if result["coverage"]:
        yield ""
        yield from _coverage_lines(result["coverage"])
    if result["unrelated"]:
        yield f"\n{result['unrelated']}"
    yield from _examples("errors", result["first_errors"], result["errors"])
    yield "" if result["usable"] else "\nnot usable as is"


def _examples(title: str, examples: list[str], n: int) -> Iterator[str]:
    if n:
        yield f"\n{title}: {n:,}"
        yield from (f"  {example}" for example in examples[:PRINTED])
        if n > PRINTED:
            yield "  …"


def _pairs(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items())


def _coverage_lines(rows: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    columns = ("questions", "with_entity", "entity_known", "with_section", "section_known")
    width = max(map(len, rows))
    yield f"{'coverage':{width}}" + "".join(f"  {column.replace('_', ' '):>13}" for column in columns)
    for name, row in rows.items():
        yield f"{name:{width}}" + "".join(f"  {row[column]:>13,}" for column in columns)


def _group(question: Question, image: str) -> QuestionGroup:
    return QuestionGroup(
        question_type=question.question_type,
        split=question.data_split,
        category=question.category,
        image=image,
        entities=question.entity_ids,
        section=question.section_index,
    )


def _image_status(folder: Path, image_id: str, findings: Findings, owners: dict[Path, str]) -> str:
    located = locate(folder, image_id)
    if located is None:
        findings.missing.append(image_id)
        return MISSING
    layout, file = located
    if layout == "path" and (owner := owners.setdefault(file, image_id)) != image_id:
        findings.errors.append(f"{file}: matches both {owner} and {image_id}; keep the folders of their paths")
    try:
        load_image(file, max_side=_DRAFT)  # its header alone does not tell that it is cut off
        return layout
    except ImageError as error:
        findings.errors.append(str(error))
        return UNREADABLE


def _counts(groups: Mapping[QuestionGroup, int], name: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for group, n in groups.items():
        counts[getattr(group, name)] += n
    return {value: n for value, n in sorted(counts.items()) if value}


def _by_category(groups: Mapping[QuestionGroup, int]) -> dict[str, dict[str, int]]:
    """Returns, for each image source, how many questions' images have which layout, are missing or unreadable."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for group, n in groups.items():
        counts[group.category][group.image] += n
    return {category: dict(sorted(row.items())) for category, row in sorted(counts.items())}
