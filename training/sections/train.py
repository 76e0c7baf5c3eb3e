"""Adapts step 3's encoder of questions: low-rank matrices learn which section of an article answers a question.

Only questions are encoded anew. The vectors of sections are those of an index, so training takes minutes on a CPU, and
the index stays valid. A batch has questions about a few articles; each should be nearest to the section with its answer
among the other sections of its article, the hard negatives, and those of the batch's other articles. As in serving, the
best window of a section counts.
"""

from __future__ import annotations

import hashlib
import logging
import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from indexes.store.index import Index
from retriever.base_models import bases
from retriever.files import replace_with, write_json, write_whole
from retriever.identity import Items, agree
from retriever.models.bm25 import BM25
from retriever.models.model_card import model_card
from retriever.models.precision import autocast, fastest_dtype
from retriever.models.section_encoder import SectionEncoder, base_of, with_own_layers
from retriever.models.weights import WEIGHTS_NAME
from retriever.types import FloatArray
from retriever.wording import counted
from training.checkpoint import BEST_NAME, CHECKPOINT_NAME
from training.config import TrainingConfig
from training.loop import train
from training.memory import naming_memory_settings
from training.questions import TrainingQuestion, is_held_out
from training.record import Provenance, TrainingRecord, remarks_on
from training.sections.data import AskedArticle, SectionBatch, SectionBatches, passages, read_articles, windows_of
from training.sections.lora import add_lora, lora_tensors, stacked

logger = logging.getLogger(__name__)

RUN = "sections-run"  # folder under `out` with the curve and the checkpoint
FOLDER = "sections"
LEARNING_RATE = 5e-4
STEPS = 3
"""Steps, times the square root of the number of questions to train on."""
QUESTIONS = 48
"""Questions per batch."""
RANK = 8
"""Rank of the matrices."""
SCALE = 20.0
"""Factor for cosines in the loss, as the base models were trained with."""
MOST_QUESTIONS = 1000
"""Most held-out questions, about; each validation encodes them."""
WEIGHTS = tuple(round(0.05 * step, 2) for step in range(21))
"""Weights of the cosine that are tried."""
BETTER_BY = ("recall@1", "validation_loss")
_LESS_MEMORY = "end other programs that use the GPU, or train on the CPU with --set device=cpu"


@dataclass(frozen=True, slots=True)
class TrainedSections:
    """The result of a training.

    Attributes:
        folder: Folder of the adapted encoder.
        weight: The best weight of the cosine on held-out articles, `None` if none is held out.
        metrics: Metrics on held-out articles.
    """

    folder: Path
    weight: float | None
    metrics: dict[str, float]


