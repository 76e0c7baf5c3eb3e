"""Validates step 2 as it is used: its ranking of step 1's candidates for held-out images, with all stored tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from retriever.codecs import EncodedTokens, encode_tokens, unpack_tokens
from retriever.gpu import to_device
from retriever.step2_rerank import score_candidates
from retriever.token_codec import TokenCodec
from retriever.types import Candidate, StoredTokens
from training.processes import Processes
from training.reranker.batches import BatchMaker
from training.reranker.data import Serving
from training.reranker.fusion_weight import ScoredQuestion, best_alpha, recall_at_1, section_recall
from training.reranker.model import Reranker
from training.reranker.samples import SampleSet, compared_entities, labeled_images

_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class EncodedEntities:
    """The tokens of entities in memory, stored as in an index (implements `TokenIndex`).

    Attributes:
        rows: The rows of each entity: sections, then images.
        sections: The number of sections of each entity.
        tokens: The tokens of all rows, as MaxSim reads them.
    """

    rows: dict[int, range]
    sections: dict[int, int]
    tokens: EncodedTokens

    def section_rows(self, row: int) -> range:
        """Returns the rows of an entity's section tokens."""
        return self.rows[row][: self.sections[row]]

    def token_rows(self, row: int) -> range:
        """Returns the rows of an entity's tokens."""
        return self.rows[row]

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        """Returns the tokens of spans, which MaxSim reads in place."""
        return StoredTokens(self.tokens.values, self.tokens.scales, np.array([span.start for span in spans], np.int64))


class Validation:
    """Validates a model during training.

    Args:
        samples: The samples; those held out are validated on.
        make: Makes tensors of pairs.
        processes: The processes that share the questions.
        serving: How the trained encoder will be used.
    """

    def __init__(self, samples: SampleSet, make: BatchMaker, processes: Processes, serving: Serving):
        self.samples, self.make, self.processes, self.serving = samples, make, processes, serving
        self._labeled = labeled_images(samples) if serving.use.labeled else {}

    def __len__(self) -> int:
        """Returns the number of validated questions."""
        return len(self.samples.validation)

    @torch.no_grad()
    def score(self, model: Reranker) -> list[ScoredQuestion]:
        """Scores every question with the model, which must be in eval mode."""
        samples = self.samples
        mine = samples.validation[self.processes.rank :: self.processes.count].tolist()
        texts = [(int(samples.question[i]), len(self.make.texts) - 1) for i in mine]  # the last text is empty
        wanted = [(int(samples.query_image[i]), 0, text) for i, own in zip(mine, texts, strict=True) for text in own]
        queries = [query for part in self._encode(model, wanted) for query in part]
        index = self._index(model, sorted(set().union(*(compared_entities(samples, sample) for sample in mine))))
        pairs = zip(queries[::2], queries[1::2], strict=True)
        scored = [self._scored(i, *pair, index) for i, pair in zip(mine, pairs, strict=True)]
        parts = self.processes.gather(scored)
        return sorted((question for part in parts for question in part), key=lambda question: question.sample)

    def metrics(self, model: Reranker) -> dict[str, float]:
        """Returns the metrics of the model, with the best alpha and with step 2 alone."""
        scored = self.score(model)
        alpha = best_alpha(scored)
        used = 0.0 if alpha is None else alpha
        temperature = float(model.temperature)
        return {
            "recall@1": recall_at_1(scored, used),
            "alpha": used,
            "recall@1_alone": recall_at_1(scored, 0.0),
            "section_recall": section_recall(self.samples, scored, used),
            "validation_loss": self._loss(scored, temperature),
            "temperature": temperature,
        }

    def _index(self, model: Reranker, entities: Sequence[int]) -> EncodedEntities:
        """Encodes entities with the model and returns their tokens."""
        pairs, rows, sections = list[tuple[int, int, int]](), dict[int, range](), dict[int, int]()
        for entity in entities:
            first, own = len(pairs), self._sections(entity)
            pairs += [*own, *self._shown(entity)]
            rows[entity], sections[entity] = range(first, len(pairs)), len(own)
        codec, device = TokenCodec.parse(self.serving.tokens), model.fusion.query_tokens.device
        shape = codec.stored_shape(model.fusion.token_shape)
        values = torch.empty((len(pairs), *shape), dtype=getattr(torch, codec.dtype), device=device)
        scales = torch.empty((len(pairs), shape[0]), dtype=torch.float16, device=device) if codec.scaled else None
        first = 0
        for tokens in self._encode(model, pairs):
            part = slice(first, first := first + len(tokens))
            encoded = encode_tokens(functional.normalize(tokens, dim=-1), codec)
            values[part] = encoded.values
            if scales is not None and encoded.scales is not None:
                scales[part] = encoded.scales
        stored = EncodedTokens(values, scales)
        # MaxSim reads packed signs on a CPU; at most `MOST_ROWS` sections and images are unpacked
        unpacked = stored if codec.kind == "bit1" and device.type == "cpu" else unpack_tokens(stored, codec)
        return EncodedEntities(rows, sections, unpacked)

    def _sections(self, entity: int) -> list[tuple[int, int, int]]:
        image = int(self.samples.main_image[entity])
        return [(image, 0, section) for section in self.samples.sections_of(entity)] if image >= 0 else []

    def _shown(self, entity: int) -> list[tuple[int, int, int]]:
        """Returns an entity's images that have their own tokens, labeled ones last."""
        images = (*self.samples.images_of(entity), *self._labeled.get(entity, ()))
        return [(image, 0, len(self.make.texts) - 1) for image in images]

    def _encode(self, model: Reranker, pairs: Sequence[tuple[int, int, int]]) -> Iterator[Tensor]:
        """Yields the tokens of pairs, batch by batch, float32 [n, 32, H]."""
        device = model.fusion.query_tokens.device
        for start in range(0, len(pairs), _AT_ONCE):
            places, different = self.make.pairs(pairs[start : start + _AT_ONCE])
            yield model.tokens(different.to(device))[to_device(places, device)]

    def _scored(self, sample: int, asked: Tensor, alone: Tensor, index: EncodedEntities) -> ScoredQuestion:
        samples = self.samples
        part, gold = samples.found_by(sample), int(samples.gold[sample])
        found = zip(samples.found[part].tolist(), samples.similarity[part].tolist(), strict=True)
        candidates = [Candidate(entity, None if np.isnan(sim) else sim) for entity, sim in found]
        right = Candidate(gold)  # to score its evidence even if step 1 missed it
        score_candidates(asked[None], alone[None], [[*candidates, right]], index, self.serving.mode)
        position = int(samples.evidence[sample] - samples.first_section[gold])
        evidence = next(section.sim_m for section in right.sections if section.position == position)
        assert evidence is not None  # a gold entity has an image
        return ScoredQuestion(sample, candidates, samples.right[part].tolist(), evidence)

    def _loss(self, scored: Sequence[ScoredQuestion], temperature: float) -> float:
        """Returns equation 6's loss of the evidence against every section of entities that are not gold."""
        losses = []
        for question in scored:
            wrong = [found for found, right in zip(question.candidates, question.right, strict=True) if not right]
            sims = [section.sim_m for candidate in wrong for section in candidate.sections]
            logits = torch.tensor([question.evidence, *sims]) / temperature
            losses.append(float(logits.logsumexp(0) - logits[0]))
        return sum(losses) / len(losses)
