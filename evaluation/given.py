"""Replaces step 1 by given candidates: those in a file of retrieval results, or the right entities (an oracle)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.datasets import Question
from indexes.formats.fields import kind
from indexes.formats.streams import opened, read_members, starts_with
from retriever.protocols import EntityIndex, Finish
from retriever.types import Candidate, Query
from retriever.wording import counted

logger = logging.getLogger(__name__)

GOLD = "gold"
"""Stands for the right entities instead of a file."""

Found = Mapping[str, Sequence[tuple[str, float | None]]]
"""Entities by question id, best first, with their scores if known."""


class GivenCandidates:
    """A `Step` that returns given candidates, in place of `EntitySearch`.

    Entities that the index lacks are left out. Without scores, step 2 decides alone.

    Args:
        found: The candidates.
        index: The index to look them up in.
        k: Maximum number of candidates per query.
    """

    name = "step1"

    def __init__(self, found: Found, index: EntityIndex, k: int) -> None:
        self.found, self.index, self.k = found, index, k

    def start(self, queries: Sequence[Query]) -> Finish:
        """Returns a function that returns the candidates."""
        return lambda _: [self._candidates(query.id) for query in queries]

    def _candidates(self, question_id: str) -> list[Candidate]:
        rows: dict[int, float | None] = {}
        for entity, score in self.found.get(question_id, ()):
            if (row := self.index.row_of(entity)) is not None:
                rows.setdefault(row, score)
        ranked = list(rows.items())[: self.k]
        return [
            Candidate(row, sim_c, score=1 / rank if sim_c is None else sim_c)
            for rank, (row, sim_c) in enumerate(ranked, start=1)
        ]


def gold_candidates(questions: Sequence[Question]) -> Found:
    """Returns the right entities of questions, without scores."""
    return {question.id: [(entity, None) for entity in question.entity_ids] for question in questions}


def read_candidates(path: Path, wanted: Collection[str]) -> Found:
    """Reads the candidates of the wanted questions from a TREC run, or from JSON such as EchoSight's or OMGM's.

    In JSON, an object maps question ids to `retrieved_entities` (a list of objects with `url`) or
    `retrieved_entries` (a list of ids), each with optional `retrieval_similarities`.

    Raises:
        ValueError: The file is in neither format, or has none of the questions.
    """
    found: dict[str, Sequence[tuple[str, float | None]]] = {}
    other = ""
    try:
        for question_id, candidates in _in_json(path) if starts_with(path, "{") else _in_trec(path):
            if question_id in wanted:
                found[question_id] = candidates
            other = other or question_id
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from error
    if not found:
        example = f"; it has others, such as {other!r}" if other else ""
        raise ValueError(f"{path}: has none of the questions, such as {next(iter(wanted))!r}{example}")
    if len(found) < len(wanted):
        missing = counted(len(wanted) - len(found), "question")
        logger.warning("%s: %s of %d have no candidates and count as wrong", path, missing, len(wanted))
    return found


def _in_json(path: Path) -> Iterator[tuple[str, Sequence[tuple[str, float | None]]]]:
    for question_id, value in read_members(path):
        try:
            if not isinstance(value, dict):
                raise TypeError(f"found {kind(value)}")
            listed = value["retrieved_entities"] if "retrieved_entities" in value else value["retrieved_entries"]
            entities = [_id_of(one) for one in listed]
            scores = value.get("retrieval_similarities")
            yield question_id, _paired(entities, [None] * len(entities) if scores is None else map(float, scores))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}: {question_id}: expected retrieved_entities or retrieved_entries, and as many "
                f"retrieval_similarities, if any ({error})"
            ) from error


def _id_of(entity: Any) -> str:
    return str(entity["url"] if isinstance(entity, dict) else entity)


def _in_trec(path: Path) -> Iterator[tuple[str, Sequence[tuple[str, float | None]]]]:
    runs: dict[str, list[tuple[float, int, str]]] = {}
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                question_id, _, entity, rank, score, _ = line.decode().split()
                runs.setdefault(question_id, []).append((-float(score), int(rank), entity.replace("%20", " ")))
            except ValueError as error:
                raise ValueError(
                    f"{path}: line {number}: neither JSON nor a line `question Q0 entity rank score tag` ({error})"
                ) from error
    for question_id, run in runs.items():
        yield question_id, [(sys.intern(entity), -score) for score, _, entity in sorted(run)]


def _paired(entities: Sequence[str], scores: Any) -> Sequence[tuple[str, float | None]]:
    return [(sys.intern(entity), score) for entity, score in zip(entities, scores, strict=True)]
