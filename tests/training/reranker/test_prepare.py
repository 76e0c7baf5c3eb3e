"""Preparing step 2's training: token ids, samples and image names, from the articles of an index."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from indexes.article_images import ImageUse
from indexes.knowledge.reading import read_knowledge_base
from indexes.lines import to_row
from retriever.files import write_lines
from tests.fakes.plans import indexed
from tests.fakes.training_world import COLORS, TOPICS, TrainingWorld
from training.questions import is_held_out
from training.reranker.data import RerankerData, Serving
from training.reranker.image_store import ImageName
from training.reranker.prepare import (
    PASSAGES_NAME,
    QUESTIONS_NAME,
    TEXTS_NAME,
    TOKEN_DTYPE,
    Preparation,
    prepare,
    read_by_row,
)
from training.reranker.rows import Rows

URL = "https://e.example/wiki/"


def prepared(world: TrainingWorld, data: RerankerData, folder: Path, **given: object) -> Preparation:
    tokenizer = AutoTokenizer.from_pretrained(world.folder / "fusion")
    settings = {"max_tokens": 16, "most_similar": False, "validation_share": 0.25, "seed": 0}
    return prepare(data, folder, tokenizer, **{**settings, **given})  # type: ignore[arg-type]


def test_texts_are_tokenized_as_the_model_reads_them(world: TrainingWorld, tmp_path: Path) -> None:
    samples = prepared(world, world.data, tmp_path).samples
    texts = Rows(tmp_path / TEXTS_NAME, TOKEN_DTYPE)
    tokenizer = AutoTokenizer.from_pretrained(world.folder / "fusion")
    assert len(texts) == 8 * 4 + 16 + 1
    # The third section of the second article, cleaned as BLIP-2 does: "#" and ":" become spaces.
    words = "wiki article land 1\n section title height\nthe height of it"
    assert texts[6].tolist() == tokenizer(words, truncation=True, max_length=16)["input_ids"]
    first = int(np.flatnonzero(samples.gold == 1)[0])
    question = tokenizer("what is the river?", truncation=True, max_length=16)["input_ids"]
    assert texts[int(samples.question[first])].tolist() == question  # blue's questions are about topics 1 and 2


def test_samples_name_rows(world: TrainingWorld, tmp_path: Path) -> None:
    result = prepared(world, world.data, tmp_path)
    samples, names = result.samples, result.images
    assert len(samples) == 16 and result.left_out.rows == []
    for sample, question in enumerate(world.questions):
        color = question.image_id.removeprefix("q_")
        entity = COLORS.index(color)
        assert samples.gold[sample] == entity
        assert samples.evidence[sample] == 4 * entity + (question.section_index or 0)
        assert names[samples.query_image[sample]].name.endswith(f"q_{color}.png")
        assert names[samples.positive_image[sample]] == ImageName("article", f"{color}.png")
        found = samples.found_by(sample)
        assert samples.found[found].tolist() == list(range(8))
        assert np.flatnonzero(samples.right[found]).tolist() == [entity]
        assert np.isnan(samples.similarity[found]).all()
        assert samples.held_out[sample] == is_held_out(question.image_id, 0.25, 0)
    assert [names[row].name for row in samples.main_image] == [f"{color}.png" for color in COLORS]


def test_copies_are_held_out_together(world: TrainingWorld, tmp_path: Path) -> None:
    names = {f"q_{color}": COLORS[number // 2] for number, color in enumerate(COLORS)}  # each content has two images
    samples = prepared(world, replace(world.data, contents=names), tmp_path, validation_share=0.5).samples
    held_out = [is_held_out(names[question.image_id], 0.5, 0) for question in world.questions]
    assert samples.held_out.tolist() == held_out and 0 < sum(held_out) < 16
    assert held_out != [is_held_out(question.image_id, 0.5, 0) for question in world.questions]


@pytest.mark.parametrize(("most_similar", "expected"), [(True, "green.png"), (False, "red.png")])
def test_the_positive_image_is_the_one_that_mining_names(
    world: TrainingWorld, tmp_path: Path, most_similar: bool, expected: str
) -> None:
    negatives = json.loads(world.data.negatives.read_text())
    negatives["q_red"]["gt_entity_pos_img"] = "wiki/part 1/green.png"  # a path of OMGM's own files
    negatives["q_blue"]["gt_entity_pos_img"] = "gone.png"
    kb = json.loads(world.kb.read_text())
    kb[f"{URL}red"]["image_urls"].append("https://e.example/green.png")
    kb[f"{URL}red"] |= {"image_reference_descriptions": ["", ""], "image_section_indices": [0, 0]}
    result = prepared(world, changed(world, tmp_path, kb=kb, negatives=negatives), tmp_path, most_similar=most_similar)
    images = {
        question.image_id: result.images[result.samples.positive_image[sample]].name
        for sample, question in enumerate(world.questions)
    }
    assert images["q_red"] == expected
    assert images["q_blue"] == "blue.png"  # the main image instead of a missing one
    assert result.samples.main_image[0] != result.samples.positive_image[0] or not most_similar


def changed(world: TrainingWorld, folder: Path, negatives: object, kb: object | None = None) -> RerankerData:
    """Returns the world's data with other files."""
    data = replace(world.data, negatives=folder / "negatives.json")
    data.negatives.write_text(json.dumps(negatives))
    if kb is not None:
        (folder / "kb.json").write_text(json.dumps(kb))
        data = replace(data, **indexed(folder / "kb.json", world.images))
    return data


