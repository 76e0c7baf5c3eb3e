"""The project's own format, for your own questions: JSON lines, a list, a table, or questions by image."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evaluation.datasets.dataset import Dataset, Scores
from evaluation.datasets.plain_rows import NO_ANSWERS, OTHERS, plain_rows, renamed
from evaluation.datasets.question import Item, Question
from evaluation.datasets.rows import Row, name, optional_text, questions, text, texts
from evaluation.own_answers import own_match
from evaluation.vqa import relaxed_match
from indexes.labeled_values import NO_NAMES, Names
from retriever.wording import counted

logger = logging.getLogger(__name__)

FIELDS = ("id", "image", "question", "answers", "options", "entity", "section", "type", "split", "category")
"""Fields of a row."""
_ANSWERS = ("original_answer", "answer", "answers", "value", "text", "aliases")
"""Members of an object that hold answers, in KILT, TriviaQA, SQuAD and VQA."""
_PLACES = ("path", "file_name", "url", "src")
"""Members of an object that hold where an image is."""
_TALKS = ("conversations", "conversation", "messages")
_SIGNS = {
    "infoseek": ("data_id", {"answer_eval", "data_split", "entity_text", "wikipedia_url"}),
    "evqa": ("dataset_image_ids", {"encyclopedic_vqa_split", "evidence_section_id", "wikipedia_title"}),
    "dynvqa": ("question_id", {"golden_query", "gloden_query"}),
}
"""Fields that identify rows of other data sets: the first one and any of the others."""


def read_plain(path: Path, names: Names = NO_NAMES) -> Iterator[Item]:
    """Yields the questions of JSON lines, of a JSON list or object, or of CSV; `plain_question` says what a row holds.

    A row may hold several questions about its image (`_questions_in`). A row without an id gets its number as its id.
    In CSV, `|` separates several answers or entities.

    Args:
        path: The file.
        names: Names of fields in the file, where they are not among the usual ones.

    Raises:
        ValueError: The file cannot be read.
    """
    return questions(_numbered(path, names), _question, "id")


def _numbered(path: Path, names: Names) -> Iterator[tuple[str, Row | ValueError]]:
    number = joined = 0
    for where, row in plain_rows(path, names):
        try:
            if not isinstance(row, dict):
                raise row if isinstance(row, ValueError) else ValueError(f"{where}: not a JSON object")
            if number == 0 and row.get("entity") in (None, row.get("wikipedia_url")) and (dataset := _dataset_of(row)):
                why = f"as plain it {'' if row.get('entity') else 'has no entities and '}is scored by other rules"
                logger.warning("%s: looks like a file for --dataset %s; %s", path, dataset, why)
            for place, one in _questions_in(row, where, names):
                number += 1
                joined += (
                    isinstance(one.get("answers"), list) and len(one["answers"]) == 1 and ";" in str(one["answers"][0])
                )
                yield place, {"id": number, **one}
        except ValueError as error:
            number += 1
            yield where, error
    if joined:
        told = "%s: %s with ';' counted as one each; separate alternatives: by | in CSV, as a list in JSON"
        logger.warning(told, path, counted(joined, "answer"))


def _dataset_of(row: Row) -> str:
    """Returns the data set whose fields a row has, "" if none."""
    return next((name for name, (first, others) in _SIGNS.items() if first in row and others & row.keys()), "")


def _questions_in(row: Row, where: str, names: Names) -> Iterator[tuple[str, Row]]:
    """Yields the questions of a row, with their places: itself, those in its list `questions`, or its members.

    Items of the list are objects, or texts with parallel lists of answers, types, categories and sections. Members are
    objects with a question. All other fields apply to every question.

    Raises:
        ValueError: The numbers of answers and questions differ.
    """
    if "question" not in row and (talk := next((row[key] for key in _TALKS if isinstance(row.get(key), list)), None)):
        row = {key: row[key] for key in row if key not in _TALKS} | {"questions": list(_turns(talk))}
    members = {key: one for key, one in row.items() if isinstance(one, dict) and "question" in renamed(one, names)}
    if members and "question" not in row and "questions" not in row:
        row = {key: row[key] for key in row if key not in members} | {"questions": list(members.values())}
    listed = row.get("questions")
    if "question" in row or not isinstance(listed, list) or not listed:
        yield where, row
        return
    lists = {key: row[key] for key in ("answers", "type", "category", "section") if isinstance(row.get(key), list)}
    parallel = {key: value for key, value in lists.items() if len(value) == len(listed)}
    if isinstance(listed[0], str) and len(listed) > 1 and "answers" in lists and "answers" not in parallel:
        raise ValueError(f"{where}: field answers has {len(lists['answers'])} for {counted(len(listed), 'question')}")
    for number, one in enumerate(listed):
        beside = {key: value[number] for key, value in parallel.items()}
        own = renamed(one, names) if isinstance(one, dict) else {"question": one, **beside}
        id = {"id": f"{row['id']}_{number + 1}"} if "id" in row else {}
        yield f"{where}: question {number + 1}", {key: row[key] for key in row if key != "questions"} | id | own


def _turns(talk: list[Any]) -> Iterator[Row]:
    """Yields the questions of a conversation in LLaVA's or OpenAI's format, with the replies that they have."""
    asked: Row | None = None
    for one in talk:
        speaker = one.get("role", one.get("from")) if isinstance(one, dict) else None
        if speaker not in ("user", "human", "assistant", "gpt"):
            continue
        words = _words_in(one.get("value", one.get("content")))
        if speaker in ("user", "human"):
            if asked is not None:
                yield asked
            asked = {"question": words}
        elif asked is not None:
            yield asked | {"answers": words}
            asked = None
    if asked is not None:
        yield asked


def _words_in(content: object) -> str:
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return " ".join(one for one in texts if isinstance(one, str))


def _place_of(image: object, where: str) -> object:
    """Returns where an image is that is given as an object, or as a list of one.

    Raises:
        ValueError: It is the image itself.
    """
    if isinstance(image, list) and len(image) == 1:
        return _place_of(image[0], where)
    place = image
    if isinstance(image, Mapping):
        place = next((image[key] for key in _PLACES if isinstance(image.get(key), str)), image)
    inside = place.get("bytes") if isinstance(place, Mapping) else isinstance(place, bytes) and place
    if inside or (isinstance(place, str) and place[:5].lower() == "data:"):
        how = ", as omgm import questions does" if isinstance(inside, bytes) else ""
        raise ValueError(f"{where}: field image holds the image itself; save it as a file, and give its name{how}")
    return place


def _question(row: Row, where: str) -> Question:
    """Builds the question of a row that may use other field names.

    Raises:
        ValueError: A field is missing or invalid; for a missing one, the message lists accepted names.
    """
    for field in ("image", "question", "answers"):
        if field not in row:
            names = ", ".join((field, *OTHERS[field]))
            hint = (
                f"; --query-map answers={NO_ANSWERS} if there are none; VQA's files, with answers in a separate file, "
                "need --dataset okvqa"
                if field == "answers"
                else ""
            )
            if dataset := _dataset_of(row):
                hint = f"; or is the file for --dataset {dataset}?"
            raise ValueError(
                f"{where}: field {field} is missing; the row has {', '.join(map(str, row))}; "
                f"rename one of them to {names}, or say which it is: --query-map {field}=NAME{hint}"
            )
    answers = answers_in(row["answers"]) or row["answers"]
    options = row.get("options", {key: row[key] for key in "ABCDEFGH" if isinstance(row.get(key), str)})
    if isinstance(answers, list):
        answers = [_chosen(one, options) for one in answers]
    asked = row["question"]
    row = row | {"image": _place_of(row["image"], where)}
    row |= {"question": asked.replace("<image>", "").strip()} if isinstance(asked, str) else {}
    groups = {field: "" for field in ("type", "split", "category") if isinstance(row.get(field), list | dict)}
    return plain_question({**row, **groups, "answers": answers}, where)


def _chosen(answer: Any, options: Any) -> Any:
    """Returns the text of the option if the answer is an option's letter or number, otherwise the answer."""
    if isinstance(options, Mapping):
        return options.get(answer, answer) if isinstance(answer, str) else answer
    is_number = isinstance(answer, int) and not isinstance(answer, bool)
    if (
        is_number
        and isinstance(options, list)
        and str(answer) not in map(str, options)
        and answer in range(len(options))
    ):
        return options[answer]
    if not isinstance(options, list) or not isinstance(answer, str) or not re.fullmatch("[A-Z]", answer):
        return answer
    option = options[ord(answer) - ord("A")] if ord(answer) - ord("A") < len(options) else answer
    return re.sub(r"^\(?[A-Z][.:)]\s*", "", option) if isinstance(option, str) else answer


