"""Draws the trail of a run as a graph (SVG): question, rounds and answer on the left, calls on the right.

Each round points to its calls, and each call that found a cited source points to the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from PIL import Image

from chat_models.messages import data_uri
from retriever.trail_views import CallOut, RoundOut, SourceOut, TrailOut
from search_agents.records import heading_of

THUMBNAIL_SIDE = 240
"""Longer side of a thumbnail in pixels."""
_WIDTH, _LEFT, _RIGHT, _GUTTER = 1120, 420, 560, 60  # width of the drawing, of its columns, and of the gutter
_LINE, _PAD, _GAP, _SHOWN = 17, 10, 26, 72  # line height, padding of boxes, gap between boxes, side of an image
_LISTED = 5
"""Maximum number of sources listed per call, besides those that the answer cites."""
_FILLS = {"question": "#dbe9f6", "round": "#f4f4f4", "malformed": "#fdeeda", "call": "#fff", "failed": "#fbe3e3"}
_CITED = "#2c7a2c"


@dataclass(slots=True)
class _TextBox:
    """A box with lines of text and images; a line with a number is a source that the answer cites."""

    x: int
    width: int
    fill: str
    lines: list[tuple[str, int | None]] = field(default_factory=list)
    images: list[tuple[str, Image.Image]] = field(default_factory=list)
    top: int = 0
    cited: dict[int, int] = field(default_factory=dict)
    """The y coordinates of the lines of cited sources, by number."""

    def add(self, text: str, rows: int = 3, number: int | None = None) -> None:
        """Adds a text, wrapped and cut to `rows` rows."""
        characters = (self.width - 2 * _PAD) // 7
        self.lines += [(row, number if at == 0 else None) for at, row in enumerate(_wrapped(text, characters, rows))]

    @property
    def height(self) -> int:
        return 2 * _PAD + _LINE * len(self.lines) + (_SHOWN + 8 if self.images else 0)

    def svg(self) -> Iterator[str]:
        yield (
            f'<rect x="{self.x}" y="{self.top}" width="{self.width}" height="{self.height}" rx="6" fill="{self.fill}" '
            'stroke="#999"/>'
        )
        y, x = self.top + _PAD, self.x + _PAD
        for at, (row, number) in enumerate(self.lines):
            style = ' font-weight="bold"' if at == 0 else ""
            if number is not None:
                style = f' fill="{_CITED}" font-weight="bold"'
                self.cited[number] = y + _LINE // 2
            y += _LINE
            yield f'<text x="{x}" y="{y - 4}"{style}>{escape(row)}</text>'
        for name, image in self.images[: (self.width - _PAD) // (_SHOWN + 8)]:
            yield (
                f'<image x="{x}" y="{y + 6}" width="{_SHOWN}" height="{_SHOWN}" href="{thumbnail(image)}">'
                f"<title>{escape(_printable(name))}</title></image>"
            )
            x += _SHOWN + 8


def as_svg(trail: TrailOut, image: Image.Image | None, made: Mapping[str, Image.Image]) -> str:
    """Draws a trail.

    Args:
        trail: The trail.
        image: The question's image, if it has one.
        made: The images that tools made, by name.
    """
    asked = _TextBox(_PAD, _LEFT, _FILLS["question"])
    asked.add(f"Question: {trail.question}", rows=6)
    asked.images += [("the image of the question", image)] if image is not None else []
    cited = {number for claim in trail.claims for number in claim.sources}
    spine, edges, new = [asked], [], set(cited)
    calls: list[_TextBox] = []
    asked.top, bottom = _PAD, _PAD + asked.height
    for one in trail.rounds:
        node = _round(one)
        spine.append(node)
        node.top = y = bottom + _GAP
        for record in one.calls:
            call = _call(record, trail.sources, new)
            call.images += [(name, made[name]) for name in record.images if not record.error]
            new -= set(record.sources)
            call.top, y = y, y + call.height + 8
            edges.append(_curve(node.x + node.width, node.top + 20, call.x, call.top + 14))
            calls.append(call)
        bottom = max(node.top + node.height, y - 8)
    end = _answer(trail, sorted(cited))
    end.top = bottom + _GAP
    spine.append(end)
    boxes = [part for node in (*spine, *calls) for part in node.svg()]
    downs = [_down(above.x + _LEFT // 2, above.top + above.height, below.top) for above, below in pairwise(spine)]
    cited_by = [(call, number, y) for call in calls for number, y in call.cited.items()]
    for at, (call, number, y) in enumerate(cited_by):
        edges.append(_proof(call.x + call.width, y, end.cited[number], _WIDTH - 12 - 7 * (at % 6)))
    height = end.top + end.height + _PAD
    body = "\n".join([*edges, *downs, *boxes])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="13">\n<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


def thumbnail(image: Image.Image) -> str:
    """Returns a small version of an image as a data URI."""
    return data_uri(image, THUMBNAIL_SIDE, 80)


def _round(one: RoundOut) -> _TextBox:
    node = _TextBox(_PAD, _LEFT, _FILLS["malformed" if one.problem else "round"])
    tokens = sum(request.prompt_tokens + request.completion_tokens for request in one.requests)
    money = sum(request.money for request in one.requests) + sum(record.cost for record in one.calls)
    ms = sum(request.ms for request in one.requests)
    node.add(f"Round {one.number}" + (f": costs {money:.4g}" if money else ""))
    if one.requests:
        node.add(f"{', '.join(dict.fromkeys(r.purpose for r in one.requests))}: {tokens} tokens, {ms:.0f} ms")
    if one.thought:
        node.add(one.thought, rows=6)
    if one.problem:
        node.add(f"Malformed: {one.problem}")
    return node


def _call(record: CallOut, sources: Sequence[SourceOut], cited: set[int]) -> _TextBox:
    """Returns the box of a call; the sources in `cited` are marked."""
    node = _TextBox(_PAD + _LEFT + _GUTTER, _RIGHT, _FILLS["failed" if record.error else "call"])
    node.add(f"{record.tool}  {'(from the cache)' if record.cached else f'{record.ms:.0f} ms'}", rows=1)
    if isinstance(record.arguments, str):
        values = {"arguments": record.arguments} if record.arguments.strip() else {}
    else:
        values = record.arguments
    for name, value in values.items():
        node.add(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    if record.error:
        node.add(record.error)
        return node
    others = [number for number in record.sources if number not in cited][:_LISTED]
    for number in record.sources:
        if number in cited or number in others:
            node.add(f"[{number}] {heading_of(sources[number - 1])}", 1, number if number in cited else None)
    if left := len([number for number in record.sources if number not in cited]) - len(others):
        node.add(f"and {left} more")
    if not record.sources and not record.images:
        node.add(record.text or "nothing found")
    return node


def _answer(trail: TrailOut, cited: Sequence[int]) -> _TextBox:
    node = _TextBox(_PAD, _LEFT + _GUTTER + _RIGHT, _FILLS["malformed"] if trail.abstained else "#dff2dc")
    stopped = f" (stopped: {trail.stopped})" if trail.stopped else ""
    node.add(f"Answer ({trail.policy}): {'none' if trail.answer is None else trail.answer}{stopped}", rows=8)
    for number in cited:
        source = trail.sources[number - 1]
        node.add(f"[{number}] {heading_of(source)} ({source.url})", 1, number)
    if trail.invented_citations:
        node.add(f"Cited, but not found: {', '.join(map(str, trail.invented_citations))}")
    spent = trail.spent
    node.add(f"{spent.tokens} tokens" + (f", costs {spent.money:.4g}" if spent.money else ""))
    return node


def _curve(x: int, y: int, to_x: int, to_y: int) -> str:
    middle = (x + to_x) // 2
    return f'<path d="M{x} {y}C{middle} {y} {middle} {to_y} {to_x} {to_y}m-7 -4l7 4l-7 4" fill="none" stroke="#777"/>'


def _down(x: int, top: int, bottom: int) -> str:
    return f'<path d="M{x} {top}V{bottom}m-4 -7l4 7l4 -7" fill="none" stroke="#555"/>'


def _proof(x: int, y: int, to_y: int, gutter: int) -> str:
    """Returns the edge from a source of a call, along the right side, to the answer."""
    path = f"M{x} {y}H{gutter - 8}q8 0 8 8V{to_y - 8}q0 8 -8 8H{x}m7 -4l-7 4l7 4"
    return f'<path d="{path}" fill="none" stroke="{_CITED}" stroke-width="1.5"/>'


def _wrapped(text: str, limit: int, rows: int) -> list[str]:
    """Wraps a text into at most `rows` rows of `limit` characters; wide ones, such as Chinese, count twice."""
    text = " ".join(_printable(text).split())
    found = [""]
    room = limit
    for word in text.split(" "):
        for start in range(0, max(1, len(word)), limit // 2):
            part = word[start : start + limit // 2]
            width = sum(2 if ord(c) > 0x2E7F else 1 for c in part)
            space = " " if found[-1] and start == 0 else ""
            if width + len(space) > room and found[-1]:
                found.append("")
                room, space = limit, ""
            found[-1] += space + part
            room -= width + len(space)
    return found if len(found) <= rows else [*found[: rows - 1], found[rows - 1] + " …"]


def _printable(text: str) -> str:
    """Replaces characters that XML does not allow."""
    return "".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in text)