def test_each_question_about_an_image_has_an_image_of_its_own_entity(
    world: TrainingWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A photograph shows red and blue. Mining names an image for each, or a file of others only red's."""
    questions = [replace(question, image_id="q_red") for question in world.questions[:4]]
    negatives = json.loads(world.data.negatives.read_text())
    negatives["q_red"]["gt_entity_pos_img"] = "https://e.example/red.png"
    for positives in ({f"{URL}{color}": f"https://e.example/{color}.png" for color in ("red", "blue")}, {}):
        negatives["q_red"]["positives"] = positives
        data = replace(changed(world, tmp_path, negatives=negatives), questions=questions)
        result = prepared(world, data, tmp_path, most_similar=True)
        samples, names = result.samples, result.images
        assert samples.gold.tolist() == [0, 0, 1, 1]
        assert [names[row].name for row in samples.positive_image] == ["red.png", "red.png", "blue.png", "blue.png"]
        said = "2 of 4 questions: the mined positive image is none of the question's entity, whose main image is used"
        assert (said in caplog.text) is (not positives)


def test_entities_of_rows_that_ask_the_same_are_no_negatives_of_each_other(
    world: TrainingWorld, tmp_path: Path
) -> None:
    """One question in three rows, about red, blue and (a copy of the image) green; another question about the image."""
    asked, other = world.questions[0], world.questions[1]
    rows = [
        replace(asked, id="1"),
        replace(asked, id="2", entity_ids=world.questions[2].entity_ids),
        replace(asked, id="3", entity_ids=world.questions[4].entity_ids, image_id="q_green"),
        other,
    ]
    data = replace(world.data, questions=rows, contents={"q_green": "q_red"})
    samples = prepared(world, data, tmp_path).samples
    found = [samples.found[samples.found_by(sample)].tolist() for sample in range(4)]
    assert samples.gold.tolist() == [0, 1, 2, 0]
    assert found == [[0, 3, 4, 5, 6, 7], [1, 3, 4, 5, 6, 7], [2, 3, 4, 5, 6, 7], list(range(8))]
    assert len({*samples.query_image.tolist()}) == 1  # no batch has a copy beside its image


def test_copies_of_the_gold_article_are_no_negatives(
    world: TrainingWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kb, negatives = json.loads(world.kb.read_text()), json.loads(world.data.negatives.read_text())
    kb["copy"] = kb[f"{URL}red"] | {"url": "copy", "section_texts": [f"The  {topic} of IT!" for topic in TOPICS]}
    for mined in negatives.values():
        mined["top_20"].insert(0, {"entry": "copy"})
    samples = prepared(world, changed(world, tmp_path, kb=kb, negatives=negatives), tmp_path).samples
    assert samples.original.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 0]
    for sample, gold in enumerate(samples.gold):
        found = samples.found[samples.found_by(sample)].tolist()
        assert found == ([0, 1, 2, 3, 4, 5, 6, 7] if gold == 0 else [8, 0, 1, 2, 3, 4, 5, 6, 7])
    said = "2 of 16 questions: articles with the same text as the question's are no negatives, such as copy and"
    assert f"{said} {URL}red" in caplog.text


def test_what_is_held_out_is_kept_as_text(world: TrainingWorld, tmp_path: Path) -> None:
    samples = prepared(world, world.data, tmp_path, validation_share=0.5).samples
    questions, passages = read_by_row(tmp_path / QUESTIONS_NAME), read_by_row(tmp_path / PASSAGES_NAME)
    assert 0 < len(samples.validation) < 16
    for sample in samples.validation:
        entity = int(samples.gold[sample])
        assert questions[int(samples.question[sample])] == world.questions[sample].question
        assert passages[entity][1] == f"# Wiki Article: land {entity}\n## Section Title: {TOPICS[1]}\nthe river of it"
    assert set(passages) == set(samples.gold[samples.validation].tolist())


def test_only_what_samples_need_is_read(world: TrainingWorld, tmp_path: Path) -> None:
    negatives = json.loads(world.data.negatives.read_text())
    for row in negatives.values():
        row["top_20"] = [{"entry": URL + color} for color in ("blue", "green", "nowhere", "white")]
    (tmp_path / "negatives.json").write_text(json.dumps(negatives))
    red = [question for question in world.questions if question.image_id == "q_red"]
    data = replace(world.data, questions=red, negatives=tmp_path / "negatives.json")
    result = prepared(world, data, tmp_path)
    assert len(result.samples.main_image) == 4  # red and three of those found
    assert result.samples.found[result.samples.found_by(0)].tolist() == [1, 2, 3]
    assert len(result.images) == 5


def test_questions_and_negatives_name_entities_as_in_evaluation(world: TrainingWorld, tmp_path: Path) -> None:
    entities = [replace(one, names=(f"{one.title} too",)) for one in read_knowledge_base(world.kb)]
    write_lines(tmp_path / "kb.jsonl", map(to_row, entities))
    called = {f"{URL}red": f"{URL}land_0_too", f"{URL}blue": "http://e.m.example/wiki/bl%75e?oldid=1"}
    called[f"{URL}green"] = f"{URL}land%202_too"
    questions = [
        replace(question, entity_ids=tuple(called.get(one, one) for one in question.entity_ids))
        for question in world.questions
    ]
    negatives = json.loads(world.data.negatives.read_text())
    for row in negatives.values():
        row["top_20"] = [{"entry": called.get(one["entry"], one["entry"])} for one in row["top_20"]]
        row["top_20"].append({"entry": f"{URL}red"})  # once more, by its id
    (tmp_path / "negatives.json").write_text(json.dumps(negatives))
    articles = indexed(tmp_path / "kb.jsonl", world.images)
    data = replace(world.data, **articles, questions=questions, negatives=tmp_path / "negatives.json")
    ours, exact = prepared(world, data, tmp_path / "ours"), prepared(world, world.data, tmp_path / "exact")
    assert ours.left_out.rows == [] and ours.ids == exact.ids
    assert ours.images == exact.images
    for field in fields(ours.samples):
        one, other = (getattr(result.samples, field.name) for result in (ours, exact))
        np.testing.assert_array_equal(one, other, err_msg=field.name)
    for name in (TEXTS_NAME, PASSAGES_NAME, QUESTIONS_NAME):
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "exact" / name).read_bytes()


