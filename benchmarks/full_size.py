"""Full-size models with random weights and a synthetic index in memory, so that nothing has to be downloaded.

Their output is noise, but they take as long as the real models on synthetic images and texts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import retriever.models  # noqa: F401  # isort: skip  # before transformers
import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from transformers import (
    Blip2VisionConfig,
    PreTrainedTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
)

from benchmarks.made_up import WORDS
from indexes.store.search import DeviceSearch
from pretraining.tokenizer import train_tokenizer
from retriever.models.cross_encoder import CrossEncoderReranker
from retriever.models.encoder import ClipEncoder
from retriever.models.eva_clip import EVA_CLIP_8B, EvaCLIP, EvaCLIPConfig
from retriever.models.pixels import PixelPreparation
from retriever.models.qformer import QFormerFusion
from retriever.models.qformer_layers import QFormerConfig
from retriever.models.text_tokenizer import TextTokenizer
from retriever.types import Entity, Filter, FloatArray, IntArray, Query, Section, StoredTokens


@dataclass(frozen=True)
class Sizes:
    """The sizes of models and index.

    Attributes:
        encoder: Step 1's model.
        vision: Step 2's image tower, in terms of BLIP-2's configuration.
        qformer: Step 2's Q-Former.
        reranker: Step 3's model.
        entities: Number of vectors that step 1 searches.
        stored: Number of sections in the token store; entities share them.
        most_sections: Maximum number of sections of an entity.
        section_words: Median number of words of a section.
    """

    encoder: EvaCLIPConfig
    vision: dict[str, Any]
    qformer: dict[str, Any]
    reranker: dict[str, Any]
    entities: int
    stored: int
    most_sections: int
    section_words: int


PAPER = Sizes(
    encoder=EVA_CLIP_8B,
    vision={},
    qformer={"encoder_hidden_size": 1408},
    reranker={"vocab_size": 250002, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
              "intermediate_size": 4096, "max_position_embeddings": 8194},
    entities=2_000_000,
    stored=200_000,
    most_sections=60,
    section_words=120,
)  # fmt: skip
"""EVA-CLIP-8B, BLIP-2's ViT-g and Q-Former, bge-reranker-v2-m3, and the 2 million entities of E-VQA."""

_TINY_TOWER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
TINY = Sizes(
    encoder=replace(
        EVA_CLIP_8B,
        vision=replace(EVA_CLIP_8B.vision, width=32, layers=2, heads=2, mlp_width=64),
        text=replace(EVA_CLIP_8B.text, width=32, layers=1, heads=2, mlp_width=64),
        image_size=28,
        projection_dim=48,
    ),
    vision=_TINY_TOWER | {"image_size": 28, "patch_size": 14},
    qformer=_TINY_TOWER | {"encoder_hidden_size": 32},
    reranker=_TINY_TOWER | {"vocab_size": 4000, "max_position_embeddings": 1026},
    entities=2_000,
    stored=500,
    most_sections=6,
    section_words=12,
)
"""Small sizes, to run the same code in seconds without a GPU."""


