"""Images that are not surely recognized are read, and searched again by the words on them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from indexes.live.image_text import IndexText
from indexes.store.columns import columns
from indexes.store.index import Index
from omgm.retriever_messages import read_results, write_results
from retriever.fusion import WORDS
from retriever.label_reading import GLANCE, LabelReading
from retriever.pipeline import Retriever
from retriever.recognition import Recognition, Signs
from retriever.step1_search import EntitySearch
from retriever.types import FloatArray, Options, Query, TextLine
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index
from tests.fakes.text_reader import LabelReader

LABELS = {"Mild Yogurt": "MILD YOGURT natural", "Oat Drink": "OAT DRINK barista", "Sour Cream": "SOUR CREAM 12 %"}
"""Things of the same color whose label alone tells them apart; a fourth one has none."""


def label(text: str, color: str = "red", corner: str = "white") -> Image.Image:
    """Returns a picture of one color; what is written on it is what `LabelReader` reads."""
    image = Image.new("RGB", (64, 64), color)
    ImageDraw.Draw(image).rectangle((0, 0, 15, 15), corner)
    return LabelReader.write(image, text)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder = tmp_path_factory.mktemp("labels")
    (folder / "images").mkdir()
    rows = []
    for number, (title, text) in enumerate({**LABELS, "Plain Thing": ""}.items()):
        label(text).save(folder / "images" / f"{number}.png")
        section = {"title": "About", "text": f"The {title} is sold everywhere."}
        rows.append({"id": f"kb/{number}", "title": title, "image": f"{number}.png", "sections": [section]})
    (folder / "kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    models = {"summarizer": FakeSummarizer(), "encoder": FakeEncoder(), "fusion": FakeFusion()}
    options = {"candidates": "image", "columns": {"image_text": LabelReader()}}
    return build_index(folder / "kb.jsonl", folder / "images", folder / "index", **models, **options)


def retriever(index: Index, bias: float = -2.0, weight: float = 8.0) -> tuple[Retriever[Index], LabelReader]:
    """Returns step 1 with a recognition that weighs the lead in words alone, and its reader."""
    reader = LabelReader()
    recognition = Recognition(bias, Signs(lead_w=weight), 0.5)
    labels = LabelReading(IndexText(index), reader)
    step = EntitySearch(FakeEncoder(), index, 3, by_text=labels.add)
    return Retriever([step], index, recognition, refine=labels.refine), reader


def test_a_thing_is_recognized_by_its_label(index: Index) -> None:
    pipeline, reader = retriever(index)
    query = Query(label("0AT DRNK barista"), "")
    [found] = pipeline.retrieve([query])
    assert index.entity(found.candidates[0].row).title == "Oat Drink" and found.by_text
    assert found.text == (TextLine("0AT DRNK barista", 0.9, (0.25, 0.25, 0.75, 0.75)),)
    assert found.recognized is not None and found.recognized > 0.5 and "read" in found.timings_ms
    best, *others = found.candidates
    assert best.sim_w is not None and best.sim_w > 0.4 and max(one.sim_w or 0 for one in others) < 0.1
    assert best.score == pytest.approx((best.sim_c or 0) + WORDS * best.sim_w)
    [alone] = Retriever(pipeline.steps, index, pipeline.recognition).retrieve([query])
    assert alone.text is None and not alone.by_text and alone.recognized == pytest.approx(0.119, abs=1e-3)
    assert (reader.images, reader.side) == (1, GLANCE)  # nobody sees small print


def test_a_surely_recognized_image_is_not_read(index: Index) -> None:
    pipeline, reader = retriever(index, bias=3.0)  # 0.95
    [found] = pipeline.retrieve([Query(label("OAT DRINK"), "")])
    assert reader.images == 0 and found.text is None and not found.by_text and "read" not in found.timings_ms


def test_nothing_is_read_where_what_looks_alike_has_no_text(index: Index) -> None:
    pipeline, reader = retriever(index)
    rows = tuple(row for row in range(len(index)) if IndexText(index).has_text(row))
    assert len(rows) == 3
    [found] = pipeline.retrieve([Query(label("OAT DRINK"), "", options=Options(exclude=rows))])
    assert reader.images == 0 and found.text is None


@pytest.mark.parametrize("text", ["", "V", "1 %"])
def test_an_image_without_text_stays_as_it_is(index: Index, text: str) -> None:
    pipeline, reader = retriever(index)
    [found] = pipeline.retrieve([Query(label(text), "")])
    [alone] = Retriever(pipeline.steps, index, pipeline.recognition).retrieve([Query(label(text), "")])
    assert reader.images == 1 and found.text == () and not found.by_text
    assert found.candidates == alone.candidates and found.recognized == alone.recognized


def test_words_that_several_things_share_recognize_none(index: Index) -> None:
    pipeline, _ = retriever(index)
    for text in ("organic 1 l best before", "natural barista", "DRINK CREAM"):
        [found] = pipeline.retrieve([Query(label(text), "")])
        assert found.recognized is not None and found.recognized < 0.5 and not found.by_text, text
        assert found.text and found.text[0].text == text


def test_a_candidate_of_words_alone_has_its_exact_score(index: Index) -> None:
    texts = IndexText(index)
    step = EntitySearch(FakeEncoder(), index, 1, by_text=LabelReading(texts, LabelReader()).add)
    query = Query(label("SOUR CREAM 12 %", "blue", "blue"), "", text=(TextLine("SOUR CREAM 12 %", 0.9, (0, 0, 1, 1)),))
    [[found]] = step.start([query])([[]])
    assert index.entity(found.row).title == "Sour Cream" and found.sim_w == pytest.approx(1.0)
    scores, rows = index.search(FakeEncoder().encode_images([query.image]), 4)
    expected = dict(zip(rows[0].tolist(), scores[0].tolist(), strict=True))[found.row]
    assert found.sim_c == pytest.approx(expected) and found.score == pytest.approx(expected + WORDS)
    [[other]] = step.start([replace(query, options=Options(exclude=(found.row,)))])([[]])
    assert other.row != found.row
    vector = FakeEncoder().encode_images([query.image])[0]
    assert texts.scores_of(vector, rows[0].tolist()) == pytest.approx(scores[0].tolist(), abs=1e-3)
    assert texts.scores_of(torch.zeros_like(vector), []) == []


def test_titles_count_as_words(index: Index) -> None:
    query = Query(label(""), "", text=(TextLine("plain thing", 0.9, (0, 0, 1, 1)),))
    pipeline, _ = retriever(index)
    [found] = pipeline.steps[0].start([query])([[]])
    assert index.entity(found[0].row).title == "Plain Thing" and found[0].sim_w == pytest.approx(1.0)


def test_a_batch_is_read_in_one_call_and_has_the_results_of_single_queries(index: Index) -> None:
    pipeline, reader = retriever(index)
    queries = [Query(label(text), "", text) for text in (*LABELS.values(), "", "organic")]
    together = pipeline.retrieve(queries)
    assert reader.calls == 1 and [one.by_text for one in together] == [True, True, True, False, False]
    for query, result in zip(queries, together, strict=True):
        [alone] = pipeline.retrieve([query])
        assert (alone.candidates, alone.recognized, alone.text) == (result.candidates, result.recognized, result.text)


def test_the_text_passes_between_processes(index: Index) -> None:
    pipeline, _ = retriever(index)
    results = pipeline.retrieve([Query(label("OAT DRINK barista"), "", "q")])
    [passed] = read_results(json.loads(write_results(results, index)), index, None)
    assert (passed.text, passed.by_text, passed.candidates) == (results[0].text, True, results[0].candidates)


def vectors(questions: Sequence[str]) -> FloatArray:
    """Returns a vector for what a question has a word of."""
    words = ("say", "brand", "")
    return np.eye(3, dtype=np.float32)[[next(i for i, word in enumerate(words) if word in text) for text in questions]]


def asking(index: Index, bias: float) -> tuple[Retriever[Index], LabelReader]:
    """Returns a retriever as `retriever` does, which tells questions about the text from others."""
    reader, recognition = LabelReader(), Recognition(bias, Signs(lead_w=8.0), 0.5)
    labels = LabelReading(IndexText(index), reader)
    labels.encode = vectors
    step = EntitySearch(FakeEncoder(), index, 3, by_text=labels.add)
    return Retriever([step], index, recognition, refine=labels.refine), reader


def test_an_image_is_read_for_a_question_about_its_text(index: Index) -> None:
    pipeline, reader = asking(index, 3.0)
    image = label("SOUR CREAM")
    text, brand, other = pipeline.retrieve([Query(image, q) for q in ("What does it say?", "Which brand?", "How old?")])
    [alone] = Retriever(pipeline.steps, index, pipeline.recognition).retrieve([Query(image, "How old?")])
    assert (reader.images, reader.side) == (2, None)
    assert [text.reading, brand.reading, other.reading] == ["text", "name", None]
    for result in (text, brand):  # the words change nothing: the image is surely recognized
        assert result.text == (TextLine("SOUR CREAM", 0.9, (0.25, 0.25, 0.75, 0.75)),) and not result.by_text
        assert (result.candidates, result.recognized) == (alone.candidates, alone.recognized)
    assert other.text is None and other.candidates == alone.candidates
    [passed] = read_results(json.loads(write_results([brand], index)), index, None)
    assert (passed.reading, passed.text) == ("name", brand.text)


def test_words_that_are_asked_for_help_to_recognize_as_before(index: Index) -> None:
    pipeline, _ = asking(index, -2.0)
    [found] = pipeline.retrieve([Query(label("OAT DRINK barista"), "What does it say?")])
    assert found.by_text and found.reading == "text" and index.entity(found.candidates[0].row).title == "Oat Drink"
    [foreign] = pipeline.retrieve([Query(label("organic"), "What does it say?")])
    assert foreign.recognized is not None and foreign.recognized < 0.5 and foreign.reading == "text"
    assert foreign.text and foreign.text[0].text == "organic"


class UpsideDown(LabelReader):
    """Reads labels that are upside down, and with doubts what is not."""

    def _lines(self, image: Image.Image) -> list[TextLine]:
        turned = super()._lines(image.transpose(Image.Transpose.ROTATE_180))
        return [replace(line, box=(0.1, 0.2, 0.4, 0.3)) for line in turned] or [TextLine("JMAJS", 0.6, (0, 0, 1, 1))]


def test_what_is_upside_down_is_read_if_it_is_asked_for(index: Index) -> None:
    labels = LabelReading(IndexText(index), (reader := UpsideDown()))
    labels.encode = vectors
    step = EntitySearch(FakeEncoder(), index, 3)
    pipeline = Retriever([step], index, Recognition(3.0, Signs(), 0.5), refine=labels.refine)
    [found] = pipeline.retrieve([Query(label("SOUR CREAM"), "What does it say?")])
    assert found.text is not None and found.text[0].text == "SOUR CREAM" and reader.images == 2
    assert found.text[0].box == pytest.approx((0.6, 0.7, 0.9, 0.8))  # in the image as it was sent
    [upright] = pipeline.retrieve([Query(label("").rotate(180), "What does it say?")])
    assert upright.text is not None and [line.text for line in upright.text] == ["JMAJS"] and reader.images == 4


def test_an_index_without_the_column_is_searched_as_before(index: Index, tmp_path: Path) -> None:
    assert [*columns()] == ["sections", "image_text", "keypoints", "section_words", "fields", "thumbnails"]
    kb = index.folder.parent / "kb.jsonl"
    models = {"summarizer": FakeSummarizer(), "encoder": FakeEncoder(), "fusion": FakeFusion()}
    old = build_index(kb, kb.parent / "images", tmp_path / "old", **models, candidates="image")
    assert not old.manifest.inputs.columns and [*index.manifest.inputs.columns] == ["image_text"]
    query = Query(label("OAT DRINK"), "")
    [found] = EntitySearch(FakeEncoder(), old, 3).start([query])([[]])
    [same] = EntitySearch(FakeEncoder(), index, 3).start([query])([[]])
    assert found == same
