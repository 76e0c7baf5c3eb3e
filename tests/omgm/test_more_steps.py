"""Steps of newer papers that a profile lists: from settings to candidates, on an index of four trees."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from omgm.api import OMGM
from retriever.images import load_image
from retriever.models.qwen3_vl import Pictured, Qwen3VLReranker
from retriever.picture_rerank import PictureRerank
from retriever.types import NO_IMAGE, Query, RetrievalResult
from tests.fakes.published_models import write_qwen3_vl
from tests.omgm.test_chat_steps import COLORS, TEXTS
from tests.omgm.test_chat_steps import folder as trees

folder, QUESTION = trees, "How high is it?"


@pytest.fixture(scope="module")
def plain(folder: Path) -> list[RetrievalResult]:
    return results(folder, ["search", "fusion", "sections"])


def results(folder: Path, steps: Sequence[object]) -> list[RetrievalResult]:
    with closing(OMGM.open(folder / "index", settings={"steps": list(steps)})) as omgm:
        queries = [Query(load_image(folder / "images" / f"{name}.png"), QUESTION) for name in COLORS]
        return omgm.retriever.retrieve(queries)


def test_manifold(folder: Path, plain: list[RetrievalResult]) -> None:
    found = results(folder, ["search", {"kind": "manifold", "keep": 3}, "fusion", "sections"])
    for one, before in zip(found, plain, strict=True):
        similar = sorted((candidate.sim_c or 0 for candidate in before.candidates), reverse=True)[:3]
        assert sorted((candidate.sim_c or 0 for candidate in one.candidates), reverse=True) == pytest.approx(similar)


def test_rerank_vl(folder: Path, plain: list[RetrievalResult], tmp_path: Path) -> None:
    model = write_qwen3_vl(tmp_path, head=True)
    kind = {"kind": "rerank-vl", "model": str(model), "candidates": 2, "weight": 0.75}
    for one, own in zip(results(folder, ["search", "fusion", kind, "sections"]), plain, strict=True):
        assert {candidate.row for candidate in one.candidates[:2]} == {c.row for c in own.candidates[:2]}
        assert [candidate.row for candidate in one.candidates[2:]] == [c.row for c in own.candidates[2:]]

    reranker = Qwen3VLReranker.load(model)
    photos = [load_image(folder / "images" / f"{name}.png") for name in COLORS]
    queries = [*(Query(photo, QUESTION) for photo in photos), Query(NO_IMAGE, QUESTION)]
    given = [[replace(candidate) for candidate in result.candidates] for result in [*plain, plain[0]]]
    with closing(OMGM.open(folder / "index")) as omgm:
        step = PictureRerank(reranker.score, omgm.index, candidates=2, weight=0.75)
        reranked = step.start(queries)([[replace(candidate) for candidate in ranked] for ranked in given])
        for query, ranked, before in zip(queries, reranked, given, strict=True):
            asked, scores = Pictured(QUESTION, query.image if query.image.width else None), dict[int, float]()
            for candidate in before[:2]:
                title, path = omgm.index.entity(candidate.row).title, omgm.index.image_path(candidate.row)
                assert path is not None
                pair = asked, Pictured(f"{title}\n{title}: {TEXTS['Bark']}", load_image(path))
                scores[candidate.row] = 0.25 * candidate.score + 0.75 * float(reranker.score([pair])[0])
            best = sorted(scores, key=lambda row: -scores[row])
            assert [candidate.row for candidate in ranked] == [*best, *(candidate.row for candidate in before[2:])]
            assert [candidate.score for candidate in ranked[:2]] == pytest.approx([scores[row] for row in best])


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["manifold"], r"steps\.0: 'manifold' only scores candidates"),
        (["search", {"kind": "manifold", "keep": 0}], r"steps\.1 \(manifold\): keep: .*greater than or equal to 1"),
        (["search", "rerank-vl"], r"steps\.1 \(rerank-vl\): model: Missing required argument"),
        (["search", {"kind": "rerank-vl", "model": "./none"}], r"rerank-vl: model: none does not exist"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, steps: list[object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OMGM.open(folder / "index", settings={"steps": steps})
