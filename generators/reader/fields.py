"""Splits the evidence into fields: labeled values ("Area: total: 26 sq km") and sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from generators.reader.spans import Span, strip

_LABEL = re.compile(r"\s*(?:[-•*] )?(?P<label>[^:;\"\n]{1,80}?):(?:\s+|$)")
_INLINE_LABEL = re.compile(r"(?<=\s)(?P<label>[A-ZÀ-Þ][\w-]*(?: [a-zà-þ][\w/-]*){0,4}):\s")
_ABOUT = r"(?:ca|circa|approx|approximately|about|around)"
_MEASURED = re.compile(  # "fett ca 0.1 gram", "German 2.6%"
    rf"\s*(?P<label>\S.{{0,60}}?)\s?\b(?:{_ABOUT}\.?\s+)(?P<value>[<~]?\d[\d.,]*\s*[^\W\d_]*%?)\s*$"
    rf"|\s*(?P<label2>[^\d:]{{2,60}}?)\s+(?P<value2>[<~]?\d[\d.,]*\s*(?:%|[^\W\d_]{{1,12}})?)\s*$"
)
_SENTENCE_END = re.compile(r"(?<=[a-zà-þ0-9)\"”%])[.!?](?=\s+[\"“]?[A-ZÀ-Þ0-9]|\s*$)|\n")


@dataclass(frozen=True, slots=True)
class Field:
    """A labeled value or a sentence.

    Attributes:
        labels: The labels before it, outermost first; for a sentence those of its line, if any.
        span: The value or sentence.
        prose: True for a sentence.
    """

    labels: tuple[str, ...]
    span: Span
    prose: bool = False


def fields(text: str) -> list[Field]:
    """Splits `text` into labeled values and sentences, in reading order."""
    found: list[Field] = []
    for match in re.finditer(r"[^\n]+", text):
        if not match[0].lstrip("\ufeff ").startswith("#"):
            found.extend(_line(text, match.start() + (match[0][0] == "\ufeff"), match.end()))
    return found


def _line(text: str, start: int, end: int) -> Iterator[Field]:
    top: tuple[str, ...] = ()
    open_field: Field | None = None
    for piece in _pieces(text, start, end):
        labels, position = _labels(text, piece)
        if not labels and open_field is None and not top:
            measured = list(_measured(text, piece, ()))
            yield from measured or _sentences(text, piece, ())
            continue
        if not labels:
            measured = list(_measured(text, piece, top))
            if measured:
                if open_field:
                    yield from _closed(text, open_field)
                    open_field = None
                yield from measured
            elif open_field:
                open_field = Field(open_field.labels, Span(open_field.span.start, piece.end))
            else:
                yield from _sentences(text, piece, top)
            continue
        if open_field:
            yield from _closed(text, open_field)
            open_field = None
        path = (*top[:1], *labels) if top and piece.start != start else labels
        top = top or labels[:1]
        for inline in _INLINE_LABEL.finditer(text, position, piece.end):
            yield from _closed(text, Field(path, Span(position, inline.start())))
            path, position = (inline["label"],), inline.end()
            top = path
        if text[position : piece.end].strip():
            open_field = Field(path, Span(position, piece.end))
    if open_field:
        yield from _closed(text, open_field)


def _pieces(text: str, start: int, end: int) -> Iterator[Span]:
    """Yields the parts between semicolons outside parentheses."""
    depth, begin = 0, start
    for i in range(start, end):
        letter = text[i]
        depth = max(depth + (letter == "(") - (letter == ")"), 0)
        if letter == ";" and not depth:
            yield Span(begin, i)
            begin = i + 1
    if text[begin:end].strip():
        yield Span(begin, end)


def _labels(text: str, piece: Span) -> tuple[tuple[str, ...], int]:
    labels: list[str] = []
    position = piece.start
    while len(labels) < 3 and (match := _LABEL.match(text, position, piece.end)):
        label = match["label"].strip()
        if len(label.split()) > 10 or re.search(r"[.!?]\s", label) or label.count("(") != label.count(")"):
            break
        if re.search(r"\S note$", label):  # "910 km note: ..." continues the value
            break
        if labels and re.search(r"\s[A-ZÀ-Þ][a-zà-þ]", label):  # "Title: Lemon Class 1 Country: Spain"
            break
        labels.append(label)
        position = match.end()
    return tuple(labels), position


def _measured(text: str, piece: Span, labels: tuple[str, ...]) -> Iterator[Field]:
    match = _MEASURED.match(text, piece.start, piece.end)
    if match and len(text[piece.start : piece.end]) < 80:
        name = "label" if match["label"] else "label2"
        value = "value" if match["label"] else "value2"
        yield Field((*labels, match[name].strip()), Span(*match.span(value)))


def _closed(text: str, field: Field) -> Iterator[Field]:
    """Yields a finished field, then the measured items of its value ("Austrian 80.8%, German 2.6%")."""
    span = strip(text, field.span)
    if span.start == span.end:
        return
    yield Field(field.labels, span)
    begin = span.start
    parts = []
    for match in re.finditer(r",\s+(?!\d{3})|$", text[span.start : span.end]):
        parts.append(Span(begin, span.start + match.start()))
        begin = span.start + match.end()
    if len(parts) > 1:
        for part in parts:
            yield from _measured(text, part, field.labels)
    if span.end - span.start > 90:
        yield from _sentences(text, span, field.labels)


def _sentences(text: str, span: Span, labels: tuple[str, ...]) -> Iterator[Field]:
    begin = span.start
    ends = [match.end() for match in _SENTENCE_END.finditer(text, span.start, span.end)]
    for end in [*ends, span.end]:
        sentence = strip(text, Span(begin, end))
        if sentence.end > sentence.start:
            yield Field(labels, sentence, prose=True)
        begin = end
