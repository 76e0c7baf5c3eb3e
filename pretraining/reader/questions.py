"""Questions with their passages from SQuAD and E-VQA files, and SQuAD's metrics."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_CLOSING = frozenset((",", ".", ";", ":", "?", "!", ")", "]", "%"))
_OPENING = frozenset(("(", "[", "$", "``", "#", "£"))


class SpanAnswer(NamedTuple):
    """A correct answer.

    Attributes:
        text: The answer.
        start: The offset of its first character in the passage, or `None` if it may be anywhere.
    """

    text: str
    start: int | None = None


class SpanQuestion(NamedTuple):
    """A question about a passage; without answers, the passage does not answer it."""

    question: str
    passage: str
    article: str
    answers: tuple[SpanAnswer, ...]


def read_squad(path: Path) -> Iterator[SpanQuestion]:
    """Yields the questions of a file in SQuAD's format, version 1.1 or 2.0, the most frequent answer of each first.

    Raises:
        ValueError: The file has another format.
    """
    try:
        for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                for row in paragraph["qas"]:
                    given = Counter(SpanAnswer(answer["text"], answer["answer_start"]) for answer in row["answers"])
                    answers = tuple(answer for answer, _ in given.most_common())
                    title = article.get("title", "").replace("_", " ")
                    yield SpanQuestion(row["question"], paragraph["context"], title, answers)
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: must be in SQuAD's format, with data, paragraphs and qas: {error!r}") from error


def read_tokens(stem: Path) -> Iterator[SpanQuestion]:
    """Yields the questions of four parallel token files, `stem` with .context, .question, .answer and .span.

    Courses prepare SQuAD in this form: a question per line, tokens separated by spaces, a span's first and last token.
    Spaces around punctuation are removed; articles are unknown.

    Raises:
        ValueError: The files differ in length, or a span is outside its context.
    """
    files = [stem.with_name(f"{stem.name}.{kind}") for kind in ("context", "question", "answer", "span")]
    try:
        rows = zip(*(file.read_text(encoding="utf-8").splitlines() for file in files), strict=True)
        for context, question, _, span in rows:
            passage, places = joined_tokens(context.split())
            first, last = (int(number) for number in span.split())
            start = places[first][0]
            answer = SpanAnswer(passage[start : places[last][1]], start)
            yield SpanQuestion(joined_tokens(question.split())[0], passage, "", (answer,))
    except (IndexError, ValueError) as error:
        message = f"{files[0]}: must have as many lines as the other files, and spans inside the context: {error}"
        raise ValueError(message) from error


def joined_tokens(tokens: list[str]) -> tuple[str, list[tuple[int, int]]]:
    """Joins tokens into a text; returns it with the start and end of each token.

    Example:
        >>> joined_tokens(["It", "'s", "5", "%", "(", "of", "8", ")", "."])[0]
        "It's 5% (of 8)."
    """
    text, places = "", list[tuple[int, int]]()
    for i, token in enumerate(tokens):
        written = '"' if token in ("``", "''") else token
        glued = written in _CLOSING or token.startswith("'") or token == "n't"
        if text and not glued and tokens[i - 1] not in _OPENING:
            text += " "
        places.append((len(text), len(text) + len(written)))
        text += written
    return text, places


def read_evqa(path: Path) -> Iterator[SpanQuestion]:
    """Yields the questions with evidence from a file with E-VQA's columns."""
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["evidence"]:
                answers = tuple(SpanAnswer(_listed(text.split("&&"))) for text in row["answer"].split("|"))
                yield SpanQuestion(row["question"], row["evidence"], row["wikipedia_title"], answers)


def _listed(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]


def share_of(article: str) -> int:
    """Returns 0 to 4 by the hash of an article's title; articles of share 0 are held out as a blind test set."""
    return int(hashlib.sha256(article.replace(" ", "_").encode()).hexdigest()[:8], 16) % 5


def normalize(text: str) -> str:
    """Lowercases and drops punctuation and articles, as SQuAD's evaluation does."""
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def overlap(answer: str, reference: str) -> float:
    """Returns SQuAD's F1 of two normalized texts.

    Example:
        >>> overlap("in may 1996", "may 1996")
        0.8
    """
    mine, theirs = Counter(answer.split()), Counter(reference.split())
    common = (mine & theirs).total()
    return 2 * common / (mine.total() + theirs.total()) if common else 0.0


def read_qed(path: Path) -> Iterator[SpanQuestion]:
    """Yields the questions of a file of QED: questions to a search engine with paragraphs in which tokens are spaced.

    Raises:
        ValueError: A line has another format.
    """
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            passage, places = joined_tokens(row["paragraph_text"].split())
            starts = _token_starts(row["paragraph_text"])
            answers = dict[SpanAnswer, None]()
            for given in row["original_nq_answers"]:
                if len(given) == 1:  # several spans are a list
                    first, last = starts[given[0]["start"]], starts[given[0]["end"] - 1]
                    begin = places[first][0]
                    answers[SpanAnswer(passage[begin : places[last][1]], begin)] = None
            if answers:
                yield SpanQuestion(f"{row['question_text']}?", passage, row["title_text"], tuple(answers))
    except (KeyError, IndexError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: must have lines as in QED: {error!r}") from error


def _token_starts(text: str) -> list[int]:
    """Returns the number of the token that each character belongs to."""
    numbers, number = list[int](), -1
    for i, letter in enumerate(text):
        number += letter != " " and (i == 0 or text[i - 1] == " ")
        numbers.append(number)
    return numbers
