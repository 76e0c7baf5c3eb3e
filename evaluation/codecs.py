"""Measures what token codecs cost (`omgm index tokens`), using one float16 index for all of them.

Steps 1 and 2 encode every question once. For each codec, the tokens of its candidates are re-encoded in memory, and
steps 2 and 3 run again. Only the sections of candidates are touched, however large the index is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from evaluation.datasets import Question, find_query_image
from evaluation.metrics import Outcome, percent
from evaluation.recording import make_record
from evaluation.records import outcome_of
from evaluation.replayed import ReencodedIndex, StoredIndex, StoredT, replayed
from evaluation.significance import difference, figure
from indexes.progress import progress_bar
from retriever.codecs import decode_tokens, encode_tokens
from retriever.images import load_image
from retriever.pipeline import Retriever
from retriever.token_codec import TokenCodec
from retriever.types import Query
from retriever.wording import counted

EXACT = "float16"
CODECS = (
    *(EXACT, "int8", "int4", "bit1"),
    *(f"pool{count}+{kind}" for count in (16, 8, 4) for kind in ("int8", "int4", "bit1")),
)
LOSS = 0.5
_SAMPLE = 4096
"""Number of sections used to measure the reconstruction error."""


@dataclass(slots=True)
class _CodecRun:
    """A codec with the outcomes of all questions so far."""

    index: ReencodedIndex
    outcomes: list[Outcome] = field(default_factory=list)


def measure_codecs(
    retriever: Retriever[StoredT],
    questions: Sequence[Question],
    query_images: Path,
    *,
    codecs: Sequence[str] = CODECS,
    loss: float = LOSS,
    batch_size: int = 16,
) -> dict[str, Any]:
    """Measures codecs on questions.

    A question whose image is missing or unreadable counts as wrong for every codec.

    Args:
        retriever: The three steps, on an index that stores float16 tokens.
        questions: Questions that name their entities or sections.
        query_images: The folder of their images.
        codecs: Names of codecs; float16 is always measured.
        loss: How many points of Recall@1 and of section recall the chosen codec may lose.
        batch_size: Queries per batch.

    Returns:
        A row per codec in `codecs`, the name of the smallest codec within `loss` in `chosen`, and a description of the
        measurement. Shares are 0 to 1, losses in points.

    Raises:
        ValueError: The index has no float16 tokens, the pipeline is not steps 1, 2 and 3, a codec is unknown, or no
            question names an entity or section.
    """
    _check(retriever.index, questions)
    parsed = {codec.name: codec for codec in map(TokenCodec.parse, (EXACT, *codecs))}
    runs = {name: _CodecRun(ReencodedIndex(retriever.index, codec)) for name, codec in parsed.items()}
    reached: dict[int, None] = {}
    bar = progress_bar(total=len(questions), desc="queries", unit="query")
    for start in range(0, len(questions), batch_size):
        batch = questions[start : start + batch_size]
        reached |= dict.fromkeys(_ask(retriever, batch, query_images, runs))
        bar.update(len(batch))
    bar.close()
    shape, exact = retriever.index.token_shape, runs[EXACT].outcomes
    sample = _sample(retriever.index, list(reached))
    rows = [
        {
            "codec": name,
            "bytes_per_section": codec.bytes_per_section(shape),
            **reconstruction_error(sample, codec),
            "recall@1": _compared(map(_entity, exact), map(_entity, runs[name].outcomes)),
            "section_recall@1": _compared(map(_section, exact), map(_section, runs[name].outcomes)),
        }
        for name, codec in parsed.items()
    ]
    return {
        "n_queries": len(questions),
        "n_failed": sum(outcome.failed is not None for outcome in exact),
        "n_sections": sum(len(block) for block in sample),
        "token_shape": list(shape),
        "loss": loss,
        "chosen": choose(rows, loss),
        "codecs": rows,
    }


def choose(rows: Sequence[Mapping[str, Any]], loss: float) -> str:
    """Returns the smallest codec that loses at most `loss` points of either recall."""
    within = [
        row
        for row in rows
        if all(row[key] is None or row[key]["loss"] <= loss + 1e-9 for key in ("recall@1", "section_recall@1"))
    ]
    return str(min(within, key=lambda row: row["bytes_per_section"])["codec"])


def reconstruction_error(tokens: Iterable[Tensor], codec: TokenCodec) -> dict[str, float | None]:
    """Returns the mean relative L2 error and the mean cosine of tokens after encoding and decoding.

    With a pooling codec, a token is compared with the nearest remaining one.

    Args:
        tokens: Blocks of float32 tokens [R, M, H], normalized over H.
        codec: The codec.
    """
    errors, cosines = [], []
    for exact in tokens:
        decoded = decode_tokens(encode_tokens(exact, codec), codec)
        if decoded.shape != exact.shape:
            nearest = (exact @ decoded.mT).argmax(dim=2)
            decoded = decoded.gather(1, nearest[..., None].expand_as(exact))
        length = exact.norm(dim=-1).clamp_min(1e-12)
        errors.append(((decoded - exact).norm(dim=-1) / length).flatten())
        cosines.append(functional.cosine_similarity(decoded, exact, dim=-1).flatten())
    if not errors:
        return {"error": None, "cosine": None}
    return {"error": float(torch.cat(errors).mean()), "cosine": float(torch.cat(cosines).mean())}


def as_markdown(measured: Mapping[str, Any]) -> str:
    """Returns the table in Markdown: recalls in percent, losses in points with the p-value of a paired test."""
    tokens, length = measured["token_shape"]
    questions = counted(measured["n_queries"], "question")
    lines = [
        f"{questions}, sections of {tokens} tokens of dimension {length}; error and cosine over "
        f"{counted(measured['n_sections'], 'section')}",
        "",
        "| codec | bytes per section | error | cosine | Recall@1 | lost | p | section recall | lost | p |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in measured["codecs"]:
        cells = [f"`{row['codec']}`", f"{row['bytes_per_section']:,}", _number(row["error"]), _number(row["cosine"])]
        for key in ("recall@1", "section_recall@1"):
            found = row[key]
            if found is None:
                cells += ["-"] * 3
            else:
                cells += [percent(found["value"]), f"{found['loss']:.2f}", f"{found['p']:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"The smallest codec that loses at most {measured['loss']:g} points: `{measured['chosen']}`"]
    return "\n".join(lines) + "\n"


def _check(index: StoredIndex, questions: Sequence[Question]) -> None:
    if index.codec is None or index.codec.name != EXACT:
        found = "has no tokens" if index.codec is None else f"stores tokens as {index.codec.name}"
        raise ValueError(
            f"{index.folder}: {found}, but measuring codecs needs float16 tokens; build an index for it with "
            "`omgm build-index --set fusion.tokens=float16` and another --out"
        )
    if not any(question.entity_ids or question.section_index is not None for question in questions):
        raise ValueError("no question names an entity or section, so there is no recall to measure")


def _ask(
    retriever: Retriever[StoredT], batch: Sequence[Question], folder: Path, runs: Mapping[str, _CodecRun]
) -> list[int]:
    """Adds the outcomes of a batch to every run and returns the rows of all its candidates."""
    queries = {question.id: query for question in batch if (query := _query(question, folder)) is not None}
    asked = list(queries.values())
    replay = replayed(retriever, asked)
    for run in runs.values():
        results = dict(zip(queries, replay.retriever(run.index).retrieve(asked), strict=True)) if asked else {}
        run.outcomes += [
            outcome_of(
                make_record(
                    question,
                    retriever.index,
                    results.get(question.id),
                    None,
                    with_generator=False,
                    failed=None if question.id in results else "image",
                    timings_ms={},
                )
            )
            for question in batch
        ]
    return [candidate.row for candidates in replay.candidates for candidate in candidates]


def _query(question: Question, folder: Path) -> Query | None:
    path = find_query_image(folder, question.image_id)
    try:
        return None if path is None else Query(load_image(path), question.question, question.id)
    except ValueError:
        return None


def _sample(index: StoredIndex, rows: Sequence[int]) -> list[Tensor]:
    """Returns the tokens of entities evenly spaced among `rows`, as stored, up to `_SAMPLE` sections."""
    blocks: list[Tensor] = []
    total = sum(len(index.token_rows(row)) for row in rows)
    for row in sorted(rows)[:: max(1, -(-total // _SAMPLE))]:
        if len(span := index.token_rows(row)):
            blocks.append(index.tokens(np.asarray(span)))
    return blocks


def _entity(outcome: Outcome) -> float | None:
    return float(outcome.ranks.get("step2") == 1) if outcome.entity_known else None


def _section(outcome: Outcome) -> float | None:
    return None if outcome.section_correct is None else float(outcome.section_correct)


def _compared(exact: Iterable[float | None], coded: Iterable[float | None]) -> dict[str, Any] | None:
    """Compares a codec's scores with those of float16 on the same questions; `None` if no question has one."""
    pairs = [(a, b) for a, b in zip(exact, coded, strict=True) if a is not None and b is not None]
    if not pairs:
        return None
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    tested, own = difference(first, second), figure(second)
    return {
        "value": own.value,
        "interval": [own.low, own.high],
        "loss": -100 * tested.value + 0.0,
        "loss_interval": [-100 * tested.high, -100 * tested.low],
        "p": tested.p_value,
        "n": len(pairs),
        "n_differing": tested.n_differing,
    }


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
