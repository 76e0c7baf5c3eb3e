"""What the paper's ablations change: what step 2 sees, how it compares tokens, what the generator reads."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from evaluation.records import Line
from retriever.fusion import fuse
from retriever.protocols import EntityIndex, Finish, FusionEncoder, Generator
from retriever.texts import blip_caption
from retriever.types import Candidate, Generation, GenerationRequest, Query, RetrievalResult, ScoredSection

Similarity = Callable[[Tensor, Tensor], Tensor]
"""Takes a query's tokens [N, H] and every section's first token [R, H], all normalized; returns [R]."""
Choice = tuple[str | None, int | None]
"""An entity and the index, as published, of its section to read."""

_GRAY = Image.new("RGB", (224, 224), (127, 127, 127))


class Blinded:
    """A fusion encoder that is kept from the picture (it gets a gray one) or from the text (it gets none).

    Args:
        fusion: The encoder.
        picture: Whether it sees the picture.
        text: Whether it sees the text.
    """

    def __init__(self, fusion: FusionEncoder, *, picture: bool = True, text: bool = True) -> None:
        self._fusion, self._picture, self._text = fusion, picture, text
        kept = [name for name, seen in (("picture", picture), ("text", text)) if seen]
        self.fingerprint = f"{fusion.fingerprint} seeing {' and '.join(kept) or 'nothing'}"

    @property
    def token_shape(self) -> tuple[int, int]:
        """Number of token vectors and their length."""
        return self._fusion.token_shape

    def encode(self, images: Sequence[Image.Image], texts: Sequence[str]) -> Tensor:
        """Returns the tokens of what it sees of each pair, float32 [N, tokens, H]."""
        return self._fusion.encode(images if self._picture else [_GRAY] * len(images), self._seen(texts))

    def encode_sections(self, image: Image.Image, texts: Sequence[str]) -> Tensor:
        """Returns the tokens of what it sees of one picture with each text, float32 [N, tokens, H]."""
        return self._fusion.encode_sections(image if self._picture else _GRAY, self._seen(texts))

    def _seen(self, texts: Sequence[str]) -> Sequence[str]:
        return texts if self._text else [""] * len(texts)


def clip_itc(query: Tensor, firsts: Tensor) -> Tensor:
    """Returns CLIP's comparison: the first token of the query with the first of each section."""
    return firsts @ query[0]


def qformer_itc(query: Tensor, firsts: Tensor) -> Tensor:
    """Returns the Q-Former's comparison: the query token that is nearest to the first token of each section."""
    return (firsts @ query.T).amax(dim=1)


class FirstTokenRerank:
    """Step 2 by the first stored token of each section alone; entities are ordered by their best section (alpha = 0).

    Args:
        fusion: Has made the stored tokens of `index`.
        index: Where articles and tokens are.
        similarity: How a query's tokens are compared with the first ones of sections.
    """

    name = "step2"

    def __init__(self, fusion: FusionEncoder, index: EntityIndex, similarity: Similarity) -> None:
        self._fusion, self._index, self._similarity = fusion, index, similarity

    def start(self, queries: Sequence[Query]) -> Finish:
        """Returns what orders candidates, best first, and the sections of each."""
        texts = [blip_caption(query.question) for query in queries]
        tokens = functional.normalize(self._fusion.encode([query.image for query in queries], texts).float(), dim=-1)

        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            return [self._ordered(query, found) for query, found in zip(tokens, candidates, strict=True)]

        return finish

    @torch.inference_mode()
    def _ordered(self, query: Tensor, candidates: list[Candidate]) -> list[Candidate]:
        spans = [self._index.section_rows(candidate.row) for candidate in candidates]
        stored = self._index.gather(spans)
        # a store in GPU memory hands over all its sections: take the candidates' rows before converting
        own = [
            row
            for start, span in zip(stored.first.tolist(), spans, strict=True)
            for row in range(start, start + len(span))
        ]
        rows = torch.tensor(own, dtype=torch.int64, device=stored.values.device)
        firsts = stored.values[rows, 0].float()
        if stored.scales is not None:
            firsts = firsts * stored.scales[rows, 0].float()[:, None]
        sims = iter(self._similarity(query.to(firsts.device), firsts).tolist())
        for candidate, span in zip(candidates, spans, strict=True):
            found = list(itertools.islice(sims, len(span)))
            candidate.sim_m = max(found, default=None)
            unscored = [ScoredSection(place) for place in range(len(self._index.entity(candidate.row).sections))]
            scored = [ScoredSection(place, sim, score=sim) for place, sim in enumerate(found)]
            candidate.sections = sorted(scored, key=lambda section: -(section.sim_m or 0.0)) or unscored
        scores = fuse([None] * len(candidates), [candidate.sim_m for candidate in candidates], 0.0)
        for candidate, score in zip(candidates, scores, strict=True):
            candidate.score = score
        return sorted(candidates, key=lambda candidate: -candidate.score)


class Replay:
    """Gives what a finished run found to a generator again, with another choice of the section: no model is asked.

    Args:
        index: The run's.
        lines: Its records.
        choose: Takes a record, returns what to read.
    """

    def __init__(self, index: EntityIndex, lines: Iterable[Line], choose: Callable[[Line], Choice]) -> None:
        self.index = index
        self._choices = {line["id"]: choose(line) for line in lines}

    def retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        """Returns for each query the chosen section alone, without rankings and times."""
        return [RetrievalResult(query.id, self._candidates(*self._choices[query.id]), {}) for query in queries]

    def _candidates(self, entity: str | None, section: int | None) -> list[Candidate]:
        row = None if entity is None else self.index.row_of(entity)
        if row is None:
            return []
        published = [found.index for found in self.index.entity(row).sections]
        return [Candidate(row, sections=[ScoredSection(published.index(section))] if section in published else [])]


class WholeArticle:
    """A generator that reads the whole article which its evidence is from.

    Args:
        generator: What answers.
        index: Where the articles are.
    """

    def __init__(self, generator: Generator, index: EntityIndex) -> None:
        self._generator, self._index = generator, index
        self.name = f"{generator.name}, whole articles"

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer for each request."""
        return await self._generator.generate([self._whole(request) for request in requests])

    def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        """Yields the answer piece by piece, and last the whole."""
        return self._generator.stream(self._whole(request))

    def _whole(self, request: GenerationRequest) -> GenerationRequest:
        evidence = request.evidence
        row = None if evidence is None else self._index.row_of(evidence.entity_id)
        if evidence is None or row is None:
            return request
        sections = self._index.entity(row).sections
        text = "\n\n".join(f"{section.title}\n{section.text}" for section in sections)
        return replace(request, evidence=replace(evidence, text=text))
