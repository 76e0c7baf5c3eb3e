"""Questions without an image: the article's title in them, and as their answer."""

from __future__ import annotations

import re
from dataclasses import replace

from generators.reader.names import first_sentence
from retriever.deixis import renamed, without_deixis
from retriever.lexical import tokenize
from retriever.types import Evidence, Generation, GenerationRequest

_ASKS = re.compile(r"\b(?:which|what|who|whose)\b", re.IGNORECASE)
_CHOICE = re.compile(r"\bor\b", re.IGNORECASE)
_POINTER = re.compile(r"\b(?:it|they|them|he|his|him|she|her)\b", re.IGNORECASE)
_KIND = re.compile(r"\b(?:which|what) ([a-z-]+)\b(?! (?:of|do|does|did|can|could|will|would|should)\b)", re.IGNORECASE)


def posed(request: GenerationRequest) -> GenerationRequest:
    """Returns a question without an image as one of those that the reader is trained on.

    "It" replaces the title: the reader would take its words for those of an answer. If the question may ask for the
    title, this is a line before each section, so that the reader can choose it.
    """
    if request.image is not None or request.evidence is None:
        return request
    line = _title_line(request)
    if line is None:
        return replace(request, question=renamed(request.question, request.evidence.entity_title, "it"))
    others = tuple(replace(other, evidence=_with_line(other.evidence, line)) for other in request.others)
    return replace(request, evidence=_with_line(request.evidence, line), others=others)


def unposed(request: GenerationRequest, generation: Generation) -> Generation:
    """Returns the reader's answer to a question by `posed` as one to the question itself.

    It is the title if the reader chose that, or what a question says that does not name the title: "Which country has
    the capital Oslo?" asks for what has it. (Of 7,938 questions of SQuADShifts' New Wikipedia, whose answers are never
    the title, 36 say theirs.)
    """
    if request.image is not None or request.evidence is None or (line := _title_line(request)) is None:
        return generation
    title, words = request.evidence.entity_title, {*tokenize(request.question)}
    sections = (other.evidence for other in request.others)
    section = next((own for own in sections if _with_line(own, line) == generation.evidence), None)
    start, end = (place - len(line) - 1 for place in generation.span or (0, 0))
    said = {*tokenize(generation.answer or "")} - {*tokenize(title)}
    if generation.span is not None and (start < 0 or (said and said <= words)):
        return replace(generation, answer=title, span=None, evidence=section)
    return replace(generation, span=generation.span and (start, end), evidence=section)


def _title_line(request: GenerationRequest) -> str | None:
    """Returns the article's title as a line, behind what the question calls the thing if the article does, too.

    `None` if the question cannot ask for it: it names it, points at something, or is none for a thing.
    """
    question, evidence = request.question, request.evidence
    assert evidence is not None
    title = evidence.entity_title
    points = _POINTER.search(question) or without_deixis(question) != question
    if points or not _ASKS.search(question) or _CHOICE.search(question) or {*tokenize(title)} <= {*tokenize(question)}:
        return None
    texts = (first_sentence(own.text) for own in (evidence, *(other.evidence for other in request.others)))
    kind = _KIND.search(question)
    own = {word for text in (title, *texts) for word in tokenize(text)}
    return f"{kind[1].capitalize()}: {title}" if kind and {*tokenize(kind[1])} & own else title


def _with_line(evidence: Evidence, line: str) -> Evidence:
    return replace(evidence, entity_title="", text=f"{line}\n{evidence.text}")
