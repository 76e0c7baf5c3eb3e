"""Alpha and beta belong to a score mode; what is not as in the paper stands under its tables."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from omgm.__main__ import main
from omgm.profile import load_profile
from tests.fakes.inputs import evaluate, profile, questions, reranker, sweep, write_inputs


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("pairs"))


def test_the_paper_s_profile_pairs_its_values_with_its_mode() -> None:
    paper = load_profile("paper")
    fusion, sections, search = paper.fusion, paper.sections, paper.search
    assert (fusion.alpha, sections.beta, fusion.score_mode, fusion.tuned_for) == (0.9, 0.2, "compat", "compat")
    assert (search.kind, sections.max_tokens, sections.dtype, fusion.recipe) == ("flat", 6000, "float32", "paper")
    laptop = load_profile("laptop")
    assert (laptop.search.kind, laptop.sections.max_tokens, laptop.sections.dtype) == ("auto", 1024, "auto")


def test_a_pair_of_another_mode_warns(world: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert main(evaluate(world, tmp_path / "as-chosen")) == 0
        assert "chosen for" not in caplog.text
        assert main([*evaluate(world, tmp_path / "other"), "--set", "fusion.score_mode=compat"]) == 0
    said = "fusion.alpha = 0.5 and sections.beta = 0.5 were chosen for fusion.score_mode = cosine, not for compat"
    assert said in caplog.text and "`omgm sweep`" in caplog.text and "fusion.tuned_for=compat" in caplog.text


def test_a_sweep_and_a_training_choose_for_their_mode(world: Path, tmp_path: Path) -> None:
    assert main([*sweep(world, tmp_path / "swept"), "--set", "fusion.score_mode=compat"]) == 0
    fusion = load_profile(str(tmp_path / "swept" / "profile.toml")).fusion
    assert (fusion.score_mode, fusion.tuned_for) == ("compat", "compat")
    trained = tmp_path / "trained"
    other = ["--set", "fusion.recipe=paper", "--set", "fusion.score_mode=compat"]
    assert main([*reranker(world, trained), *other]) == 0
    assert json.loads((trained / "inputs.json").read_text())["recipe"] == "paper"
    assert load_profile(str(trained / "profile.toml")).fusion.tuned_for == "compat"


@pytest.mark.slow
def test_a_table_names_what_is_not_as_in_the_paper(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["tables", "7", *profile(world), "--index", str(world / "index"), *questions(world)]
    assert main([*command, "--out", str(tmp_path / "tables")]) == 0
    printed = capsys.readouterr().out
    assert "tiny: not as in the paper (whose values are in brackets): encoder.model clip (EVA-CLIP-8B); " in printed
    for said in ("search.k 7 (20)", "fusion.score_mode cosine (compat)", "fusion.alpha 0.5 (0.9)"):
        assert f"; {said}" in printed
    assert "search.kind" not in printed and "sections.dtype" not in printed  # flat, and no cross-encoder
    assert "sections.kind bm25 (cross_encoder)" in printed
