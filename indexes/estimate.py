"""The cost of a build: its stages run on a sample of the articles, in a temporary folder, and are scaled up."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from PIL import Image

from indexes.article_images import MAIN_ONLY, ImageUse
from indexes.chat_summarizer import ChatSummarizer
from indexes.image_stage import store_images
from indexes.keys import write_keys
from indexes.labeled_images import LabeledImage, LabeledSource
from indexes.lines import Lines, save_offsets
from indexes.manifest import THUMBNAILS, Candidates, SearchKind, keys_are_images
from indexes.progress import progress_bar
from indexes.search_kinds import SearchChoice, bytes_per_key, choose_kind
from indexes.sources import ImageSource, with_images_called
from indexes.stages import BuildRun, write_articles
from indexes.summarizers import Summarizer
from indexes.summary_file import summarize_all
from indexes.workers import LocalWorkers
from llm.context import CHARACTERS_PER_TOKEN
from retriever.protocols import DualEncoder, FusionEncoder
from retriever.token_codec import TokenCodec
from retriever.types import Entity

T = TypeVar("T")

SAMPLE = 64
"""Articles that are measured."""


@dataclass(frozen=True)
class Estimate:
    """The cost of a build. Entities and sections are counted, the rest is scaled up from a sample.

    Attributes:
        entities: Number of articles.
        sections: Number of their sections.
        with_image: Entities with a readable main image.
        sampled: Articles that were measured.
        search: The kind of entity index.
        bytes: Size of the finished index by part.
        temporary_bytes: What the build needs besides, until it is finished.
        seconds: Time by stage; training and measuring an entity index that is not flat comes on top.
        requests: Requests to a chat model, for the summaries that its cache lacks.
        tokens_in: Tokens of these requests, at four characters a token.
        tokens_out: Tokens of their answers, as long as those of the sample.
    """

    entities: int
    sections: int
    with_image: int
    sampled: int
    search: SearchKind
    bytes: dict[str, int]
    temporary_bytes: int
    seconds: dict[str, float]
    requests: int
    tokens_in: int
    tokens_out: int


def estimate_build(
    entities: Iterable[Entity],
    source: ImageSource | None,
    *,
    summarizer: Summarizer,
    encoder: DualEncoder,
    fusion: FusionEncoder | None,
    candidates: Candidates = "summary",
    tokens: str = "float16",
    search: SearchChoice = "auto",
    use: ImageUse = MAIN_ONLY,
    labeled: Sequence[LabeledImage] = (),
    batch_size: int = 32,
    sample: int = SAMPLE,
    progress: bool = True,
) -> Estimate:
    """Estimates the cost of a build: reads all articles and measures a random sample of them.

    A chat model is asked for the summaries of the sample that its cache lacks. Only temporary files are written. The
    arguments are those of `indexes.build.build_index`, and `sample` the number of articles to measure.

    Raises:
        ValueError: There are no entities, or too few for the kind of entity index.
    """
    started = time.perf_counter()
    entities = with_images_called(entities, source)
    if not keys_are_images(candidates):
        use = use._replace(keys=1)
    elif labeled:
        source, use = LabeledSource(labeled, source), use._replace(labeled=True)
        entities = source.attach(entities)
    drawn, count, sections = _draw(entities, sample, progress)
    reading = time.perf_counter() - started
    if not count:
        raise ValueError("the knowledge base holds no entity; is it the right file, and --kb-format right?")
    kind, codec, scale = choose_kind(search, count), TokenCodec.parse(tokens), count / len(drawn)
    _warm_up(encoder, fusion)
    seconds: dict[str, float] = {"read": reading}

    def timed(stage: str, function: Callable[[], T]) -> T:
        began = time.perf_counter()
        found = function()
        seconds[stage] = scale * (time.perf_counter() - began)
        return found

    with TemporaryDirectory(prefix="omgm-estimate-") as name:
        folder = Path(name)
        articles = write_articles(drawn, folder)
        run = BuildRun(
            folder=folder,
            workers=LocalWorkers(encoder, fusion),
            candidates=candidates,
            use=use,
            codec=codec,
            batch=batch_size,
            progress=False,
        )
        images, offsets = timed("images", lambda: store_images(run, articles, source))
        path, asked = folder / "summaries.jsonl", dict[int, int]()
        if isinstance(summarizer, ChatSummarizer):
            asked = {
                row: _question(summarizer, entity)
                for row, entity in enumerate(drawn)
                if summarizer.cached(entity) is None
            }
            if summarizer.cache is not None:
                summarizer.cache.read_only = True  # else the next estimate would find the sample in it
        timed("summaries", lambda: summarize_all(articles, summarizer, path, batch_size))
        save_offsets(path)
        summaries = Lines(path)
        keys = timed("keys", lambda: write_keys(run, images))
        shown = len(images.readable_rows())
        thumbnails = sum(file.stat().st_size for file in (folder / THUMBNAILS).iterdir())
        image_rows = len(images.labeled_keys()) + len(images.image_owners()) if fusion is not None else 0
        sampled_sections = sum(len(entity.sections) for entity in drawn)
        with_tokens = round(sections * (int(offsets[-1]) - image_rows) / max(1, sampled_sections))
        with_tokens += round(scale * image_rows)
        section = codec.bytes_per_section((0, 0) if fusion is None else fusion.token_shape)
        sizes = {
            "articles": round(scale * (folder / "entities.jsonl").stat().st_size) + 8 * 3 * count,
            "summaries": round(scale * path.stat().st_size) + 8 * count,
            "entity index": round(scale * len(keys.rows) * bytes_per_key(kind, count, keys.length)),
            "tokens": with_tokens * section,
            "images": round(scale * thumbnails),
        }
        answered = [summaries.read(row)["summary"] for row in asked]
        return Estimate(
            entities=count,
            sections=sections,
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


def _draw(entities: Iterable[Entity], sample: int, progress: bool) -> tuple[list[Entity], int, int]:
    """Returns a random sample, always the same of the same entities, and how many entities and sections there are."""
    draw, kept, sections, count = random.Random(0), list[Entity](), 0, 0
    for entity in progress_bar(entities, desc="read", unit="entity", shown=progress):
        sections += len(entity.sections)
        count += 1
        if len(kept) < sample:
            kept.append(entity)
        elif (place := draw.randrange(count)) < sample:
            kept[place] = entity
    return kept, count, sections


def _warm_up(encoder: DualEncoder, fusion: FusionEncoder | None) -> None:
    """Asks each model once: the first request takes longer than all others."""
    blank = Image.new("RGB", (224, 224))
    encoder.encode_texts(["warm-up"])
    encoder.encode_images([blank])
    if fusion is not None:
        fusion.encode_sections([blank], [["warm-up"]])


def _question(summarizer: ChatSummarizer, entity: Entity) -> int:
    return sum(len(str(message["content"])) for message in summarizer.messages(entity))