def train_sections(
    model: str | Path,
    index: Path,
    questions: Sequence[TrainingQuestion | ValueError],
    out: Path,
    config: TrainingConfig = TrainingConfig(),  # noqa: B008  frozen
    *,
    weight: float = 0.67,
    max_bad: float = 0.05,
    provenance: Provenance = Provenance(),  # noqa: B008  frozen
    overwrite: bool = False,
) -> TrainedSections:
    """Adapts an encoder to questions about sections; writes it to `out/sections`. A killed run resumes.

    The weights of the best validation are kept, or the last ones if no article is held out.

    Args:
        model: The base model, or a folder that an earlier training wrote.
        index: The index with the articles, and with vectors of their sections by this model.
        questions: Questions with their entities and sections; an error stands for one that cannot be read.
        out: Folder for the encoder, the run (curve, checkpoint) and `left_out.jsonl`.
        config: Limits, seed and device; `validation_share` is the share of the articles.
        weight: Weight of the cosine with which validations rank, as serving does.
        max_bad: Share of bad questions that is accepted, in 0..1.
        provenance: Where model and code come from, for the training record.
        overwrite: Whether to replace a run with other inputs.

    Raises:
        ValueError: The index has no vectors of sections, or those of another model; no question can be trained on, too
            many are bad, or `out` holds a run with other inputs.
        FloatingPointError: The loss is not finite.
        MemoryError: The device runs out of memory; the message says what to do.
    """
    encoder = SectionEncoder.load(model, config.device)
    base, earlier = base_and_matrices(model)
    opened = Index.open(index, columns={"sections": encoder})
    if "sections" not in opened.manifest.inputs.columns:
        raise ValueError(
            f"{index}: was built without vectors of sections; build it again: omgm build-index --overwrite"
        )
    articles = read_articles(opened, questions, encoder, out, max_bad)
    held_out, trained = list[AskedArticle](), list[AskedArticle]()
    for article in articles:
        (held_out if is_held_out(article.id, config.validation_share, config.seed) else trained).append(article)
    if not trained:
        raise ValueError(f"all of {counted(len(articles), 'article')} are held out; questions about more are needed")
    asked = sum(len(article.questions) for article in trained)
    counts = counted(asked, "question"), counted(len(trained), "article")
    logger.info("%s about %s to train on, %d articles held out", *counts, len(held_out))
    optimization = config.optimization(LEARNING_RATE, math.ceil(STEPS * math.sqrt(asked)))
    precision = fastest_dtype(encoder.model.device.type)
    inputs = {
        "start": _digest(encoder.asking),
        "encoder of sections": encoder.fingerprint,
        "questions": Items(
            ((one.id, [[question.text, question.gold] for question in one.questions]) for one in articles),
            "article",
            "other questions",
        ),
        "articles": Items(((one.id, passages(opened, one)) for one in articles), "article", "another text"),
        "cosine_weight": weight,
        "rank": RANK,
        "batch": QUESTIONS,
        "validation_share": config.validation_share,
        "validate_every": config.validate_every,
        "precision": str(precision).removeprefix("torch."),
        **optimization.agreed,
    }
    run = out / RUN
    work = [run / name for name in ("curve.csv", CHECKPOINT_NAME, BEST_NAME)]
    agree(run / "inputs.json", inputs, work=work, overwrite=overwrite)
    network = encoder.asking = with_own_layers(encoder.asking)
    add_lora(network, RANK, config.seed)
    batches = SectionBatches(opened, trained, QUESTIONS, config.seed)
    device: torch.device = network.device

    def loss_of(step: int, part: int) -> Tensor:
        batch = batches(step).to(device)
        with autocast(device.type, precision):
            vectors = encoder.vectors(network, batch.questions)
        return section_loss(vectors, batch)

    validation = _Validation(encoder, opened, held_out, weight, config.seed) if held_out else None
    with naming_memory_settings(_LESS_MEMORY):
        metrics = train(
            network,
            loss_of,
            out=run,
            optimization=optimization,
            validate=None if validation is None else validation.metrics,
            validate_every=config.validate_every,
            save_every=config.validate_every,
            better_by=BETTER_BY,
        )
    found = None if validation is None else validation.best_weight()
    if found is not None:
        metrics |= {"recall@1_at_best_weight": found[1]}
    remarks = remarks_on(metrics, optimization, BETTER_BY, "article")
    for remark in remarks:
        logger.warning("%s: %s", out, remark)
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    matrices = stacked(earlier, lora_tensors(network))
    replace_with(folder / WEIGHTS_NAME, lambda partial: save_file(matrices, partial))
    TrainingRecord(
        kind="sections",
        base=provenance.base,
        data={
            "questions trained on": asked,
            "articles trained on": len(trained),
            "questions validated on": 0 if validation is None else validation.questions,
            "articles validated on": 0 if validation is None else len(validation.articles),
        },
        settings={**asdict(optimization), "rank": RANK, "batch": QUESTIONS, "cosine_weight": weight},
        metrics=metrics,
        remarks=remarks,
        commit=provenance.commit,
    ).save(folder)
    write_json(folder / "config.json", {"base_model": base})
    write_whole(folder / "README.md", model_card(folder).encode())
    return TrainedSections(folder, None if found is None else found[0], metrics)


def _digest(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.cpu().float().numpy().tobytes())
    return digest.hexdigest()


