"""Provenance: the trail of an answer, as data, as JSON and as an image (SVG)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from chat_models.errors import ChatError
from retriever.files import write_json, write_whole
from retriever.trail_views import CallOut, CallStep, RoundStep, SourceOut, TrailOut
from search_agents.answers import cited, without_citations
from search_agents.corpus import NotRecorded
from search_agents.graph import as_svg, thumbnail
from search_agents.records import IMAGE, CallRecord, Round, Source, without_of
from search_agents.state import AgentRun
from search_agents.tool import check_call
from search_agents.tools.images import PartArguments, box_of

_SENTENCE = re.compile(r"(?<=[.!?。])\s+(?!\[)|\n+")


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of an answer with the numbers of the existing sources that it cites."""

    text: str
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """The answer of an agent.

    Attributes:
        question: The question.
        policy: The policy's name.
        answer: The answer without citations; `None` if the agent abstains.
        claims: The answer's sentences with their citations.
        sources: All sources; the number of a source is its position from 1.
        rounds: All rounds with thoughts, requests, calls and results.
        stopped: The limit or failure that ended the run early; empty if the policy ended it.
        malformed: Number of malformed replies and calls.
        spent: Tokens, money and calls per tool.
        failure: The model's error, if it failed.
        invented: Cited numbers that no source has.
        image: The question's image, if it has one.
    """

    question: str
    policy: str
    answer: str | None
    claims: tuple[Claim, ...]
    sources: tuple[Source, ...]
    rounds: tuple[Round, ...]
    stopped: str
    malformed: int
    spent: dict[str, Any]
    failure: ChatError | NotRecorded | None = None
    invented: tuple[int, ...] = ()
    image: Image.Image | None = field(default=None, repr=False, compare=False)

    @property
    def abstained(self) -> bool:
        """Whether there is no answer."""
        return self.answer is None

    @property
    def without(self) -> tuple[str, ...]:
        """What the model was asked without at some request, because its server refused it."""
        return without_of(self.rounds)

    @property
    def trail(self) -> TrailOut:
        """The trail, the same for a replayed run."""
        ms = round(sum(one.ms for one in self.rounds), 1)
        return TrailOut.of(
            self,
            failure="" if self.failure is None else str(self.failure),
            invented_citations=self.invented,
            sources=[numbered(number, source) for number, source in enumerate(self.sources, start=1)],
            spent={**self.spent, "ms": ms},
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the trail as JSON values."""
        return self.trail.model_dump(mode="json")

    def write(self, path: Path) -> None:
        """Writes the trail: JSON, or an image if the file's name ends in `.svg`.

        Raises:
            ValueError: The name ends in neither `.json` nor `.svg`.
        """
        if path.suffix == ".json":
            write_json(path, self.as_dict())
        elif path.suffix == ".svg":
            made = (record.observation.images for one in self.rounds for record in one.calls)
            images = {name: image for images in made for name, image in images.items()}
            write_whole(path, as_svg(self.trail, self.image, images).encode())
        else:
            raise ValueError(f"trail: {path} must end in .json or .svg")


def make_answer(
    run: AgentRun, policy: str, answer: str | None, stopped: str, failure: ChatError | NotRecorded | None = None
) -> AgentAnswer:
    """Returns the answer of a run with its citations resolved."""
    claims, invented = _claims_of(answer or "", len(run.sources))
    plain = answer if answer is None or run.verbatim else without_citations(answer) or None
    return AgentAnswer(
        question=run.question,
        policy=policy,
        answer=plain,
        claims=claims,
        sources=tuple(run.sources),
        rounds=tuple(run.rounds),
        stopped=stopped,
        malformed=run.malformed,
        spent=run.spending.as_dict(),
        failure=failure,
        invented=invented,
        image=run.images.get(IMAGE),
    )


def _claims_of(answer: str, sources: int) -> tuple[tuple[Claim, ...], tuple[int, ...]]:
    """Splits an answer into sentences; returns them with the existing sources they cite, and the missing numbers.

    Example:
        >>> _claims_of("It is Niamey [1, 9]. Not Lagos.", sources=2)
        ((Claim(text='It is Niamey.', sources=(1,)), Claim(text='Not Lagos.', sources=())), (9,))
    """
    claims, invented = [], set()
    for sentence in _SENTENCE.split(answer):
        numbers = cited(sentence)
        invented |= {number for number in numbers if not 1 <= number <= sources}
        if plain := without_citations(sentence):
            claims.append(Claim(plain, tuple(sorted(numbers - invented))))
    return tuple(claims), tuple(sorted(invented))


def numbered(number: int, source: Source) -> SourceOut:
    """Returns a source with its number in the run."""
    return SourceOut.of(source, number=number)


def round_step(one: Round) -> dict[str, Any]:
    """Returns a round's thought and calls, before the calls are run."""
    return RoundStep.of(one, round=one.number).model_dump(mode="json")


def call_steps(run: AgentRun, one: Round) -> list[dict[str, Any]]:
    """Returns the calls of a round as in the trail, each with its full sources and thumbnails of its images.

    The thumbnails are data URIs by name: of new images, or else of the `part` of an image that the call looked at.
    """
    return [
        CallStep.of(
            CallOut.model_validate(record),
            round=one.number,
            position=position,
            found=[numbered(number, run.sources[number - 1]) for number in record.numbers],
            thumbnails={name: thumbnail(image) for name, image in _images(run, record).items()},
        ).model_dump(mode="json")
        for position, record in enumerate(one.calls)
    ]


def _images(run: AgentRun, record: CallRecord) -> Mapping[str, Image.Image]:
    if record.observation.images:
        return record.observation.images
    try:
        _, arguments = check_call(record.call, run.tools)
        if isinstance(arguments, PartArguments) and (box := box_of(arguments, run)) is not None:
            return {"part": box.crop(run.image(arguments.image))}
    except ValueError:  # a malformed call, or a region that does not exist; the record has the error
        pass
    return {}
