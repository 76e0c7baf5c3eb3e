"""Changes to an index as logged, with their vectors and tokens, so that no model has to run again for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from indexes.article_images import MainImage
from indexes.lines import from_row, to_row
from indexes.store.columns import Encoded, columns_of
from indexes.store.manifest import Manifest
from retriever.types import Entity, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Addition:
    """A new or changed article, with everything that a build stores for it.

    Attributes:
        entity: The article.
        summary: Its summary.
        image: Its main image as named in the build's report.
        thumbnail: JPEG of the main image, empty without one.
        keys: The keys for step 1, float32 [keys, length of a key], the main image's first; empty if the entity is not
            searchable.
        tokens: The tokens of its sections, then of its images, then of its labeled images, as stored by the codec,
            [rows, M, W]; without a main image, only those of labeled images.
        scales: Float16 [rows, M], or [0, 0] for a codec without scales.
        labeled: How many keys, at the end, are labeled images.
        labeled_tokens: How many rows of tokens, at the end, are those of labeled images: one for each of them, or none
            in an index of an older version.
        image_tokens: How many rows of tokens, before these, are those of the article's images.
        columns: Its rows of the index's columns, by the names of these.
    """

    entity: Entity
    summary: str
    image: MainImage
    thumbnail: bytes
    keys: FloatArray
    tokens: NDArray[Any]
    scales: NDArray[np.float16]
    labeled: int = 0
    labeled_tokens: int = 0
    image_tokens: int = 0
    columns: Mapping[str, Encoded] = field(default_factory=dict)

    @property
    def token_sections(self) -> int:
        """Number of sections with tokens."""
        return len(self.tokens) - self.labeled_tokens - self.image_tokens

    @property
    def id(self) -> str:
        """The entity's id."""
        return self.entity.id

    def check(self, manifest: Manifest) -> None:
        """Checks that the addition matches an index.

        Raises:
            ValueError: An array has another shape or dtype.
        """
        (_, *stored), codec = manifest.stored_shape, manifest.inputs.codec
        scaled = [len(self.tokens), stored[0]] if codec.scaled else [0, 0]
        for what, array, shape, dtype in (
            ("keys", self.keys, [len(self.keys), manifest.key_length], np.dtype(np.float32)),
            ("tokens", self.tokens, [len(self.tokens), *stored], np.dtype(codec.dtype)),
            ("scales", self.scales, scaled, np.dtype(np.float16)),
        ):
            if list(array.shape) != shape or array.dtype != dtype:
                expected = f"{dtype} {shape}"
                raise ValueError(f"{self.id!r}: {what}: expected {expected}, got {array.dtype} {list(array.shape)}")
        if self.columns.keys() != manifest.inputs.columns.keys():
            names = sorted(manifest.inputs.columns)
            raise ValueError(f"{self.id!r}: columns {sorted(self.columns)}, expected {names}")
        for column in columns_of(manifest):
            encoded = self.columns[column.name]
            parts = len(self.entity.sections) if column.of == "sections" else len(np.unique(encoded.parts))
            if (count := len(np.unique(encoded.parts))) != parts or encoded.values.dtype != column.dtype:
                what = f"{count} {column.of} of {encoded.values.dtype}"
                raise ValueError(f"{self.id!r}: column {column.name}: rows of {what}, expected {parts}")


@dataclass(frozen=True, slots=True)
class Removal:
    """The removal of an entity."""

    id: str


@dataclass(frozen=True, slots=True)
class Origin:
    """The first record of a log: the models and settings behind the vectors and tokens of its index."""

    encoder: str
    fusion: str | None
    candidates: str
    tokens: str
    columns: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """Returns the origin of an index."""
        inputs = manifest.inputs
        return cls(inputs.encoder, inputs.fusion, inputs.candidates, inputs.tokens, inputs.columns)

    def check(self, manifest: Manifest) -> None:
        """Checks that the log belongs to an index.

        Raises:
            ValueError: The log belongs to another index.
        """
        own = self.of(manifest)
        if own != self:
            raise ValueError(f"the log belongs to another index: {self}, but this one is {own}; restore the right file")


Change = Addition | Removal


def to_bytes(change: Change | Origin) -> bytes:
    """Serializes a record of the log as a safetensors file in which one of the tensors is JSON."""
    if isinstance(change, Origin):
        return save({"change": _json({"origin": asdict(change)})})
    if isinstance(change, Removal):
        return save({"change": _json({"remove": change.id})})
    about: dict[str, Any] = {"put": to_row(change.entity), "summary": change.summary, "image": change.image}
    if change.labeled:
        about |= {"labeled": change.labeled, "labeled_tokens": change.labeled_tokens}
    if change.image_tokens:
        about["image_tokens"] = change.image_tokens
    arrays = {"keys": change.keys, "tokens": change.tokens, "scales": change.scales}
    for name, encoded in change.columns.items():
        arrays |= {f"{name}.values": encoded.values, f"{name}.parts": encoded.parts}
    thumbnail = np.frombuffer(change.thumbnail, np.uint8)
    return save({"change": _json(about), "thumbnail": thumbnail, **arrays})


def from_bytes(content: bytes) -> Change | Origin:
    """Returns the record that `to_bytes` serialized."""
    arrays = load(content)
    about = json.loads(arrays["change"].tobytes())
    if "origin" in about:
        origin = about["origin"]
        if "sections" in origin:  # as in version 3 of an index
            model = origin.pop("sections")
            origin["columns"] = {"sections": model} if model else {}
        return Origin(**origin)
    if "remove" in about:
        return Removal(about["remove"])
    return Addition(
        entity=from_row(about["put"]),
        summary=about["summary"],
        image=MainImage(*about["image"]),
        thumbnail=arrays["thumbnail"].tobytes(),
        keys=arrays["keys"],
        tokens=arrays["tokens"],
        scales=arrays["scales"],
        labeled=about.get("labeled", 0),
        labeled_tokens=about.get("labeled_tokens", 0),
        image_tokens=about.get("image_tokens", 0),
        columns=_columns_in(arrays),
    )


def _columns_in(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Encoded]:
    if "vectors" in arrays:  # of sections, as in version 3 of an index
        return {"sections": Encoded(arrays["vectors"], arrays["sections"])}
    names = [name.removesuffix(".values") for name in arrays if name.endswith(".values")]
    return {name: Encoded(arrays[f"{name}.values"], arrays[f"{name}.parts"]) for name in names}


def _json(value: object) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(), np.uint8)