def base_and_matrices(model: str | Path) -> tuple[str, dict[str, Tensor]]:
    """Returns the name of the base model, and the matrices that a folder adds to it.

    Raises:
        ValueError: The folder is not one that a training wrote.
    """
    if str(model) in bases():
        return str(model), {}
    return base_of(Path(model)), load_file(Path(model) / WEIGHTS_NAME)


def section_loss(vectors: Tensor, batch: SectionBatch) -> Tensor:
    """Returns the loss of finding each question's section by its best window, a scalar.

    Args:
        vectors: Normalized vectors of the questions [Q, D].
        batch: The sections.
    """
    cosines = vectors @ batch.windows.T
    best = cosines.new_full((len(vectors), len(batch.alike)), -1.0)
    best = best.scatter_reduce(1, batch.sections.expand(len(vectors), -1), cosines, "amax")
    same = batch.alike == batch.alike[batch.gold][:, None]
    same[torch.arange(len(vectors), device=vectors.device), batch.gold] = False
    return functional.cross_entropy(SCALE * best.masked_fill(same, -math.inf), batch.gold)


class _Validation:
    """How often the section with the answer is the first one in its article, by words and by meaning.

    Args:
        encoder: The encoder, whose encoder of questions is in training.
        index: The index.
        articles: Held-out articles; of many, some are drawn.
        weight: Weight of the cosine.
        seed: Seed of the drawing.
    """

    def __init__(
        self, encoder: SectionEncoder, index: Index, articles: Sequence[AskedArticle], weight: float, seed: int
    ) -> None:
        order = random.Random(seed).sample(articles, len(articles))
        counts = np.cumsum([len(article.questions) for article in order])
        self.articles = order[: max(1, int(np.searchsorted(counts, MOST_QUESTIONS, side="right")))]
        self.questions = sum(len(article.questions) for article in self.articles)
        self._encoder, self._weight = encoder, weight
        self._windows = [windows_of(index, article) for article in self.articles]
        words = BM25(whole_question=True)
        self._words = [
            words.score([one.text for one in article.questions], [passages(index, article)] * len(article.questions))
            for article in self.articles
        ]

    def metrics(self) -> dict[str, float]:
        """Returns the recall with both, with the cosine alone, and the loss of the cosine."""
        scored = self._cosines()
        losses = [-functional.log_softmax(torch.from_numpy(SCALE * cosines), 0)[gold] for _, cosines, gold in scored]
        return {
            "recall@1": _recall(scored, self._weight),
            "recall@1_by_meaning": _recall(scored, 1.0),
            "validation_loss": float(sum(losses) / len(losses)),
        }

    def best_weight(self) -> tuple[float, float]:
        """Returns the weight of the cosine with the highest recall, the middle of the best ones, and this recall."""
        with torch.no_grad():
            scored = self._cosines()
        recalls = [_recall(scored, weight) for weight in WEIGHTS]
        best = [weight for weight, recall in zip(WEIGHTS, recalls, strict=True) if recall == max(recalls)]
        return best[len(best) // 2], max(recalls)

    def _cosines(self) -> list[tuple[FloatArray, FloatArray, int]]:
        """Returns the scores of words, the cosines and the section with the answer, for each question."""
        ids = [question.ids for article in self.articles for question in article.questions]
        vectors = self._encoder.vectors(self._encoder.asking, ids).cpu()
        scored, at = list[tuple[FloatArray, FloatArray, int]](), 0
        for article, words, (windows, sections) in zip(self.articles, self._words, self._windows, strict=True):
            own = vectors[at : at + len(article.questions)]
            at += len(own)
            best = torch.full((len(own), len(words[0])), -1.0)
            best = best.scatter_reduce(1, sections.expand(len(own), -1), own @ windows.T, "amax")
            scored += [(*each, one.gold) for *each, one in zip(words, best.numpy(), article.questions, strict=True)]
        return scored


def _recall(scored: Sequence[tuple[FloatArray, FloatArray, int]], weight: float) -> float:
    hits = [int(((1 - weight) * words + weight * cosines).argmax()) == gold for words, cosines, gold in scored]
    return sum(hits) / len(hits)
