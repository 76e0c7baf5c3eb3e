"""Answers about each of the different things that several images of a question show, for a reader of one article."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import islice

from generators.reader.comparisons import measure_of
from retriever.types import Evidence, Generation, GenerationRequest

Generate = Callable[[Sequence[GenerationRequest]], Awaitable[list[Generation]]]


async def about_each(requests: Sequence[GenerationRequest], generate: Generate) -> list[Generation]:
    """Returns one answer per request; that to one about several things names each with its own, or with its measure.

    Args:
        requests: The requests.
        generate: Answers requests about one thing each.
    """
    parts = [{number: _measured(one, request) for number, one in things_of(request).items()} for request in requests]
    answers = iter(await generate([part for things in parts for part in things.values()]))
    return [
        _joined(request, things, list(islice(answers, len(things))))
        for request, things in zip(requests, parts, strict=True)
    ]


def things_of(request: GenerationRequest) -> dict[int, GenerationRequest]:
    """Returns a request about each of different things, by the number of the image that shows it; else the request."""
    images = (request.image, *request.more)
    things = {
        number: replace(
            request, image=image, more=(), evidence=one.sections[0].evidence, others=one.sections[1:], photographs=()
        )
        for number, (image, one) in enumerate(zip(images, request.photographs, strict=False), start=1)
        if one.sections
    }
    return things if len(things) > 1 else {1: request}


def passages_of(request: GenerationRequest) -> tuple[Evidence, ...]:
    """Returns the best section about each of different things; none if the images show one."""
    things = things_of(request)
    return tuple(one.evidence for one in things.values() if one.evidence is not None) if len(things) > 1 else ()


def _measured(thing: GenerationRequest, request: GenerationRequest) -> GenerationRequest:
    """Returns a request about one of several things that asks for what the question compares them by."""
    return thing if thing is request else replace(thing, question=measure_of(thing.question))


def _joined(
    request: GenerationRequest, things: dict[int, GenerationRequest], answers: Sequence[Generation]
) -> Generation:
    """Returns the answers about some things as one, with the span of that about the best entity."""
    if len(things) == 1:
        return answers[0]
    said, of_best = list[str](), answers[0]
    for (number, thing), answer in zip(things.items(), answers, strict=True):
        assert thing.evidence is not None
        title = thing.evidence.entity_title
        found = "" if answer.answer == title else f": {answer.answer or 'not found'}"
        said.append(f"{title} (image {number}){found}")
        if request.evidence is not None and thing.evidence.entity_id == request.evidence.entity_id:
            of_best = answer
    answered = [answer for answer in answers if answer.answer is not None]
    sure = min((answer.confidence for answer in answered or answers if answer.confidence is not None), default=None)
    read = (answer.evidence or thing.evidence for thing, answer in zip(things.values(), answers, strict=True))
    text, passages = "; ".join(said) if answered else None, tuple(filter(None, read))
    return replace(of_best, answer=text, confidence=sure, passages=passages)
