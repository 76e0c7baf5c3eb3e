"""`omgm import index` on files in the layout of the published ones: a flat index in the order of the knowledge base."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from indexes.store.index import Index
from omgm.__main__ import main
from omgm.parts import build_encoder
from omgm.profile import load_profile
from tests.fakes.inputs import profile, write_inputs
from tests.fakes.rows import write_csv, write_jsonl
from tests.fakes.training_world import COLORS, TOPICS

SUMMARIES = [f"land {number} " * (number + 1) + TOPICS[number % 4] for number in range(8)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inputs of all commands, and `summaries.faiss` (vectors that are not normalized) with `ids.json`."""
    world = write_inputs(tmp_path_factory.mktemp("imported"))
    vectors = build_encoder(load_profile(str(world / "profile.toml"))).encode_texts(SUMMARIES).cpu().numpy()
    for name, order in (("summaries", np.arange(8)), ("turned", np.arange(8)[::-1])):
        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(3 * vectors[order])
        faiss.write_index(index, str(world / f"{name}.faiss"))
    (world / "ids.json").write_text(json.dumps([url(color) for color in reversed(COLORS)]))
    (world / "knn.json").write_text(json.dumps({"values": [[url(color), 0] for color in reversed(COLORS)]}))
    (world / "places.json").write_text(json.dumps(list(range(8))[::-1]))
    return world


def url(color: str) -> str:
    return f"https://e.example/wiki/{color}"


def command(world: Path, out: Path, *more: str) -> list[str]:
    kb = ["--kb", str(world / "kb.json"), "--images", str(world / "images"), "--set", "search.candidates=summary"]
    return ["import", "index", *profile(world), *kb, "--out", str(out), *more]


def searched(world: Path, folder: Path) -> tuple[Any, Any]:
    encoder = build_encoder(load_profile(str(world / "profile.toml")))
    index = Index.open(folder, encoder=encoder)
    return index.search(encoder.encode_texts(SUMMARIES), 8)


def test_given_vectors_are_what_step_1_searches(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = write_jsonl(
        tmp_path / "s.jsonl", *({"url": url(c), "summary": s} for c, s in zip(COLORS, SUMMARIES, strict=True))
    )
    assert main(command(world, tmp_path / "texts", "--summaries", str(written))) == 0
    expected, rows = searched(world, tmp_path / "texts")
    assert rows[:, 0].tolist() == list(range(8))  # each summary finds its own entity
    assert main(command(world, tmp_path / "vectors", "--faiss", str(world / "summaries.faiss"))) == 0
    assert "8 entities; imported 8 vectors" in capsys.readouterr().out
    for name in ("ids", "knn", "places"):
        turned = ["--faiss", str(world / "turned.faiss"), "--ids", str(world / f"{name}.json")]
        assert main(command(world, tmp_path / name, *turned)) == 0
    for name in ("vectors", "ids", "knn", "places"):
        scores, found = searched(world, tmp_path / name)
        assert np.abs(scores - expected).max() < 1e-3 and found[:, 0].tolist() == list(range(8))
    titles = [
        json.loads(line)["summary"] for line in (tmp_path / "vectors" / "summaries.jsonl").read_text().splitlines()
    ]
    assert titles == [f"land {n}" for n in range(8)]  # the texts are lost
    assert main(command(world, tmp_path / "vectors", "--faiss", str(world / "summaries.faiss"))) == 0  # nothing to do
    assert main(command(world, tmp_path / "vectors", "--faiss", str(world / "turned.faiss"))) == 2


def test_what_does_not_fit_is_named(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*more: str) -> str:
        capsys.readouterr()
        assert main(command(world, tmp_path / "out", *more)) == 2
        return capsys.readouterr().err

    def written(name: str, index: Any) -> str:
        faiss.write_index(index, str(tmp_path / name))
        return str(tmp_path / name)

    dimension = faiss.read_index(str(world / "summaries.faiss")).d
    fewer = faiss.IndexFlatIP(dimension)
    fewer.add(np.ones((7, dimension), np.float32))
    assert "has 7 vectors, but the knowledge base has 8 entities" in refused("--faiss", written("fewer", fewer))
    other = faiss.IndexFlatIP(dimension + 1)
    other.add(np.ones((8, dimension + 1), np.float32))
    assert f"have {dimension + 1} values, those of the profile's" in refused("--faiss", written("other", other))
    graph = faiss.IndexHNSWFlat(dimension, 4)
    graph.add(np.ones((8, dimension), np.float32))
    assert "is a IndexHNSWFlat, but only a flat index" in refused("--faiss", written("graph", graph))
    (tmp_path / "nonsense").write_bytes(b"nonsense")
    assert "cannot be read as a FAISS index" in refused("--faiss", str(tmp_path / "nonsense"))
    lines = write_jsonl(tmp_path / "x.jsonl", {"id": url("red"), "summary": "a", "score": 1})
    assert "line 1: unknown field 'score'; known are id, url and summary" in refused("--summaries", str(lines))
    (tmp_path / "ids.pkl").write_bytes(b"x")
    given = ["--faiss", str(world / "summaries.faiss")]
    assert "is a pickle, which could run any code" in refused(*given, "--ids", str(tmp_path / "ids.pkl"))
    (tmp_path / "ids.json").write_text('{"values": [["a"]], "keys": []}')
    assert "unknown field 'keys'" in refused(*given, "--ids", str(tmp_path / "ids.json"))
    assert "nothing to import" in refused()


def test_tables_of_images_say_what_the_main_images_are(world: Path, tmp_path: Path) -> None:
    rows = [
        {"title": "land 0", "image_URL": "u", "img_path": path, "caption": "c"} for path in ("gone.png", "blue.png")
    ]
    write_csv(tmp_path / "wiki_image_url_part_10_processed.csv", *rows)
    second = {"title": "land 0", "image_URL": "u", "img_path": "green.png", "caption": "c"}
    other = second | {"title": "land 1", "img_path": "red.png"}
    write_csv(tmp_path / "wiki_image_url_part_2_processed.csv", second, other)
    tables = ["--image-table", *map(str, sorted(tmp_path.glob("*.csv")))]
    out = tmp_path / "out"
    assert main(command(world, out, "--faiss", str(world / "summaries.faiss"), *tables)) == 0
    index = Index.open(out, encoder=build_encoder(load_profile(str(world / "profile.toml"))))
    # Part 2 comes before part 10, and of each title the first file that exists counts; other entities have none.
    assert [index.entity(row).image for row in range(3)] == ["green.png", "red.png", None]
    assert index.manifest.counts.with_image == 2