class SyntheticIndex:
    """An `EntityIndex` with random vectors and tokens.

    Args:
        sizes: Number of entities and sections.
        token_shape: Number of tokens per section and their dimension.
        device: The device of vectors and tokens.
    """

    name = "synthetic"

    def __init__(self, sizes: Sizes, token_shape: tuple[int, int], device: str) -> None:
        self._sizes, self._entities = sizes, sizes.entities
        self.vectors = torch.empty(sizes.entities, sizes.encoder.projection_dim, dtype=torch.float16, device=device)
        self.vectors.normal_(std=sizes.encoder.projection_dim**-0.5)
        self.search_on_device = DeviceSearch(self.vectors, torch.arange(sizes.entities, device=device))
        shape = (sizes.stored, *token_shape)
        self.values = torch.randint(-127, 128, shape, dtype=torch.int8, device=device)
        self.scales = torch.full(shape[:2], token_shape[1] ** -0.5 / 64, dtype=torch.float16, device=device)

    def __len__(self) -> int:
        """Number of entities."""
        return self._entities

    def search(self, vectors: Tensor, k: int, filter: Filter = ()) -> tuple[FloatArray, IntArray]:
        """Returns scores and rows, best first."""
        return self.search_on_device.search(vectors, k)

    @cache  # noqa: B019  # an index lasts as long as its benchmark, which should not time this
    def entity(self, row: int) -> Entity:
        """Returns made-up sections, always the same ones for a row."""
        rng = random.Random(row)
        sections = tuple(
            Section(f"Section {i}", words(rng, self._sizes.section_words), i)
            for i in range(len(self.section_rows(row)))
        )
        return Entity(str(row), f"Entity {row}", sections)

    def row_of(self, entity_id: str) -> int | None:
        """Returns the row of an entity, which is its id."""
        return int(entity_id)

    def image_path(self, row: int) -> Path | None:
        """Returns `None`: there are no images."""
        return None

    def thumbnails(self, row: int) -> dict[str, bytes]:
        """Returns none: there are no images."""
        return {}

    @cache  # noqa: B019
    def section_rows(self, row: int) -> range:
        """Returns 1 to `most_sections` rows, few for most entities (the square of a uniform draw)."""
        rng = random.Random(row)
        count = 1 + int(rng.random() ** 2 * self._sizes.most_sections)
        start = rng.randrange(self._sizes.stored - count)
        return range(start, start + count)

    token_rows = section_rows

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        """Returns the whole store and the starts of the spans, like a store in GPU memory."""
        return StoredTokens(self.values, self.scales, np.array([span.start for span in spans], np.int64))


def tokenizer() -> TextTokenizer:
    """Trains a fast tokenizer on the made-up words."""
    rng = random.Random(0)
    return train_tokenizer([words(rng, 50) for _ in range(200)], 3000, 512)


def build_encoder(sizes: Sizes, device: str, dtype: torch.dtype) -> ClipEncoder:
    """Builds step 1's model with random weights."""
    with _placed(device, dtype):
        model = EvaCLIP(sizes.encoder)
    pixels = PixelPreparation(sizes.encoder.image_size, crop=True)
    return ClipEncoder(model, tokenizer(), pixels, sizes.encoder.context_length, "random")


def build_fusion(sizes: Sizes, device: str, dtype: torch.dtype) -> QFormerFusion:
    """Builds step 2's model with random weights."""
    settings = {
        "qformer": sizes.qformer,
        "vision": {"kind": "blip2", "config": Blip2VisionConfig(**sizes.vision).to_diff_dict()},
        "queries": 32,
        "max_text_tokens": QFormerConfig.read(sizes.qformer).max_position_embeddings,
    }
    with _placed(device, dtype):
        return QFormerFusion(settings, tokenizer(), PixelPreparation(sizes.vision.get("image_size", 224), exact=True))


def build_reranker(sizes: Sizes, device: str, dtype: torch.dtype) -> CrossEncoderReranker:
    """Builds step 3's model with random weights."""
    with _placed(device, dtype):
        config = XLMRobertaConfig(num_labels=1, **sizes.reranker)  # type: ignore[call-arg]  # set from keywords
        model = XLMRobertaForSequenceClassification(config)
    words = tokenizer()
    tokens = {name: token for name, token in words.settings.items() if name.endswith("_token")}
    return CrossEncoderReranker(
        model, PreTrainedTokenizerFast(tokenizer_object=words.backend, **tokens), max_tokens=1024
    )


def queries(count: int) -> list[Query]:
    """Returns made-up photographs of 640 x 480 pixels with questions of ten words."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (count, 60, 80, 3), dtype=np.uint8)
    images = [Image.fromarray(pixels).resize((640, 480), Image.Resampling.BICUBIC) for pixels in noise]
    return [Query(image, words(random.Random(i), 10) + "?", str(i)) for i, image in enumerate(images)]


def words(rng: random.Random, median: int) -> str:
    """Returns a made-up text with a log-normally distributed number of words."""
    return " ".join(rng.choices(WORDS, k=max(3, round(median * rng.lognormvariate(0, 0.6 if median > 20 else 0.2)))))


@contextmanager
def _placed(device: str, dtype: torch.dtype) -> Iterator[None]:
    """Creates new tensors on a device with a dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            yield
    finally:
        torch.set_default_dtype(before)


def weight_bytes(module: nn.Module) -> int:
    """Returns the size of a module's weights in bytes; those in FP8 are buffers."""
    return sum(weight.nbytes for weight in chain(module.parameters(), module.buffers()))
