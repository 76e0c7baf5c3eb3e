"""Replays the three steps with re-encoded section tokens, computing everything that does not depend on them once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from retriever.asking import EntityIndex
from retriever.borders import without_border
from retriever.codecs import EncodedTokens, encode_tokens, unpack_tokens
from retriever.pipeline import Retriever
from retriever.protocols import Finish, FusionEncoder, Step, TextReranker, VectorIndex, VectorReranker
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank
from retriever.token_codec import TokenCodec
from retriever.types import Candidate, FloatArray, IntArray, Query, StoredTokens

_CACHED_ENTITIES = 512


class StoredIndex(EntityIndex, VectorIndex, Protocol):
    """An index that says how its tokens are stored, and decodes them."""

    @property
    def folder(self) -> Path:
        """Its folder."""

    @property
    def codec(self) -> TokenCodec | None:
        """How its tokens are stored; `None` if it has none."""

    @property
    def token_shape(self) -> tuple[int, int]:
        """The number of token vectors of a section and their length, before they are stored."""

    def tokens(self, rows: IntArray) -> Tensor:
        """Returns stored tokens, decoded, float32 [len(rows), tokens, H], normalized over H up to rounding."""


StoredT = TypeVar("StoredT", bound=StoredIndex)


class ReencodedIndex:
    """An `EntityIndex` whose tokens are encoded with another codec on access.

    Args:
        index: An index of float16 tokens.
        codec: The codec.
    """

    def __init__(self, index: StoredIndex, codec: TokenCodec) -> None:
        self._index, self._codec = index, codec
        self._encoded = lru_cache(_CACHED_ENTITIES)(self._encode)
        self.name, self.search = index.name, index.search
        self.entity, self.row_of = index.entity, index.row_of
        self.image_path, self.thumbnails = index.image_path, index.thumbnails
        self.section_rows, self.token_rows = index.section_rows, index.token_rows
        self.section_vectors = index.section_vectors  # they do not depend on the codec

    def __len__(self) -> int:
        """Number of entities."""
        return len(self._index)

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        """Returns the tokens of spans, encoded and unpacked as in an index that uses the codec."""
        found = [self._encoded(span) for span in spans or [range(0)]]
        scales = [part.scales for part in found if part.scales is not None]
        encoded = EncodedTokens(torch.cat([part.values for part in found]), torch.cat(scales) if scales else None)
        unpacked = unpack_tokens(encoded, self._codec)
        first = np.cumsum([0, *(len(span) for span in spans)], dtype=np.int64)[:-1]
        return StoredTokens(unpacked.values, unpacked.scales, first)

    def _encode(self, span: range) -> EncodedTokens:
        return encode_tokens(self._index.tokens(np.asarray(span, np.int64)), self._codec)


@dataclass(frozen=True, slots=True)
class Replay:
    """The results of a batch that do not depend on stored tokens: those of step 1, query encoder and text reranker.

    Attributes:
        candidates: The candidates of step 1.
        fusion: Returns the queries' tokens.
        reranker: Scores each passage once.
        step2: Supplies the settings of step 2.
        step3: Supplies the settings of step 3.
        trim_borders: Whether uniform borders are cropped from query images.
        device: Where the models are.
    """

    candidates: list[list[Candidate]]
    fusion: FusionEncoder
    reranker: TextReranker
    step2: FusionRerank
    step3: SectionRerank
    trim_borders: bool
    device: torch.device

    def retriever(self, index: ReencodedIndex) -> Retriever[ReencodedIndex]:
        """Returns the pipeline on the re-encoded tokens, for the same queries only."""
        second = FusionRerank(self.fusion, index, self.step2.alpha, self.step2.mode)
        third = SectionRerank(self.reranker, index, self.step3.beta)
        steps: list[Step] = [_Known(self.candidates), second, third]
        return Retriever(steps, index, trim_borders=self.trim_borders, splits=False, device=self.device)


def replayed(retriever: Retriever[StoredT], queries: Sequence[Query]) -> Replay:
    """Runs step 1; with the result, the other steps can run several times on different tokens.

    Raises:
        ValueError: The pipeline does not consist of steps 1, 2 and 3.
    """
    wrong = ValueError("only a pipeline of steps 1, 2 and 3 can be replayed with different tokens")
    if len(retriever.steps) != 3:
        raise wrong
    step1, step2, step3 = retriever.steps
    if not isinstance(step2, FusionRerank) or not isinstance(step3, SectionRerank):
        raise wrong
    shown = [without_border(query) for query in queries] if retriever.trim_borders else queries
    candidates = step1.start(shown)([[] for _ in shown]) if shown else []
    encoded, reranker = _EncodedOnce(step2.fusion), step3.reranker
    scored = _ScoredOnce(reranker) if not isinstance(reranker, VectorReranker) else _VectorsScoredOnce(reranker)
    return Replay(candidates, encoded, scored, step2, step3, retriever.trim_borders, retriever.device)


class _Known:
    """Step 1 with a precomputed result."""

    name = "step1"

    def __init__(self, candidates: Sequence[Sequence[Candidate]]) -> None:
        self._candidates = candidates

    def start(self, queries: Sequence[Query]) -> Finish:
        """Returns a function that returns copies, since later steps change them."""
        return lambda _: [[replace(candidate, sections=[]) for candidate in found] for found in self._candidates]


class _EncodedOnce:
    """A fusion encoder that always returns the tokens of its first batch of queries."""

    def __init__(self, fusion: FusionEncoder) -> None:
        self._fusion = fusion
        self._tokens: Tensor | None = None
        self.token_shape, self.fingerprint, self.encode = fusion.token_shape, fusion.fingerprint, fusion.encode

    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> Tensor:
        """Encodes the first batch and returns the same tokens from then on."""
        if self._tokens is None:
            self._tokens = self._fusion.encode_sections(images, texts)
        return self._tokens


class _ScoredOnce:
    """A text reranker that scores an article's passages once per question, even if their order changes later."""

    def __init__(self, reranker: TextReranker) -> None:
        self._reranker = reranker
        self._scores: dict[tuple[str, frozenset[str]], dict[str, float]] = {}

    def score(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Returns the scores of each question's passages."""
        return self._known(
            questions,
            passages,
            lambda new: self._reranker.score([questions[i] for i in new], [passages[i] for i in new]),
        )

    def _known(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
        score: Callable[[Sequence[int]], list[FloatArray]],
    ) -> list[FloatArray]:
        """Returns the scores of each question's passages; `score` computes those at new positions."""
        keys = [(question, frozenset(texts)) for question, texts in zip(questions, passages, strict=True)]
        new = [position for position, key in enumerate(keys) if key not in self._scores]
        for position, scores in zip(new, score(new) if new else [], strict=True):
            self._scores[keys[position]] = dict(zip(passages[position], scores.tolist(), strict=True))
        return [
            np.array([self._scores[key][text] for text in texts], np.float32)
            for key, texts in zip(keys, passages, strict=True)
        ]


class _VectorsScoredOnce(_ScoredOnce):
    """The same for a reranker that compares an index's vectors."""

    def __init__(self, reranker: VectorReranker) -> None:
        super().__init__(reranker)
        self._comparing, self.encoder = reranker, reranker.encoder

    def encode(self, questions: Sequence[str]) -> FloatArray:
        """Returns the vectors of questions."""
        return self._comparing.encode(questions)

    def score_vectors(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
        asked: FloatArray,
        vectors: Sequence[Sequence[NDArray[np.int8]]],
    ) -> list[FloatArray]:
        """Returns the scores of each question's passages."""
        return self._known(
            questions,
            passages,
            lambda new: self._comparing.score_vectors(
                [questions[i] for i in new], [passages[i] for i in new], asked[list(new)], [vectors[i] for i in new]
            ),
        )
