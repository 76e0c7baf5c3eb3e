"""Rankings that another system wrote, in TREC's format or in JSON: read, put in order, and compared with the index."""

from __future__ import annotations

import itertools
import logging
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from indexes.decoding import opened
from indexes.ids import from_column, meant
from indexes.json_streams import has_lines, read_items, read_members, read_values, starts_with
from indexes.labeled_values import folded, kind
from retriever.wording import counted

logger = logging.getLogger(__name__)

Ranking = Sequence[tuple[str, float | None]]  # ids, best first, with their scores (higher is better) if known
Order = Literal["list", "scores", "distances"]
"""What puts candidates in order: their place, their scores (higher is better), or distances (lower is better)."""
LEAST = 0.5  # the smallest share of candidates, and of questions, that a file must cover
_ROUNDING = 1e-6  # relative difference of scores that is no contradiction, as of scores rounded to single precision
_NO_CHANCE = 5  # pairs of neighbors that all rise in lists without a stated order if that is no chance

_RUN = re.compile(rb"\S+\s+\S+\s+.+\s+\d+\s+[-+.\deE]+\s+[^\s{}\[\]]+")  # a line of a run in TREC's format

_QUESTIONS = ("id", "question_id", "query_id", "qid", "data_id", "sample_id", "image_id")
_LISTS = (
    *("retrieved_entities", "retrieved_entries", "entities", "entries", "candidates", "results", "hits", "ids"),
    *("doc_ids", "documents", "docs", "labels", "indices", "I", "top_20", "retrieved", "ranking", "ctxs"),
)
_IDS = ("url", "entry", "id", "entity_id", "entity", "doc_id", "document_id", "pid", "label")
_SCORES = ("retrieval_similarities", "similarities", "similarity", "scores", "score", "sims", "sim", "D")
_DISTANCES = ("distances", "distance", "dists", "dist")


@dataclass(frozen=True, slots=True)
class RankedList:
    """The candidates of one question as a file has them."""

    ids: Sequence[str]
    scores: Sequence[float] = ()  # their scores or distances; empty if the file has none
    distances: bool = False  # whether the file calls them distances
    ordered: bool = True  # whether the candidates are in an order that the file states, best first


