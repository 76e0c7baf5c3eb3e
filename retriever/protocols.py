"""Protocols of models and steps."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from retriever.types import Candidate, Crop, Entity, FloatArray, Query, TextLine


class DualEncoder(Protocol):
    """The model of step 1: encodes images and texts in one space."""

    @property
    def dimension(self) -> int:
        """The length of a vector."""

    @property
    def fingerprint(self) -> str:
        """A hash of weights and settings: encoders with the same fingerprint give the same vectors."""

    def encode_images(self, images: Sequence[Image.Image]) -> Tensor:
        """Encodes to L2-normalized vectors, float32 [N, dimension], on the model's device."""

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Encodes to L2-normalized vectors, float32 [N, dimension], on the model's device."""


@runtime_checkable
class KeyEncoder(Protocol):
    """An optional extension of a dual encoder that encodes images of entities differently from those of queries."""

    def encode_keys(self, images: Sequence[Image.Image]) -> Tensor:
        """Encodes images of entities as `DualEncoder.encode_images` encodes those of queries."""


@runtime_checkable
class JoinedEncoder(Protocol):
    """An optional extension of a dual encoder whose vectors join those of two networks."""

    @property
    def appended(self) -> int:
        """How many values at the end of a vector are the second network's; 0 without one."""


Align = Callable[[Sequence[Image.Image], Sequence[tuple[int, int]]], list[float]]
"""Returns for pairs of images, by their positions, how well the second agrees with the first; at most 1."""
Verify = Callable[[Image.Image, Sequence[int]], list[int]]
"""Returns how many places of an image agree with an image of each of the entities at these rows."""
EncodeParts = Callable[[Image.Image, Sequence[Crop]], Tensor]
"""Returns a vector per part of an image, L2-normalized, [N, dimension]."""
FeatureMap = Callable[[Image.Image], FloatArray]
"""Returns the feature map of an image, float32 [H, W, width]."""


@runtime_checkable
class TextReader(Protocol):
    """Reads the text in images."""

    @property
    def fingerprint(self) -> str:
        """A hash of weights and settings: readers with the same fingerprint read the same."""

    def read(self, images: Sequence[Image.Image], side: int | None = None) -> list[list[TextLine]]:
        """Returns each image's lines of text, top to bottom; at a `side` in pixels, only large ones, few of many."""


@runtime_checkable
class LocalEncoder(Protocol):
    """An optional extension of a dual encoder that knows what is where in an image, as far as its model does."""

    @property
    def feature_map(self) -> FeatureMap | None:
        """Computes the feature map of an image."""

    @property
    def encode_parts(self) -> EncodeParts | None:
        """Encodes parts of an image about as if each were an image."""

    @property
    def align(self) -> Align | None:
        """Lays images on others."""


@runtime_checkable
class SmallEncoder(Protocol):
    """An optional extension of a dual encoder that may know little beyond its training data."""

    @property
    def is_unadapted(self) -> bool:
        """Whether it is small, and was not adapted to other images."""


class FusionEncoder(Protocol):
    """The model of step 2: fuses an image and a text into a few token vectors (equation 3)."""

    @property
    def token_shape(self) -> tuple[int, int]:
        """The number of token vectors and their length, (32, H)."""

    @property
    def fingerprint(self) -> str:
        """A hash of weights and settings."""

    def encode(self, images: Sequence[Image.Image], texts: Sequence[str]) -> Tensor:
        """Fuses images[i] with texts[i]: tokens float32 [N, 32, H] on the model's device, not normalized."""

    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> Tensor:
        """Fuses images[i], encoded once, with each text of texts[i], in order: tokens as `encode` returns them."""


class TextReranker(Protocol):
    """The model of step 3: scores how well passages answer a question."""

    def score(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Scores the passages of each question: per question float32 [len(passages[i])] in [0, 1]."""


@runtime_checkable
class VectorReranker(TextReranker, Protocol):
    """An optional extension of a text reranker that scores with vectors of passages, which an index can hold."""

    @property
    def encoder(self) -> SectionEncoder:
        """The model that computes them."""

    def encode(self, questions: Sequence[str]) -> FloatArray:
        """Returns the vectors of questions, float32 [N, dimension]."""

    def score_vectors(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
        asked: FloatArray,
        vectors: Sequence[Sequence[NDArray[np.int8]]],
    ) -> list[FloatArray]:
        """Scores as `score` does, with the vectors of questions and of each passage's windows [windows, dimension]."""


class SectionEncoder(Protocol):
    """Encodes questions and sections in one space, for step 3."""

    @property
    def dimension(self) -> int:
        """The length of a vector."""

    @property
    def fingerprint(self) -> str:
        """A hash of weights and settings."""

    def encode_questions(self, questions: Sequence[str]) -> FloatArray:
        """Encodes to L2-normalized vectors, float32 [N, dimension]."""

    def encode_passages(self, passages: Sequence[str]) -> list[NDArray[np.int8]]:
        """Returns the vectors of each passage's windows, int8 [windows, dimension]; only their directions count."""


class Summarizer(Protocol):
    """Writes the short texts that step 1 searches."""

    @property
    def name(self) -> str:
        """Identifies the summarizer and its settings: summarizers with the same name write the same summaries."""

    def stream(self, entities: Iterable[Entity]) -> abc.Generator[str]:
        """Yields one summary per entity, in order; consumes entities only as needed."""


@runtime_checkable
class ServedSummarizer(Summarizer, Protocol):
    """A summarizer whose texts depend on a server, too."""

    @property
    def settings(self) -> str:
        """The settings that its `name` leaves out."""

    def served(self) -> str:
        """Returns a hash of what the server says of its model, "" if it says nothing."""


@runtime_checkable
class VectorIndex(Protocol):
    """An optional extension of an index that stores the vectors of sections."""

    def section_vectors(self, row: int) -> list[NDArray[np.int8]] | None:
        """Returns the windows [windows, dimension] of each section of an entity; `None` if the index has no vectors."""


Finish = Callable[[list[list[Candidate]]], list[list[Candidate]]]
"""Takes each query's candidates and returns them rescored, best first."""


class Step(Protocol):
    """One step of the pipeline. A new method (a vote over names, an inspector) is one more step.

    Any object with these two members fits; `Retriever` describes how to put it into a pipeline.
    """

    @property
    def name(self) -> str:
        """Identifies the step in timings and run files; unique within a pipeline."""

    def start(self, queries: Sequence[Query]) -> Finish:
        """Starts everything that needs no candidates (image towers, tokenizers) and returns the rest as a function.

        All steps are started before the first one finishes, so that their towers run concurrently: in streams on a GPU,
        in threads on a CPU with cores to spare. Only the last step on a GPU starts when the others have finished: it
        runs beside the others of the next batch. On a CPU, threads may also share a batch, so a step must be able to
        start and finish several parts of it at once.
        """
