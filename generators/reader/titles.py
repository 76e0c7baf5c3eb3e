"""Questions without an image: the article's title in them, and as their answer."""

from __future__ import annotations

import re
from dataclasses import replace

from retriever.deixis import renamed
from retriever.lexical import tokenize
from retriever.types import Generation, GenerationRequest

_ASKS = re.compile(r"\b(?:which|what|who|whose)\b", re.IGNORECASE)
_CHOICE = re.compile(r"\bor\b", re.IGNORECASE)


def pointing(request: GenerationRequest) -> GenerationRequest:
    """Returns a question without an image as one that points, as those that the reader is trained on: with "it".

    The reader takes the title's words for those of an answer.
    """
    if request.image is not None or request.evidence is None:
        return request
    return replace(request, question=renamed(request.question, request.evidence.entity_title, "it"))


def asked_for(request: GenerationRequest, generation: Generation) -> Generation:
    """Returns the article's title for an answer that a question without an image says itself.

    "Which country has the capital Oslo?" asks for what has it, if it does not name that. (Of 7,938 questions of
    SQuADShifts' New Wikipedia, whose answers are never the title, 36 say theirs.)
    """
    question, evidence = request.question, request.evidence
    if request.image is not None or evidence is None or generation.answer is None:
        return generation
    words, title = {*tokenize(question)}, {*tokenize(evidence.entity_title)}
    said = {*tokenize(generation.answer)} - title
    if not said or not said <= words or title <= words or not _ASKS.search(question) or _CHOICE.search(question):
        return generation
    return replace(generation, answer=evidence.entity_title, span=None)
