"""The project's own form, for one's own questions: one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evaluation.datasets.question import Item, Question
from evaluation.datasets.rows import Row, json_lines, name, optional_text, questions, text, texts


def read_plain(path: Path) -> Iterator[Item]:
    """Yields the questions of a `.jsonl` file of lines as `plain_question` takes them.

    Raises:
        ValueError: The file cannot be read.
    """
    return questions(json_lines(path), plain_question, "id")


def plain_question(row: Row, where: str) -> Question:
    """Returns the question of a row.

    Needed are `id`, `image` (a name or path in the folder of pictures, or a URL), `question` and `answers`. `entity`,
    an id or several, is what Recall@K asks for, `section` the number of the evidence in that entity's article; `type`,
    `split` and `category` break figures down. Other fields are left alone.

    Raises:
        ValueError: A field is missing or wrong.
    """
    entity, section = row.get("entity"), row.get("section")
    if section is not None and (not isinstance(section, int) or isinstance(section, bool) or section < 0):
        raise ValueError(f"{where}: field section: a whole number, 0 or more, is needed, not {section!r}")
    if section is not None and not entity:
        raise ValueError(f"{where}: field section: says nothing without the entity whose section it is")
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
