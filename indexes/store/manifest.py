"""`manifest.json`: an index's inputs and files. It is written last; an index without one does not open."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from indexes.article_images import ImageUse
from indexes.store.layout import REBUILD
from retriever.files import sha256_of
from retriever.token_codec import TokenCodec
from retriever.wording import counted

FORMAT_VERSION = 4
"""Versions 2 and 3 can still be opened. Version 2 has no `vectors.npy` and always searches a flat float32 index; in
version 3, the only column is that of sections, with fields of its own in the manifest."""
MANIFEST = "manifest.json"
SEARCH, VECTORS = "entities.faiss", "vectors.npy"
RECOGNITION = "recognition.json"
"""What an index found about its own recognition (`omgm.self_calibration`); it belongs to the manifest's content."""
REPORT, IMAGE_PROBLEMS = "report.json", "image_problems.jsonl"
FILES = (
    "entities.jsonl",
    "entities.offsets.npy",
    "entity_ids.npy",
    "summaries.jsonl",
    "summaries.offsets.npy",
    SEARCH,
    VECTORS,
    "tokens.npy",
    "token_scales.npy",
    "token_offsets.npy",
    REPORT,
    IMAGE_PROBLEMS,
)
"""The files of every index, besides its manifest and the thumbnails in `images/`; some have those below, too."""
OWNERS = "key_owners.npy"
"""Present if some entities have several keys: the entity of each further key."""
LABELED_KEYS = "labeled_keys.npy"
"""Present if there are labeled images: the numbers of their keys."""
IMAGE_OWNERS = "image_owners.npy"
"""Present if images of articles have their own tokens: the entity of each."""
KEY_IDS = "key_ids.npy"
"""Takes the place of `entities.faiss` if the keys are in a vector database: their ids there."""
ALL_FILES = (*FILES, OWNERS, LABELED_KEYS, IMAGE_OWNERS, KEY_IDS)
"""All files that an index may have, apart from those of its columns (`indexes.store.columns`)."""

SMALL = 1 << 20
"""Files up to this size, in bytes, have their checksum verified whenever the index is opened."""

Candidates = Literal["summary", "title", "article", "image", "combined"]
"""What step 1 compares the query image with: summaries (the paper's method); titles, whole articles or main images, for
comparison; or main image and summary together."""


def keys_are_images(candidates: Candidates) -> bool:
    """Returns whether step 1 compares the query image with images, alone or together with texts."""
    return candidates in ("image", "combined")


SearchKind = Literal["flat", "sq8", "hnsw", "ivf-pq"]
"""How step 1 searches with FAISS: exactly ("flat"), or approximately, followed by exact rescoring of the best
candidates. Other kinds are vector databases (`indexes.store.engines`)."""
FAISS_KINDS: tuple[str, ...] = get_args(SearchKind)


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Inputs(_Model):
    """The inputs that determine the content of an index: two builds with equal inputs are byte-identical.

    `pictures` is a hash over the names and contents of each entity's images, `tokens` the name of a codec. `search` is
    the kind of entity index; its parameters are tuned for the `image_weight` at build time. `image_keys` and
    `section_images` specify which images are used (`ImageUse`); `labeled` is a hash over the
    labeled images of each entity, or "none". `borders` is the rule by which borders were cut off for keys of what is
    within them (`retriever.borders.RULE`), or "none". `columns` has the fingerprint of the model of each
    column, by its name. Of a chat model that wrote the summaries, `summarizer_settings` are its limits, and
    `summarizer_server` is a hash of what its server reported of it; both are empty if unknown.
    """

    knowledge_base: str
    kb_format: str
    drop_sections: tuple[str, ...] = ("*external links*", "*references*")  # of versions that had no other rule
    keep_navigation: bool = False
    pictures: str
    summarizer: str
    candidates: Candidates
    encoder: str
    fusion: str | None
    tokens: str = "float16"
    search: str = "flat"
    image_keys: int = 1
    section_images: bool = False
    labeled: str = "none"
    borders: str = "none"
    columns: dict[str, str] = {}
    summarizer_settings: str = ""
    summarizer_server: str = ""

    @property
    def image_use(self) -> ImageUse:
        """Which images of an article are used."""
        return ImageUse(self.image_keys, self.section_images, self.labeled != "none", self.borders != "none")

    @property
    def codec(self) -> TokenCodec:
        """How the tokens are stored."""
        return TokenCodec.parse(self.tokens)

    @field_validator("tokens")
    @classmethod
    def _known(cls, name: str) -> str:
        return TokenCodec.parse(name).name


