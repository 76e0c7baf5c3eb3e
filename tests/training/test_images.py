"""Training finds a knowledge base's images in the same places as an index build."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file

from indexes.image_source import find_main
from indexes.knowledge.knowledge_base import image_source
from indexes.knowledge.reading import read_knowledge_base
from omgm.__main__ import parser
from omgm.commands.common import labeled_of
from retriever.images import load_image
from retriever.models.pixels import PixelPreparation
from retriever.types import ArticleImage, Entity
from tests.fakes.images import image_bytes, write_image
from tests.fakes.plans import indexed
from tests.retriever.models.test_encoder import small_encoder
from training.config import TrainingConfig
from training.encoder_data import EncoderData
from training.images import ImageLoader, load_images
from training.train_encoder import train_encoder


def entity(name: str, *urls: str) -> Entity:
    return Entity(name, name, (), urls[0] if urls else None, images=tuple(ArticleImage(url) for url in urls))


def test_the_first_image_that_exists_is_the_main_image(tmp_path: Path) -> None:
    write_image(tmp_path / "b.png", "blue")
    write_image(tmp_path / "deep" / "c.png", "red")
    entities = {
        0: entity("both", "https://e.example/a.png", "https://e.example/b.png", "https://e.example/deep/c.png"),
        1: entity("none", "https://e.example/a.png"),
        2: entity("imageless"),
        5: entity("main", "https://e.example/deep/c.png", "https://e.example/b.png"),
    }
    source = image_source(tmp_path, tmp_path / "kb.jsonl", None)
    named = {row: find_main(source, entity) for row, entity in entities.items()}
    found = {row: ImageLoader(name, source.load) for row, name in named.items() if name is not None}
    assert {row: load().getpixel((0, 0)) for row, load in found.items()} == {0: (0, 0, 255), 5: (255, 0, 0)}
    loaded = load_images(list(found.values()), 4, tmp_path / "out" / "images.npy")
    assert len(loaded) == 2 and loaded[[0, 1]].shape == (2, 3, 4, 4)
    assert loaded[torch.tensor([1, 0, 1])][:, :, 0, 0].tolist() == [[255, 0, 0], [0, 0, 255], [255, 0, 0]]
    assert loaded[[]].shape == (0, 3, 4, 4)


def noise(folder: Path, count: int) -> list[ImageLoader]:
    rng = np.random.default_rng(0)
    for number in range(count):
        Image.fromarray(rng.integers(0, 256, (9, 7, 3), np.uint8)).save(folder / f"{number}.png")
    return [ImageLoader(str(folder / f"{number}.png"), load_image) for number in range(count)]


def test_images_in_a_file_are_those_that_were_loaded_before_a_kill_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.images.BATCH", 2)
    loaders, path = noise(tmp_path, 5), tmp_path / "images.npy"
    (tmp_path / "3.png").rename(tmp_path / "away")
    with pytest.raises(ValueError, match=r"3\.png"):
        load_images(loaders, 6, path)
    (tmp_path / "away").rename(tmp_path / "3.png")
    read: list[str] = []

    def noted(name: str) -> Image.Image:
        read.append(Path(name).name)
        return load_image(name)

    expected = PixelPreparation(6).to_uint8([load() for load in loaders])
    for _ in range(2):
        stored = load_images([ImageLoader(load.name, noted) for load in loaders], 6, path)
        assert torch.equal(stored[range(5)], expected)
        assert sorted(read) == ["2.png", "3.png", "4.png"]  # the first batch was on disk


def test_a_knowledge_base_without_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="images: name the folder"):
        image_source(None, tmp_path / "kb_wiki.json", "evqa")
    (tmp_path / "file.txt").touch()
    with pytest.raises(ValueError, match="neither a folder nor a ZIM file"):
        image_source(tmp_path / "file.txt", tmp_path / "kb.jsonl", None)
    small_encoder().save(tmp_path / "start")
    (tmp_path / "kb.jsonl").write_text('{"id": "a", "title": "A", "image": "a.png", "text": "It."}')
    data = EncoderData(**indexed(tmp_path / "kb.jsonl", tmp_path))
    with pytest.raises(ValueError, match="has none of the main images"):
        train_encoder(tmp_path / "start", data, tmp_path / "out")


def test_an_encoder_is_trained_on_a_folder_of_articles(tmp_path: Path) -> None:
    for color in ("red", "green", "blue"):
        write_image(tmp_path / "kb" / f"{color}.png", color, 40)
        (tmp_path / "kb" / f"{color}.md").write_text(f"# {color}\n![it]({color}.png)\n\nA {color} cloth.\n")
    small_encoder().save(tmp_path / "start")
    trained = train_encoder(
        tmp_path / "start",
        EncoderData(**indexed(tmp_path / "kb")),
        tmp_path / "out",
        TrainingConfig(steps=1),
    )
    before, after = (load_file(folder / "model.safetensors") for folder in (tmp_path / "start", trained))
    assert any((before[name] != after[name]).any() for name in before)


def test_images_are_read_from_a_zim_file(tmp_path: Path) -> None:
    pytest.importorskip("libzim")
    from tests.indexes.knowledge.readers.test_zim import write_zim

    page = '<html><body><p>A fox.</p><img src="./fox.png" width="220" height="150"></body></html>'
    kb = write_zim(tmp_path / "kb.zim", {"Red_fox": ("Red fox", page), "fox.png": ("", image_bytes("red", (90, 60)))})
    [fox], source = read_knowledge_base(kb), image_source(None, kb, None)
    image = source.load(find_main(source, fox) or "")
    assert image.size == (90, 60) and image.getpixel((5, 5)) == (255, 0, 0)


def test_questions_without_an_entity_label_no_image(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "b", "c"):
        write_image(tmp_path / "queries" / f"{name}.png", "red")
    rows = [
        ("1", "a.png", "tea"),
        ("2", "b.png", None),
        ("3", "b.png", None),
        ("4", "c.png", None),
        ("5", "c.png", "x|y"),
        ("5a", "c.png", "z"),
    ]
    rows.append(("6", "gone.png", "tea"))
    lines = [
        {"id": i, "image": image, "question": "?", "answers": ["a"], "entity": e and e.split("|")}
        for i, image, e in rows
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    given = ["--kb", "kb", "--out", "o", "--dataset", "plain", "--queries", str(tmp_path / "questions.jsonl")]
    args = parser().parse_args(["train-encoder", *given, "--query-images", str(tmp_path / "queries")])
    with caplog.at_level(logging.WARNING):
        labeled = labeled_of(args)
    found = [(image.path.name, image.entity_id, image.others) for image in labeled]
    assert found == [("a.png", "tea", ()), ("c.png", "x", ("y",)), ("c.png", "z", ())]
    assert "2 of 4 images skipped" in caplog.text
