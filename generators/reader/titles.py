"""Takes the article's title out of a question: the reader takes its words for those of an answer."""

from __future__ import annotations

from dataclasses import replace

from retriever.deixis import renamed
from retriever.types import GenerationRequest


def pointing(request: GenerationRequest) -> GenerationRequest:
    """Returns a question without an image as one that points, as those that the reader is trained on: with "it"."""
    if request.image is not None or request.evidence is None:
        return request
    return replace(request, question=renamed(request.question, request.evidence.entity_title, "it"))
