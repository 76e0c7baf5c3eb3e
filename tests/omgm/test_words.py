"""Things of the same make are recognized by what is printed on them, with the embedded profile from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from omgm.api import OMGM
from omgm.commands.ask import _as_dict
from omgm.indexing import Build, build
from omgm.opening import open_retriever
from omgm.profile import load_profile
from retriever.types import Query

NAMES = ("MAPLE SYRUP", "OAT PORRIDGE", "TOMATO SOUP", "GREEN OLIVES", "PEANUT BUTTER", "RASPBERRY JAM")


def package(text: str, seed: int, angle: float = 0.0, paper: str = "ivory", ink: str = "darkred") -> Image.Image:
    """Returns a photograph of a package: a printed label on a texture of its own."""
    draw = np.random.default_rng(seed)
    coarse = Image.fromarray(draw.integers(60, 200, (9, 12, 3), np.uint8))
    image = coarse.resize((400, 300), Image.Resampling.BICUBIC)
    if text:
        label = Image.new("RGB", (330, 90), paper)
        ImageDraw.Draw(label).text((14, 22), text, ink, ImageFont.load_default(34))
        turned = label.convert("RGBA").rotate(angle, Image.Resampling.BICUBIC, expand=True)
        image.paste(turned, (20 + seed % 20, 60 + seed % 90), turned)
    return image


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    (folder / "images").mkdir()
    rows = []
    for number, name in enumerate((*NAMES, "")):
        package(name, number).save(folder / "images" / f"{number}.png")
        sections = [{"title": "Facts", "text": f"Article {number} weighs {100 + number} grams."}]
        rows.append(
            {"id": f"kb/{number}", "title": f"Article {number}", "image": f"{number}.png", "sections": sections}
        )
    (folder / "kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    profile = load_profile("embedded")
    build(profile, Build(kb=folder / "kb.jsonl", images=folder / "images", out=folder / "index"))
    return folder


@pytest.mark.slow
def test_a_package_is_recognized_by_its_label(folder: Path) -> None:
    with OMGM.open(folder / "index", load_profile("embedded")) as omgm:
        for number, name in enumerate(NAMES[:2]):
            [found] = omgm.retrieve([(package(name, 50 + number, 4, "navy", "white"), "How heavy is it?")])
            assert found.entity is not None and found.entity.id == f"kb/{number}" and found.by_text
            assert found.text is not None and name in " ".join(line.text for line in found.text)
            left, top, right, bottom = found.text[0].box
            assert 0 <= left < right <= 1 and 0.1 < top < bottom < 0.9
        answer = omgm.ask(package(NAMES[2], 70, 4, "navy", "white"), "How many grams does it weigh?")
        assert answer.by_text and json.loads(json.dumps(_as_dict(answer)["text"]))[0]["text"] in NAMES[2]
        others = (package("ORGANIC 1 L NET WEIGHT", 90, 4, "navy", "white"), package("", 95))
        foreign, plain = omgm.retrieve([(image, "How heavy is it?") for image in others])
        assert foreign.recognized is not None and foreign.recognized < 0.5 and not foreign.by_text
        assert foreign.text  # also of what is not recognized
        assert not plain.text and not plain.by_text


@pytest.mark.slow
def test_a_question_about_the_text_is_answered_by_the_image(folder: Path) -> None:
    with OMGM.open(folder / "index", load_profile("embedded")) as omgm:
        known, foreign = package(NAMES[0], 50, 4, "navy", "white"), package("ORGANIC OIL", 90, 4, "navy", "white")
        said = omgm.ask(known, "What does it say?")
        assert (said.answer, said.reading, said.declined, said.evidence) == (NAMES[0], "text", False, None)
        assert said.entity is not None and said.entity.id == "kb/0" and said.quote == said.text
        read, brand = omgm.ask(foreign, "What is written on it?"), omgm.ask(foreign, "Which brand is it?")
        for answer in (read, brand):
            assert (answer.answer, answer.entity, answer.declined) == ("ORGANIC OIL", None, True)
            assert answer.confidence is not None and answer.confidence > 0.8 and answer.grounded is None
        [line] = json.loads(json.dumps(_as_dict(brand)))["quote"]
        assert line["text"] == "ORGANIC OIL"
        turned = omgm.ask(foreign.rotate(180), "What does it say?")
        assert turned.answer == "ORGANIC OIL" and turned.quote is not None
        left, top, right, bottom = line["box"]
        assert turned.quote[0].box == pytest.approx((1 - right, 1 - bottom, 1 - left, 1 - top), abs=0.02)
        blank = omgm.ask(package("", 95), "What does it say?")
        assert (blank.answer, blank.quote) == (None, ()) and blank.reason is not None and "legible" in blank.reason
        assert omgm.ask(foreign, "How heavy is it?").answer is None


def test_a_package_on_its_side_is_recognized_by_its_label(folder: Path) -> None:
    image = package(NAMES[1], 1, 4, "navy", "white")
    photos = [image, image.rotate(90, expand=True), image.rotate(270, expand=True)]
    with OMGM.open(folder / "index", load_profile("embedded")) as omgm:
        results = omgm.retrieve([(photo, "How heavy is it?") for photo in photos])
    assert [found.turned for found in results] == [0, 90, 270]
    for found in results:
        assert found.entity is not None and found.entity.id == "kb/1" and found.by_text and found.crop is None
        assert found.text is not None and [line.text for line in found.text] == [NAMES[1]]
    (left, top, right, bottom), *others = (found.text[0].box for found in results if found.text)
    assert others[0] == pytest.approx((top, 1 - right, bottom, 1 - left), abs=0.02)  # in the photo as it was sent
    assert others[1] == pytest.approx((1 - bottom, left, 1 - top, right), abs=0.02)


@pytest.mark.slow
def test_the_paper_profile_and_an_old_index_read_nothing(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert not load_profile("paper").search.words and load_profile("embedded").search.words
    off = load_profile("embedded", ["search.words=false"])
    order = Build(kb=folder / "kb.jsonl", images=folder / "images", out=tmp_path / "old")
    assert "image_text" not in build(off, order).manifest.inputs.columns and not caplog.text.count("text on its images")
    profile = load_profile("embedded")
    retriever = open_retriever(profile, tmp_path / "old")
    assert "build it again, which only adds this: omgm build-index" in caplog.text and retriever.refine is None
    query = Query(package(NAMES[0], 50), "How heavy is it?")
    [old], [without] = retriever.retrieve([query]), open_retriever(off, folder / "index").retrieve([query])
    assert old.text is without.text is None
    assert [(one.row, one.score) for one in old.candidates] == [(one.row, one.score) for one in without.candidates]
    with caplog.at_level("WARNING"):
        build(profile, Build(kb=order.kb, images=order.images, out=order.out, overwrite=True))
    assert "only columns change: image_text computed" in caplog.text
    assert open_retriever(profile, tmp_path / "old").refine is not None