class Counts(_Model):
    """The size of an index.

    `searchable` entities have a key, and `further_keys` counts their keys beyond the first. `token_sections` sections
    have tokens, and so do `image_tokens` images of articles and `labeled_tokens` labeled images; see
    `keys_with_tokens` (`indexes.article_images`). An index of an older version has fewer of them.
    `columns` counts the rows of each column.
    """

    entities: int
    sections: int
    with_image: int
    searchable: int
    token_sections: int
    further_keys: int = 0
    labeled_tokens: int = 0
    image_tokens: int = 0
    columns: dict[str, int] = {}

    def plus(self, other: Self, times: int = 1) -> Self:
        """Returns these counts with so many times the others."""
        names, columns = self.__class__.model_fields.keys() - {"columns"}, self.columns.keys() | other.columns.keys()
        sums = {name: getattr(self, name) + times * getattr(other, name) for name in names}
        rows = {name: self.columns.get(name, 0) + times * other.columns.get(name, 0) for name in sorted(columns)}
        return self.__class__(**sums, columns=rows)


class SearchRecord(_Model):
    """The entity index as it was built and measured.

    Attributes:
        kind: How step 1 searches.
        faiss: FAISS's factory string.
        parameters: Search parameters; those of FAISS are also stored in `entities.faiss`.
        rescored: Candidates per result that are rescored exactly, with `vectors.npy` or by a database; 0 for exact
            search.
        recall: Share of the `k` best by the stored vectors that the search finds, averaged over held-out queries;
            `None` without entities.
        k: Number of results that the recall was measured with.
        queries: A description of the held-out queries.
        uri: Where the database is.
        collection: The name of the table of keys there.
    """

    kind: str
    faiss: str
    parameters: dict[str, int] = {}
    rescored: int = 0
    recall: float | None = None
    k: int = 20
    queries: str = ""
    uri: str = ""
    collection: str = ""

    def __str__(self) -> str:
        """Returns a one-line description."""
        settings = "".join(f", {name} {value}" for name, value in self.parameters.items())
        rescored = f", {counted(self.rescored, 'candidate')} rescored per result" if self.rescored else ""
        measured = "" if self.recall is None else f", recall@{self.k} {self.recall:.4f} on {self.queries}"
        where = f"{self.collection} at {self.uri}" if self.collection else self.faiss
        return f"{self.kind} ({where}{settings}){rescored}{measured}"


class File(_Model):
    """A file's size in bytes and SHA-256."""

    bytes: int
    sha256: str


