"""Step 2, fusion rerank: image and question together against the stored tokens of every candidate."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image

from retriever.asking import EntityIndex, TokenIndex
from retriever.borders import trim
from retriever.fusion import KEYPOINTS, WORDS, agreed, fuse
from retriever.image_cache import ImageCache, set_content
from retriever.images import load_image
from retriever.maxsim import ScoreMode, max_sim_spans
from retriever.protocols import Align, Finish, FusionEncoder, Verify
from retriever.texts import blip_caption
from retriever.types import Candidate, Query, ScoredSection

logger = logging.getLogger(__name__)

COMPARED = 3
"""How many of the best candidates' images are laid on the query's."""
_KEPT = 1 << 25
"""Bytes of such images of the index that are kept."""


class FusionRerank:
    """Reranks candidates by equation 5: `alpha * sim_c + (1 - alpha) * max over its sections of sim_m`.

    Unlike in the paper, an entity whose images have tokens of their own (labeled images and, with `search.image_keys`
    above 1, the article's images) scores by the best of these instead; its sections are still ranked by `sim_m`. A
    section also scores well for text that matches the question, and wrong entities have such sections, too; images of
    the entity are better evidence of what the query image shows. They are compared with the query image alone, so how a
    question is worded does not change which entity is recognized.

    Args:
        fusion: The encoder that computed the stored tokens of `index`.
        index: Holds the articles and the tokens.
        alpha: Weight of step 1, unless a query's options set another.
        mode: How tokens are compared.
        align: Lays the images of the best candidates on the query's, which sets their `alignment` if the image by which
            they score is the main one, of which the index has a thumbnail. It costs 5 ms of CPU time, so it is for
            those who weigh it.
        is_undecided: Says of a query's candidates whether this may change the verdict; by default, it always may.
        within: Whether the index has tokens of what is within a main image's border, after those of the image.
        words: Weight of the similarity of words, which is added to an entity's score.
    """

    name = "step2"
    verify: Verify | None = None
    """Verifies candidates by keypoints, where `is_unsure` says that this may change the verdict."""
    is_unsure: Callable[[Sequence[Candidate]], bool] = bool

    def __init__(
        self,
        fusion: FusionEncoder,
        index: EntityIndex,
        alpha: float,
        mode: ScoreMode = "cosine",
        align: Align | None = None,
        is_undecided: Callable[[Sequence[Candidate]], bool] = bool,
        within: bool = False,
        words: float = WORDS,
    ) -> None:
        self.fusion, self.index, self.alpha, self.mode, self.words = fusion, index, alpha, mode, words
        self.align, self.is_undecided, self.within = align, is_undecided, within
        self._images = ImageCache(_KEPT)

    def start(self, queries: Sequence[Query]) -> Finish:
        """Encodes each image with its question and alone; the returned function ranks candidates and their sections.

        `sim_m` stays `None` for sections without stored tokens and for entities without any.
        """
        texts = [(blip_caption(query.question), "") for query in queries]
        tokens = self.fusion.encode_sections([query.image for query in queries], texts)

        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            score_candidates(tokens[::2], tokens[1::2], candidates, self.index, self.mode)
            for candidate in chain.from_iterable(candidates):
                if not candidate.sections:
                    count = len(self.index.entity(candidate.row).sections)
                    candidate.sections = [ScoredSection(position) for position in range(count)]
            pairs = zip(queries, candidates, strict=True)
            ranked = [rank_candidates(own, self._alpha(query), self.words) for query, own in pairs]
            if self.align is not None:  # first: it takes a tenth of the time, and often spares keypoints
                self._align(self.align, queries, ranked)
            if self.verify is not None:
                ranked = [self._verified(self.verify, query, own) for query, own in zip(queries, ranked, strict=True)]
            return ranked

        return finish

    def _verified(self, verify: Verify, query: Query, candidates: list[Candidate]) -> list[Candidate]:
        """Returns the candidates, ranked by the agreement of keypoints, too, if that can change the verdict."""
        if not self.is_unsure(candidates):
            return candidates
        places = verify(query.image, [candidate.row for candidate in candidates])
        for candidate, count in zip(candidates, places, strict=True):
            candidate.places = count
            candidate.score += KEYPOINTS * agreed(count)
        ranked = sorted(candidates, key=lambda candidate: -candidate.score)
        if self.align is not None and ranked[0] is not candidates[0]:
            self._align(self.align, [query], [ranked])
        return ranked

    def _align(self, align: Align, queries: Sequence[Query], ranked: Sequence[Sequence[Candidate]]) -> None:
        """Sets the `alignment` of the best candidates, if the best one can be compared."""
        images, pairs, compared = list[Image.Image](), list[tuple[int, int]](), list[Candidate]()
        for query, own in zip(queries, ranked, strict=True):
            if len(own) < 2 or not self.is_undecided(own) or (best := self._image(own[0])) is None:
                continue
            others = [(one, image) for one in own[1:COMPARED] if (image := self._image(one)) is not None]
            pairs += [(len(images), len(images) + number) for number in range(1, len(others) + 2)]
            images += [query.image, best, *(image for _, image in others)]
            compared += [own[0], *(candidate for candidate, _ in others)]
        for candidate, value in zip(compared, align(images, pairs), strict=True):
            candidate.alignment = value

    def _image(self, candidate: Candidate) -> Image.Image | None:
        """Returns the image by which a candidate scores, or `None` if the index has no thumbnail of it to read."""
        path = self.index.image_path(candidate.row)
        if path is None or candidate.image > (1 if self.within else 0):
            return None
        try:
            return self._small(path, candidate.image > 0)
        except (OSError, ValueError) as error:
            logger.warning("not compared with the query's image: %s", error)
            return None

    def _small(self, path: Path, within: bool) -> Image.Image | None:
        """Returns an image of the index, or what is within its border, `None` if it has none.

        Recent ones are kept, and with them their pixels as models want them.
        """
        state = path.stat()
        kind, content = "within" if within else "small", f"{path} {state.st_mtime_ns} {state.st_size}"
        image: Image.Image | Literal[False] | None = self._images.get(kind, content)
        if image is None:
            whole = load_image(path)
            image = trim(whole) if within else whole
            image = False if within and image is whole else image  # kept, too, or each query would read the file again
            if image:
                set_content(image, f"{content} {kind}")
            self._images.put(kind, content, image, 3 * image.width * image.height if image else 1)
        return image or None

    def _alpha(self, query: Query) -> float:
        return self.alpha if query.options.alpha is None else query.options.alpha


@torch.inference_mode()
def score_candidates(
    tokens: torch.Tensor,
    alone: torch.Tensor,
    candidates: Sequence[Sequence[Candidate]],
    index: TokenIndex,
    mode: ScoreMode = "cosine",
) -> None:
    """Sets `sim_m` and the sections of all candidates, best first, in one call of MaxSim.

    Candidates without stored tokens get no `sim_m` and no sections.

    Args:
        tokens: Fused tokens of the queries' images and questions, [B, N, H], not normalized, to score sections.
        alone: Those of the images without text, [B, N, H], to score images.
        candidates: The candidates of each query.
        index: Holds the tokens of the candidates.
        mode: How tokens are compared.
    """
    pairs = [(query, candidate) for query, ranked in enumerate(candidates) for candidate in ranked]
    if not pairs:
        return
    spans = [index.token_rows(candidate.row) for _, candidate in pairs]
    counts = [len(index.section_rows(candidate.row)) for _, candidate in pairs]
    stored, asked = index.gather(spans), [query for query, _ in pairs]
    parts = [span[:count] for span, count in zip(spans, counts, strict=True)]
    parts += [span[count:] for span, count in zip(spans, counts, strict=True)]
    firsts = np.concatenate([stored.first, stored.first + np.array(counts, np.int64)])
    rows = [*asked, *(len(tokens) + query for query in asked)]
    scores = max_sim_spans(torch.cat([tokens, alone]), replace(stored, first=firsts), rows, parts, mode)
    for (_, candidate), sims, images in zip(pairs, scores[: len(pairs)], scores[len(pairs) :], strict=True):
        candidate.sim_m = max(images or sims, default=None)
        candidate.image, candidate.images = images.index(max(images)) if images else 0, len(images)
        sections = [ScoredSection(position, sim, score=sim) for position, sim in enumerate(sims)]
        candidate.sections = sorted(sections, key=lambda section: -(section.sim_m or 0.0))


def rank_candidates(candidates: Sequence[Candidate], alpha: float, words: float = WORDS) -> list[Candidate]:
    """Sets the candidates' scores by equation 5, with those of `words`, and returns them, best first.

    Equal scores keep their order.
    """
    fused = fuse([c.sim_c for c in candidates], [c.sim_m for c in candidates], alpha)
    for candidate, score in zip(candidates, fused, strict=True):
        candidate.score = score + words * (candidate.sim_w or 0.0)
    return sorted(candidates, key=lambda candidate: -candidate.score)
