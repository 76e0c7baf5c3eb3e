from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from evaluation.datasets import Question, find_query_image
from retriever.types import Evidence
from tests.fakes.questions import WAVE, ask
from tests.fakes.world import FakeRetriever, write_images
from training.generator.samples import GeneratorSample, count_left_out, make_samples, read_samples, target_answer

QUESTIONS = [
    ask(0, "red", WAVE, "700"),
    ask(1, "green", WAVE, "530"),
    ask(2, "absent", WAVE),
    ask(3, "broken", WAVE),
    replace(ask(4, "red", WAVE), answers=()),
    ask(5, "red", "Is this a color?", "yes"),
    ask(6, "green", "Is this a color?", "yes"),
    ask(7, "red", "What is the flag of it?", "red"),
]


@pytest.fixture
def image_of(tmp_path: Path) -> Callable[[str], Path | None]:
    return partial(find_query_image, write_images(tmp_path / "images"))


@pytest.mark.parametrize(
    ("answers", "reference", "expected"),
    [
        (("1 m", "1 metre"), "", "1 m"),
        (("Austria && Italy&&", "Tyrol"), "", "Austria, Italy"),
        (("", "red"), "", "red"),  # OK-VQA: some of the ten answers may be empty
        (("cn", "China"), "People's Republic of China", "People's Republic of China"),
        ((), "", ""),
    ],
)
def test_target_answer(answers: tuple[str, ...], reference: str, expected: str) -> None:
    question = Question("q", "Where?", "image", answers, (), reference=reference)
    assert target_answer(question) == expected


def test_samples_have_our_own_evidence(tmp_path: Path, image_of: Callable[[str], Path | None]) -> None:
    path = make_samples(FakeRetriever, QUESTIONS, image_of, tmp_path / "out", multimodal=True, batch_size=2)
    red = str((tmp_path / "images" / "red.png").resolve())
    samples = {sample.id: sample for sample in read_samples(path)}
    evidence = Evidence("https://kb/red", "Redland", "Wave", "the wave length of red is 700 nm", 2)
    assert samples["q0"] == GeneratorSample("q0", WAVE, "700", evidence, red)
    # the section that shares most words with the question, as the retriever of this world ranks them
    assert {key: sample.evidence.section_title for key, sample in samples.items()} == {
        "q0": "Wave",
        "q1": "Wave",
        "q5": "Redland",
        "q6": "Greenland",
        "q7": "Flag",
    }
    left_out = [json.loads(line) for line in (tmp_path / "out" / "left_out.jsonl").read_text().splitlines()]
    assert {row["id"]: row["reason"] for row in left_out} == {
        "q2": "the image is missing",
        "q3": "the image is unreadable",
        "q4": "no answer",
    }
    assert count_left_out(path) == {"the image is missing": 1, "the image is unreadable": 1, "no answer": 1}


def test_a_text_only_sample_has_no_image(tmp_path: Path, image_of: Callable[[str], Path | None]) -> None:
    path = make_samples(FakeRetriever, QUESTIONS, image_of, tmp_path / "out", multimodal=False)
    assert {sample.image for sample in read_samples(path)} == {None}


def test_the_seed_selects(tmp_path: Path, image_of: Callable[[str], Path | None]) -> None:
    def ids(seed: int, name: str) -> list[str]:
        out = tmp_path / name
        path = make_samples(FakeRetriever, QUESTIONS, image_of, out, multimodal=False, most=3, seed=seed)
        return [sample.id for sample in read_samples(path)]

    first = ids(0, "a")
    assert ids(0, "b") == first == sorted(first)
    assert len({tuple(ids(seed, f"s{seed}")) for seed in range(1, 6)}) > 1


def test_a_killed_run_ends_as_an_undisturbed_one(tmp_path: Path, image_of: Callable[[str], Path | None]) -> None:
    whole = make_samples(FakeRetriever, QUESTIONS, image_of, tmp_path / "whole", multimodal=True, batch_size=2)
    killed = FakeRetriever()
    killed.stop_after = 3
    with pytest.raises(KeyboardInterrupt):
        make_samples(lambda: killed, QUESTIONS, image_of, tmp_path / "out", multimodal=True, batch_size=2)
    assert not (tmp_path / "out" / "samples.jsonl").exists()
    again = FakeRetriever()
    path = make_samples(lambda: again, QUESTIONS, image_of, tmp_path / "out", multimodal=True, batch_size=2)
    assert path.read_bytes() == whole.read_bytes()
    assert set(killed.asked).isdisjoint(again.asked)
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "samples.jsonl",
        "samples.json",
        "samples.npz",
        "left_out.jsonl",
    }


def test_a_finished_run_is_not_repeated(tmp_path: Path, image_of: Callable[[str], Path | None]) -> None:
    def never() -> FakeRetriever:
        raise AssertionError("the samples are there")

    path = make_samples(FakeRetriever, QUESTIONS, image_of, tmp_path, multimodal=False)
    assert make_samples(never, QUESTIONS, image_of, tmp_path, multimodal=False) == path
    for changes in ({"most": 3}, {"seed": 1}, {"multimodal": True}, {"made_with": {"index": "other"}}):
        with pytest.raises(
            ValueError,
            match=f"made from other inputs .{next(iter(changes))} was" if "made_with" not in changes else "index was",
        ):
            make_samples(never, QUESTIONS, image_of, tmp_path, **{"multimodal": False} | changes)


def test_nothing_to_train_on_is_an_error(tmp_path: Path, image_of: Callable[[str], Path | None]) -> None:
    with pytest.raises(ValueError, match=r"none of 3 questions can be trained on; .*left_out.jsonl says why"):
        make_samples(FakeRetriever, QUESTIONS[2:5], image_of, tmp_path, multimodal=False)
    with pytest.raises(ValueError, match="two questions share an id"):
        make_samples(FakeRetriever, [QUESTIONS[0]] * 2, image_of, tmp_path / "b", multimodal=False)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text('{"id": "q"}\n')
    with pytest.raises(ValueError, match=r"samples.jsonl:1: not a sample"):
        read_samples(path)