def test_questions_about_unknown_entities_are_left_out(world: TrainingWorld, tmp_path: Path) -> None:
    unknown = [replace(one, entity_ids=(f"{URL}nobody",)) for one in world.questions[:2]]
    result = prepared(world, replace(world.data, questions=[*unknown, *world.questions[2:]]), tmp_path)
    reason = "the gold entity is not in the index"
    assert result.left_out.rows == [(question.id, reason, True) for question in unknown]
    assert len(result.samples) == 14


def test_negatives_may_be_named_by_the_file_of_an_image(world: TrainingWorld, tmp_path: Path) -> None:
    negatives = json.loads(world.data.negatives.read_text())
    (tmp_path / "negatives.json").write_text(json.dumps({k: row["top_20"] for k, row in negatives.items()}))

    def path_of(image_id: str) -> Path | None:  # iNaturalist's images have names of their own
        return world.query_image_of(f"q_{COLORS[int(image_id)]}")

    questions = [replace(one, image_id=str(COLORS.index(one.image_id.removeprefix("q_")))) for one in world.questions]
    data = replace(world.data, questions=questions, query_image_of=path_of, negatives=tmp_path / "negatives.json")
    result = prepared(world, data, tmp_path)
    assert result.left_out.rows == [] and len(result.samples) == 16