class Manifest(_Model):
    """The manifest of an index. Its tokens are normalized over their last dimension, as the score modes expect."""

    format: Literal["omgm-index"] = "omgm-index"
    format_version: int = FORMAT_VERSION
    name: str
    created_with: str
    inputs: Inputs
    counts: Counts
    dimension: int
    token_shape: tuple[int, int]
    thumbnails: str
    search: SearchRecord | None = None
    files: dict[str, File]
    changes: int = 0
    """Number of entities changed since the index was built; see `indexes.live`."""

    @property
    def key_length(self) -> int:
        """Length of the vectors that step 1 searches."""
        return 2 * self.dimension if self.inputs.candidates == "combined" else self.dimension

    @property
    def stored_shape(self) -> tuple[int, int, int]:
        """Shape of the values in `tokens.npy`."""
        rows = self.counts.token_sections + self.counts.image_tokens + self.counts.labeled_tokens
        return rows, *self.inputs.codec.stored_shape(self.token_shape)

    @property
    def scales_shape(self) -> tuple[int, int]:
        """Shape of the scales in `token_scales.npy`; (0, 0) for a codec without scales."""
        return self.stored_shape[:2] if self.inputs.codec.scaled else (0, 0)

    def to_json(self) -> bytes:
        """Returns the file's content, without times and paths, so that equal builds have equal manifests."""
        return (json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n").encode()


def read_manifest(folder: Path, name: str = MANIFEST) -> Manifest:
    """Returns the manifest of an index, from the file `name`.

    Raises:
        ValueError: The manifest is missing, damaged or of an unsupported format version.
    """
    path = folder / name
    if not path.is_file():
        raise ValueError(f"{folder}: no {name}: not an index, or its build did not finish; run `omgm build-index`")
    try:
        fields = json.loads(path.read_bytes())
        version = fields["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: damaged ({error!r}); {REBUILD}") from error
    if version not in range(2, FORMAT_VERSION + 1):
        raise ValueError(f"{path}: format version {version}, this release reads 2 to {FORMAT_VERSION}; {REBUILD}")
    try:
        return Manifest.model_validate_json(json.dumps(_of_this_version(fields)))
    except ValidationError as error:
        fields = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise ValueError(f"{path}: {fields}; {REBUILD}") from error


def read_inputs(path: Path) -> Inputs:
    """Returns the inputs that an unfinished build has noted, also one of version 3."""
    fields = _of_this_version({"inputs": json.loads(path.read_bytes()), "counts": {}})
    return Inputs.model_validate_json(json.dumps(fields["inputs"]))


def _of_this_version(fields: dict[str, Any]) -> dict[str, Any]:
    """Returns a manifest with the fields of the only column of version 3 among those of columns."""
    if not all(isinstance(fields.get(part), dict) for part in ("inputs", "counts")):
        return fields  # damaged, as validation says
    inputs, counts = dict(fields["inputs"]), dict(fields["counts"])
    model, rows = inputs.pop("sections", None), counts.pop("section_windows", 0)
    if model is not None:
        inputs["columns"], counts["columns"] = {"sections": model}, {"sections": rows}
    return fields | {"inputs": inputs, "counts": counts}


def describe_files(folder: Path, columns: Iterable[str] = ()) -> dict[str, File]:
    """Returns size and checksum of every file of an index, those of its columns last."""
    absent = SEARCH if (folder / KEY_IDS).is_file() else ""
    names = [name for name in ALL_FILES if name in FILES or (folder / name).is_file()] + [*columns]
    return {name: describe_file(folder / name) for name in names if name != absent}


def describe_file(path: Path) -> File:
    """Returns size and checksum of a file."""
    return File(bytes=path.stat().st_size, sha256=sha256_of(path))


def check_files(folder: Path, manifest: Manifest, columns: Iterable[str], *, verify: bool) -> None:
    """Compares the files of an index with its manifest: sizes and checksums of small files or, with `verify`, of all.

    Args:
        folder: The folder of the files.
        manifest: The manifest.
        columns: The files of its columns.
        verify: Whether to compare the checksums of large files, too.

    Raises:
        ValueError: A file is missing, has another size, or has changed.
    """
    names = {*FILES, OWNERS} if manifest.counts.further_keys else set(FILES)
    if manifest.inputs.labeled != "none":
        names.add(LABELED_KEYS)
    if manifest.counts.image_tokens:
        names.add(IMAGE_OWNERS)
    names |= {*columns}
    elsewhere = manifest.search is not None and manifest.search.kind not in FAISS_KINDS
    if elsewhere:
        names = names - {SEARCH} | {KEY_IDS}
    listed = {*manifest.files, IMAGE_PROBLEMS}  # older versions did not write the latter
    if listed != names - ({VECTORS} if manifest.format_version == 2 else set()):
        raise ValueError(f"{folder / MANIFEST}: does not list the files of an index; {REBUILD}")
    for name, expected in manifest.files.items():
        path = folder / name
        if name == VECTORS and elsewhere and not path.is_file():
            continue  # the database has them, too
        if not path.is_file():
            raise ValueError(f"{path}: missing; {REBUILD}")
        size = path.stat().st_size
        if size != expected.bytes:
            raise ValueError(f"{path}: {size} bytes, but the manifest says {expected.bytes}; {REBUILD}")
        if (verify or size <= SMALL) and sha256_of(path) != expected.sha256:
            raise ValueError(f"{path}: content differs from its checksum; {REBUILD}")
