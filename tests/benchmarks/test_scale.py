from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import scale
from benchmarks.made_up import ClusteredVectors

SMALL = ["--entities", "1200", "--dimension", "32"]


def test_a_build_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = ["--folder", str(tmp_path), "--out", str(tmp_path / "scale.json")]
    scale.main(["--entities", "60", "--dimension", "32", *paths, "--here", "--parts", "build"])
    found = json.loads(capsys.readouterr().out)
    assert found["build_s"].keys() == found["peak_rss_mb"].keys() == {"all", "verify"}
    assert found["build_s"]["all"] > 0 < found["peak_rss_mb"]["all"]
    index = tmp_path / "index"  # with the changes in `live/` that were made afterwards
    assert found["index_bytes"] == scale.size_of(index) - scale.size_of(index / "live") > found["kb_bytes"] / 2
    assert 2 <= found["sections"] / 60 <= 7 and found["entity_index"].startswith("flat")
    assert 0 < found["update_ms_p50"] <= found["found_ms_p50"] and found["not_found"] == 0


@pytest.mark.slow
def test_the_search_part_runs_alone(tmp_path: Path) -> None:
    out = tmp_path / "scale.json"
    out.write_text(json.dumps({"runs": {"7": {"index_bytes": 1}, "1200": {"index_bytes": 2}}}))
    scale.main(
        [*SMALL, "--folder", str(tmp_path / "work"), "--out", str(out), "--parts", "search", "--kinds", "flat", "sq8"]
    )
    runs = json.loads(out.read_text())["runs"]
    assert runs["7"] == {"index_bytes": 1} and runs["1200"]["index_bytes"] == 2
    found = runs["1200"]
    for kind in ("flat", "sq8"):
        assert found["search_ms_p50"][kind] > 0 and 0.97 <= found["recall@20_against_exact"][kind] <= 1
    assert found["search"]["flat"]["bytes"] < 1200 * 32 * 2 + 15000 < found["search"]["sq8"]["bytes"]  # ids, headers
    assert found["search"]["sq8"]["rescored"] >= 2 and found["search"]["sq8"]["peak_rss_mb"].keys() == {
        "build",
        "search",
    }
    assert not any((tmp_path / "work" / "1200").iterdir())


def test_vectors_are_clustered_and_queries_near_their_entity() -> None:
    vectors = ClusteredVectors(2000, 64)
    stored = vectors.stored(range(2000))
    np.testing.assert_array_equal(stored[[5, 1234]], vectors.stored([5, 1234]))
    np.testing.assert_allclose(np.linalg.norm(stored, axis=1), 1, atol=1e-5)
    queries = vectors.queries(range(100))
    own = (queries * stored[:100]).sum(axis=1)
    assert 0.8 < own.mean() < 0.95
    products = np.sort(stored[:100] @ stored.T, axis=1)
    uniform = np.random.default_rng(0).normal(size=(2000, 64))
    uniform /= np.linalg.norm(uniform, axis=1, keepdims=True)
    alike = np.sort(uniform[:100] @ uniform.T, axis=1)
    assert np.median(products[:, -20]) > 0.6 > 0.45 > np.median(alike[:, -20])
