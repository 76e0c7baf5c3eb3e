"""Labeled images as further keys of the entities that they show."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from indexes.builder.estimate import estimate_build
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.sources import FolderImages
from indexes.labeled_images import LabeledImage, LabeledSource
from indexes.live.articles import article_of
from indexes.live.editor import Editor
from indexes.live.index import LiveIndex
from indexes.store.generations import current_files
from indexes.store.index import Index
from indexes.store.manifest import describe_file
from indexes.store.search_kinds import bytes_per_key
from omgm.__main__ import main
from retriever.borders import trim
from retriever.step2_rerank import FusionRerank
from retriever.types import Candidate, Entity, Query
from tests.fakes.live import World, article, data_of, painting
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index, plan
from tests.fakes.rows import write_jsonl
from tests.indexes.live.test_live_index import check_same

COLORS = ("red", "green", "blue", "white", "black", "yellow")


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    for folder in ("images", "photos"):
        (tmp_path / folder).mkdir()
        for color in COLORS:
            Image.new("RGB", (90, 60), color).save(tmp_path / folder / f"{color}.png")
    rows = [
        {"id": "a", "title": "A", "sections": [{"title": "A", "text": "One."}], "images": ["red.png", "green.png"]},
        {"id": "b", "title": "B", "sections": [{"title": "B", "text": "Two."}], "images": ["white.png"]},
    ]
    return write_jsonl(tmp_path / "kb.jsonl", *rows)


def labeled(kb: Path, **entities: str) -> list[LabeledImage]:
    return [LabeledImage(color, kb.parent / "photos" / f"{color}.png", name) for color, name in entities.items()]


def build(kb: Path, images: list[LabeledImage], **options: Any) -> Index:
    models: dict[str, Any] = {"summarizer": FakeSummarizer(), "encoder": FakeEncoder(), "fusion": FakeFusion()}
    return build_index(
        kb,
        kb.parent / "images",
        kb.parent / "index",
        candidates="combined",
        labeled=images,
        **models,
        **options,
    )


def best(index: Index, color: str) -> str:
    _, rows = index.search(FakeEncoder().encode_images([Image.new("RGB", (9, 9), color)]), 2)
    assert len(set(rows[0].tolist()) - {-1}) == 2
    return index.entity(int(rows[0][0])).id


def test_an_entity_is_found_by_its_labeled_images(kb: Path, caplog: pytest.LogCaptureFixture) -> None:
    index = build(kb, labeled(kb, blue="a", black="b", yellow="b", green="nobody"))
    assert index.manifest.counts.further_keys == 3  # and not the second image of A's article
    assert [best(index, color) for color in ("red", "blue", "white", "black", "yellow")] == ["a", "a", "b", "b", "b"]
    assert "1 entity of labeled images not in the knowledge base, such as nobody" in caplog.text


def test_step_2_compares_with_labeled_images(kb: Path) -> None:
    """Their tokens are computed from the images without text and stored after the sections' rows."""
    index, fusion = build(kb, labeled(kb, blue="a", black="b", yellow="b")), FakeFusion()
    counts = index.manifest.counts
    assert (counts.token_sections, counts.labeled_tokens) == (2, 3)
    assert [index.section_rows(row) for row in (0, 1)] == [range(0, 1), range(2, 3)]
    assert [index.token_rows(row) for row in (0, 1)] == [range(0, 2), range(2, 5)]
    images = [Image.new("RGB", (90, 60), color) for color in ("blue", "black", "yellow")]
    expected = torch.nn.functional.normalize(fusion.encode(images, ["", "", ""]), dim=-1)
    assert torch.allclose(index.tokens(np.array([1, 3, 4])), expected, atol=1e-3)
    query = Query(Image.new("RGB", (90, 60), "black"), "Which one?")
    [[first, second]] = FusionRerank(fusion, index, alpha=0.0).start([query])([[Candidate(0), Candidate(1)]])
    both = torch.nn.functional.normalize(fusion.encode([query.image] * 2, ["which one?", ""]), dim=-1)
    sims, alone = ([float((one @ row.T).amax(1).mean()) for row in index.tokens(np.arange(5))] for one in both)
    assert first.row == 1 and first.sim_m == pytest.approx(max(alone[3:]), abs=1e-3)
    assert second.sim_m == pytest.approx(alone[1], abs=1e-3)
    assert [section.sim_m for section in first.sections] == pytest.approx([sims[2]], abs=1e-3)


