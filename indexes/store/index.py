"""An open index: entity search, articles, summaries, section tokens, thumbnails."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.store.article_store import ArticleStore, opened
from indexes.store.columns import ColumnModel, Encoded, StoredColumn, column_files, columns, columns_of
from indexes.store.entity_index import open_search
from indexes.store.generations import settled_files
from indexes.store.keys import IMAGE_WEIGHT, StoredKeys, as_query, labeled_owners, load_owners
from indexes.store.layout import REBUILD
from indexes.store.manifest import (
    IMAGE_OWNERS,
    KEY_IDS,
    SEARCH,
    Candidates,
    Manifest,
    check_files,
    read_manifest,
)
from indexes.store.row_file import RowFile
from indexes.store.search import BestKeySearch, GpuSearch
from indexes.store.thumbnails import check_thumbnails
from indexes.store.tokens import HostTokens, Residency, TokenStore
from retriever.arrays import map_array
from retriever.identity import is_hash
from retriever.protocols import DualEncoder, FusionEncoder
from retriever.token_codec import TokenCodec
from retriever.types import Filter, FloatArray, IntArray, StoredTokens

logger = logging.getLogger(__name__)


class OpenOptions(TypedDict, total=False):
    """How an index is opened.

    Attributes:
        encoder: Step 1's model; the index must have been built with it.
        fusion: Step 2's model; the index must have been built with it.
        columns: The models of columns, by the names of these; the index must have been built with them.
        device: The device for search and MaxSim, by default "cpu".
        image_weight: Weight of the main image, in 0..1, if step 1 searches main image and summary together; by default
            `IMAGE_WEIGHT`.
        gpu_search: The library that searches if the device is a GPU, by default "torch".
    """

    encoder: DualEncoder | None
    fusion: FusionEncoder | None
    columns: Mapping[str, ColumnModel]
    device: str
    image_weight: float
    gpu_search: GpuSearch


class Index(ArticleStore):
    """A read-only, thread-safe index (implements `retriever.protocols.EntityIndex`).

    Only vectors are held in memory; articles, summaries and tokens are read from files on demand. If the device is a
    GPU, the vectors are on the GPU, and so are the tokens if they fit (`residency`).

    Args:
        folder: A complete index.
        manifest: Its manifest, as checked by `open`.
        device: The device for search and MaxSim.
        image_weight: Weight of the main image in a combined key, see `indexes.store.keys.as_query`.
        gpu_search: The library that searches on a GPU, see `indexes.store.entity_index.open_search`.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        device: str = "cpu",
        image_weight: float = IMAGE_WEIGHT,
        gpu_search: GpuSearch = "torch",
    ) -> None:
        super().__init__(folder, manifest.files["entities.jsonl"].sha256)
        self.manifest = manifest
        self.device, self.image_weight = device, image_weight
        self._token_offsets: IntArray = opened(map_array, folder / "token_offsets.npy")
        self._labeled_owners = labeled_owners(folder, manifest)
        self._image_owners = (
            opened(map_array, folder / IMAGE_OWNERS) if manifest.counts.image_tokens else np.empty(0, np.int64)
        )
        self._search = open_search(folder, manifest.search, device, gpu_search)  # the tokens get the remaining memory
        if manifest.counts.further_keys:
            self._search = BestKeySearch(self._search, manifest.counts.entities, load_owners(folder, manifest))
        tokens, scales = opened(RowFile, folder / "tokens.npy"), opened(RowFile, folder / "token_scales.npy")
        self.columns = {column.name: StoredColumn(column, folder, manifest) for column in columns_of(manifest)}
        self._check_shapes(tokens, scales)
        self.token_store = TokenStore(manifest.inputs.codec, tokens, scales, device)
        logger.info("%s: %s", folder, self.residency)

    @classmethod
    def open(cls, folder: Path, *, verify: bool = False, **options: Unpack[OpenOptions]) -> Index:
        """Opens the index in `folder`; an index with live changes needs a `LiveIndex`.

        Args:
            folder: The folder that `build_index` wrote.
            verify: Whether to verify the checksum of every file; by default, only the size of large files is checked.
            **options: The models that it is for, and how it is searched.

        Raises:
            ValueError: The index is incomplete or damaged, does not match a model, or has changes that are not in its
                files; the message says what to do.
        """
        return cls.open_files(settled_files(folder), verify=verify, **options)

    @classmethod
    def open_files(cls, folder: Path, *, verify: bool = False, **options: Unpack[OpenOptions]) -> Index:
        """Opens the files in `folder` without later changes; otherwise like `open`."""
        manifest = read_manifest(folder)
        check_files(folder, manifest, column_files(manifest), verify=verify)
        if verify:
            check_thumbnails(folder, manifest)
        check_models(folder, manifest, options)
        device, gpu = options.get("device", "cpu"), options.get("gpu_search", "torch")
        return Index(folder, manifest, device, options.get("image_weight", IMAGE_WEIGHT), gpu)

    def settled(self) -> Index:
        """Returns the index of its files; raises `ValueError` if there are changes that they lack."""
        return self

    @property
    def name(self) -> str:
        """The name of the knowledge base that the index was built from."""
        return self.manifest.name

    @property
    def codec(self) -> TokenCodec | None:
        """How the tokens of sections are stored; `None` if there are none."""
        return self.manifest.inputs.codec if self.manifest.counts.token_sections else None

    @property
    def token_shape(self) -> tuple[int, int]:
        """The number of token vectors of a section and their length, before they are stored."""
        return self.manifest.token_shape

    @property
    def fingerprint(self) -> str:
        """A hash of what a search finds: of the manifest, with the checksums of all files, and of `image_weight`."""
        return hashlib.sha256(self.manifest.to_json() + repr(self.image_weight).encode()).hexdigest()[:16]

    @cached_property
    def keys(self) -> StoredKeys:
        """The keys of the entities in its files, read from these when needed."""
        return StoredKeys(self.folder, self.manifest)

    @cached_property
    def fields(self) -> Any:
        """The fields of its entities, an `indexes.live.fields.IndexFields`."""
        search = columns()["fields"].search
        assert search is not None
        return search(self, None)

    def thumbnails(self, row: int) -> Mapping[str, bytes]:
        """Returns the small copies that it stores of an entity's images, JPEG, by their URLs; raises as `entity`."""
        search: Any = columns()["thumbnails"].search
        copies: Mapping[str, bytes] = search(self, None)(row)
        return copies

    def search(self, vectors: torch.Tensor, k: int, filter: Filter = ()) -> tuple[FloatArray, IntArray]:
        """Returns scores float32 and rows int64 of entities that fit a filter, both [B, k], best first.

        A score is the inner product of the image's vector and the entity's or, with combined keys, the weighted mean of
        two (`indexes.store.keys.as_query`); if an entity has several keys, the best one counts. If fewer than `k`
        entities are searchable, the remaining rows are -1 and their scores minus infinity.

        Raises:
            ValueError: `vectors` is not [B, dimension], or `k` is below 1.
        """
        if vectors.ndim != 2 or vectors.shape[1] != self.manifest.dimension:
            raise ValueError(f"vectors must have shape (B, {self.manifest.dimension}), got {tuple(vectors.shape)}")
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        queries = as_query(vectors, self.manifest.inputs.candidates, self.image_weight)
        return self.search_keys(queries, k, filter)

    def search_keys(self, queries: torch.Tensor, k: int, filter: Filter = ()) -> tuple[FloatArray, IntArray]:
        """Searches for queries [B, length of a key], otherwise like `search`."""
        return self._search.search(queries, k, self.fields.among(filter) if filter else None)

    def token_rows(self, row: int) -> range:
        """Returns the rows of an entity's tokens: those of its sections, then of its images, labeled ones last.

        An article's images have tokens of their own if `search.image_keys` is above 1. Without a readable main image,
        an entity has no tokens.

        Raises:
            IndexError: There is no such row.
        """
        if not 0 <= row < len(self):
            raise IndexError(f"row must be within 0 to {len(self) - 1}, got {row}")
        return range(int(self._token_offsets[row]), int(self._token_offsets[row + 1]))

    def section_rows(self, row: int) -> range:
        """Returns the rows of an entity's section tokens, in the order of `Entity.sections`; raises as `token_rows`."""
        rows = self.token_rows(row)
        return rows[: len(rows) - _count(self._image_owners, row) - _count(self._labeled_owners, row)]

    def labeled_rows(self, row: int) -> range:
        """Returns the rows of the tokens of an entity's labeled images, the last ones; raises as `token_rows`."""
        rows = self.token_rows(row)
        return rows[len(rows) - _count(self._labeled_owners, row) :]

    @property
    def residency(self) -> Residency:
        """Where the tokens are, and why."""
        return self.token_store.residency

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        """Returns stored tokens; each span is the `token_rows` of an entity or a prefix of them."""
        return self.token_store.gather(spans)

    def tokens(self, rows: IntArray) -> torch.Tensor:
        """Returns stored tokens, decoded, float32 [len(rows), tokens, H], normalized over H up to rounding.

        Raises:
            IndexError: A row is out of range.
        """
        return self.token_store.read(rows)

    def stored_tokens(self, rows: range) -> HostTokens:
        """Returns tokens as stored: values [len(rows), M, W] and scales [len(rows), M], or [0, 0] without scales."""
        return self.token_store.stored(rows)

    def section_vectors(self, row: int) -> list[NDArray[np.int8]] | None:
        """Returns the windows [windows, dimension] of each section of an entity; `None` if the index has no vectors.

        Raises:
            IndexError: There is no such row.
        """
        encoded = self.column("sections", row)
        return None if encoded is None else encoded.split(len(self.entity(row).sections))

    def column(self, name: str, row: int) -> Encoded | None:
        """Returns the rows of an entity in a column; `None` if the index has no such column."""
        return self.columns[name].of(row) if name in self.columns else None

    def _check_shapes(self, tokens: RowFile, scales: RowFile) -> None:
        counts = self.manifest.counts
        for name, found, expected in [
            ("entities.jsonl", len(self._articles), counts.entities),
            ("summaries.jsonl", len(self._summaries), counts.entities),
            ("entity_ids.npy", (len(self._ids), int((self._ids[1] >= 0).sum())), (2, counts.entities)),
            ("token_offsets.npy", self._token_offsets.shape, (counts.entities + 1,)),
            ("tokens.npy", tokens.dtype, self.manifest.inputs.codec.dtype),
            ("tokens.npy", tokens.shape, self.manifest.stored_shape),
            ("token_scales.npy", scales.shape, self.manifest.scales_shape),
            (
                SEARCH if SEARCH in self.manifest.files else KEY_IDS,
                self._search.shape,
                (counts.searchable + counts.further_keys, self.manifest.key_length),
            ),
        ]:
            if found != expected:
                raise ValueError(f"{self.folder / name}: {found}, but the manifest says {expected}; {REBUILD}")


