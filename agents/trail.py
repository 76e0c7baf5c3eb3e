"""Provenance: how an answer came about, as data, as JSON and as an image (SVG)."""

from __future__ import annotations

import base64
import io
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from PIL import Image

from agents.citations import cited, without_citations
from agents.corpus import NotRecorded
from agents.state import AgentRun, CallRecord, Round, Source
from agents.tool import check_call
from agents.tools.images import PartArguments, box_of
from llm.chat import ChatError
from retriever.files import write_whole

_SENTENCE = re.compile(r"(?<=[.!?。])\s+(?!\[)|\n+")


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of an answer with the numbers of the sources it cites, those that exist."""

    text: str
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """The answer of an agent.

    Attributes:
        question: The question.
        policy: The policy's name.
        answer: The answer without citations, `None` if the agent abstains.
        claims: The answer's sentences with what they cite.
        sources: All sources; the number of a source is its position from 1.
        rounds: What was thought, asked, called and found.
        stopped: The limit or failure that ended the run early, empty if the policy ended it.
        malformed: Malformed replies and calls.
        spent: Tokens, money and calls per tool.
        failure: Why the model failed, if it did.
        invented: Numbers that the answer cites and no source has.
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

    @property
    def abstained(self) -> bool:
        """True if there is no answer."""
        return self.answer is None

    def as_dict(self) -> dict[str, Any]:
        """Returns the trail as JSON values. A replayed run gives the same."""
        rounds = [_round(one) for one in self.rounds]
        return {
            "question": self.question,
            "policy": self.policy,
            "answer": self.answer,
            "abstained": self.abstained,
            "stopped": self.stopped,
            "failure": "" if self.failure is None else str(self.failure),
            "claims": [{"text": claim.text, "sources": list(claim.sources)} for claim in self.claims],
            "invented_citations": list(self.invented),
            "sources": [_source(n, source) for n, source in enumerate(self.sources, start=1)],
            "rounds": rounds,
            "malformed": self.malformed,
            "spent": {**self.spent, "ms": round(sum(one["ms"] for one in rounds), 1)},
        }

    def write(self, path: Path) -> None:
        """Writes the trail: JSON, or an image if the file's name ends in `.svg`.

        Raises:
            ValueError: The name ends in neither `.json` nor `.svg`.
        """
        if path.suffix == ".json":
            write_whole(path, json.dumps(self.as_dict(), ensure_ascii=False, indent=2).encode() + b"\n")
        elif path.suffix == ".svg":
            write_whole(path, as_svg(self).encode())
        else:
            raise ValueError(f"trail: {path} must end in .json or .svg")


def make_answer(
    run: AgentRun, policy: str, answer: str | None, stopped: str, failure: ChatError | NotRecorded | None = None
) -> AgentAnswer:
    """Returns the answer of a run, its citations resolved."""
    claims, invented = claims_of(answer or "", len(run.sources))
    plain = None if answer is None else without_citations(answer)
    return AgentAnswer(
        question=run.question,
        policy=policy,
        answer=plain or None,
        claims=claims,
        sources=tuple(run.sources),
        rounds=tuple(run.rounds),
        stopped=stopped,
        malformed=run.malformed,
        spent=run.spending.as_dict(),
        failure=failure,
        invented=invented,
    )


def claims_of(answer: str, sources: int) -> tuple[tuple[Claim, ...], tuple[int, ...]]:
    """Splits an answer into sentences; returns them with the sources they cite, and cited numbers that do not exist.

    Example:
        >>> claims_of("It is Niamey [1, 9]. Not Lagos.", sources=2)
        ((Claim(text='It is Niamey.', sources=(1,)), Claim(text='Not Lagos.', sources=())), (9,))
    """
    claims, invented = [], set()
    for sentence in _SENTENCE.split(answer):
        numbers = cited(sentence)
        invented |= {number for number in numbers if not 1 <= number <= sources}
        if plain := without_citations(sentence):
            claims.append(Claim(plain, tuple(sorted(numbers - invented))))
    return tuple(claims), tuple(sorted(invented))


def round_step(one: Round) -> dict[str, Any]:
    """Returns a round's thought and calls, before the calls are run."""
    calls = [{"tool": record.call.tool, "arguments": _arguments(record)} for record in one.calls]
    return {"round": one.number, "thought": one.thought, "problem": one.problem, "calls": calls}


def call_steps(run: AgentRun, one: Round) -> list[dict[str, Any]]:
    """Returns the calls of a round as in the trail, each with the sources in full and thumbnails of its images.

    The thumbnails are data URIs by name: of new images, or else of the `part` of an image that the call looked at.
    """
    return [
        {
            "round": one.number,
            "position": position,
            **_call(record),
            "found": [_source(number, run.sources[number - 1]) for number in record.numbers],
            "thumbnails": {name: _thumbnail(image) for name, image in _images(run, record).items()},
        }
        for position, record in enumerate(one.calls)
    ]


_THUMBNAIL_SIDE = 240


def _images(run: AgentRun, record: CallRecord) -> Mapping[str, Image.Image]:
    if record.observation.images:
        return record.observation.images
    try:
        _, arguments = check_call(record.call, run.tools)
        if isinstance(arguments, PartArguments) and (box := box_of(arguments, run)) is not None:
            return {"part": box.crop(run.image(arguments.image))}
    except ValueError:  # a malformed call, or a region that does not exist: the record says so
        pass
    return {}