def test_an_index_without_tokens_of_labeled_images_opens(kb: Path) -> None:
    """As written by older versions; changes preserve that format."""
    folder = build(kb, labeled(kb, black="b")).folder
    manifest, offsets = json.loads((folder / "manifest.json").read_bytes()), np.array([0, 1, 2])
    for name in ("tokens.npy", "token_scales.npy"):
        stored = np.load(folder / name)
        np.save(folder / name, stored[:2])
    np.save(folder / "token_offsets.npy", offsets)
    for name in ("tokens.npy", "token_scales.npy", "token_offsets.npy"):
        manifest["files"][name] = describe_file(folder / name).model_dump()
    del manifest["counts"]["labeled_tokens"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    index = LiveIndex.open(folder, encoder=FakeEncoder(), fusion=FakeFusion(), write=True)
    editor = Editor(index, FakeSummarizer, FakeEncoder(), FakeFusion())
    changed = [replace(entity, title="New") for entity in read_knowledge_base(kb)][1:]
    editor.put([article_of(entity, FolderImages(kb.parent / "images")) for entity in changed])
    row = index.row_of("b")
    assert row is not None and len(index.token_rows(row)) == len(index.section_rows(row)) == 1
    assert index.compact()
    editor.close()
    counts = Index.open(folder).manifest.counts
    assert (counts.token_sections, counts.labeled_tokens, counts.further_keys) == (2, 0, 1)


def test_labels_name_entities_as_questions_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wiki = "https://en.wikipedia.org/wiki/"
    names = [
        f"{wiki}Say's_phoebe",
        "http://en.m.wikipedia.org/wiki/Say%27s%20phoebe",
        f"{wiki}Sayornis_saya",  # another name of it
        "http://en.wikipedia.org/wiki/Sayornis%20saya",
        "fox",
        "Vulpes vulpes",
        f"{wiki}Nobody",
    ]
    images = [LabeledImage(str(number), tmp_path / "x.png", name) for number, name in enumerate(names)]
    (tmp_path / "x.png").touch()
    phoebe = Entity(names[0], "Say's phoebe", (), names=("Sayornis saya",))
    fox = Entity("fox", "Red fox", (), names=("Vulpes vulpes",))
    entities = list(LabeledSource(images, None).attach(iter([phoebe, fox, Entity("cat", "Cat", ())])))
    assert [[image.url for image in entity.images] for entity in entities] == [
        ["labeled:0", "labeled:1", "labeled:2", "labeled:3"],
        ["labeled:4", "labeled:5"],
        [],
    ]
    assert f"1 entity of labeled images not in the knowledge base, such as {wiki}Nobody" in caplog.text


def test_an_id_is_labeled_even_if_it_is_the_name_of_another_entity(tmp_path: Path) -> None:
    (tmp_path / "x.png").touch()
    entities = [Entity("a", "A", (), names=("b",)), Entity("b", "B", ()), Entity("c", "C", (), names=("b",))]
    attached = LabeledSource([LabeledImage("0", tmp_path / "x.png", "b")], None).attach(iter(entities))
    assert [len(entity.images) for entity in attached] == [1, 1, 0]


def test_an_image_of_two_entities_is_a_key_of_each_once(kb: Path) -> None:
    path = kb.with_name("photos") / "blue.png"
    images = [LabeledImage("both", path, "x", ("a",)), LabeledImage("both", path, "b"), LabeledImage("both", path, "a")]
    index = build(kb, images)
    assert index.manifest.counts.further_keys == 2
    assert [[image.url for image in index.entity(row).images if "both" in image.url] for row in range(2)] == [
        ["labeled:both"],
        ["labeled:both"],
    ]


def test_the_first_entity_of_a_label_that_is_known_gets_the_image(kb: Path) -> None:
    others = {"blue": ("b", "a"), "black": ("b",), "yellow": ()}
    images = [image._replace(others=others[image.image_id]) for image in labeled(kb, blue="no", black="a", yellow="a")]
    index = build(kb, images)  # in which a comes before b
    shown = [[image.url for image in index.entity(row).images] for row in range(2)]
    assert shown == [["red.png", "green.png", "labeled:black", "labeled:yellow"], ["white.png", "labeled:blue"]]


def test_other_labels_are_other_inputs(kb: Path) -> None:
    first = build(kb, labeled(kb, blue="a"))
    made = (first.folder / "manifest.json").read_bytes()
    build(kb, labeled(kb, blue="a"))  # nothing to do
    assert (first.folder / "manifest.json").read_bytes() == made
    for others in (labeled(kb, blue="b"), []):
        with pytest.raises(ValueError, match=r"inputs \(.*labeled images: (other content|given before, not).*--overw"):
            build(kb, others)
    assert best(build(kb, labeled(kb, blue="b"), overwrite=True), "blue") == "b"


def test_labeled_images_stand_for_a_missing_main_image(kb: Path) -> None:
    (kb.parent / "images" / "white.png").unlink()
    index = build(kb, labeled(kb, black="b"))
    assert index.manifest.counts.with_image == 2
    assert best(index, "black") == "b"


def test_labeled_images_find_an_entity_whose_article_names_no_image(kb: Path) -> None:
    with kb.open("a") as file:
        file.write(json.dumps({"id": "c", "title": "C", "sections": [{"title": "C", "text": "Three."}]}) + "\n")
    index = build(kb, labeled(kb, black="c", yellow="c"))
    row = index.row_of("c")
    assert row is not None and index.manifest.counts.with_image == 3
    assert [best(index, color) for color in ("black", "yellow", "white")] == ["c", "c", "b"]
    assert len(index.token_rows(row)) == len(index.section_rows(row)) + 2


def test_images_called_like_the_rows_are_main_images_beside_labeled_ones(kb: Path) -> None:
    kb.write_text("".join(json.dumps({"id": color, "title": color, "text": "."}) + "\n" for color in ("red", "white")))
    index = build(kb, labeled(kb, black="white"))
    assert (index.manifest.counts.with_image, index.manifest.counts.further_keys) == (2, 1)
    assert [best(index, color) for color in ("red", "white", "black")] == ["red", "white", "white"]


def test_an_article_with_labeled_images_is_not_put_again(kb: Path) -> None:
    folder = build(kb, labeled(kb, blue="a")).folder
    index = LiveIndex.open(folder, encoder=FakeEncoder(), fusion=FakeFusion(), write=True)
    editor = Editor(index, FakeSummarizer, FakeEncoder(), FakeFusion())
    source = FolderImages(kb.parent / "images")
    assert all(editor.holds(article_of(entity, source)) for entity in read_knowledge_base(kb))
    editor.close()


@pytest.mark.parametrize("candidates", ["combined", "image"])
def test_a_changed_article_keeps_its_labeled_images(tmp_path: Path, candidates: str) -> None:
    """As in a build from the current articles with the same labels."""
    labels = list[LabeledImage]()
    for number, name in enumerate("aaabbcde"):
        path = tmp_path / f"photo-{number}.png"
        painting(100 + number).save(path)
        labels.append(LabeledImage(f"{number}", path, f"kb/{name}"))
    labels[1].path.write_bytes(b"damaged")
    first = [article(name, further=1) for name in "abc"] + [article(name, image="gone.png") for name in "de"]
    world = World(tmp_path / "world", first, labeled=labels, candidates=candidates, image_keys=2)
    final = [article("a", 1, further=3), article("b", further=1), article("d", 5), article("e", image="gone.png")]
    final += [article("f", 2, further=1)]
    editor = world.editor()
    world.put(editor, article("a", 7, image=None))  # keeps them even without a main image of its own
    row = editor.index.row_of("kb/a")
    assert row is not None and editor.index.stored(row).labeled == 2
    assert (len(editor.index.section_rows(row)), len(editor.index.token_rows(row))) == (0, 2)
    world.put(editor, final[0], final[2], final[4])
    editor.remove(["kb/c"])
    world.options["labeled"] = [label for label in labels if label.entity_id != "kb/c"]
    fresh = world.build(final, tmp_path / "world" / "fresh")
    assert fresh.manifest.counts.further_keys == (1 + 2) + (1 + 2) + 1 + 0 + 1
    check_same(editor.index, fresh)
    check_same(world.open(), fresh)
    assert editor.index.compact()
    check_same(editor.index, fresh)
    assert data_of(current_files(world.index)) == data_of(fresh.folder)
    assert np.load(fresh.folder / "labeled_keys.npy").tolist() == [3, 6, 7, 9, 10, 11]
    world.put(editor, article("b", 3))  # of the new files
    row = editor.index.row_of("kb/b")
    assert row is not None and editor.index.stored(row).labeled == 2
    editor.remove(["kb/b"])
    world.put(editor, article("b", 3))
    row = editor.index.row_of("kb/b")
    assert row is not None and editor.index.stored(row).labeled == 0  # removed together with it
    editor.index.close()


def test_an_article_whose_main_image_is_a_labeled_one_is_known(kb: Path) -> None:
    (kb.parent / "images" / "white.png").unlink()
    folder = build(kb, labeled(kb, black="b")).folder
    index = LiveIndex.open(folder, encoder=FakeEncoder(), fusion=FakeFusion(), write=True)
    editor = Editor(index, FakeSummarizer, FakeEncoder(), FakeFusion())
    source = FolderImages(kb.parent / "images")
    [_, article] = [article_of(entity, source) for entity in read_knowledge_base(kb)]
    assert article.image is None and editor.holds(article)
    editor.put([article])
    assert best(index, "black") == "b"
    assert editor.holds(article)
    editor.close()


def test_an_estimate_counts_labeled_images(kb: Path) -> None:
    estimated = plan(
        kb,
        kb.parent / "images",
        kb,
        summarizer=FakeSummarizer(),
        encoder=FakeEncoder(),
        fusion=FakeFusion(),
        candidates="combined",
        labeled=labeled(kb, blue="a", black="b", yellow="b"),
    )
    found = estimate_build(estimated)
    length = 2 * FakeEncoder().dimension
    assert found.bytes["entity index"] == round((2 + 3) * bytes_per_key("flat", 2, length))
    assert found.temporary_bytes == (2 + 3) * length * 2


def test_the_command_takes_the_images_of_questions(kb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"{color}.png" for color in COLORS[4:]] + ["cyan.png", "gray.png", "copy"]
    for name, color in zip(
        names[2:], ("cyan", "rgb(84, 84, 84)", "rgb(84, 84, 84)"), strict=True
    ):  # trainings hold out that gray
        Image.new("RGB", (9, 9), color).save(kb.parent / "photos" / name, "PNG")
    questions = [{"id": n, "image": n, "question": "?", "answers": ["x"], "entity": "b"} for n in names]
    (kb.parent / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    given = {"--kb": kb, "--images": kb.parent / "images", "--out": kb.parent / "index", "--dataset": "plain"}
    arguments = [str(word) for pair in given.items() for word in pair]
    queries = ["--queries", str(kb.parent / "questions.jsonl")]
    assert main(["build-index", *arguments, *queries]) == 2
    assert "--queries and --query-images must be given together" in capsys.readouterr().err
    assert main(["build-index", *arguments, *queries, "--query-images", str(kb.parent / "photos"), "--json"]) == 0
    assert Index.open(kb.parent / "index").manifest.counts.further_keys == 1 + 3  # the article's green.png first


def test_borders_are_cut_off_labeled_images_as_off_queries(kb: Path) -> None:
    path = kb.parent / "photos" / "card.png"
    card = Image.new("RGB", (120, 90), "gray")
    card.paste("blue", (20, 20, 60, 50))
    card.save(path)
    images = [LabeledImage("card", path, "b")]
    index, [query] = build(kb, images, trim_borders=True), FakeEncoder().encode_images([trim(card)])
    scores, rows = index.search(query[None], 1)
    assert (
        index.entity(rows[0, 0]).id == "b"
        and scores[0, 0] > build(kb, images, overwrite=True).search(query[None], 1)[0]
    )
    with pytest.raises(ValueError, match="--overwrite"):
        build(kb, images, trim_borders=True)