def answers_in(value: object) -> list[Any]:
    """Returns the answers in a value: the value itself, the items of a list, or members of objects."""
    if isinstance(value, list):
        return [answer for one in value for answer in answers_in(one)]
    if isinstance(value, Mapping):
        found = [answer for key in _ANSWERS for answer in answers_in(value.get(key, []))]
        return list(dict.fromkeys(answer for answer in found if answer not in (None, "")))
    return [value]


def _references(value: object, where: str) -> tuple[str, ...]:
    """Returns the right answers; 1885.0 is also right without its point, and true is also "yes".

    NaN and null, which pandas writes for a missing answer, are none.

    Raises:
        ValueError: Another value is not text, a finite number, or true or false.
    """
    listed = value if isinstance(value, list) else [value]
    given = [one for one in listed if one is not None and one == one]  # NaN differs from itself
    if listed and not given:
        return ()
    if any(isinstance(one, float) and math.isinf(one) for one in given):
        raise ValueError(f"{where}: field answers must have finite numbers, got {value!r}")
    whole = [str(int(one)) for one in given if isinstance(one, float) and one.is_integer()]
    spoken = ["yes" if one else "no" for one in given if isinstance(one, bool)]
    written = [str(one).lower() if isinstance(one, bool) else one for one in given]
    return (*whole, *spoken, *texts(written, "answers", where))


