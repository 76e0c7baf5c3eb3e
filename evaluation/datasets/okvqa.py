"""OK-VQA: questions and annotations as two JSON files in the form of the VQA challenge, pictures from COCO."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluation.datasets.question import Item, Question
from evaluation.datasets.rows import Row, json_file, name, optional_text, questions, text

PEOPLE = 10
"""So many people answered every question; VQA accuracy is defined by it."""


def read_okvqa(path: Path) -> Iterator[Item]:
    """Yields the questions of `OpenEnded_mscoco_val2014_questions.json`, or of a file that is named alike.

    The answers lie beside it in `mscoco_val2014_annotations.json`. No question names an entity.

    Raises:
        ValueError: A file is missing, is no JSON object, or lacks a field that it has once.
    """
    answers_path = annotations_of(path)
    annotations = json_file(answers_path)
    topics = annotations.get("question_types")
    topics = topics if isinstance(topics, dict) else {}
    answered: dict[str, tuple[str, Row]] = {}
    for where, row in _entries(annotations, "annotations", answers_path):
        question_id = name(row, "question_id", where)
        if question_id in answered:
            raise ValueError(f"{where}: field question_id: {question_id!r} stands in an earlier entry too")
        answered[question_id] = (where, row)
    asked = json_file(path)
    split = text(asked, "data_subtype", str(path))

    def make(row: Row, where: str) -> Question:
        question_id, image_id = name(row, "question_id", where), name(row, "image_id", where)
        if question_id not in answered:
            raise ValueError(f"{where}: field question_id: {question_id!r} has no entry in {answers_path.name}")
        there, annotation = answered[question_id]
        if name(annotation, "image_id", there) != image_id:
            raise ValueError(f"{there}: field image_id: is not the question's own, {image_id}")
        topic = optional_text(annotation, "question_type", there)
        return Question(
            id=question_id,
            question=text(row, "question", where),
            image_id=f"COCO_{split}_{image_id:0>12}",
            answers=_answers(annotation.get("answers"), there),
            entity_ids=(),
            question_type=optional_text(annotation, "answer_type", there),
            data_split=split,
            category=str(topics.get(topic, topic)),
            style="okvqa",
        )

    return questions(_entries(asked, "questions", path), make, "question_id")


def annotations_of(path: Path) -> Path:
    """Returns the file with the answers to a question file, by its name.

    Raises:
        ValueError: The name does not tell.
    """
    if "questions" not in path.name:
        raise ValueError(f"{path}: a VQA question file has 'questions' in its name, its answers 'annotations'")
    return path.with_name(path.name.replace("OpenEnded_", "").replace("questions", "annotations"))


def _entries(content: Row, field: str, path: Path) -> Iterator[tuple[str, Row]]:
    listed = content.get(field)
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise ValueError(f"{path}: field {field}: a list of objects is needed")
    return ((f"{path}: {field}[{position}]", entry) for position, entry in enumerate(listed))


def _answers(given: Any, where: str) -> tuple[str, ...]:
    listed = given if isinstance(given, list) else []
    said = [one["answer"].strip() for one in listed if isinstance(one, dict) and isinstance(one.get("answer"), str)]
    if len(said) != PEOPLE or len(listed) != PEOPLE or not any(said):  # a few people's answers may be empty
        raise ValueError(f'{where}: field answers: {PEOPLE} objects with an "answer" are needed, not {given!r}')
    return tuple(said)