def _thumbnail(image: Image.Image) -> str:
    small = image.convert("RGB")
    small.thumbnail((_THUMBNAIL_SIDE, _THUMBNAIL_SIDE))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def _source(number: int, source: Source) -> dict[str, Any]:
    span = None if source.span is None else list(source.span)
    return {"number": number, **asdict(source), "span": span}


def _arguments(record: CallRecord) -> str | dict[str, Any]:
    """Returns the arguments of a call: a JSON object, or the text that should have been one."""
    arguments = record.call.arguments
    try:
        values = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return str(arguments)
    return dict(values) if isinstance(values, Mapping) else str(arguments)


def _round(one: Round) -> dict[str, Any]:
    calls = [_call(record) for record in one.calls]
    waited = max((record.ms for record in one.calls if not record.cached), default=0.0)
    return {
        "number": one.number,
        "thought": one.thought,
        "problem": one.problem,
        "requests": [asdict(request) for request in one.requests],
        "calls": calls,
        "ms": round(sum(request.ms for request in one.requests) + waited, 1),
    }


def _call(record: CallRecord) -> dict[str, Any]:
    seen = record.observation
    return {
        "tool": record.call.tool,
        "arguments": _arguments(record),
        "sources": list(record.numbers),
        "images": list(seen.images),
        "text": seen.text,
        "error": seen.error,
        "cached": record.cached,
        "cost": record.cost,
        "ms": record.ms,
    }


_WIDTH, _LINE, _PAD, _CHARS = 760, 18, 10, 100


def as_svg(answer: AgentAnswer) -> str:
    """Draws a trail: question, rounds and answer from top to bottom, the calls of a round below its thought."""
    drawing = _Drawing()
    drawing.box([f"Question: {answer.question}"], "#dbe9f6")
    for one in _shown_rounds(answer):
        drawing.box(*one)
    said = (
        answer.answer if answer.answer is not None else f"(no answer{': ' + answer.stopped if answer.stopped else ''})"
    )
    lines = [f"Answer ({answer.policy}): {said}"]
    for number in sorted({number for claim in answer.claims for number in claim.sources}):
        source = answer.sources[number - 1]
        lines.append(f"[{number}] {_heading(source)} ({source.url})")
    drawing.box(lines, "#dff2dc")
    return drawing.svg()


def _shown_rounds(answer: AgentAnswer) -> list[tuple[Sequence[str], str, Sequence[Sequence[str]]]]:
    shown: list[tuple[Sequence[str], str, Sequence[Sequence[str]]]] = []
    for one in answer.rounds:
        values = _round(one)
        tokens = sum(request.prompt_tokens + request.completion_tokens for request in one.requests)
        lines = [f"Round {one.number}: {tokens} tokens, {values['ms']:g} ms"]
        lines += [text for text in (one.thought, one.problem and f"malformed: {one.problem}") if text]
        calls = []
        for call in values["calls"]:
            arguments = call["arguments"]
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            found = [f"[{number}] {_heading(answer.sources[number - 1])}" for number in call["sources"]]
            found += [f"new image {name}" for name in call["images"]]
            calls.append(
                [f"{call['tool']} {text}", *([call["error"]] if call["error"] else found or ["nothing found"])]
            )
        shown.append((lines, "#f4f4f4", calls))
    return shown


def _heading(source: Source) -> str:
    return f"{source.title}, {source.section}" if source.section else source.title


class _Drawing:
    """Boxes below each other, joined by arrows."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._bottom = _PAD

    def box(self, lines: Sequence[str], fill: str, inner: Sequence[Sequence[str]] = ()) -> None:
        """Adds a box with lines of text and boxes inside."""
        if self._parts:
            x, y = _WIDTH // 2, self._bottom
            self._parts.append(f'<path d="M{x} {y}v20m-5 -7l5 7l5 -7" fill="none" stroke="#555"/>')
            self._bottom += 20
        top, self._bottom = self._bottom, self._bottom + _PAD
        at = len(self._parts)
        self._text(lines, _PAD * 2, _CHARS)
        for own in inner:
            start, place, self._bottom = self._bottom + 4, len(self._parts), self._bottom + 4
            self._text(own, _PAD * 4, _CHARS - 8)
            self._parts.insert(place, _rectangle(_PAD * 3, start, _WIDTH - 6 * _PAD, self._bottom - start + 6, "#fff"))
            self._bottom += 6
        self._bottom += _PAD
        self._parts.insert(at, _rectangle(_PAD, top, _WIDTH - 2 * _PAD, self._bottom - top, fill))

    def svg(self) -> str:
        """Returns the drawing."""
        size = f'width="{_WIDTH}" height="{self._bottom + _PAD}"'
        body = "\n".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">\n'
            f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
        )

    def _text(self, lines: Sequence[str], x: int, limit: int) -> None:
        for line in lines:
            text = " ".join(_printable(line).split())
            for row in textwrap.wrap(text, limit, max_lines=3, placeholder=" …"):
                self._bottom += _LINE
                title = f"<title>{escape(text)}</title>"
                self._parts.append(f'<text x="{x}" y="{self._bottom - 4}">{escape(row)}{title}</text>')


def _rectangle(x: int, y: int, width: int, height: int, fill: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="#999"/>'


def _printable(text: str) -> str:
    """Replaces characters that XML does not allow."""
    return "".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in text)