def finite(value: object) -> float:
    """Returns a number, also one that is written as text.

    Raises:
        ValueError: It is not a number, or not a finite one.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"a score must be a number, got {kind(value)}")
    try:
        number = float(value)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"a score must be a number, got {str(value)[:40]!r}") from error
    if not math.isfinite(number):
        raise ValueError(f"a score must be a finite number, got {value}")
    return number


def read_rankings(
    path: Path, wanted: Collection[str], *, order: Order | None = None, flag: str = ""
) -> dict[str, Ranking]:
    """Reads the candidates of the wanted questions, best first.

    Args:
        path: A run in TREC's format, or JSON: an object with a member per question, a list or lines of objects with the
            question's id. A question has a list of ids or of objects with an id, perhaps with a list of scores beside
            it, or an object of scores by id (BEIR). Candidates with the id -1 are none (FAISS).
        wanted: The ids of the questions.
        order: What puts the candidates in order, for files in which that is in doubt. Distances become negative.
        flag: The option that sets `order`, for messages.

    Raises:
        ValueError: The file cannot be read or is in neither format, a score is not a finite number, it has none of the
            questions, or the order of the candidates contradicts their scores.
    """
    lists: dict[str, RankedList] = {}
    other = ""
    try:
        for written, ranked in _in_json(path) if _is_json(path) else _in_trec(path):
            question_id = meant(written, wanted.__contains__)
            if question_id in wanted:
                if question_id in lists:
                    raise ValueError(f"{path}: {question_id}: occurs twice")
                lists[question_id] = ranked
            other = other or question_id
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from error
    if not lists:
        example = f"; it has others, such as {other!r}" if other else ""
        raise ValueError(f"{path}: has none of the questions, such as {next(iter(wanted))!r}{example}")
    if order is None:
        check_order(path, lists, flag)
    return in_order(lists, order)


def check_order(path: Path, lists: Mapping[str, RankedList], flag: str = "") -> None:
    """Checks that the order of the candidates is that of their scores.

    Candidates without a stated order contradict their scores if every list rises, as lists that are sorted by distance.

    Raises:
        ValueError: It is not; the message shows both readings.
    """
    scored = {id: one for id, one in lists.items() if len(set(one.scores)) > 1}
    wrong = [id for id, one in scored.items() if not _falls(one)]
    if not all(one.ordered for one in scored.values()):
        pairs = sum(len(one.ids) - 1 for one in scored.values())
        rising = pairs >= _NO_CHANCE and all(_falls(one, -1) for one in scored.values())
        wrong = wrong if rising else [id for id in wrong if scored[id].ordered]
    if not wrong:
        return
    one = scored[wrong[0]]
    by_score = sorted(zip(one.scores, one.ids, strict=True), key=lambda pair: pair[0])
    low, high = (f"{id!r} ({score:g})" for score, id in (by_score[0], by_score[-1]))
    choose = f"{flag} list, {flag} scores or {flag} distances" if flag else "sort it, or remove the scores"
    raise ValueError(
        f"{path}: in {len(wrong):,} of {counted(len(lists), 'list')}, such as that of {wrong[0]!r}, the order "
        f"contradicts the scores: first in the list is {one.ids[0]!r} ({one.scores[0]:g}), the highest score has "
        f"{high}, the lowest {low}. Say what is right: the list's order without its scores, scores (higher is better), "
        f"or distances (lower is better): {choose}"
    )


def in_order(lists: Mapping[str, RankedList], order: Order | None = None) -> dict[str, Ranking]:
    """Returns the candidates of each question, best first; scores that are all the same say nothing and are dropped."""
    several = [one for one in lists.values() if len(one.ids) > 1]
    if order == "list" or (several and all(len(set(one.scores)) < 2 for one in several)):
        return {id: [(sys.intern(entity), None) for entity in one.ids] for id, one in lists.items()}
    return {id: list(_sorted(one, order)) for id, one in lists.items()}


def _sorted(one: RankedList, order: Order | None) -> Iterator[tuple[str, float | None]]:
    if not one.scores:
        yield from ((sys.intern(entity), None) for entity in one.ids)
        return
    lower = order == "distances" or (order is None and one.distances)
    scores = [-score if lower else score for score in one.scores]
    for place in sorted(range(len(scores)), key=lambda place: -scores[place]):
        yield sys.intern(one.ids[place]), scores[place]


def _falls(one: RankedList, sign: int = 1) -> bool:
    sign = -sign if one.distances else sign
    return all(
        sign * (first - second) >= -_ROUNDING * max(abs(first), abs(second))
        for first, second in itertools.pairwise(one.scores)
    )


def check_coverage(
    path: Path,
    found: Mapping[str, Sequence[str]],
    n_questions: int,
    known: Callable[[str], bool],
    *,
    partial_flag: str = "",
    training: bool = False,
) -> dict[str, int]:
    """Counts what of a file can be used, and logs what cannot.

    The option `partial_flag` accepts less than half; it is "" if it is set. A training leaves out questions without
    candidates, an evaluation counts them as wrong.

    Returns:
        `candidates` and `candidates_in_index`, `questions` and `questions_with_candidates` (those with any that is
        known).

    Raises:
        ValueError: Less than half of the candidates are known, or less than half of the questions have any.
    """
    ids = dict.fromkeys(id for candidates in found.values() for id in candidates)
    there = {id for id in ids if known(meant(id, known))}
    total = sum(map(len, found.values()))
    usable = sum(id in there for candidates in found.values() for id in candidates)
    answered = sum(not there.isdisjoint(candidates) for candidates in found.values())
    unknown = next((id for id in ids if id not in there), "")
    lacking = f"{counted(total - usable, 'candidate')} of {total:,} are not in the index, such as {unknown!r}"
    silent = f"{counted(n_questions - answered, 'question')} of {n_questions:,} have no candidate in the index"
    if partial_flag and usable < LEAST * total:
        raise ValueError(
            f"{path}: {lacking}; are its ids those of this index? Name an index of the same knowledge base, or accept "
            f"it: {partial_flag}"
        )
    if partial_flag and answered < LEAST * n_questions:
        options = "--queries" if training else "--queries, --only-split, --limit"
        raise ValueError(
            f"{path}: {silent}; name the questions that the file is for ({options}), or accept it: {partial_flag}"
        )
    if usable < total:
        logger.warning("%s: %s; they are left out", path, lacking)
    if answered < n_questions:
        logger.warning("%s: %s and %s", path, silent, "are left out" if training else "count as wrong")
    return {
        "candidates": total,
        "candidates_in_index": usable,
        "questions": n_questions,
        "questions_with_candidates": answered,
    }


def _is_json(path: Path) -> bool:
    """Returns whether a file is JSON; a run in TREC's format may begin with a bracket, too, if its first id does."""
    with opened(path) as file:
        return any(starts_with(path, bracket) for bracket in "{[") and not _RUN.fullmatch(file.readline(4096).strip())


