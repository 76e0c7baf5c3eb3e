"""MMSearch-Plus: 311 questions with up to five images, encrypted against training on them (arXiv 2508.21475)."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

from evaluation.answers import answer_f1
from evaluation.datasets.dataset import Dataset, Scores
from evaluation.datasets.question import NO_IMAGES, Question, SearchTask, TaskReader
from evaluation.datasets.rows import optional_text, text, texts
from evaluation.own_answers import own_contains, own_match
from evaluation.search.rows import images_of, rows_of

_IMAGES = ("img_1", "img_2", "img_3", "img_4", "img_5")


def _tasks(path: Path, images: Path | None, canary: str) -> TaskReader:
    return partial(_read, path, images, canary)


def _read(path: Path, folder: Path | None, canary: str, images: bool) -> Iterator[SearchTask]:
    """Yields the questions of MMSearch-Plus; ids are row numbers, since the data set has none."""
    for number, (where, row) in enumerate(rows_of(path, images=images), start=1):
        plain = partial(_decrypted, canary=canary, where=where)
        question = Question(
            id=str(number),
            question=plain(text(row, "question", where)),
            image_id="",
            answers=tuple(plain(answer) for answer in texts(row.get("answer"), "answer", where)),
            entity_ids=(),
            style="mmsearch-plus",
        )
        groups = {field: optional_text(row, field, where) for field in ("category", "difficulty", "subtask")}
        fields = [row.get(field) for field in _IMAGES]
        yield SearchTask(question, images_of(folder or path.parent, *fields) if images else NO_IMAGES, "", groups)


def _decrypted(value: str, canary: str, where: str) -> str:
    """Decrypts a text of MMSearch-Plus: Base64 of the text XORed with the repeated SHA-256 of the canary."""
    if not canary:
        return value
    try:
        data = base64.b64decode(value, validate=True)
        key = hashlib.sha256(canary.encode()).digest()
        return bytes(byte ^ mask for byte, mask in zip(data, cycle(key), strict=False)).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{where}: cannot decrypt this text with --canary; is the file encrypted?") from error


def _judge(question: Question, answer: str) -> Scores:
    return {
        "string_match": float(own_contains(answer, question.answers)),
        "exact_match": float(own_match(answer, question.answers)),
        "max_f1": answer_f1(answer, question.answers),
    }


MMSEARCH_PLUS = Dataset(
    "mmsearch-plus",
    "string_match",
    _judge,
    tasks=_tasks,
    policy="mmsearch-plus",
    published=True,
    stand_ins={
        "string_match": (
            "string-match",
            "No chat model judged the answers (--judge-url, --judge-model); this is string matching.",
        )
    },
)
