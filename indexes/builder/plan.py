"""What an index is built from, with which models and settings: everything that a build is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, get_args

from indexes.article_images import ImageUse, note_unsearched
from indexes.builder.given_vectors import GivenVectors
from indexes.builder.stages import BuildRun
from indexes.image_source import ImageSource
from indexes.labeled_images import LabeledImage, LabeledSource
from indexes.store.columns import ColumnModel
from indexes.store.engines import kinds
from indexes.store.index import Index
from indexes.store.keys import IMAGE_WEIGHT
from indexes.store.manifest import FAISS_KINDS, Candidates, keys_are_images
from indexes.workers import LocalWorkers, Workers
from retriever.protocols import DualEncoder, FusionEncoder, Summarizer
from retriever.token_codec import TokenCodec
from retriever.types import Entity


class ArticleSource(Protocol):
    """Where the articles of an index come from, with the images that belong to each.

    `indexes.knowledge.article_source` reads them from files.
    """

    @property
    def name(self) -> str:
        """The index's name unless the build has another."""

    @property
    def place(self) -> str:
        """Where they are, for messages."""

    @property
    def digest(self) -> str:
        """A hash of everything that is read."""

    @property
    def format(self) -> str:
        """The format of the files."""

    @property
    def drop_sections(self) -> tuple[str, ...]:
        """The titles of sections that are left out."""

    @property
    def keep_navigation(self) -> bool:
        """Whether lists of links and the like are kept."""

    @property
    def images(self) -> ImageSource | None:
        """The images that articles name."""

    def articles(self) -> Iterator[Entity]:
        """Yields the articles, as often as needed, with the images that they name themselves."""

    def entities(self, *, requires_images: bool = True) -> Iterator[Entity]:
        """Yields the articles with all their images.

        Raises:
            ValueError: They cannot be read; or, if `requires_images`, there are images, but none is of an entity.
        """

    def account(self) -> Mapping[str, Any]:
        """Counts the words, images and entries that the last complete reading kept and left out, for `report.json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDesign:
    """The settings of an index, which a profile decides.

    Attributes:
        candidates: What step 1 searches. With `image`, an entity without a readable main image is never found.
        tokens: How step 2's tokens are stored: the name of a `TokenCodec`.
        search: The kind of entity index (`indexes.store.engines.kinds`); "auto" chooses one by the number of entities.
        search_uri: Where the vector database is, if `search` is one.
        image_weight: Weight of the main image in a combined key, used to tune an approximate entity index and to open
            the index.
        image_keys: Most image keys per entity: its main image, then the others of its article in order. Ignored if
            `candidates` are only texts.
        section_images: Whether a section's tokens use its own image if it has one.
        trim_borders: Whether to cut uniform borders off labeled images, as off query images, and, if `image_keys` is
            above 1, whether other images with such a border are keys without it, too.
    """

    candidates: Candidates = "summary"
    tokens: str = "float16"
    search: str = "auto"
    search_uri: str = ""
    image_weight: float = IMAGE_WEIGHT
    image_keys: int = 1
    section_images: bool = False
    trim_borders: bool = False

    def check(self) -> None:
        """Raises a `ValueError` that names the first invalid setting."""
        if self.candidates not in get_args(Candidates):
            raise ValueError(f"candidates must be one of {', '.join(get_args(Candidates))}, got {self.candidates!r}")
        choices = ("auto", *kinds())
        if self.search not in choices:
            raise ValueError(f"search must be one of {', '.join(choices)}, got {self.search!r}")
        if self.image_keys < 1:
            raise ValueError(f"image_keys must be at least 1, got {self.image_keys}")
        if (self.search not in ("auto", *FAISS_KINDS)) != bool(self.search_uri):
            choice = f"{self.search_uri!r} with search.kind = {self.search!r}"
            raise ValueError(f"search.uri must be set if search.kind is a vector database, and only then; got {choice}")


@dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """What a build is told.

    Attributes:
        articles: The articles and their images. Bad entries and images that are missing or unreadable are listed with
            their reasons in `report.json` and `image_problems.jsonl`.
        out: The index folder: absent, empty, or an index.
        summarizer: Writes the summaries.
        encoder: Step 1's model.
        fusion: Step 2's model; `None` leaves the token store empty, to measure step 1 alone.
        columns: The models of the index's columns, by the names of these (`indexes.store.columns`).
        design: The settings.
        labeled: Images that show an entity but are not in its article; they become further image keys of the entity.
        vectors: The vectors of summaries, if another system computed them, for `candidates` "summary" only.
        name: The index's name; by default that of the articles' source.
        overwrite: Whether to replace another index or its unfinished build. If only `search` differs, the entity index
            is rebuilt from the stored vectors, and everything else is kept; if only models of columns differ,
            only these columns are computed again.
        batch_size: Entities per batch; a kill loses at most one batch, or only the unfinished summaries.
        workers: Creates the workers that run the models: in this process, or on a cluster (`indexes.builder.cluster`).
    """

    articles: ArticleSource
    out: Path
    summarizer: Summarizer
    encoder: DualEncoder
    fusion: FusionEncoder | None
    columns: Mapping[str, ColumnModel] = field(default_factory=dict)
    design: IndexDesign = IndexDesign()
    labeled: Sequence[LabeledImage] = ()
    vectors: GivenVectors | None = None
    name: str | None = None
    overwrite: bool = False
    batch_size: int = 32
    workers: Callable[[DualEncoder, FusionEncoder | None, Mapping[str, ColumnModel]], Workers] = LocalWorkers

    def check(self) -> None:
        """Checks what can be checked before the articles are read.

        Raises:
            ValueError: A setting is invalid, or the given vectors or the tokens' codec do not suit the models.
        """
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {self.batch_size}")
        self.design.check()
        codec = self.codec
        if self.vectors is not None:
            self._check_vectors(self.vectors)
        if self.fusion is not None:
            codec.stored_shape(self.fusion.token_shape)

    def _check_vectors(self, vectors: GivenVectors) -> None:
        if self.design.candidates != "summary":
            got = self.design.candidates
            raise ValueError(f"{vectors.path}: vectors of summaries need search.candidates=summary, got {got}")
        if vectors.dimension != self.encoder.dimension:
            raise ValueError(
                f"{vectors.path}: its vectors have {vectors.dimension} values, those of the profile's encoder "
                f"{self.encoder.dimension}; use the profile with the encoder that made them (EVA-CLIP-8B: "
                "--profile paper)"
            )

    @cached_property
    def codec(self) -> TokenCodec:
        """How step 2's tokens are stored."""
        return TokenCodec.parse(self.design.tokens)

    @cached_property
    def labels(self) -> LabeledSource | None:
        """The labeled images beside those of the knowledge base, if there are any and step 1 searches images."""
        if not self.labeled or not keys_are_images(self.design.candidates):
            return None
        return LabeledSource(self.labeled, self.articles.images, self.design.trim_borders)

    @property
    def source(self) -> ImageSource | None:
        """All images."""
        return self.labels or self.articles.images

    @property
    def use(self) -> ImageUse:
        """Which images of an entity are used."""
        keys = self.design.image_keys if keys_are_images(self.design.candidates) else 1
        sections = self.design.section_images and self.fusion is not None
        return ImageUse(keys, sections, self.labels is not None, self.design.trim_borders and keys > 1)

    def entities(self, notes: list[str]) -> Iterator[Entity]:
        """Reads the articles, with the images that belong to each; `notes` gets sentences about images not used."""
        entities = self.articles.entities(requires_images=self.labels is None)
        entities = note_unsearched(entities, self.use.keys, notes)
        return entities if self.labels is None else self.labels.attach(entities, self.articles.articles)

    def run(self, folder: Path, workers: Workers | None = None) -> BuildRun:
        """Returns how the stages run that write to a folder, by default with the plan's workers."""
        return BuildRun(
            folder=folder,
            workers=workers or self.workers(self.encoder, self.fusion, self.columns),
            candidates=self.design.candidates,
            use=self.use,
            codec=self.codec,
            batch=self.batch_size,
            vectors=self.vectors,
        )

    def open(self) -> Index:
        """Opens the finished index.

        Raises:
            ValueError: See `Index.open`.
        """
        weight = self.design.image_weight
        return Index.open(self.out, encoder=self.encoder, fusion=self.fusion, image_weight=weight)
