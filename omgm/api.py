"""The Python API: opens or builds an index and asks it questions."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from PIL import Image

from chat_models.background import BackgroundLoop
from indexes.limits import MAX_BAD
from indexes.store.index import Index
from omgm import opening, parts
from omgm.kinds import kind_of
from omgm.profile import load_profile
from omgm.results import Answer, Retrieval
from omgm.search_params import Images, SearchParams, each_of
from omgm.settings import Profile
from retriever.asking import Generator
from retriever.filters import Values, options_of, scoped
from retriever.images import ImageError, ImageInput, load_image
from retriever.malloc import give_back_memory
from retriever.pipeline import Retriever
from retriever.protocols import DualEncoder, FusionEncoder, Summarizer, TextReranker
from retriever.results import RankedEntity
from retriever.types import NO_IMAGE, Options, Query, RetrievalResult

R = TypeVar("R", bound=Retrieval)
Pair = tuple[Images, str]
"""What `OMGM.ask` takes: images with a question about them, or `None` and a question."""


class OMGM:
    """Answers questions about images from an index, with the source of every answer.

    Create one with `OMGM.open` or `OMGM.build`, or from your own parts. It is thread-safe; models run one batch at a
    time, and on a GPU two, each in other steps.

    Args:
        retriever: The retrieval steps over an index.
        generator: Writes the answer or extracts it from the evidence.

    Example:
        >>> from omgm import OMGM
        >>> omgm = OMGM.open("index")  # doctest: +SKIP
        >>> omgm.ask("photo.jpg", "Who built this?").answer  # doctest: +SKIP
        'Gustave Eiffel'
    """

    def __init__(self, retriever: Retriever[Index], generator: Generator) -> None:
        self.retriever = retriever
        self.generator = generator
        self._loop = BackgroundLoop()

    @classmethod
    def open(
        cls,
        index: str | Path,
        profile: str | Path | Profile = "embedded",
        *,
        settings: Mapping[str, Any] | None = None,
        encoder: DualEncoder | None = None,
        fusion: FusionEncoder | None = None,
        reranker: TextReranker | None = None,
        generator: Generator | None = None,
    ) -> Self:
        """Opens an index on disk.

        Args:
            index: The folder that `build` or `omgm build-index` wrote.
            profile: A name from `configs/`, a file, or a loaded profile; the index must have been built with its
                models.
            settings: Overrides of the profile's settings by their dotted names, such as `{"search.k": 50}`.
            encoder: Your own model for step 1.
            fusion: Your own model for step 2.
            reranker: Your own model for step 3.
            generator: Your own generator, instead of the profile's.

        Raises:
            ValueError: The index or a model is missing, or they do not match.
        """
        loaded = _profile(profile, settings)
        retriever = opening.open_retriever(
            loaded, Path(index), encoder=encoder, fusion=fusion, reranker=reranker, live=True
        )
        return cls(retriever, generator or parts.build_generator(loaded))

    @classmethod
    def build(
        cls,
        kb: str | Path,
        out: str | Path,
        profile: str | Path | Profile = "embedded",
        *,
        images: str | Path | None = None,
        kb_format: str | None = None,
        names: Mapping[str, str] | None = None,
        fields: Sequence[str] = (),
        max_bad: float = MAX_BAD,
        name: str | None = None,
        overwrite: bool = False,
        progress: bool = True,
        settings: Mapping[str, Any] | None = None,
        summarizer: Summarizer | None = None,
        encoder: DualEncoder | None = None,
        fusion: FusionEncoder | None = None,
        reranker: TextReranker | None = None,
        generator: Generator | None = None,
    ) -> Self:
        """Builds the index of a knowledge base and opens it; an index that is already complete is only opened.

        A build that was killed resumes when it is restarted.

        Args:
            kb: The knowledge base: E-VQA's JSON, JSON lines, Parquet, a folder of Markdown, a Kiwix ZIM file, …
            out: The index's folder.
            profile: As in `open`.
            images: The folder with the knowledge base's images; by default those in it or next to it.
            kb_format: The knowledge base's format; guessed by default.
            names: The knowledge base's names of entity fields, such as `{"title": "display_name"}`.
            fields: The knowledge base's fields that searches can be limited by, such as `["category"]`.
            max_bad: Share of bad entries, in 0..1, above which the build fails; up to that they are skipped.
            name: The index's name; by default the knowledge base's file name.
            overwrite: Whether to replace an index that was built from something else.
            progress: Whether to show progress bars.
            settings: As in `open`.
            summarizer: Writes the summaries that step 1 searches, instead of the profile's.
            encoder: As in `open`.
            fusion: As in `open`.
            reranker: As in `open`.
            generator: As in `open`.

        Raises:
            ValueError: The input is invalid, or `out` contains something else.
        """
        loaded = _profile(profile, settings)
        encoder, fusion = encoder or parts.build_encoder(loaded), fusion or parts.build_fusion(loaded)
        # found by its name: who only asks needs neither readers nor stages
        kind_of("omgm.builders", "files")(
            loaded,
            progress=progress,
            kb=Path(kb),
            out=Path(out),
            images=None if images is None else Path(images),
            kb_format=kb_format,
            names={**(names or {}), "fields": "\n".join(fields)} if fields else names,
            max_bad=max_bad,
            name=name,
            overwrite=overwrite,
            summarizer=summarizer,
            encoder=encoder,
            fusion=fusion,
        )
        return cls.open(out, loaded, encoder=encoder, fusion=fusion, reranker=reranker, generator=generator)

    @property
    def index(self) -> Index:
        """The index: its entities, their articles and summaries."""
        return self.retriever.index

    def ask(self, image: Images, question: str, **options: Unpack[SearchParams]) -> Answer:
        """Answers a question about an image, or one that names what it is about.

        Args:
            image: A path, bytes, a PIL image, or an array [H, W] or [H, W, 3 or 4] of uint8; a list of several, such as
                both sides of a thing, or two things to compare; `None` without one.
            question: The question.
            **options: `k`, `alpha`, `beta`, `filter` and `entity`, see `omgm.search_params.SearchParams`.

        Raises:
            ValueError: The image is unreadable, the question is empty, or an option is out of range.
            ChatError: The generator's server failed.
        """
        [retrieval] = self._retrieve([_query(image, question, options_of(self.index, **options))])
        return _refer(self._loop.submit(self._answer(retrieval)).result(), image)

    async def ask_async(self, image: Images, question: str, **options: Unpack[SearchParams]) -> Answer:
        """Answers a question without blocking the caller's event loop; see `ask`."""
        query = await asyncio.to_thread(_query, image, question, options_of(self.index, **options))
        return _refer((await self._answered(query))[1], image)

    async def retrieve_query(self, query: Query) -> RetrievalResult:
        """Runs the retrieval steps for one query."""
        query = replace(query, options=scoped(query.options))
        [result] = await asyncio.to_thread(self.retriever.retrieve, [query])
        return result

    async def answer_query(self, query: Query) -> tuple[str | None, RetrievalResult]:
        """Answers a query; returns the answer (`None` if there is none) and the result of the retrieval steps.

        Raises:
            ChatError: The generator's server failed.
        """
        result, answer = await self._answered(query)
        return answer.answer, result

    def retrieve(
        self, pairs: Iterable[Pair], *, batch_size: int = 32, **options: Unpack[SearchParams]
    ) -> list[Retrieval]:
        """Retrieves for many pairs of image and question, in batches.

        Args:
            pairs: Images, as in `ask`, with their questions.
            batch_size: Number of pairs per batch.
            **options: As in `ask`.

        Raises:
            ValueError: As in `ask`; the message has the position of the pair.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        given = options_of(self.index, **options)
        found: list[Retrieval] = []
        queries: list[Query] = []
        images: list[Images] = []
        for number, pair in enumerate(pairs):
            try:
                image, question = pair
                queries.append(_query(image, question, given, str(number)))
                images.append(image)
            except ValueError as error:
                raise ValueError(f"pair {number}: {error}") from error
            if len(queries) == batch_size:
                found += map(_refer, self._retrieve(queries), images)
                queries, images = [], []
                give_back_memory()
        found += map(_refer, self._retrieve(queries), images)
        queries.clear()
        give_back_memory()
        return found

    async def retrieve_async(
        self, pairs: Iterable[Pair], *, batch_size: int = 32, **options: Unpack[SearchParams]
    ) -> list[Retrieval]:
        """Retrieves for many pairs of image and question without blocking the event loop; see `retrieve`."""
        return await asyncio.to_thread(self.retrieve, pairs, batch_size=batch_size, **options)

    def nearest(
        self, image: ImageInput, *, k: int | None = None, filter: Values | None = None
    ) -> tuple[RankedEntity, ...]:
        """Finds the entities most similar to an image with step 1 alone, best first.

        Args:
            image: As in `ask`. It is compared with the index's search keys (`search.candidates`), by default summaries.
            k: Number of entities, instead of the profile's.
            filter: As in `ask`.

        Raises:
            ValueError: The image is unreadable, or `k` is out of range.
        """
        options = options_of(self.index, filter, k=k)
        [retrieval] = self._retrieve([Query(load_image(image), "", options=options)], steps=1)
        return retrieval.candidates

    def close(self) -> None:
        """Stops the thread that generators run in; it restarts if the object is used again."""
        self._loop.close()

    def __enter__(self) -> Self:
        """Returns the object, which is closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the object; see `close`."""
        self.close()

    def _retrieve(self, queries: Sequence[Query], steps: int | None = None) -> list[Retrieval]:
        results = self.retriever.retrieve(queries, steps=steps) if queries else []
        return [Retrieval.of(self.index, query, result) for query, result in zip(queries, results, strict=True)]

    async def _answered(self, query: Query) -> tuple[RetrievalResult, Answer]:
        result = await self.retrieve_query(query)
        retrieval = await asyncio.to_thread(Retrieval.of, self.index, query, result)
        return result, await asyncio.wrap_future(self._loop.submit(self._answer(retrieval)))

    async def _answer(self, retrieval: Retrieval) -> Answer:
        started = time.perf_counter()
        [generation] = await self.generator.generate([retrieval.request()])
        return Answer.to(retrieval, generation, (time.perf_counter() - started) * 1000)


def _profile(profile: str | Path | Profile, settings: Mapping[str, Any] | None) -> Profile:
    if isinstance(profile, Profile):
        if settings:
            raise ValueError("settings: the profile is already loaded; pass the settings to load_profile instead")
        return profile
    return load_profile(str(profile), settings or {})


def _refer(result: R, image: Images) -> R:
    """Returns a result that refers to its images instead of holding pixels, unless an image is a stream."""
    given = each_of(image)
    if not given or any(hasattr(one, "read") for one in given):
        return result
    first, *more = [
        os.path.abspath(os.path.expanduser(one)) if isinstance(one, str | os.PathLike) else one for one in given
    ]
    return replace(result, picture=first, more=tuple(more))


def _query(image: Images, question: str, options: Options, name: str = "") -> Query:
    if not isinstance(question, str) or not (question := question.strip()):
        raise ValueError("the question is empty")
    first, *more = [_loaded(one, number, image) for number, one in enumerate(each_of(image), start=1)] or [NO_IMAGE]
    return Query(first, question, name, options, more=tuple(more))


def _loaded(one: ImageInput, number: int, image: Images) -> Image.Image:
    try:
        return load_image(one)
    except ImageError as error:
        if one is image:
            raise
        raise ImageError(error.problem, str(error), f"image {number}") from error