def _in_trec(path: Path) -> Iterator[tuple[str, RankedList]]:
    runs: dict[str, list[tuple[int, float, str]]] = {}
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                # Tabs alone separate columns if there are enough; ids of others may contain white space beyond ASCII's.
                columns = line.strip(b"\r\n").split(b"\t") if line.count(b"\t") == 5 else line.split()
                question_id, _, entity, rank, score, _ = (column.decode() for column in columns)
                run = runs.setdefault(sys.intern(from_column(question_id)), [])
                run.append((int(rank), finite(score), sys.intern(from_column(entity))))
            except ValueError as error:
                raise ValueError(
                    f"{path}: line {number}: neither JSON nor a line `question Q0 entity rank score tag` ({error})"
                ) from error
    for question_id, run in runs.items():
        ordered = len({rank for rank, _, _ in run}) == len(run)  # many systems write the same rank everywhere
        run.sort(key=lambda row: row[0] if ordered else -row[1])
        yield question_id, RankedList([id for _, _, id in run], [score for _, score, _ in run], ordered=ordered)


def _in_json(path: Path) -> Iterator[tuple[str, RankedList]]:
    for question_id, value in _members(path):
        try:
            yield question_id, ranked_list(value)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}: {question_id}: expected retrieved_entities or retrieved_entries, and as many "
                f"retrieval_similarities, if any ({error})"
            ) from error


def _members(path: Path) -> Iterator[tuple[str, Any]]:
    if starts_with(path, "{") and not has_lines(path):
        yield from read_members(path)
        return
    for number, row in read_items(path) if starts_with(path, "[") else read_values(path):
        key = _key(row, _QUESTIONS) if isinstance(row, dict) else None
        if key is None:
            raise ValueError(f"{path}: item {number}: expected an object with the question's id, got {kind(row)}")
        yield str(row[key]), {name: value for name, value in row.items() if name != key}


def ranked_list(value: Any) -> RankedList:
    """Returns the candidates in a question's JSON value.

    Raises:
        KeyError, TypeError, ValueError: The value has another form, or a score is not a finite number.
    """
    if isinstance(value, list):
        return _of_list(value)
    if not isinstance(value, dict):
        raise TypeError(f"found {kind(value)}")
    key = _key(value, _LISTS)
    if key is None and value and all(isinstance(one, int | float) for one in value.values()):
        return RankedList(list(value), [finite(one) for one in value.values()], ordered=False)
    if key is None:
        raise KeyError(", ".join(map(str, value)) or "no field")
    listed = value[key]
    ranked = ranked_list(listed) if isinstance(listed, dict) else _of_list(listed, _beside(value))
    return ranked


def _beside(value: dict[str, Any]) -> tuple[Any, bool] | None:
    """Returns the list of scores of a question, and whether they are distances."""
    keys = [(key, names is _DISTANCES) for names in (_SCORES, _DISTANCES) if (key := _key(value, names)) is not None]
    keys = [(key, lower) for key, lower in keys if value[key] is not None]
    if len(keys) > 1:
        raise ValueError(f"found both {keys[0][0]} and {keys[1][0]}")
    return (value[keys[0][0]], keys[0][1]) if keys else None


def _of_list(listed: Any, beside: tuple[Any, bool] | None = None) -> RankedList:
    if not isinstance(listed, list):
        raise TypeError(f"found {kind(listed)}")
    rows = [_candidate(one) for one in listed]
    if beside is not None:
        scores, lower = beside
        if not isinstance(scores, list) or len(scores) != len(rows):
            raise ValueError(f"{counted(len(rows), 'candidate')}, but the scores are {kind(scores)}")
        rows = [(id, score, lower) for (id, _, _), score in zip(rows, scores, strict=True)]
    rows = [row for row, one in zip(rows, listed, strict=True) if not (isinstance(one, int) and one == -1)]
    scored = [(score, lower) for _, score, lower in rows if score is not None]
    if len(scored) not in (0, len(rows)):
        raise ValueError(f"{len(rows) - len(scored)} of {len(rows)} candidates have no score")
    if len({lower for _, lower in scored}) > 1:
        raise ValueError("some candidates have scores, others distances")
    lower = bool(scored) and scored[0][1]
    return RankedList([id for id, _, _ in rows], [finite(score) for score, _ in scored], lower)


def _candidate(one: Any) -> tuple[str, Any, bool]:
    """Returns the id of a candidate, its score (`None` without one), and whether that is a distance."""
    if isinstance(one, dict):
        score = _beside(one)
        id = one[_key(one, _IDS) or "id"]
        return _id(id), None if score is None else score[0], score is not None and score[1]
    if isinstance(one, list) and len(one) == 2:
        return _id(one[0]), one[1], False
    return _id(one), None, False


def _id(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError(f"an id must be text or an integer, got {kind(value)}")
    return str(value)


def _key(row: dict[str, Any], names: Iterable[str]) -> str | None:
    """Returns the first key of a row that has one of the names, without regard to case and `_`."""
    given = {folded(key): key for key in reversed(row)}
    return next((given[folded(name)] for name in names if folded(name) in given), None)