def plain_question(row: Row, where: str) -> Question:
    """Builds the question of a row.

    Required fields are `id`, `image` (a name or path in the image folder, or a URL), `question` and `answers`.
    `entity`, one id or several, is needed for Recall@K; `section` is the number of the evidence section in its article;
    `type`, `split` and `category` break the metrics down. Other fields are ignored.

    Raises:
        ValueError: A field is missing or invalid.
    """
    entity, section = row.get("entity"), row.get("section")
    if section is not None and (not isinstance(section, int) or isinstance(section, bool) or section < 0):
        raise ValueError(f"{where}: field section must be an integer, at least 0, got {section!r}")
    if section is not None and not entity:
        raise ValueError(f"{where}: field section requires the field entity")
    return Question(
        id=name(row, "id", where),
        question=text(row, "question", where),
        image_id=name(row, "image", where),
        answers=_references(row.get("answers"), where),
        entity_ids=texts(entity, "entity", where) if entity else (),
        section_index=section,
        question_type=optional_text(row, "type", where),
        data_split=optional_text(row, "split", where),
        category=optional_text(row, "category", where),
        style="plain",
    )


def _judge(question: Question, answer: str) -> Scores:
    relaxed = any(relaxed_match(answer.strip(), reference) for reference in question.answers)
    right = own_match(answer, question.answers)
    return {"exact_match": float(right), "relaxed_accuracy": float(right or relaxed)}


PLAIN = Dataset("plain", "exact_match", _judge, read_plain, read_named=read_plain)
