"""Mining hard negatives: the file format, and resuming."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import Tensor

from evaluation.datasets import Question
from indexes.knowledge.sources import FolderImages
from indexes.ranked_lists import Order
from retriever.models.encoder import ClipEncoder
from retriever.types import ArticleImage, Entity, Filter, FloatArray, IntArray, Section, StoredTokens
from tests.fakes.training_world import TrainingWorld
from training.mine import mine_negatives
from training.negatives import read_negatives


class Lands:
    """An index of three entities; a search returns them in order, padded with -1."""

    name = "lands"
    fingerprint = "3 lands"

    def __len__(self) -> int:
        return 3

    def search(self, vectors: Tensor, k: int, filter: Filter = ()) -> tuple[FloatArray, IntArray]:
        rows = torch.tensor([0, 1, 2, -1])[:k].repeat(len(vectors), 1).numpy()
        return 2 - rows.astype("float32"), rows

    def entity(self, row: int) -> Entity:
        return Entity(f"e{row}", "", (), image=f"https://e.example/{row}.png")

    def row_of(self, entity_id: str) -> int | None:
        return {"e0": 0, "e1": 1, "e2": 2}.get(entity_id)

    def image_path(self, row: int) -> Path | None:
        return None

    def thumbnails(self, row: int) -> dict[str, bytes]:
        return {}

    def section_rows(self, row: int) -> range:
        return range(0)

    token_rows = section_rows

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        return StoredTokens(torch.zeros(0, 32, 8), None, np.zeros(len(spans), np.int64))


class OtherLands(Lands):
    """As many entities as in `Lands`, but others."""

    fingerprint = "3 other lands"


class CountingLands(Lands):
    """Counts the articles read."""

    read = 0

    def entity(self, row: int) -> Entity:
        self.read += 1
        return super().entity(row)


def test_each_article_that_is_found_is_read_once(world: TrainingWorld, tmp_path: Path) -> None:
    encoder, lands = ClipEncoder.load(world.folder / "clip"), CountingLands()
    questions = [Question(image, "?", image, (), (), 0) for image in ("q_red", "q_blue")]
    mine_negatives(encoder, lands, questions, world.query_image_of, tmp_path / "n.json", k=3)
    assert lands.read == 3  # not one per entity and image, which is 6


def test_a_folder_in_the_place_of_the_file_is_refused_at_once(world: TrainingWorld, tmp_path: Path) -> None:
    encoder = ClipEncoder.load(world.folder / "clip")
    with pytest.raises(ValueError, match="is a folder, but a file is needed; choose another name"):
        mine_negatives(encoder, Lands(), [], world.query_image_of, tmp_path)
    assert not list(tmp_path.parent.glob("*.journal"))


def test_mining_writes_the_known_format_and_resumes(world: TrainingWorld, tmp_path: Path) -> None:
    encoder = ClipEncoder.load(world.folder / "clip")
    questions = [
        Question(str(i), "?", image, (), ("e1",), 0) for i, image in enumerate(["q_red", "q_blue", "q_red", "gone"])
    ]
    out = tmp_path / "negatives.json"
    assert mine_negatives(encoder, Lands(), questions, world.query_image_of, out, k=4) == 2
    expected = {
        "gt_entity_pos_img": "https://e.example/1.png",
        "top_20": [{"entry": f"e{i}", "similarity": float(2 - i)} for i in range(3)],
    }
    negatives = {"q_red": expected, "q_blue": expected}
    assert out.read_text() == json.dumps(negatives, ensure_ascii=False, indent=0) + "\n"
    assert list(read_negatives(out)["q_blue"].items()) == [("e0", 2.0), ("e1", 1.0), ("e2", 0.0)]
    note = {"negatives.json.inputs.json", "negatives.json.inputs.npz"}
    assert {path.name for path in tmp_path.iterdir()} == {"negatives.json", *note}

    kept = json.dumps(["q_red", {"gt_entity_pos_img": None, "top_20": [{"entry": "kept"}]}])
    journal = tmp_path / "negatives.json.journal"

    def killed() -> None:
        """Leaves the inputs of a run, and its journal cut off in the middle of a line."""
        out.unlink()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("training.mine._loaded", Mock(side_effect=KeyboardInterrupt))
            mine_negatives(encoder, Lands(), questions, world.query_image_of, out, k=4)
        journal.write_text(f'{kept}\n["q_blue", {{"gt_en')

    killed()
    mine_negatives(encoder, Lands(), questions, world.query_image_of, out, k=4)
    found = read_negatives(out)
    assert {image: mined.entities for image, mined in found.items()} == {
        "q_red": ("kept",),
        "q_blue": ("e0", "e1", "e2"),
    }
    assert math.isnan(found["q_red"].similarities[0])  # as in OMGM's own files

    killed()
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    changes: dict[str, dict[str, Any]] = {
        "k was 4 and is now 2": {"k": 2},
        "index was .3 lands. and is now .3 other lands.": {"index": OtherLands()},
        'trim_borders was false and is now "cut off without a margin"': {"trim_borders": True},
        "labels: 2 images are gone; query images: 2 images are gone": {"questions": questions[:1]},
        "labels: 3 of 3 images have another entity": {
            "questions": [replace(question, entity_ids=("e2",)) for question in questions]
        },
    }
    for said, given in changes.items():
        arguments: dict[str, Any] = {"index": Lands(), "questions": questions, "k": 4} | given
        with pytest.raises(ValueError, match=f"made from other inputs .{said}.; choose another --out, or pass --overw"):
            mine_negatives(encoder, query_image_of=world.query_image_of, out=out, **arguments)
    assert files == {path: path.read_bytes() for path in tmp_path.iterdir()}  # refused runs wrote nothing
    for content in ("x\n", "5\n"):
        journal.write_text(content)
        with pytest.raises(ValueError, match=r"negatives\.json\.journal: damaged .*; delete it to start over"):
            mine_negatives(encoder, Lands(), questions, world.query_image_of, out, k=4)
    assert mine_negatives(encoder, Lands(), questions, world.query_image_of, out, k=2, overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"negatives.json", *note}


def test_a_finished_file_is_kept_and_what_turns_up_later_is_added(world: TrainingWorld, tmp_path: Path) -> None:
    encoder, out = ClipEncoder.load(world.folder / "clip"), tmp_path / "negatives.json"
    questions = [Question(image, "?", image, (), ("e1",), 0) for image in ("q_red", "q_blue")]

    def mine(*images: str, **given: Any) -> int:
        of = {image: world.query_image_of(image) for image in images}
        return mine_negatives(encoder, Lands(), questions, of.get, out, **given)

    assert mine("q_red") == 1
    first = json.loads(out.read_text())
    out.write_text(json.dumps({"q_red": first["q_red"] | {"gt_entity_pos_img": "edited"}}))
    assert mine("q_red") == 1 and json.loads(out.read_text())["q_red"]["gt_entity_pos_img"] == "edited"
    assert mine("q_red", "q_blue") == 2  # without the image of the first run, which is not mined again
    assert json.loads(out.read_text()) == {
        "q_red": first["q_red"] | {"gt_entity_pos_img": "edited"},
        "q_blue": first["q_red"],
    }
    out.with_name("negatives.json.inputs.json").unlink()
    with pytest.raises(ValueError, match=r"inputs.json: missing, but there is negatives.json, whose inputs"):
        mine("q_red", "q_blue")
    assert mine("q_blue", overwrite=True) == 1 and list(json.loads(out.read_text())) == ["q_blue"]


def test_images_that_all_are_missing_leave_nothing(world: TrainingWorld, tmp_path: Path) -> None:
    encoder, question = ClipEncoder.load(world.folder / "clip"), Question("0", "?", "gone", (), ("e1",), 0)
    with pytest.raises(ValueError, match="--query-images: none of the questions' images can be read"):
        mine_negatives(encoder, Lands(), [question], world.query_image_of, tmp_path / "negatives.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["[", "[]", '{"q": ["e0"]}', '{"q": {"top_20": ["e0"]}}', '{"q": {}}'])
def test_negatives_of_another_format_are_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "negatives.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"negatives\.json"):
        read_negatives(path)


@pytest.mark.parametrize("score", ["NaN", "Infinity", "1e999", '"high"'])
def test_similarities_are_finite(score: str, tmp_path: Path) -> None:
    path = tmp_path / "negatives.json"
    path.write_text(f'{{"q": {{"top_20": [{{"entry": "e", "similarity": {score}}}]}}}}')
    with pytest.raises(ValueError, match=r"q: expected .*a score must be a (finite )?number"):
        read_negatives(path)


def test_negatives_against_the_order_of_their_similarities_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "negatives.json"
    path.write_text('{"q": [{"entry": "near", "similarity": 0.25}, {"entry": "far", "similarity": 2.5}]}')
    with pytest.raises(ValueError, match=r"'q', the order contradicts the scores: first.*'near'.*--order distances"):
        read_negatives(path, flag="--order")
    readings: dict[Order, dict[str, float]] = {
        "list": {"near": math.nan, "far": math.nan},
        "scores": {"far": 2.5, "near": 0.25},
        "distances": {"near": -0.25, "far": -2.5},
    }
    for order, found in readings.items():
        mined = read_negatives(path, order=order)["q"]
        assert str(dict(mined.items())) == str(found)


class Towns(Lands):
    """One entity with three images, the first of which is missing."""

    def entity(self, row: int) -> Entity:
        images = tuple(ArticleImage(f"https://e.example/{color}.png") for color in ("red", "blue"))
        return Entity("e0", "", (), image="https://e.example/gone.png", images=images)


def test_the_positive_image_is_the_one_most_similar_to_the_question_s(world: TrainingWorld, tmp_path: Path) -> None:
    encoder = ClipEncoder.load(world.folder / "clip")
    questions = [Question(image, "?", image, (), ("e0",), 0) for image in ("q_red", "q_blue")]
    out = tmp_path / "negatives.json"
    images = FolderImages(world.folder / "images")
    mine_negatives(encoder, Towns(), questions, world.query_image_of, out, images=images)
    found = {image: mined.positive for image, mined in read_negatives(out).items()}
    assert found == {"q_red": "https://e.example/red.png", "q_blue": "https://e.example/blue.png"}


class Cities(Lands):
    """An index of four entities: the last one has the text of the first, which is long."""

    texts = ("first " * 50, "second " * 50, "third " * 50, "FIRST\n" * 50)

    def __len__(self) -> int:
        return 4

    def search(self, vectors: Tensor, k: int, filter: Filter = ()) -> tuple[FloatArray, IntArray]:
        rows = torch.tensor([3, 2, 1, 0]).repeat(len(vectors), 1).numpy()
        return rows.astype("float32"), rows

    def entity(self, row: int) -> Entity:
        return replace(super().entity(row), sections=(Section("", self.texts[row], 0),))


def test_each_entity_in_an_image_has_its_own_positive_and_copies_are_no_negatives(
    world: TrainingWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = ClipEncoder.load(world.folder / "clip")
    golds = [("q_red", ("e1",)), ("q_red", ("e2", "e0")), ("q_red", ("e1",)), ("q_blue", ("e0",)), ("q_green", ())]
    questions = [Question(str(i), "?", image, (), gold, 0) for i, (image, gold) in enumerate(golds)]
    out = tmp_path / "negatives.json"
    mine_negatives(encoder, Cities(), questions, world.query_image_of, out)
    red, blue, green = json.loads(out.read_text()).values()
    assert red["gt_entity_pos_img"] == "https://e.example/1.png"
    assert red["positives"] == {"e1": "https://e.example/1.png", "e2": "https://e.example/2.png"}
    assert [[one["entry"] for one in row["top_20"]] for row in (red, blue, green)] == [
        ["e2", "e1", "e0"],
        ["e2", "e1", "e0"],
        ["e3", "e2", "e1", "e0"],
    ]
    assert (red["copies"], blue["copies"]) == (["e3"], ["e3"]) and "positives" not in blue and len(green) == 2
    assert "2 of 3 images found copies of the article that they are about, which are no negatives" in caplog.text
    assert read_negatives(out)["q_red"].positives == red["positives"]


def test_a_path_of_omgm_s_own_files_is_read(tmp_path: Path) -> None:
    path = tmp_path / "negatives.json"
    path.write_text('{"7": {"gt_entity_pos_img": "part_1/a b.jpg", "top_20": [{"entry": "u"}, {"entry": "u"}]}}')
    (mined,) = read_negatives(path).values()
    assert (mined.entities, mined.positive) == (("u",), "part_1/a b.jpg")


def test_echosight_s_own_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "negatives.json"
    path.write_text('{"7": [{"entry": "u", "similarity": 0.5}, {"entry": "v", "similarity": 0.25}]}')
    (mined,) = read_negatives(path).values()
    assert (list(mined.items()), mined.positive) == ([("u", 0.5), ("v", 0.25)], None)
