"""Files of other systems that contradict themselves or cover little: refused with the options that accept them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omgm.__main__ import main
from tests.fakes.inputs import evaluate, reranker, write_inputs
from tests.fakes.training_world import COLORS


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("orders"))


def url(color: str) -> str:
    return f"https://e.example/wiki/{color}"


def ids(world: Path) -> list[str]:
    return [json.loads(line)["id"] for line in (world / "q.jsonl").read_text().splitlines()]


def recall(out: Path) -> float:
    metrics: dict[str, Any] = json.loads((out / "metrics.json").read_text())
    return float(metrics["step1"]["recall@1"])


def test_the_order_of_step_1_is_chosen(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The right entity comes first and has the lowest value, as in a list sorted by distance that calls it a score.
    found = {}
    for id in ids(world):
        color = id.partition("_")[0]
        others = [other for other in COLORS if other != color][:2]
        found[id] = {"retrieved_entities": [url(one) for one in (color, *others)], "scores": [0.1, 0.5, 0.9]}
    given = tmp_path / "found.json"
    given.write_text(json.dumps(found))
    command = [*evaluate(world, tmp_path / "out"), "--step1", str(given)]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "contradicts the scores: first in the list is 'https://e.example/wiki/red' (0.1)" in error
    assert "--step1-order list, --step1-order scores or --step1-order distances" in error
    assert not (tmp_path / "out").exists()
    for order, right in (("list", 1.0), ("distances", 1.0), ("scores", 0.0)):
        out = tmp_path / order
        assert main([*evaluate(world, out), "--step1", str(given), "--step1-order", order]) == 0
        assert recall(out) == right
        assert json.loads((out / "metrics.json").read_text())["settings"]["step1"]["order"] == order
    capsys.readouterr()
    assert main([*command[:-2], "--step1-order", "list"]) == 2
    assert "--step1-order and --step1-partial say how to read a file; name it with --step1" in capsys.readouterr().err


def test_a_file_that_covers_little_is_accepted_on_request(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    several = ids(world)
    strange = {id: [url(id.partition("_")[0]), "nobody", "none"] for id in several}
    few = {id: [url(id.partition("_")[0])] for id in several[:4]}
    for name, found, said, right in (
        ("strange", strange, "32 candidates of 48 are not in the index, such as 'nobody'", 1.0),
        ("few", few, "12 questions of 16 have no candidate in the index", 0.25),
    ):
        given = tmp_path / f"{name}.json"
        given.write_text(json.dumps(found))
        command = [*evaluate(world, tmp_path / name), "--step1", str(given)]
        assert main(command) == 2
        error = capsys.readouterr().err
        assert said in error and "--step1-partial" in error
        assert main([*command, "--step1-partial"]) == 0
        assert recall(tmp_path / name) == right
        covered = json.loads((tmp_path / name / "metrics.json").read_text())["settings"]["step1"]
        counts = (len(found) * len(found[several[0]]), len(found), 16, len(found))
        names = ("candidates", "candidates_in_index", "questions", "questions_with_candidates")
        assert tuple(covered[name] for name in names) == counts


@pytest.mark.slow
def test_the_order_and_coverage_of_negatives(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def train(name: str, top: list[dict[str, object]], *more: str, images: int = 8) -> tuple[int, str]:
        rows = {f"q_{color}": {"gt_entity_pos_img": None, "top_20": top} for color in COLORS[:images]}
        given = tmp_path / f"{name}.json"
        given.write_text(json.dumps(rows))
        command = [*reranker(world, tmp_path / f"{name}{''.join(more)}"), "--negatives", str(given), *more]
        capsys.readouterr()
        return main(command), capsys.readouterr().err

    rising: list[dict[str, object]] = [{"entry": url(color), "similarity": n / 8} for n, color in enumerate(COLORS)]
    status, error = train("rising", rising)
    assert status == 2 and "contradicts the scores" in error
    assert "--negatives-order list, --negatives-order scores or --negatives-order distances" in error
    for order in ("list", "scores", "distances"):
        assert train("rising", rising, "--negatives-order", order)[0] == 0
    strange: list[dict[str, object]] = [{"entry": name} for name in ("nobody", "none", *map(url, COLORS[:1]))]
    status, error = train("strange", strange)
    assert status == 2 and "32 candidates of 48 are not in the index, such as 'nobody'" in error
    assert "accept it: --negatives-partial" in error.replace("\n", " ")
    every: list[dict[str, object]] = [{"entry": url(color)} for color in COLORS]
    status, error = train("few", every, images=3)
    assert status == 2 and "10 questions of 16 have no candidate in the index" in error
    status, error = train("few", every, "--negatives-partial", images=3)
    assert status == 0, error
    assert "10 questions of 16 have no candidate in the index and are left out" in caplog.text
