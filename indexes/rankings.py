"""Reads the rankings that another system wrote, in TREC's format or in JSON."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from indexes.decoding import opened
from indexes.ids import ENCODED, meant
from indexes.json_streams import has_lines, read_items, read_members, read_values, starts_with
from indexes.labeled_values import folded, kind
from indexes.ranked_lists import Order, RankedList, Ranking, check_order, finite, in_order
from retriever.wording import counted

logger = logging.getLogger(__name__)

_RUN = re.compile(rb"\S+\s+\S+\s+.+\s+\d+\s+[-+.\deE]+\s+[^\s{}\[\]]+")  # a line of a run in TREC's format

_QUESTIONS = ("id", "question_id", "query_id", "qid", "data_id", "sample_id", "image_id")
_LISTS = (
    *("retrieved_entities", "retrieved_entries", "entities", "entries", "candidates", "results", "hits", "ids"),
    *("doc_ids", "documents", "docs", "labels", "indices", "I", "top_20", "retrieved", "ranking", "ctxs"),
)
_IDS = ("url", "entry", "id", "entity_id", "entity", "doc_id", "document_id", "pid", "label")
_SCORES = ("retrieval_similarities", "similarities", "similarity", "scores", "score", "sims", "sim", "D")
_DISTANCES = ("distances", "distance", "dists", "dist")


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
    other, unasked = "", 0
    try:
        for written, ranked in _in_json(path) if _is_json(path) else _in_trec(path):
            question_id = meant(written, wanted.__contains__)
            if question_id in wanted:
                if question_id in lists:
                    raise ValueError(f"{path}: {question_id}: occurs twice")
                lists[question_id] = ranked
            else:
                other, unasked = other or question_id, unasked + 1
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from error
    if not lists:
        example = f"; it has others, such as {other!r}" if other else ""
        raise ValueError(f"{path}: has none of the questions, such as {next(iter(wanted))!r}{example}")
    if order is None:
        check_order(path, lists, flag)
    if unasked:
        what = f"{unasked:,} of {counted(len(lists) + unasked, 'list')}, such as that of {other!r}"
        why = "ids that are numbers of rows, as E-VQA's, must be those of the same rows"
        logger.warning("%s: %s, are for questions that are not asked; %s", path, what, why)
    rankings = in_order(lists, order)
    if twice := [id for id, ranking in rankings.items() if len(dict(ranking)) < len(ranking)]:
        what = f"{len(twice):,} of {counted(len(rankings), 'list')}, such as that of {twice[0]!r}"
        logger.warning("%s: %s, have a candidate more than once; its best place counts", path, what)
    return rankings


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
        if ordered:  # otherwise the scores, which the file's order may contradict
            run.sort(key=lambda row: row[0])
        yield question_id, RankedList([id for _, _, id in run], [score for _, score, _ in run], ordered=ordered)


def from_column(column: str) -> str:
    """Returns the id in a column, the inverse of `indexes.ids.to_column`."""
    if not column.startswith(ENCODED):
        return column
    return unquote_to_bytes(column.removeprefix(ENCODED)).decode(errors="surrogatepass")


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
    lowers = {lower for _, score, lower in rows if score is not None}
    if len(lowers) > 1:
        raise ValueError("some candidates have scores, others distances")
    return RankedList.of([id for id, _, _ in rows], [score for _, score, _ in rows], True in lowers)


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