def check_models(folder: Path, manifest: Manifest, options: OpenOptions) -> None:
    """Checks that an index was built with the models in `options`; raises errors like `Index.open`."""
    encoder, fusion = options.get("encoder"), options.get("fusion")
    models: Mapping[str, ColumnModel] = options.get("columns", {})
    if encoder is not None:
        _check_fit(folder, "encoder", manifest.inputs.encoder, encoder.fingerprint)
        _check_fit(folder, "encoder dimension", manifest.dimension, encoder.dimension)
    if fusion is not None:
        _check_fit(folder, "fusion encoder", manifest.inputs.fusion, fusion.fingerprint)
        _check_fit(folder, "fusion token shape", manifest.token_shape, tuple(fusion.token_shape))
    for name, built_with in manifest.inputs.columns.items():
        if (model := models.get(name)) is not None:
            advice = f"{REBUILD}, which makes only this column again,"
            _check_fit(folder, f"model of column {name}", built_with, model.fingerprint, advice)


def _check_fit(folder: Path, what: str, built_with: object, given: object, advice: str = f"{REBUILD},") -> None:
    if built_with != given:
        values = f"{given!r} now, {built_with!r} when it was built"
        if is_hash(given) and is_hash(built_with):
            values = "with other weights or settings than when it was built"
        raise ValueError(
            f"{folder}: does not match this profile: {what} {values}; {advice} or use the profile it was built with"
        )


def check_candidates(index: Index, candidates: Candidates) -> None:
    """Checks that an index was built for a profile's `search.candidates`.

    Raises:
        ValueError: It was built for other candidates.
    """
    built_with = index.manifest.inputs.candidates
    if built_with != candidates:
        raise ValueError(
            f"{index.folder}: was built with search.candidates = {built_with!r}, but this profile has {candidates!r}; "
            f"{REBUILD}, or pass --set search.candidates={built_with}"
        )


def _count(owners: IntArray, row: int) -> int:
    """Returns how often `row` occurs in an ascending array."""
    if not len(owners):  # true of most indexes, and called twenty times per query
        return 0
    first, last = np.searchsorted(owners, [row, row + 1]).tolist()
    return int(last - first)
