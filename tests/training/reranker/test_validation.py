"""Validation of step 2: its metrics equal those of the real pipeline on an index of the trained model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from indexes.article_images import ImageUse
from indexes.knowledge.knowledge_base import image_source
from indexes.labeled_images import LabeledImage
from retriever.images import load_image
from retriever.maxsim import ScoreMode
from retriever.models.encoder import ClipEncoder
from retriever.models.qformer import QFormerFusion
from retriever.pipeline import Retriever
from retriever.protocols import Step
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank, rank_candidates
from retriever.step3_sections import SectionRerank
from retriever.types import Candidate, FloatArray, Query, ScoredSection
from tests.fakes.models import FakeSummarizer
from tests.fakes.plans import build_index
from tests.fakes.training_world import TOPICS, TrainingWorld
from training.mine import mine_negatives
from training.questions import is_held_out
from training.reranker.config import RerankerTrainingConfig
from training.reranker.data import Serving
from training.reranker.fusion_weight import ScoredQuestion, best_beta, recall_at_1
from training.reranker.model import Reranker
from training.reranker.samples import SampleSet
from training.reranker.train import train_reranker
from training.reranker.validation import Validation


def question(sims: Sequence[float | None], sections: list[list[float]], gold: int, sample: int = 0) -> ScoredQuestion:
    right = [place == gold for place in range(len(sims))]
    candidates = []
    for row, (sim_c, own) in enumerate(zip(sims, sections, strict=True)):
        order = sorted(range(len(own)), key=lambda position: -own[position])
        scored = [ScoredSection(position, own[position]) for position in order]
        candidates.append(Candidate(row, sim_c, max(own, default=None), sections=scored))
    return ScoredQuestion(sample, candidates, right, 0.5)


def test_step_2_and_step_1_share_the_first_places() -> None:
    # Step 1 is right about the first by 0.2, step 2 about the second by 0.2: between 0 and 1 both are.
    scored = [
        question([0.5, 0.3], [[0.2], [0.1, 0.26]], gold=0),
        question([0.5, 0.45], [[0.1], [0.3]], gold=1),
    ]
    assert [recall_at_1(scored, alpha) for alpha in (0.0, 0.5, 1.0)] == [0.5, 1.0, 0.5]


def test_an_entity_that_step_1_missed_has_no_rank() -> None:
    missed = question([0.5, 0.3], [[0.2], []], gold=5)
    assert missed.rank(0.5) is None and recall_at_1([missed], 0.5) == 0
    assert question([], [], gold=0).rank(0.5) is None


class Even:
    """Scores the second passage highest."""

    def score(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[FloatArray]:
        assert list(questions) == ["q"] and [list(p) for p in passages] == [["a", "b"]]
        return [np.array([0.2, 0.65], dtype=np.float32)]


def test_beta_is_the_one_with_the_most_evidence_first() -> None:
    samples = SampleSet.__new__(SampleSet)
    object.__setattr__(samples, "gold", np.array([0], dtype=np.int32))
    object.__setattr__(samples, "evidence", np.array([1], dtype=np.int32))
    object.__setattr__(samples, "first_section", np.array([0, 2]))
    scored = [question([0.5], [[0.9, 0.3]], gold=0)]
    # 0.9 b + 0.2 (1 - b) < 0.3 b + 0.65 (1 - b) while b < 0.43: 0 to 0.4 are right, and their middle is 0.2
    assert best_beta(samples, scored, 1.0, Even(), {0: "q"}, {0: ["a", "b"]}) == (0.2, 1.0)
    object.__setattr__(samples, "evidence", np.array([0], dtype=np.int32))
    assert best_beta(samples, scored, 1.0, Even(), {0: "q"}, {0: ["a", "b"]}) == (0.7, 1.0)  # 0.45 to 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "labeled", "several", "tokens", "mode", "seed"),
    [
        ("mined", False, False, "float16", "cosine", 0),
        ("mined", True, False, "bit1", "cosine", 3),
        ("in-batch", True, False, "pool4+int8", "cosine", 0),
        ("mined", False, True, "float16", "compat", 0),
        ("in-batch", True, True, "float16", "cosine", 3),
    ],
)
def test_figures_are_those_of_the_pipeline(
    world: TrainingWorld,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recipe: str,
    labeled: bool,
    several: bool,
    tokens: str,
    mode: ScoreMode,
    seed: int,
) -> None:
    encoder = ClipEncoder.load(world.folder / "clip")
    kb, images = with_several_images(world, tmp_path) if several else (world.kb, world.images)
    parts: dict[str, Any] = {"kb": kb, "images": images, "summarizer": FakeSummarizer(), "tokens": tokens}
    if several:
        parts |= {"candidates": "combined", "image_keys": 3, "trim_borders": True}
    query_image_of = cards(world, tmp_path) if several else world.query_image_of
    if labeled:
        shown = {q.image_id: q for q in world.questions if not is_held_out(q.image_id, 0.4, seed)}
        photos = ((name, query_image_of(name), question) for name, question in shown.items())
        parts["labeled"] = [LabeledImage(name, path, q.entity_ids[0]) for name, path, q in photos if path]
        parts["candidates"] = "combined"
    index = build_index(out=tmp_path / "index", encoder=encoder, fusion=None, **parts)
    mined = tmp_path / "negatives.json"
    mine_negatives(encoder, index, world.questions, query_image_of, mined, trim_borders=several)
    config = RerankerTrainingConfig(
        recipe=recipe, steps=8, learning_rate=2e-3, validation_share=0.4, validate_every=4, seed=seed, max_tokens=9
    )
    serving = Serving(
        trim_borders=several, use=ImageUse(parts.get("image_keys", 1), labeled=labeled), tokens=tokens, mode=mode
    )
    source = image_source(images, kb, None)
    data = replace(
        world.data, index=index, originals=source, negatives=mined, query_image_of=query_image_of, serving=serving
    )
    scored: list[ScoredQuestion] = []
    score = Validation.score

    def recorded(self: Validation, model: Reranker) -> list[ScoredQuestion]:
        scored[:] = score(self, model)
        return scored

    monkeypatch.setattr(Validation, "score", recorded)
    trained = train_reranker(world.folder / "fusion", data, tmp_path / "out", config, sections=lambda: Last())
    assert trained.alpha is not None and trained.beta is not None

    fusion = QFormerFusion.load(trained.folder)
    index = build_index(out=tmp_path / "trained", encoder=encoder, fusion=fusion, **parts)
    assert index.manifest.counts.labeled_tokens == len(parts.get("labeled", ()))
    assert index.manifest.counts.image_tokens == (4 * 3 + 4 if several else 0)
    steps: list[Step] = [
        EntitySearch(encoder, index, 20),
        FusionRerank(fusion, index, trained.alpha, mode),
        SectionRerank(Last(), index, trained.beta),
    ]
    held_out = [q for q in world.questions if is_held_out(q.image_id, 0.4, seed)]
    asked = [Image.open(path).convert("RGB") for q in held_out if (path := query_image_of(q.image_id))]
    retriever = Retriever(steps, index, trim_borders=several)
    results = retriever.retrieve([Query(i, q.question) for i, q in zip(asked, held_out, strict=True)])
    first = [
        index.entity(result.candidates[0].row).id in q.entity_ids for q, result in zip(held_out, results, strict=True)
    ]
    leads = np.array(
        [
            lead(result.candidates[0].sections, q.section_index) if right else -np.inf
            for right, q, result in zip(first, held_out, results, strict=True)
        ]
    )
    assert len(held_out) > 5
    for question, result in zip(scored, results, strict=True):
        served = {candidate.row: candidate.sim_m for candidate in result.candidates}
        found = {candidate.row: candidate.sim_m for candidate in question.candidates}
        assert [c.sim_c for c in rank_candidates(question.candidates, 1.0)] == pytest.approx(
            [score for _, score in result.rankings["step1"]], abs=1e-5
        )
        assert found == pytest.approx(served, abs=4e-3)  # features of the tower are rounded to bfloat16
    one_question = 1.001 / len(held_out)  # stored tokens are rounded, and a tie in this small world may fall either way
    assert trained.metrics["recall@1"] == pytest.approx(np.mean(first), abs=one_question)
    rounding = 2e-3 if tokens == "pool4+int8" else 3e-4  # of the difference between two sections' scores
    assert np.mean(leads > rounding) <= trained.metrics["section_recall"] <= np.mean(leads > -rounding)
    record = json.loads((trained.folder / "training.json").read_text())
    assert record["metrics"]["recall@1"] == trained.metrics["recall@1"]


def lead(sections: Sequence[ScoredSection], position: int | None) -> float:
    """Returns by how much the score of a section exceeds those of all others."""
    assert position is not None
    scores = {section.position: section.score or 0.0 for section in sections}
    return scores.pop(position) - max(scores.values())


def cards(world: TrainingWorld, folder: Path) -> Callable[[str], Path | None]:
    """Returns the folder of the questions' images, each pasted on a larger card."""

    def path_of(image_id: str) -> Path | None:
        path = folder / f"{image_id}.png"
        if not path.is_file():
            card = Image.new("RGB", (120, 90), "gray")
            card.paste(load_image(world.folder / "queries" / f"{image_id}.png"), (40, 20))
            card.save(path)
        return path

    return path_of


def with_several_images(world: TrainingWorld, folder: Path) -> tuple[Path, Path]:
    """Returns a copy of the knowledge base in which every second article also shows the colors of others.

    The further images of the others are missing or damaged.
    """
    images = Path(shutil.copytree(world.images, folder / "images"))
    (images / "torn.png").write_bytes(b"no image")
    articles = json.loads(world.kb.read_text())
    urls = [article["image_urls"][0] for article in articles.values()]
    for number, article in enumerate(articles.values()):
        others = [urls[(number + 1) % 8], "gone.png", urls[(number + 3) % 8]] if number % 2 == 0 else ["torn.png"]
        article["image_urls"] = [urls[number], *others]
        article["image_reference_descriptions"] = [""] * (1 + len(others))
        article["image_section_indices"] = [0] * (1 + len(others))
    (folder / "several.json").write_text(json.dumps(articles))
    return folder / "several.json", images


class Last:
    """A step 3 that slightly prefers later topics."""

    def score(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[FloatArray]:
        topics = [
            [next(i for i, topic in enumerate(TOPICS) if topic in passage) for passage in row] for row in passages
        ]
        return [np.array(row, dtype=np.float32) * 0.02 + 0.4 for row in topics]
