"""What the steps ask of models, of an index and of a generator. Implementations live elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Protocol

from PIL import Image
from torch import Tensor

from retriever.types import (
    Candidate,
    Entity,
    FloatArray,
    Generation,
    GenerationRequest,
    IntArray,
    Query,
    RetrievalResult,
    StoredTokens,
)


class DualEncoder(Protocol):
    """Step 1's model: images and texts in one space."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights and settings: two encoders with one fingerprint give the same vectors."""

    def encode_images(self, images: Sequence[Image.Image]) -> Tensor:
        """Returns L2-normalized vectors, float32 [N, dimension], on the model's device."""

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Returns L2-normalized vectors, float32 [N, dimension], on the model's device."""


class FusionEncoder(Protocol):
    """Step 2's model: an image and a text become a few token vectors (equation 3)."""

    @property
    def token_shape(self) -> tuple[int, int]:
        """Number of token vectors and their length, (32, H)."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights and settings."""

    def encode(self, images: Sequence[Image.Image], texts: Sequence[str]) -> Tensor:
        """Returns fused tokens of (images[i], texts[i]), float32 [N, 32, H] on the model's device, not normalized."""

    def encode_sections(self, image: Image.Image, texts: Sequence[str]) -> Tensor:
        """Returns fused tokens of one image with each text, float32 [N, 32, H]; the image is encoded once."""


class TextReranker(Protocol):
    """Step 3's model: how well passages answer a question."""

    def score(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Returns, per question, one score in [0, 1] for each of its passages, float32 [len(passages[i])]."""


class EntityIndex(Protocol):
    """An index of entities: search, articles, thumbnails, and the stored section tokens."""

    @property
    def name(self) -> str:
        """The name of the knowledge base that the index was built from."""

    def __len__(self) -> int:
        """Returns the number of entities."""

    def search(self, vectors: Tensor, k: int) -> tuple[FloatArray, IntArray]:
        """Returns scores and rows, both [B, k], best first, of `vectors` [B, dimension]; row -1: no more."""

    def entity(self, row: int) -> Entity:
        """Returns the article at `row`."""

    def row_of(self, entity_id: str) -> int | None:
        """Returns the row of an entity, `None` when the index lacks it."""

    def image_path(self, row: int) -> Path | None:
        """Returns the thumbnail of the main image of the entity at `row`, `None` without one."""

    def section_rows(self, row: int) -> range:
        """Returns where the tokens of its sections lie in the store; empty without image or sections."""

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        """Returns the stored tokens of sections, each span the `section_rows` of an entity."""


Finish = Callable[[list[list[Candidate]]], list[list[Candidate]]]
"""Takes each query's candidates and returns them rescored, best first."""


class Step(Protocol):
    """One step of the pipeline. A new method (a vote over names, an inspector) is one more of these."""

    @property
    def name(self) -> str:
        """The key of its time and of its run file."""

    def start(self, queries: Sequence[Query]) -> Finish:
        """Returns what finishes the step, having begun all that needs no candidates: towers, tokenizers.

        All steps are started before the first is finished, so that on a GPU their towers run side by side.
        """


class QueryRetriever(Protocol):
    """Finds the candidates of a batch of queries in an index, best first."""

    @property
    def index(self) -> EntityIndex:
        """Where the entities are that the candidates' rows name."""

    def retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        """Returns one result for each query, in order."""


class Generator(Protocol):
    """Turns question, picture and evidence into an answer."""

    @property
    def name(self) -> str:
        """What answered: shown to the user and written into runs."""

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer for each request."""

    def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        """Yields the answer piece by piece, and last what `generate` would have returned."""
