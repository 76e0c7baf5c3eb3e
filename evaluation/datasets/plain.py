"""The project's own format, for your own questions: one JSON object per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evaluation.datasets.question import Item, Question
from evaluation.datasets.rows import Row, json_lines, name, optional_text, questions, text, texts


def read_plain(path: Path) -> Iterator[Item]:
    """Yields the questions of a `.jsonl` file; `plain_question` says what a line holds.

    Raises:
        ValueError: The file cannot be read.
    """
    return questions(json_lines(path), plain_question, "id")


def plain_question(row: Row, where: str) -> Question:
    """Builds the question of a row.

    Required fields are `id`, `image` (a name or path in the image folder, or a URL), `question` and `answers`.
    `entity`, one id or several, is needed for Recall@K; `section` is the number of the evidence in its article; `type`,
    `split` and `category` break the figures down. Other fields are ignored.

    Raises:
        ValueError: A field is missing or invalid.
    """
    entity, section = row.get("entity"), row.get("section")
    if section is not None and (not isinstance(section, int) or isinstance(section, bool) or section < 0):
        raise ValueError(f"{where}: field section must be an integer of at least 0, got {section!r}")
    if section is not None and not entity:
        raise ValueError(f"{where}: field section needs the field entity")
    return Question(
        id=name(row, "id", where),
        question=text(row, "question", where),
        image_id=name(row, "image", where),
        answers=texts(row.get("answers"), "answers", where),
        entity_ids=texts(entity, "entity", where) if entity else (),
        section_index=section,
        question_type=optional_text(row, "type", where),
        data_split=optional_text(row, "split", where),
        category=optional_text(row, "category", where),
        style="plain",
    )
