"""Validates step 2 as it is used: its ranking of what step 1 found for held-out images, everything stored scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from retriever.fusion import choose_weight, fuse
from retriever.protocols import TextReranker
from training.losses import mean_max_sim
from training.processes import Processes
from training.reranker.batches import BatchMaker
from training.reranker.fusion_weight import GRID, best_alpha
from training.reranker.model import Reranker
from training.reranker.samples import SampleSet

MOST_QUESTIONS = 1000
MOST_ROWS = 50_000
"""Different sections and images that are encoded, at most: 0.4 GB of tokens for the embedded model, 2.5 for
BLIP-2."""
_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """A validated question with the scores of what step 1 found for its image.

    Attributes:
        sample: The question's row.
        entities: Entities in step 1's order.
        right: Whether each is gold.
        sim_c: Their scores in step 1, `None` if unknown.
        sim_m: For each entity, the scores of its sections in step 2; empty without an image or sections.
        evidence: `sim_m` of the evidence.
        images: For each entity, the scores of its images that have tokens of their own; empty if it has none.
    """

    sample: int
    entities: list[int]
    right: list[bool]
    sim_c: list[float | None]
    sim_m: list[list[float]]
    evidence: float
    images: list[list[float]]

    @property
    def best_sim_m(self) -> list[float | None]:
        """The entities' scores in step 2: the best image's or, without images of their own, the best section's."""
        return [max(own or sims, default=None) for sims, own in zip(self.sim_m, self.images, strict=True)]

    def ranking(self, alpha: float) -> list[int]:
        """Returns the places in `entities` by equation 5, best first; ties keep step 1's order."""
        fused = fuse(self.sim_c, self.best_sim_m, alpha)
        return sorted(range(len(fused)), key=lambda place: -fused[place])

    def rank(self, alpha: float) -> int | None:
        """Returns the rank of the first gold entity, from 1, or `None` if step 1 missed it."""
        return next((rank for rank, place in enumerate(self.ranking(alpha), 1) if self.right[place]), None)


class Validation:
    """Validates a model in training.

    Args:
        samples: The samples; those held out are validated on, as many as fit the limits.
        make: Makes tensors of pairs.
        processes: They share the questions.
        labeled: Whether the images that are trained on will be labeled images of the index.
    """

    def __init__(self, samples: SampleSet, make: BatchMaker, processes: Processes, labeled: bool = False):
        self.samples, self.make, self.processes = samples, make, processes
        self._labeled: dict[int, list[int]] = {}
        for sample in samples.training if labeled else ():
            of_entity = self._labeled.setdefault(int(samples.gold[sample]), [])
            if (image := int(samples.query_image[sample])) not in of_entity:
                of_entity.append(image)
        self.questions = self._selected()

    def __len__(self) -> int:
        """Returns the number of validated questions."""
        return len(self.questions)

    @torch.no_grad()
    def score(self, model: Reranker) -> list[ScoredQuestion]:
        """Scores every question with the model, which must be in eval mode."""
        mine = self.questions[self.processes.rank :: self.processes.count]
        samples = self.samples
        query_pairs = [(int(samples.query_image[i]), 0, int(samples.question[i])) for i in mine]
        pairs = {pair for i in mine for pair in self._candidates(i)}
        queries = self._encode(model, query_pairs)
        rows = {pair: row for row, pair in enumerate(sorted(pairs))}
        tokens = self._encode(model, list(rows))
        scored = [self._scored(i, queries[number], tokens, rows) for number, i in enumerate(mine)]
        parts = self.processes.gather(scored)
        return sorted((question for part in parts for question in part), key=lambda question: question.sample)

    def metrics(self, model: Reranker) -> dict[str, float]:
        """Returns the figures of the model: with the best alpha, and with step 2 alone."""
        scored = self.score(model)
        alpha = best_alpha(scored)
        used = 0.0 if alpha is None else alpha
        return {
            "recall@1": recall_at_1(scored, used),
            "alpha": used,
            "recall@1_alone": recall_at_1(scored, 0.0),
            "section_recall": section_recall(self.samples, scored, used),
            "validation_loss": self._loss(scored, float(model.temperature)),
            "temperature": float(model.temperature),
        }

    def _candidates(self, sample: int) -> list[tuple[int, int, int]]:
        """Returns (image, view, section) of everything that a question is compared with."""
        samples = self.samples
        entities = {int(samples.gold[sample]), *samples.found[samples.found_by(sample)].tolist()}
        return [pair for entity in sorted(entities) for pair in (*self._sections(entity), *self._shown(entity))]

    def _sections(self, entity: int) -> list[tuple[int, int, int]]:
        image = int(self.samples.main_image[entity])
        return [(image, 0, section) for section in self.samples.sections_of(entity)] if image >= 0 else []

    def _shown(self, entity: int) -> list[tuple[int, int, int]]:
        """Returns the images that have tokens of their own: those of an article with several, and labeled ones."""
        images = (*self.samples.images_of(entity), *self._labeled.get(entity, ()))
        return [(image, 0, len(self.make.texts) - 1) for image in images]

    def _encode(self, model: Reranker, pairs: Sequence[tuple[int, int, int]]) -> Tensor:
        """Returns the normalized tokens of pairs, [N, 32, H], in half precision: millions of them must fit."""
        device = model.fusion.query_tokens.device
        count, width = model.fusion.token_shape
        tokens = torch.empty(len(pairs), count, width, dtype=torch.float16, device=device)
        for start in range(0, len(pairs), _AT_ONCE):
            places, different = self.make.pairs(pairs[start : start + _AT_ONCE])
            encoded = functional.normalize(model.tokens(different.to(device)), dim=-1)
            tokens[start : start + _AT_ONCE] = encoded[places.to(device)].half()
        return tokens

    def _scored(
        self, sample: int, query: Tensor, tokens: Tensor, rows: dict[tuple[int, int, int], int]
    ) -> ScoredQuestion:
        samples = self.samples
        part = samples.found_by(sample)
        entities = [int(entity) for entity in samples.found[part]]
        wanted = self._candidates(sample)
        sims = mean_max_sim(query[None], tokens[[rows[pair] for pair in wanted]][None])[0].tolist()
        found = dict(zip(wanted, sims, strict=True))
        return ScoredQuestion(
            sample,
            entities,
            samples.right[part].tolist(),
            [None if np.isnan(sim) else float(sim) for sim in samples.similarity[part]],
            [[found[pair] for pair in self._sections(entity)] for entity in entities],
            found[int(samples.main_image[samples.gold[sample]]), 0, int(samples.evidence[sample])],
            [[found[pair] for pair in self._shown(entity)] for entity in entities],
        )

    def _loss(self, scored: Sequence[ScoredQuestion], temperature: float) -> float:
        """Returns equation 6 of the evidence against every section of the entities that are not gold."""
        losses = []
        for question in scored:
            wrong = [sims for sims, right in zip(question.sim_m, question.right, strict=True) if not right]
            logits = torch.tensor([question.evidence, *(sim for sims in wrong for sim in sims)]) / temperature
            losses.append(float(logits.logsumexp(0) - logits[0]))
        return sum(losses) / len(losses)

    def _selected(self) -> list[int]:
        """Returns held-out samples in a seeded order, as many as the limits allow."""
        samples, selected, entities, rows = self.samples, list[int](), set[int](), 0
        for sample in np.random.default_rng([self.make.order.seed, 2]).permutation(samples.validation).tolist():
            further = {int(samples.gold[sample]), *samples.found[samples.found_by(sample)].tolist()} - entities
            rows += sum(len(samples.sections_of(entity)) + len(self._shown(entity)) for entity in further)
            if selected and (rows > MOST_ROWS or len(selected) == MOST_QUESTIONS):
                break
            entities |= further
            selected.append(sample)
        return selected