def test_only_as_many_are_held_out_as_are_validated(
    world: TrainingWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of eight images are held out; the images of what is not validated are not named."""
    articles = json.loads(world.kb.read_text())
    for color, article in zip(COLORS, articles.values(), strict=True):
        shutil.copy(world.folder / "images" / f"{color}.png", tmp_path / f"{color}.png")
        shutil.copy(world.folder / "images" / f"{color}.png", tmp_path / f"{color}_too.png")
        article["image_urls"].append(f"https://e.example/{color}_too.png")
        article["image_reference_descriptions"], article["image_section_indices"] = ["", ""], [0, 0]
    (tmp_path / "kb.json").write_text(json.dumps(articles))
    negatives = json.loads(world.data.negatives.read_text())
    for image_id, row in negatives.items():  # each is confused with nothing but its own entity
        row["top_20"] = [{"entry": URL + image_id.removeprefix("q_")}]
    (tmp_path / "negatives.json").write_text(json.dumps(negatives))
    data = replace(
        world.data,
        **indexed(tmp_path / "kb.json", tmp_path),
        negatives=tmp_path / "negatives.json",
        serving=Serving(use=ImageUse(keys=2)),
    )
    whole = prepared(world, data, tmp_path / "whole", validation_share=0.5)
    held_out = {q.image_id.removeprefix("q_") for q in world.questions if is_held_out(q.image_id, 0.5, 0)}
    assert 1 < len(held_out) < 8 and whole.left_out.rows == []
    assert len(whole.samples.validation) == 2 * len(held_out)  # two questions per image
    assert len(whole.images) == 8 + 8 + len(held_out)  # queries, main images, further ones of held-out entities

    monkeypatch.setattr("training.reranker.samples.MOST_QUESTIONS", 1)
    result = prepared(world, data, tmp_path / "limited", validation_share=0.5)
    (sample,) = result.samples.validation.tolist()
    color = COLORS[result.samples.gold[sample]]
    names = {(name.kind, Path(name.name).stem) for name in result.images}
    used = {color, *COLORS} - (held_out - {color})
    assert names == {
        *(("query", f"q_{one}") for one in used),
        *(("article", one) for one in used),
        ("article", f"{color}_too"),
    }
    own = [result.images[row].name for row in result.samples.images_of(int(result.samples.gold[sample]))]
    assert own == [f"{color}.png", f"{color}_too.png"]
    assert len(result.ids) == len(result.samples) == 16 - 2 * len(held_out) + 1
    reason = "held out, but enough others are validated on"
    assert len(result.left_out.rows) == 2 * len(held_out) - 1
    assert {row[1:] for row in result.left_out.rows} == {(reason, False)}
    assert {row[0] for row in result.left_out.rows}.isdisjoint(result.ids)
    for before, name in zip(whole.ids, whole.samples.query_image, strict=True):  # rows of images are numbered anew
        if before in result.ids:
            after = result.samples.query_image[result.ids.index(before)]
            assert result.images[after] == whole.images[name]
