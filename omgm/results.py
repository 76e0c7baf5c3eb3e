"""Results of the Python API, which a notebook displays as HTML."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from indexes.image_source import thumbnail
from retriever import results
from retriever.images import load_image
from retriever.results import RankedEntity

_SHOWN_CANDIDATES = 5
_THUMBNAIL_SIDE = 160


class Retrieval(results.Retrieval):
    """The retrieval result for a question about an image; its fields are those of `retriever.results.Retrieval`."""

    def _repr_html_(self) -> str:
        return _as_html(self, None, None)


class Answer(results.Answer, Retrieval):
    """A generator's answer with its retrieval result; its fields are those of `retriever.results.Answer`."""

    def _repr_html_(self) -> str:
        return _as_html(self, self.answer or "(no answer)", self.span)


def _as_html(result: results.Retrieval, answer: str | None, span: tuple[int, int] | None) -> str:
    images = [] if result.image is None else [result.image, *map(load_image, result.more)]
    sources = [_data_uri(thumbnail(image, _THUMBNAIL_SIDE)) for image in images]
    parts = [f'<img src="{source}" alt="the question\'s image">' for source in sources]
    parts.append(f"<p><b>{escape(result.question)}</b></p>")
    if answer is not None:
        parts.append(f"<p>{escape(answer)}</p>")
    for one in getattr(result, "passages", ()) or filter(None, [result.evidence]):
        heading = f"{one.entity_title}, {one.section_title}"
        text = _marked(one.text, span if one == result.evidence else None)
        parts.append(f"<blockquote><i>{escape(heading)}</i><br>{text}</blockquote>")
    parts.append(_candidates_html(result.candidates[:_SHOWN_CANDIDATES]))
    return "<div>" + "".join(parts) + "</div>"


def _marked(text: str, span: tuple[int, int] | None) -> str:
    if span is None:
        return escape(text)
    start, end = span
    return f"{escape(text[:start])}<mark>{escape(text[start:end])}</mark>{escape(text[end:])}"


def _candidates_html(rows: Sequence[RankedEntity]) -> str:
    lines = ["<tr><th></th><th>entity</th><th>sim_c</th><th>sim_m</th><th>fused</th></tr>"]
    for row in rows:
        image = "" if row.image is None else f'<img src="{_data_uri(row.image.read_bytes())}" height="40" alt="">'
        scores = "".join(
            f"<td>{'&ndash;' if v is None else f'{v:.3f}'}</td>" for v in (row.sim_c, row.sim_m, row.fused)
        )
        lines.append(f"<tr><td>{image}</td><td>{escape(row.title)}</td>{scores}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _data_uri(jpeg: bytes) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"
