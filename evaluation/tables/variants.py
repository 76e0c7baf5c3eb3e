"""Variants for the paper's ablations: what step 2 sees, how it compares tokens, what the generator reads."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from evaluation.ablation import SectionChoice
from evaluation.records import QueryRecord
from retriever.asking import EntityIndex, Generator
from retriever.codecs import EncodedTokens, unpack_tokens
from retriever.fusion import fuse
from retriever.protocols import Finish, FusionEncoder
from retriever.texts import blip_caption
from retriever.token_codec import TokenCodec
from retriever.types import Candidate, Generation, GenerationRequest, Query, RetrievalResult, ScoredSection

Similarity = Callable[[Tensor, Tensor], Tensor]
"""Takes a query's tokens [N, H] and the first token of every section [R, H], all normalized; returns [R]."""

_GRAY = Image.new("RGB", (224, 224), (127, 127, 127))


class BlindedEncoder:
    """A fusion encoder that is blind to the image (it gets a gray one) or to the text (it gets an empty one).

    Args:
        fusion: The encoder.
        image: Whether it sees the image.
        text: Whether it sees the text.
    """

    def __init__(self, fusion: FusionEncoder, *, image: bool = True, text: bool = True) -> None:
        self._fusion, self._image, self._text = fusion, image, text
        # The manifests of existing indexes contain the word "picture".
        inputs = [name for name, seen in (("picture", image), ("text", text)) if seen]
        self.fingerprint = f"{fusion.fingerprint} seeing {' and '.join(inputs) or 'nothing'}"

    @property
    def token_shape(self) -> tuple[int, int]:
        """Number of token vectors and their length."""
        return self._fusion.token_shape

    def encode(self, images: Sequence[Image.Image], texts: Sequence[str]) -> Tensor:
        """Returns the tokens of each pair, float32 [N, tokens, H]."""
        return self._fusion.encode(images if self._image else [_GRAY] * len(images), self._visible(texts))

    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> Tensor:
        """Returns the tokens of each image with each of its texts, float32 [N, tokens, H]."""
        shown = images if self._image else [_GRAY] * len(images)
        return self._fusion.encode_sections(shown, [self._visible(own) for own in texts])

    def _visible(self, texts: Sequence[str]) -> Sequence[str]:
        return texts if self._text else [""] * len(texts)


def clip_itc(query: Tensor, firsts: Tensor) -> Tensor:
    """Compares tokens as in CLIP: the first query token with the first token of each section."""
    return firsts @ query[0]


def qformer_itc(query: Tensor, firsts: Tensor) -> Tensor:
    """Compares tokens as in the Q-Former's ITC: the best of all query tokens for the first token of each section."""
    return (firsts @ query.T).amax(dim=1)


class FirstTokenRerank:
    """Step 2 on only the first stored token of each section; entities rank by their best section (alpha = 0).

    Args:
        fusion: The encoder that the stored tokens of `index` were made with.
        index: The index.
        similarity: Compares a query's tokens with the first tokens of sections.
    """

    name = "step2"

    def __init__(self, fusion: FusionEncoder, index: EntityIndex, similarity: Similarity) -> None:
        self._fusion, self._index, self._similarity = fusion, index, similarity

    def start(self, queries: Sequence[Query]) -> Finish:
        """Encodes the queries; the returned function orders candidates and their sections, best first."""
        texts = [blip_caption(query.question) for query in queries]
        tokens = functional.normalize(self._fusion.encode([query.image for query in queries], texts).float(), dim=-1)

        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            return [self._ordered(query, listed) for query, listed in zip(tokens, candidates, strict=True)]

        return finish

    @torch.inference_mode()
    def _ordered(self, query: Tensor, candidates: list[Candidate]) -> list[Candidate]:
        spans = [self._index.token_rows(candidate.row) for candidate in candidates]
        stored = self._index.gather(spans)
        # A store in GPU memory is returned whole: select the candidates' rows before converting anything.
        starts = zip(stored.first.tolist(), spans, strict=True)
        wanted = [row for start, span in starts for row in range(start, start + len(span))]
        rows = torch.tensor(wanted, dtype=torch.int64, device=stored.values.device)
        found = EncodedTokens(stored.values[rows, :1], None if stored.scales is None else stored.scales[rows, :1])
        if found.values.dtype == torch.uint8:  # packed signs, which MaxSim reads without unpacking
            found = unpack_tokens(found, TokenCodec("bit1"))
        firsts = found.values[:, 0].float()
        if found.scales is not None:
            firsts = firsts * found.scales.float()
        sims = iter(self._similarity(query.to(firsts.device), firsts).tolist())
        for candidate, span in zip(candidates, spans, strict=True):
            own = list(itertools.islice(sims, len(span)))
            sections = len(self._index.section_rows(candidate.row))
            candidate.sim_m = max(own[sections:] or own, default=None)
            unscored = [ScoredSection(place) for place in range(len(self._index.entity(candidate.row).sections))]
            scored = [ScoredSection(place, sim, score=sim) for place, sim in enumerate(own[:sections])]
            candidate.sections = sorted(scored, key=lambda section: -(section.sim_m or 0.0)) or unscored
        scores = fuse([None] * len(candidates), [candidate.sim_m for candidate in candidates], 0.0)
        for candidate, score in zip(candidates, scores, strict=True):
            candidate.score = score
        return sorted(candidates, key=lambda candidate: -candidate.score)


class RecordedRetriever:
    """A retriever that replays a finished run's results with a different choice of section; no model runs.

    Args:
        index: The index of the run.
        records: Its records.
        choose: Returns the entity and section to read for a record.
    """

    def __init__(
        self, index: EntityIndex, records: Iterable[QueryRecord], choose: Callable[[QueryRecord], SectionChoice]
    ) -> None:
        self.index = index
        self._choices = {record.id: choose(record) for record in records}

    def retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        """Returns the chosen section for each query, without rankings and timings."""
        return [RetrievalResult(query.id, self._candidates(*self._choices[query.id]), {}) for query in queries]

    def _candidates(self, entity: str | None, section: int | None) -> list[Candidate]:
        row = None if entity is None else self.index.row_of(entity)
        if row is None:
            return []
        published = [listed.index for listed in self.index.entity(row).sections]
        return [Candidate(row, sections=[ScoredSection(published.index(section))] if section in published else [])]


class ArticleGenerator:
    """A generator that reads the whole article of its evidence."""

    def __init__(self, generator: Generator, index: EntityIndex) -> None:
        self._generator, self._index = generator, index
        self.name = f"{generator.name}, whole articles"

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer for each request."""
        return await self._generator.generate([self._with_article(request) for request in requests])

    def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        """Yields the answer piece by piece, and the complete one last."""
        return self._generator.stream(self._with_article(request))

    def _with_article(self, request: GenerationRequest) -> GenerationRequest:
        evidence = request.evidence
        row = None if evidence is None else self._index.row_of(evidence.entity_id)
        if evidence is None or row is None:
            return request
        sections = self._index.entity(row).sections
        text = "\n\n".join(f"{section.title}\n{section.text}" for section in sections)
        return replace(request, evidence=replace(evidence, text=text))