def recall_at_1(scored: Sequence[ScoredQuestion], alpha: float) -> float:
    """Returns the share of questions whose gold entity comes first."""
    return sum(question.rank(alpha) == 1 for question in scored) / len(scored)


def section_recall(samples: SampleSet, scored: Sequence[ScoredQuestion], alpha: float) -> float:
    """Returns the share of questions whose evidence comes first by step 2 alone, in the entity that comes first."""
    return _section_recall(samples, scored, alpha, {}, 1.0)


def best_beta(
    samples: SampleSet,
    scored: Sequence[ScoredQuestion],
    alpha: float,
    reranker: TextReranker,
    question_of: dict[int, str],
    passages_of: dict[int, list[str]],
) -> tuple[float, float]:
    """Returns the beta that `choose_weight` takes by section recall@1, and the recall that it reaches.

    Args:
        samples: The samples.
        scored: Validated questions.
        alpha: Weight of step 1, which decides the entity that comes first.
        reranker: Step 3's model.
        question_of: The question of each sample.
        passages_of: The passages of each gold entity.
    """
    found = [question for question in scored if question.rank(alpha) == 1]
    golds = [int(samples.gold[question.sample]) for question in found]
    sims = reranker.score([question_of[question.sample] for question in found], [passages_of[gold] for gold in golds])
    sim_t = {question.sample: row.tolist() for question, row in zip(found, sims, strict=True)}
    recall = {beta: _section_recall(samples, scored, alpha, sim_t, beta) for beta in GRID}
    beta = choose_weight(recall, len(scored))
    return beta, recall[beta]


def _section_recall(
    samples: SampleSet,
    scored: Sequence[ScoredQuestion],
    alpha: float,
    sim_t: dict[int, list[float]],
    beta: float,
) -> float:
    hits = 0
    for question in scored:
        top = question.ranking(alpha)[0] if question.entities else None
        if top is None or question.entities[top] != samples.gold[question.sample] or not question.sim_m[top]:
            continue
        sims = question.sim_m[top]
        fused = fuse(sims, sim_t.get(question.sample, [None] * len(sims)), beta)
        best = max(range(len(fused)), key=fused.__getitem__)
        hits += samples.sections_of(question.entities[top])[best] == int(samples.evidence[question.sample])
    return hits / len(scored)
