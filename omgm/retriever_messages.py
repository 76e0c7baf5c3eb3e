"""Messages between the server and the processes that run the models: JSON, and behind queries their pixels.

Rows of an index differ between processes, so messages name entities by their ids.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from PIL import Image
from pydantic import TypeAdapter

from retriever.asking import EntityIndex
from retriever.image_cache import content_of, set_content
from retriever.images import ALPHA
from retriever.results import values_of
from retriever.types import (
    ArticleImage,
    Candidate,
    Entity,
    Evidence,
    Generation,
    GenerationRequest,
    Options,
    OtherSection,
    Query,
    RetrievalFields,
    RetrievalResult,
    ScoredSection,
)

_FIELDS = TypeAdapter(RetrievalFields)
_SECTION = tuple(field.name for field in fields(ScoredSection))
_CANDIDATE = tuple(field.name for field in fields(Candidate) if field.name not in ("row", "sections"))


class ChangedMeanwhileError(Exception):
    """The best entity changed between the retrieval and the reading of its result."""


def write_queries(queries: Sequence[Query], index: EntityIndex, **more: Any) -> Iterator[bytes]:
    """Yields the messages of a batch: what was asked, with `more` of the sender's, then the pixels of each image."""
    asked = [
        {
            "id": query.id,
            "question": query.question,
            "before": query.before,
            "options": asdict(query.options) | {"exclude": [index.entity(row).id for row in query.options.exclude]},
            "images": [
                {"size": image.size, "content": content_of(image), "alpha": ALPHA in image.info}
                for image in (query.image, *query.more)
            ],
        }
        for query in queries
    ]
    yield json.dumps(more | {"queries": asked}).encode()
    for image in (image for query in queries for image in (query.image, *query.more)):
        yield image.tobytes()
        if ALPHA in image.info:
            yield image.info[ALPHA].tobytes()


def read_queries(
    message: dict[str, Any], following: Iterator[bytes], index: EntityIndex
) -> tuple[list[Query], dict[str, Any]]:
    """Returns the queries of a batch and the sender's other values.

    Args:
        message: The first message, decoded.
        following: Receives the others.
        index: This process's index; entities to leave out that it does not have are ignored.
    """
    asked = message.pop("queries")
    # All at once: what an error left behind would be taken for the next batch.
    images = [[_image(shown, following) for shown in one["images"]] for one in asked]
    queries = []
    for one, (image, *others) in zip(asked, images, strict=True):
        rows = map(index.row_of, one["options"]["exclude"])
        filter = tuple((name, tuple(values)) for name, values in one["options"]["filter"])
        excluded = tuple(row for row in rows if row is not None)
        options = Options(**one["options"] | {"exclude": excluded, "filter": filter})
        about = image, one["question"], one["id"], options
        queries.append(Query(*about, before=tuple(one["before"]), more=tuple(others)))
    return queries, message


def _image(shown: Mapping[str, Any], following: Iterator[bytes]) -> Image.Image:
    """Returns an image, whose messages it receives."""
    image = Image.frombuffer("RGB", shown["size"], next(following))
    if shown["content"] is not None:
        set_content(image, shown["content"])
    if shown["alpha"]:
        image.info[ALPHA] = Image.frombuffer("L", shown["size"], next(following))
    return image


def write_results(results: Iterable[RetrievalResult], index: EntityIndex, **more: Any) -> bytes:
    """Returns the message of a batch's results, with `more` of the sender's; rankings by step are left out."""
    return json.dumps(more | {"results": [_written(result, index) for result in results]}).encode()


def _written(result: RetrievalResult, index: EntityIndex) -> dict[str, Any]:
    entities = [index.entity(candidate.row) for candidate in result.candidates]
    return {
        "query_id": result.query_id,
        "timings_ms": result.timings_ms,
        "best": _checksum(entities[0]) if entities else 0,
        "candidates": [
            [entity.id, _values(candidate, _CANDIDATE), [_values(section, _SECTION) for section in candidate.sections]]
            for entity, candidate in zip(entities, result.candidates, strict=True)
        ],
        "fields": _FIELDS.dump_python(result, mode="json", warnings=False),
    }


def read_results(message: Mapping[str, Any], index: EntityIndex, version: object) -> list[RetrievalResult]:
    """Returns the results of a batch with this process's rows.

    Args:
        message: What `write_results` wrote.
        index: This process's index. Candidates that it does not have any more are left out.
        version: Keeps the index's rows readable.

    Raises:
        ChangedMeanwhileError: The best candidate of a result is not there any more, or its sections are others.
    """
    return [_read(result, index, version) for result in message["results"]]


def _read(result: Mapping[str, Any], index: EntityIndex, version: object) -> RetrievalResult:
    candidates = []
    for rank, (entity_id, scores, sections) in enumerate(result["candidates"]):
        row = index.row_of(entity_id)
        if rank == 0 and (row is None or _checksum(index.entity(row)) != result["best"]):
            raise ChangedMeanwhileError(entity_id)
        if row is not None:
            scored = [ScoredSection(**dict(zip(_SECTION, section, strict=True))) for section in sections]
            candidates.append(Candidate(row, sections=scored, **dict(zip(_CANDIDATE, scores, strict=True))))
    own = values_of(RetrievalFields, _FIELDS.validate_python(result["fields"]))
    return RetrievalResult(
        query_id=result["query_id"], candidates=candidates, timings_ms=result["timings_ms"], version=version, **own
    )


def write_requests(requests: Sequence[GenerationRequest]) -> bytes:
    """Returns the message of a batch of requests to an extractive reader, which needs no images."""
    asked = [
        {
            "question": request.question,
            "evidence": request.evidence and asdict(request.evidence),
            "others": [asdict(other) for other in request.others],
        }
        for request in requests
    ]
    return json.dumps({"requests": asked}).encode()


def read_requests(message: Mapping[str, Any]) -> list[GenerationRequest]:
    """Returns the requests of a message by `write_requests`, without images."""
    return [
        GenerationRequest(
            asked["question"],
            None,
            asked["evidence"] and _evidence(asked["evidence"]),
            others=tuple(OtherSection(_evidence(other["evidence"]), other["behind"]) for other in asked["others"]),
        )
        for asked in message["requests"]
    ]


def read_generation(fields: Mapping[str, Any]) -> Generation:
    """Returns an extractive reader's answer from the values of its fields."""
    span, evidence = fields["span"], fields["evidence"]
    own = {"span": span and tuple(span), "evidence": evidence and _evidence(evidence), "passages": ()}
    return Generation(**{**fields, **own})


def _evidence(fields: Mapping[str, Any]) -> Evidence:
    return Evidence(**{**fields, "images": tuple(ArticleImage(**image) for image in fields["images"])})


def _values(source: object, names: Sequence[str]) -> list[Any]:
    return [getattr(source, name) for name in names]


def _checksum(entity: Entity) -> int:
    """Returns a checksum of what positions of sections refer to."""
    return zlib.crc32(
        "\0".join(f"{section.title}\0{section.text}" for section in entity.sections).encode("utf-8", "surrogatepass")
    )
