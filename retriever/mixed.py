"""Retrieves for questions with one image, several or none, and for those that follow others in a conversation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from retriever.deixis import renamed, without_deixis
from retriever.looks import summed
from retriever.photographs import merged, single
from retriever.pipeline import IndexT, Retriever
from retriever.protocols import Finish, Step
from retriever.recognition import is_declined
from retriever.section_search import PRONOUN, SectionIndex, SectionSearch, fits, topic_of
from retriever.step3_sections import SectionRerank
from retriever.types import NO_IMAGE, Candidate, Query, RetrievalResult

SURE = 0.5
"""From this probability on, a text says what a question is about."""
_POINTER = re.compile(rf"{PRONOUN.pattern}|\b(?:this|these|that|those)\b|\bt?here(?=\W*$)", re.IGNORECASE)
_HERE = re.compile(r"\b(?:this|these|here)\b", re.IGNORECASE)
_ALSO = re.compile(r"(?:and|or|but)\b", re.IGNORECASE)
_THING = re.compile(
    r"(?:(?:and|or|but)(?:,? (?:what|how) about)?|(?:what|how) about),? "
    r"(?!(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|can|could|has|have|had|will|would"
    r"|should)\b)(.{1,80})",
    re.IGNORECASE,
)


class MixedRetrieval:
    """Retrieves for questions about images, and for those without one by a search of sections in place of step 1.

    Of several images of a question, each is searched for itself (`retriever.photographs`). If they are not recognized,
    what the question names is searched.

    Args:
        retriever: Retrieves for those about images.
        index: What is searched for the others.
        last: Step 3.
        k: As in `SectionSearch`.
    """

    def __init__(self, retriever: Retriever[IndexT], index: SectionIndex, last: SectionRerank, k: int) -> None:
        self._retriever = retriever
        steps: list[Step] = [SectionSearch(index, last.reranker, k, retriever.index.row_of), _UnnamedRerank(last)]
        self._texts = Retriever(steps, retriever.index, pin=retriever.pin, device=retriever.device)
        self._texts.models = retriever.models

    def __call__(self, queries: Sequence[Query], free: Callable[[], object] = bool) -> list[RetrievalResult]:
        """Returns one result per query, in order, after all steps; `free` as in `Retriever.retrieve`."""
        completed = [self._completed(query) for query in queries]
        retriever, shown = self._retriever, [single(query) for query in completed]
        images = [one for several in shown for one in several if one.image.width]
        about = iter(retriever.retrieve_images(images, free=free))
        results = dict[int, RetrievalResult]()
        for number, (query, several) in enumerate(zip(completed, shown, strict=True)):
            if query.image.width:
                result = merged(retriever.index, retriever.recognition, several, list(islice(about, len(several))))
                completed[number], results[number] = self._named(query, result), result
        asked = [number for number, query in enumerate(completed) if not query.image.width]
        texts = self._texts.retrieve([completed[number] for number in asked]) if asked else []
        for number, text in zip(asked, texts, strict=True):
            judged, image = _judged(completed[number], text), results.get(number)
            results[number] = judged if image is None else _after(image, judged)
        return [results[number] for number in range(len(completed))]

    def _named(self, query: Query, result: RetrievalResult) -> Query:
        """Returns a query without its image if that is not recognized, but the question names a thing."""
        recognition = self._retriever.recognition
        unknown = recognition is not None and is_declined(result.recognized, recognition.threshold)
        if unknown and result.reading is None and not _shows(query.question):
            for text, candidates in self._search(query, [query.question]):
                if candidates[0].sim_w and fits(_head(text), candidates) >= SURE:
                    return replace(query, image=NO_IMAGE, more=(), before=(_head(text),))
        return query

    def _completed(self, query: Query) -> Query:
        """Returns a query without those before it: about its image, or after the text that says what it is about.

        One with an entity is about that. A question with a name is about that; one with a pronoun, or that only adds
        something, about the latest before that fits an entity, otherwise about the image, if there is one, as is one
        with "this".
        """
        if query.options.entity is not None:
            return replace(query, image=NO_IMAGE, more=(), before=())
        question, about = query.question, bool(query.image.width)
        thing = _thing(question)
        follows = _refers(question) or _ALSO.match(question) is not None or thing is not None
        alone = replace(query, before=())
        if not query.before or (about and _shows(question)) or not (about or follows):
            return alone
        earlier = query.before[about:] if follows and (thing is None or thing.islower()) else ()
        for text, candidates in self._search(query, [question, *reversed(earlier)]):
            by_name = about or text is question or _refers(text)
            if fits(_head(text), candidates) >= SURE and (candidates[0].sim_w or not by_name):
                thing = _thing(question) if text is question else None
                asked = question if thing is None else self._before(query, thing)
                return replace(query, image=NO_IMAGE, more=(), question=asked, before=(_head(text),))
        return alone

    def _before(self, query: Query, thing: str) -> str:
        """Returns the question before one that only names another thing ("And Norway?"), about that."""
        earlier = next((text for text in reversed(query.before) if text.strip() and not _thing(text)), query.question)
        if _refers(earlier):
            return earlier
        for _, candidates in self._search(query, [earlier]):
            entity = self._texts.index.entity(candidates[0].row)
            for name in sorted((entity.title, *entity.names), key=len, reverse=True):
                if (other := renamed(earlier, name, thing)) != earlier:
                    return other
        return query.question

    def _search(self, query: Query, texts: Sequence[str]) -> list[tuple[str, list[Candidate]]]:
        """Returns texts with the entities that fit what they say before they point at something."""
        kept = [text for text in texts if _head(text).strip()]
        queries = [Query(NO_IMAGE, _head(text), options=query.options) for text in kept]
        results = self._texts.retrieve(queries, steps=1) if queries else []
        return [(text, result.candidates) for text, result in zip(kept, results, strict=True) if result.candidates]


class _UnnamedRerank:
    """Step 3 by questions without the name of the best entity, which only some of its sections repeat."""

    def __init__(self, last: SectionRerank) -> None:
        self._last, self.name = last, last.name

    def start(self, queries: Sequence[Query]) -> Finish:
        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            asked = [self._unnamed(query, own) for query, own in zip(queries, candidates, strict=True)]
            return self._last.start(asked)(candidates)

        return finish

    def _unnamed(self, query: Query, candidates: Sequence[Candidate]) -> Query:
        for best in candidates[:1]:
            entity = self._last.index.entity(best.row)
            for name in sorted((entity.title, *entity.names), key=len, reverse=True):
                query = replace(query, question=renamed(query.question, name, "it"))
        return query


def _head(question: str) -> str:
    """Returns the words of a question before the first one that points at something ("it", "this")."""
    if not _refers(question):
        return question
    pointer = _POINTER.search(question)
    return question[: pointer.start()] if pointer else ""


def _thing(question: str) -> str | None:
    """Returns the thing that a question without a verb names: "Norway" of "And Norway?"."""
    match = _THING.fullmatch(" ".join(question.split()).rstrip(" ?.!"))
    return None if match is None or _refers(question) else match[1]


def _shows(question: str) -> bool:
    """Returns whether a question points at an image."""
    return without_deixis(question) != question or _HERE.search(question) is not None


def _refers(question: str) -> bool:
    return without_deixis(question) != question or _POINTER.search(question) is not None


def _after(image: RetrievalResult, text: RetrievalResult) -> RetrievalResult:
    """Returns the result for what a question names, with what the first steps made of its image, and all the time."""
    last = {step: ranking for step, ranking in text.rankings.items() if step != SectionSearch.name}
    return replace(text, rankings=image.rankings | last, timings_ms=summed([image.timings_ms, text.timings_ms]))


def _judged(query: Query, result: RetrievalResult) -> RetrievalResult:
    if query.options.entity is not None:
        return result
    return replace(result, recognized=fits(topic_of(query), result.candidates), searched=query.question)
