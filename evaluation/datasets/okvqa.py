"""OK-VQA: questions and annotations as two JSON files in the format of the VQA challenge, images from COCO."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluation.datasets.dataset import Dataset, Scores
from evaluation.datasets.question import Item, Question
from evaluation.datasets.rows import Row, json_file, name, optional_text, questions, text
from evaluation.vqa import vqa_accuracy

PEOPLE = 10  # number of answers per question that VQA accuracy is defined for


def read_okvqa(path: Path) -> Iterator[Item]:
    """Yields the questions of `OpenEnded_mscoco_val2014_questions.json` or a file with a similar name.

    The answers are in `mscoco_val2014_annotations.json` beside it. No question names an entity.

    Raises:
        ValueError: A file is missing, is not a JSON object, or lacks a field.
    """
    answers_path = annotations_of(path)
    annotations = json_file(answers_path)
    topics = annotations.get("question_types")
    topics = topics if isinstance(topics, dict) else {}
    answered: dict[str, tuple[str, Row]] = {}
    for where, row in _entries(annotations, "annotations", answers_path):
        question_id = name(row, "question_id", where)
        if question_id in answered:
            raise ValueError(f"{where}: field question_id: {question_id!r} is also in an earlier entry")
        answered[question_id] = (where, row)
    content = json_file(path)
    split = text(content, "data_subtype", str(path))

    def make(row: Row, where: str) -> Question:
        question_id, image_id = name(row, "question_id", where), name(row, "image_id", where)
        if question_id not in answered:
            raise ValueError(f"{where}: field question_id: {question_id!r} has no entry in {answers_path.name}")
        place, annotation = answered[question_id]
        if name(annotation, "image_id", place) != image_id:
            raise ValueError(f"{place}: field image_id must be the question's, {image_id}")
        topic = optional_text(annotation, "question_type", place)
        return Question(
            id=question_id,
            question=text(row, "question", where),
            image_id=f"COCO_{split}_{image_id:0>12}",
            answers=_answers(annotation.get("answers"), place),
            entity_ids=(),
            question_type=optional_text(annotation, "answer_type", place),
            data_split=split,
            category=str(topics.get(topic, topic)),
            style="okvqa",
        )

    return questions(_entries(content, "questions", path), make, "question_id")


def annotations_of(path: Path) -> Path:
    """Returns the path of the file with the answers to a question file.

    Raises:
        ValueError: The name of the question file does not contain "questions".
    """
    if "questions" not in path.name:
        raise ValueError(
            f"{path}: the file name must contain 'questions'; its answers are in a file with 'annotations' instead"
        )
    return path.with_name(path.name.replace("OpenEnded_", "").replace("questions", "annotations"))


def _entries(content: Row, field: str, path: Path) -> Iterator[tuple[str, Row]]:
    listed = content.get(field)
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise ValueError(f"{path}: field {field} must be a list of objects")
    return ((f"{path}: {field}[{position}]", entry) for position, entry in enumerate(listed))


def _answers(given: Any, where: str) -> tuple[str, ...]:
    listed = given if isinstance(given, list) else []
    said = [one["answer"].strip() for one in listed if isinstance(one, dict) and isinstance(one.get("answer"), str)]
    if len(said) != PEOPLE or len(listed) != PEOPLE or not any(said):  # some of the answers may be empty
        raise ValueError(f'{where}: field answers must be {PEOPLE} objects with an "answer", got {given!r}')
    return tuple(said)


def _judge(question: Question, answer: str) -> Scores:
    return {"vqa_accuracy": vqa_accuracy(answer, question.answers)}


OKVQA = Dataset("okvqa", "vqa_accuracy", _judge, read_okvqa, published=True)
