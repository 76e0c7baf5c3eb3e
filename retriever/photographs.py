"""Several images of one question: each is searched for itself, and their results become one.

If they show the same thing, or only one of them is recognized, candidates merge, and each has its best score. If they
are recognized as different things, `RetrievalResult.photographs` has sections of each: all are evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from retriever.asking import EntityIndex
from retriever.recognition import Recognition, is_declined
from retriever.results import Retrieval
from retriever.types import Candidate, OtherSection, Photograph, Query, RetrievalResult


def single(query: Query) -> list[Query]:
    """Returns one query per image of a query."""
    return [replace(query, image=image, more=()) for image in (query.image, *query.more)]


def merged(
    index: EntityIndex,
    recognition: Recognition | None,
    queries: Sequence[Query],
    results: Sequence[RetrievalResult],
) -> RetrievalResult:
    """Returns the result of a question from those of its images, in whatever order these are.

    If one is recognized, those that are not add no candidates. `recognized` is the highest of the images with the best
    entity, but the lowest of different things, since an answer rests on each; without a recognition, nothing counts as
    different. `text` has the lines of all images.

    Args:
        index: Holds the entities.
        recognition: What `recognized` was estimated with.
        queries: The queries, one per image.
        results: Their results, in order.
    """
    if len(results) == 1:
        return results[0]
    by_number = dict(enumerate(results, start=1))
    sure = [number for number, result in by_number.items() if _is_sure(result, recognition)]
    ranked = _ranked({number: by_number[number] for number in sure or by_number})
    best = ranked[0].photograph if ranked else 1
    ascending = sorted(sure, key=lambda number: by_number[number].candidates[0].score)
    things = {by_number[number].candidates[0].row: number for number in ascending}  # each as its best image shows it
    apart = sorted(things.values()) if len(things) > 1 else []
    alike = [result for result in results if _row(result) == _row(by_number[best])]
    lines = [replace(line, photograph=number) for number, result in by_number.items() for line in result.text or ()]
    return replace(
        by_number[best],
        candidates=ranked,
        recognized=min(_known(by_number[n] for n in apart), default=max(_known(alike), default=None)),
        text=tuple(lines) if any(result.text is not None for result in results) else None,
        timings_ms={step: max(one.timings_ms.get(step, 0.0) for one in results) for step in results[0].timings_ms},
        version=[result.version for result in results],
        photographs=tuple(
            _photograph(index, query, by_number[number], number in apart)
            for number, query in enumerate(queries, start=1)
        ),
    )


def _ranked(results: Mapping[int, RetrievalResult]) -> list[Candidate]:
    """Returns the candidates of all images, best first, each once."""
    found = sorted(
        (-one.score, place, one.row, number)
        for number, result in results.items()
        for place, one in enumerate(result.candidates)
    )
    best = dict[int, Candidate]()
    for _, place, row, number in found:
        best.setdefault(row, replace(results[number].candidates[place], photograph=number))
    return [*best.values()]


def _is_sure(result: RetrievalResult, recognition: Recognition | None) -> bool:
    if recognition is None or result.recognized is None or not result.candidates:
        return False
    return not is_declined(result.recognized, recognition.threshold)


def _known(results: Iterable[RetrievalResult]) -> list[float]:
    return [result.recognized for result in results if result.recognized is not None]


def _row(result: RetrievalResult) -> int | None:
    return result.candidates[0].row if result.candidates else None


def _photograph(index: EntityIndex, query: Query, result: RetrievalResult, apart: bool) -> Photograph:
    found = Retrieval.of(index, query, result)
    request = found.request()
    sections = () if request.evidence is None else (OtherSection(request.evidence, 0.0), *request.others)
    entity_id, title = (found.entity.id, found.entity.title) if found.entity else (None, None)
    return Photograph(entity_id, title, result.recognized, result.crop, result.turned, sections if apart else ())
