"""Estimates the cost of a build by running its stages on a sample of the articles in a temporary folder."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np
from PIL import Image

from chat_models.context import CHARACTERS_PER_TOKEN
from indexes.builder.chat_summarizer import ChatSummarizer
from indexes.builder.column_stage import write_column
from indexes.builder.image_stage import store_images
from indexes.builder.key_stage import write_keys
from indexes.builder.plan import BuildPlan
from indexes.builder.stages import write_articles
from indexes.builder.summarizers import summarize_all
from indexes.lines import Lines, save_offsets
from indexes.progress import bars, progress_bar
from indexes.store.columns import columns
from indexes.store.layout import THUMBNAILS
from indexes.store.search_kinds import bytes_per_key, choose_kind
from indexes.workers import LocalWorkers
from retriever.protocols import DualEncoder, FusionEncoder
from retriever.types import Entity

T = TypeVar("T")

SAMPLE = 64
"""Number of articles to measure."""


@dataclass(frozen=True)
class Estimate:
    """The cost of a build. Entities and sections are counted; the rest is extrapolated from a sample.

    Attributes:
        entities: Number of articles.
        sections: Number of sections.
        with_image: Number of entities with a readable main image.
        sampled: Number of articles measured.
        search: The kind of entity index.
        bytes: Size of the finished index by part, in bytes.
        temporary_bytes: Additional disk space that the build needs until it is finished.
        seconds: Time by stage, without training and measuring an entity index that is not flat.
        requests: Requests to a chat model, for summaries that are not in the cache.
        tokens_in: Tokens of these requests, at four characters per token.
        tokens_out: Tokens of the answers, assumed to be as long as those in the sample.
    """

    entities: int
    sections: int
    with_image: int
    sampled: int
    search: str
    bytes: dict[str, int]
    temporary_bytes: int
    seconds: dict[str, float]
    requests: int
    tokens_in: int
    tokens_out: int


def estimate_build(plan: BuildPlan, sample: int = SAMPLE) -> Estimate:
    """Estimates the cost of a build: reads all articles and measures a random sample of them.

    Summaries of the sample that are not in the cache are requested from the chat model. Only temporary files are
    written.

    Args:
        plan: What would be built; `out` is not used.
        sample: The number of articles to measure.

    Raises:
        ValueError: There are no entities, or too few for the kind of entity index.
    """
    started = time.perf_counter()
    encoder, fusion, summarizer = plan.encoder, plan.fusion, plan.summarizer
    drawn, count, total = _draw(plan.entities([]), sample)
    reading = time.perf_counter() - started
    if not count:
        raise ValueError("the knowledge base contains no entities; check the file and --kb-format")
    kind, codec, scale = choose_kind(plan.design.search, count), plan.codec, count / len(drawn)
    _warm_up(encoder, fusion)
    seconds: dict[str, float] = {"read": reading}

    def timed(stage: str, function: Callable[[], T]) -> T:
        began = time.perf_counter()
        found = function()
        seconds[stage] = scale * (time.perf_counter() - began)
        return found

    with TemporaryDirectory(prefix="omgm-estimate-") as name, bars(False):
        folder = Path(name)
        articles = write_articles(drawn, folder)
        run = replace(plan.run(folder, LocalWorkers(encoder, fusion, plan.columns)), vectors=None)
        images, offsets = timed("images", lambda: store_images(run, articles, plan.source))
        path, asked = folder / "summaries.jsonl", dict[int, int]()
        if isinstance(summarizer, ChatSummarizer):
            asked = {
                row: _question(summarizer, entity)
                for row, entity in enumerate(drawn)
                if summarizer.cached(entity) is None
            }
            if summarizer.cache is not None:
                summarizer.cache.read_only = True  # or the next estimate would find the sample in it
        timed("summaries", lambda: summarize_all(articles, summarizer, path, plan.batch_size))
        save_offsets(path)
        summaries = Lines(path)
        keys = timed("keys", lambda: write_keys(run, images))
        of_columns = dict[str, int]()
        for name, model in plan.columns.items():
            rows = timed(name, partial(write_column, run, articles, columns()[name], plan.source))
            row_bytes = model.dimension * np.dtype(columns()[name].dtype).itemsize + 8
            of_columns[f"column {name}"] = round(scale * rows) * row_bytes
        shown = len(images.readable_rows())
        thumbnails = sum(file.stat().st_size for file in (folder / THUMBNAILS).iterdir())
        image_rows = len(images.labeled_keys()) + len(images.image_owners()) if fusion is not None else 0
        sampled_sections = sum(len(entity.sections) for entity in drawn)
        with_tokens = round(total * (int(offsets[-1]) - image_rows) / max(1, sampled_sections))
        with_tokens += round(scale * image_rows)
        section = codec.bytes_per_section((0, 0) if fusion is None else fusion.token_shape)
        sizes = {
            "articles": round(scale * (folder / "entities.jsonl").stat().st_size) + 8 * 3 * count,
            "summaries": round(scale * path.stat().st_size) + 8 * count,
            "entity index": round(scale * len(keys.rows) * bytes_per_key(kind, count, keys.length)),
            "tokens": with_tokens * section,
            **of_columns,
            "images": round(scale * thumbnails),
        }
        answered = [summaries.read(row)["summary"] for row in asked]
        return Estimate(
            entities=count,
            sections=total,
            with_image=round(scale * shown),
            sampled=len(drawn),
            search=kind,
            bytes=sizes,
            temporary_bytes=round(scale * len(keys.rows)) * keys.length * 2,
            seconds=seconds,
            requests=round(scale * len(asked)),
            tokens_in=round(scale * sum(asked.values()) / CHARACTERS_PER_TOKEN),
            tokens_out=round(scale * sum(map(len, answered)) / CHARACTERS_PER_TOKEN),
        )


def _draw(entities: Iterable[Entity], sample: int) -> tuple[list[Entity], int, int]:
    """Returns a random but reproducible sample, the number of entities and the number of sections."""
    draw, kept, sections, count = random.Random(0), list[Entity](), 0, 0
    for entity in progress_bar(entities, desc="read", unit="entity"):
        sections += len(entity.sections)
        count += 1
        if len(kept) < sample:
            kept.append(entity)
        elif (place := draw.randrange(count)) < sample:
            kept[place] = entity
    return kept, count, sections


def _warm_up(encoder: DualEncoder, fusion: FusionEncoder | None) -> None:
    """Runs each model once, because the first request is slower than all others."""
    blank = Image.new("RGB", (224, 224))
    encoder.encode_texts(["warm-up"])
    encoder.encode_images([blank])
    if fusion is not None:
        fusion.encode_sections([blank], [["warm-up"]])


def _question(summarizer: ChatSummarizer, entity: Entity) -> int:
    return sum(len(str(message["content"])) for message in summarizer.messages(entity))
