"""Whole runs over the world of three colors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evaluation.bem import Bem, Ids
from evaluation.datasets import load
from evaluation.notebook import evaluate_file
from evaluation.run import evaluate
from evaluation.summary import as_text
from retriever.types import Generation, GenerationRequest
from tests.fakes.questions import QUESTIONS, WAVE, ask, lines_of, run
from tests.fakes.rows import write_jsonl
from tests.fakes.world import COLORS, FakeGenerator, FakeRetriever, write_images


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return write_images(tmp_path / "images")


def test_a_whole_run(tmp_path: Path, images: Path) -> None:
    out = tmp_path / "run"
    metrics = run(FakeRetriever(), images, out)
    assert metrics == json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert [metrics[key] for key in ("dataset", "profile", "settings", "index")] == [
        "evqa",
        "colors",
        {"alpha": 0.9},
        {"entities": 3},
    ]
    assert [metrics[f"n_{key}"] for key in ("queries", "failed", "unanswered", "gold_missing")] == [10, 4, 1, 3]
    # of ten queries three fail before retrieval and one asks for an entity that the index lacks
    recalls = {"recall@1": 0.6, "recall@5": 0.6, "recall@10": 0.6, "recall@20": 0.6}
    assert metrics["step1"] == metrics["step2"] == recalls
    # five answers are in the first section read, q9's is in another entity's; "999" and "1" are in none
    sections = {f"section_recall@{k}": 5 / 9 for k in (1, 5, 10, 20)} | {"n_with_section": 9}
    pseudo = {f"pseudo_recall@{k}": share for k, share in ((1, 0.5), (5, 0.6), (10, 0.6), (20, 0.6))}
    assert metrics["step3"] == sections | pseudo
    assert (metrics["answer"]["metric"], metrics["answer"]["accuracy"]) == ("evqa_exact_match", 0.4)
    assert "Measured without BEM" in metrics["answer"]["note"]
    # the images of two of the ten queries, q3 and q7, do not exist or cannot be read: 4 right of 8
    assert metrics["answer"]["with_image"] == {"n": 8, "accuracy": 0.5}
    assert "50.0 over the 8 whose image exists" in as_text(metrics)
    assert metrics["by_category"]["other"] == {
        "n": 1,
        "step1_recall@1": 1.0,
        "step1_recall@20": 1.0,
        "step2_recall@1": 1.0,
        "section_recall@1": None,
        "accuracy": 1.0,
    }
    assert {failure["id"]: failure["reason"].split(":")[0] for failure in metrics["failed"]} == {
        "q3": "image",
        "q4": "retrieval",
        "q5": "generator",
        "q7": "image",
    }
    assert metrics["unanswered"] == ["q6"]
    assert set(metrics["latency_ms"]) >= {"retrieve_p50", "retrieve_p95", "answer_p50", "answer_p95"}
    assert metrics["latency_ms"]["n"] == 6
    assert metrics["latency_ms"]["stages_p50"]["step2"] == metrics["latency_ms"]["stages_p95"]["step2"] == 2.25
    # every answer has a confidence of 0.75; one of the five answers is wrong; the abstention does not count
    assert (metrics["calibration"]["n"], metrics["calibration"]["ece"]) == (5, pytest.approx(0.8 - 0.75))
    assert metrics["calibration"]["bins"][7] == {"low": 0.7, "high": 0.8, "n": 5, "confidence": 0.75, "accuracy": 0.8}


def test_every_score_is_on_record(tmp_path: Path, images: Path) -> None:
    run(FakeRetriever(), images, tmp_path / "run")
    lines = lines_of(tmp_path / "run")
    assert [line["id"] for line in lines] == [question.id for question in QUESTIONS]
    first = lines[0]
    assert first["gold"] == {
        "entities": ["https://kb/red"],
        "titles": ["Redland"],
        "missing": False,
        "section": 2,
        "section_title": "Wave",
        "answers": ["700"],
    }
    # "what is the wave length b here b" are 7 words; "is" is one of the lead's, "is the wave length" are the other's
    assert first["candidates"][0] == {
        "entity": "https://kb/red",
        "title": "Redland",
        "sim_c": 1.0,
        "sim_m": 4 / 7,
        "score": pytest.approx(0.9 + 0.1 * 4 / 7),
        "lead": 0,
        "sim_w": None,
        "sections": [[index, n / 7, n / 7, n / 7] for index, n in ((2, 4), (4, 2), (0, 1), (3, 1))],
    }
    assert first["rankings"]["step1"] == [["https://kb/red", 1.0], ["https://kb/green", 0.0]]
    assert first["ranks"] == {"step1": 1, "step2": 1, "step3": 1}
    assert (first["evidence"]["entity_id"], first["evidence"]["section_index"]) == ("https://kb/red", 2)
    assert (first["answer"], first["span"], first["answer_correct"], first["section_correct"]) == (
        "700",
        [26, 29],
        True,
        True,
    )
    assert first["timings_ms"].keys() == {"batch", "retrieve", "generate", "step1", "step2", "step3"}
    failed = lines[4]
    assert (failed["failed"], failed["candidates"], failed["ranks"]) == (
        "retrieval: RuntimeError: secret internals",
        [],
        {},
    )
    assert (failed["answer_correct"], failed["section_correct"], failed["unanswered"]) == (False, False, False)
    broken = lines[5]
    assert (broken["ranks"]["step2"], broken["section_correct"], broken["answer_correct"]) == (1, True, False)


def test_questions_about_another_knowledge_base_are_warned_of(
    tmp_path: Path, images: Path, caplog: pytest.LogCaptureFixture
) -> None:
    questions = [replace(ask(0, "red", WAVE, "700"), entity_ids=("Q1", "Q2")), ask(1, "blue", WAVE, "470")]
    run(FakeRetriever(), images, tmp_path / "known", questions)
    assert "none of the entities" not in caplog.text
    run(FakeRetriever(), images, tmp_path / "unknown", questions[:1])
    assert "none of the entities that the questions name (2 entities, such as 'Q1') is in the kn" in caplog.text


def test_run_files(tmp_path: Path, images: Path) -> None:
    questions = [QUESTIONS[0], ask(1, "blue", WAVE, "470"), QUESTIONS[3]]
    run(FakeRetriever(), images, tmp_path / "run", questions)
    # blue shares nothing with red and green: the search returns red; equal scores are then ordered by id
    assert (tmp_path / "run" / "step1.run").read_text() == (
        "q0 Q0 https://kb/red 1 1.0 omgm-colors\n"
        "q0 Q0 https://kb/green 2 0.0 omgm-colors\n"
        "q1 Q0 https://kb/blue 1 1.0 omgm-colors\n"
        "q1 Q0 https://kb/red 2 0.0 omgm-colors\n"
    )
    assert (tmp_path / "run" / "qrels.txt").read_text() == (
        "q0 0 https://kb/red 1\nq1 0 https://kb/blue 1\nq3 0 https://kb/absent 1\n"
    )
    assert (tmp_path / "run" / "step2.run").is_file()
    assert (
        (tmp_path / "run" / "sections.run")
        .read_text()
        .startswith("q0 Q0 https://kb/red#2 1 1.0 omgm-colors\nq0 Q0 https://kb/red#4 2 0.5 omgm-colors\n")
    )
    assert (tmp_path / "run" / "qrels.sections.txt").read_text() == (
        "q0 0 https://kb/red#2 1\nq1 0 https://kb/blue#2 1\nq3 0 https://kb/absent#2 1\n"
    )


def without_times(out: Path) -> dict[str, bytes]:
    """The run's files with every time set to zero."""
    texts = {path.name: path.read_bytes() for path in sorted(out.iterdir()) if path.name != "report.html"}
    lines = [line | {"timings_ms": sorted(line["timings_ms"])} for line in lines_of(out)]
    metrics = json.loads(texts["metrics.json"])
    metrics["latency_ms"] = sorted(metrics["latency_ms"])
    return texts | {"queries.jsonl": json.dumps(lines).encode(), "metrics.json": json.dumps(metrics).encode()}


@pytest.mark.parametrize("torn", [b"", b'{"id":"q4","que'])
def test_resumed_equals_uninterrupted(tmp_path: Path, images: Path, torn: bytes) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(FakeRetriever(), images, whole)
    first = FakeRetriever()
    first.stop_after = 3
    with pytest.raises(KeyboardInterrupt):
        run(first, images, killed)
    assert not (killed / "metrics.json").exists()
    assert [line["id"] for line in lines_of(killed)] == ["q0", "q1", "q2", "q3"]
    with (killed / "queries.jsonl").open("ab") as file:
        file.write(torn)
    second = FakeRetriever()
    run(second, images, killed)
    assert second.asked[:3] == ["q5", "q6", "q8"]  # the rest is the sample for measuring latency
    assert without_times(killed) == without_times(whole)


def test_a_finished_run_asks_only_what_failed(tmp_path: Path, images: Path) -> None:
    run(FakeRetriever(), images, tmp_path / "run", batch_size=1)
    before = without_times(tmp_path / "run")
    again = FakeRetriever()
    run(again, images, tmp_path / "run", batch_size=1)
    assert again.asked == ["q5"]  # q3 and q7 have no image, and q4 fails before it is noted
    assert without_times(tmp_path / "run") == before


def test_a_finished_run_without_failures_asks_nothing_not_even_for_its_latency(tmp_path: Path, images: Path) -> None:
    asked = FakeRetriever()
    first = evaluate(asked, None, QUESTIONS[:2], images, tmp_path / "run")
    assert len(asked.asked) == 2 + 2 + 2  # in a batch, to warm up, one by one
    second = evaluate(asked, None, QUESTIONS[:2], images, tmp_path / "run")
    assert len(asked.asked) == 6 and second == first


class RestoredGenerator(FakeGenerator):
    """Answers "530" even to questions that break `FakeGenerator`."""

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        return [Generation("530", 0.75) for _ in requests]


def test_what_failed_is_asked_again_and_the_rest_is_kept(tmp_path: Path, images: Path) -> None:
    first = run(FakeRetriever(), images, tmp_path / "run", batch_size=1)
    assert (first["n_failed"], first["answer"]["accuracy"]) == (4, 0.4)
    before = lines_of(tmp_path / "run")
    (images / "absent.png").write_bytes((images / "red.png").read_bytes())
    again = FakeRetriever()
    metrics = run(again, images, tmp_path / "run", batch_size=1, generator=RestoredGenerator())
    assert again.asked == ["q3", "q5"]
    after = lines_of(tmp_path / "run")
    assert [line["id"] for line in after] == [f"q{number}" for number in range(10)]
    assert [line for line in after if line["id"] not in ("q3", "q5", "q4", "q7")] == [
        line for line in before if line["failed"] is None
    ]
    # q5 is right now; q3 asks for an entity that the index lacks and gets the wrong answer; q4 and q7 fail as before
    assert [(after[n]["failed"], after[n]["answer_correct"]) for n in (3, 5)] == [(None, False), (None, True)]
    assert {failure["id"] for failure in metrics["failed"]} == {"q4", "q7"}
    assert (metrics["n_failed"], metrics["answer"]["accuracy"]) == (2, 0.5)
    assert "q3 Q0 https://kb/red 1 1.0 omgm-colors\n" in (tmp_path / "run" / "step1.run").read_text()
    assert not list((tmp_path / "run").glob("*.again.jsonl"))


class LoopRecorder(FakeGenerator):
    """Records the event loop that it runs in: an open connection cannot move to another."""

    def __init__(self) -> None:
        self.loops: list[asyncio.AbstractEventLoop] = []

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        self.loops.append(asyncio.get_running_loop())
        return await super().generate(requests)


def test_a_generator_serves_run_after_run(tmp_path: Path, images: Path) -> None:
    generator = LoopRecorder()
    for out in ("first", "second"):
        run(FakeRetriever(), images, tmp_path / out, QUESTIONS[:3], generator=generator)
    assert len(generator.loops) >= 2 and len(set(generator.loops)) == 1


def test_a_notebook_runs_an_event_loop_already(tmp_path: Path, images: Path) -> None:
    async def cell() -> dict[str, Any]:
        return run(FakeRetriever(), images, tmp_path / "run", QUESTIONS[:3])

    assert asyncio.run(cell())["n_failed"] == 0


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_damaged_run_is_named(tmp_path: Path, images: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    (tmp_path / "queries.jsonl").touch()
    with pytest.raises(ValueError, match=r"run\.json: damaged .*; choose another --out, or pass --overwrite"):
        run(FakeRetriever(), images, tmp_path, QUESTIONS[:2])


def test_another_run_in_the_folder_is_refused(tmp_path: Path, images: Path) -> None:
    run(FakeRetriever(), images, tmp_path / "run", QUESTIONS[:2])
    with pytest.raises(ValueError, match=r"other inputs .settings.alpha was 0.9 and is now 0.5.; choose another --out"):
        run(FakeRetriever(), images, tmp_path / "run", QUESTIONS[:2], settings={"alpha": 0.5})
    with pytest.raises(ValueError, match=r"other inputs .questions: 1 question is new"):
        run(FakeRetriever(), images, tmp_path / "run", QUESTIONS[:3])


class YesModel:
    """A judge's model that finds everything equivalent; counts the rows that it judged."""

    judged = 0

    def logits(self, ids: Ids, kinds: Ids, mask: Ids) -> NDArray[np.float32]:
        self.judged += len(ids)
        return np.array([[0.0, 9.0]] * len(ids), np.float32)


def test_bem_judges_answers_without_an_exact_match(tmp_path: Path, images: Path) -> None:
    model = YesModel()
    bem = Bem(lambda texts: [[5]] * len(texts), model.logits, marks=(1, 2), fingerprint="0123")
    metrics = run(FakeRetriever(), images, tmp_path / "run", bem=bem)
    # of ten answers four fail, one abstains, four match; BEM is asked for "470" against "999" alone, not for latency
    assert model.judged == 1
    shown = {"with_image": {"n": 8, "accuracy": 0.625}}  # two questions have no usable image
    assert metrics["answer"] == {"metric": "evqa_bem", "accuracy": 0.5, "evqa_exact_match": 0.4, **shown}
    assert metrics["bem"] == "0123"
    lines = lines_of(tmp_path / "run")
    assert (lines[2]["answer_scores"], lines[2]["answer_correct"]) == ({"evqa_bem": 1, "evqa_exact_match": 0}, True)
    assert lines[4]["answer_scores"] == {"evqa_bem": 0, "evqa_exact_match": 0}
    assert "Measured without BEM" not in (tmp_path / "run" / "report.html").read_text()
    other_bem = Bem(bem.tokenize, bem.logits, bem.marks, fingerprint="4567")
    assert run(FakeRetriever(), images, tmp_path / "run", bem=other_bem)["bem"] == "4567"
    assert model.judged == 1 + 1  # answers on record are judged again


def test_the_judge_may_change(tmp_path: Path, images: Path) -> None:
    bem = Bem(lambda texts: [[5]] * len(texts), YesModel().logits, marks=(1, 2), fingerprint="0123")
    fresh = {judge: run(FakeRetriever(), images, tmp_path / f"{judge}", bem=judge) for judge in (None, bem)}
    out, generator = tmp_path / "run", FakeGenerator()
    run(FakeRetriever(), images, out, generator=generator)
    whole = (out / "queries.jsonl").read_bytes()
    (out / "queries.jsonl").write_bytes(whole[: whole.rindex(b'"answer"')])  # killed in the last line
    for judge in (bem, None, bem):
        metrics = run(FakeRetriever(), images, out, bem=judge, generator=generator)
        assert metrics["answer"] == fresh[judge]["answer"]
        ours, others = lines_of(out), lines_of(tmp_path / f"{judge}")
        assert [line | {"timings_ms": 0} for line in ours] == [line | {"timings_ms": 0} for line in others]
    with pytest.raises(ValueError, match=r"settings.alpha was 0.9 and is now 0.5; bem was .0123. and is now not given"):
        run(FakeRetriever(), images, out, settings={"alpha": 0.5})
    (out / "alone").mkdir()
    run(FakeRetriever(), images, out / "alone", generator=None)
    with pytest.raises(ValueError, match=r"bem was not given and is now .0123..; choose"):  # it has no answers
        run(FakeRetriever(), images, out / "alone", generator=None, bem=bem)


def test_runs_that_cannot_begin_are_refused(tmp_path: Path, images: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(ValueError, match="no questions"):
        run(FakeRetriever(), images, out, [])
    with pytest.raises(ValueError, match="share an id"):
        run(FakeRetriever(), images, out, QUESTIONS[:1] * 2)
    with pytest.raises(ValueError, match="no such folder"):
        run(FakeRetriever(), tmp_path / "absent", out)
    with pytest.raises(ValueError, match="batch_size"):
        run(FakeRetriever(), images, out, batch_size=0)
    assert not out.exists()


def test_retrieval_alone(tmp_path: Path, images: Path) -> None:
    metrics = run(FakeRetriever(), images, tmp_path / "run", generator=None)
    assert (metrics["answer"]["accuracy"], metrics["n_unanswered"], metrics["n_failed"]) == (None, 0, 3)
    assert (metrics["latency_ms"]["answer_p50"], metrics["latency_ms"]["retrieve_p50"] is None) == (None, False)


def test_a_run_whose_questions_all_fail_has_a_report(
    tmp_path: Path, images: Path, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = run(FakeRetriever(), images, tmp_path / "run", [QUESTIONS[3]])
    assert (metrics["n_failed"], metrics["answer"]["accuracy"], metrics["latency_ms"]["retrieve_p50"]) == (1, 0.0, None)
    assert (tmp_path / "run" / "report.html").is_file()
    assert "1 of 1 questions failed; the first: image: " in caplog.text
    assert f"evaluate into {tmp_path / 'run'} again to retry only the failed ones" in caplog.text


def test_the_screen_shows_percent(tmp_path: Path, images: Path) -> None:
    lines = as_text(run(FakeRetriever(), images, tmp_path / "run")).splitlines()
    assert lines[:8] == [
        "evqa, profile colors: 10 questions; figures in percent",
        "        of 10 questions: 4 failed, 2 of them without a usable image, 3 about entities that the index lacks, "
        "6 with fewer than 20 candidates, which is as far as Recall@K reaches, 1 unanswered",
        "step1   recall@1  60.0  recall@5  60.0  recall@10  60.0  recall@20  60.0",
        "step2   recall@1  60.0  recall@5  60.0  recall@10  60.0  recall@20  60.0",
        "step3   section recall@1  55.6",
        "answer  evqa_exact_match  40.0",
        "        50.0 over the 8 whose image exists",
        "        Measured without BEM: this is exact match alone, a lower bound of E-VQA's own metric.",
    ]
    assert lines[8] == "protocol evqa/exact-match"
    assert lines[9].startswith("time    retrieve p50 ")


def test_few_arguments_are_enough(tmp_path: Path, images: Path) -> None:
    metrics = evaluate(FakeRetriever(), None, QUESTIONS[:2], str(images), str(tmp_path / "run"))
    described = {"name": "three lands", "counts": {"entities": 3}}
    assert [metrics[key] for key in ("dataset", "profile", "settings", "index")] == ["evqa", "custom", {}, described]


def test_a_question_file_in_a_notebook(tmp_path: Path, images: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [
        {
            "id": color,
            "image": color,
            "question": WAVE,
            "answers": [answer],
            "entity": f"https://kb/{color}",
            "section": 2,
        }
        for color, answer in zip([*COLORS, "absent"], ["700", "530", "999", "1"], strict=True)
    ]
    queries = write_jsonl(tmp_path / "q.jsonl", *rows)
    options: dict[str, Any] = {"generator": FakeGenerator()}
    evaluation = evaluate_file(FakeRetriever(), queries, images, tmp_path / "run", **options)
    assert evaluation.metrics["step1"]["recall@1"] == 0.75
    assert evaluation.metrics["answer"] == {
        "metric": "exact_match",
        "accuracy": 0.5,
        "relaxed_accuracy": 0.5,
        "with_image": {"n": 3, "accuracy": 2 / 3},
    }
    assert evaluation.rows[0] == {
        "id": "red",
        "question": WAVE,
        "image_id": "red",
        "question_type": "",
        "split": "",
        "category": "",
        "gold_entities": ["https://kb/red"],
        "gold_answers": ["700"],
        "entity": "https://kb/red",
        "title": "Redland",
        "sim_c": 1.0,
        "sim_m": 4 / 7,
        "score": pytest.approx(0.9 + 0.1 * 4 / 7),
        "section": "Wave",
        "answer": "700",
        "confidence": 0.75,
        "step1_rank": 1,
        "step2_rank": 1,
        "step3_rank": 1,
        "section_correct": True,
        "answer_correct": True,
        "exact_match": 1.0,
        "relaxed_accuracy": 1.0,
        "unanswered": False,
        "failed": None,
    }
    assert [row["answer_correct"] for row in evaluation.rows] == [True, True, False, False]
    assert (evaluation.rows[3]["entity"], evaluation.rows[3]["failed"][:6]) == (None, "image:")
    first = evaluate_file(FakeRetriever(), queries, images, tmp_path / "first", limit=1, **options)
    assert [row["id"] for row in first.rows] == ["red"] == [q.id for q in load("plain", queries)[:1]]
    assert "of the earlier run" not in caplog.text
    again = evaluate_file(FakeRetriever(), queries, images, tmp_path / "first", limit=1, **options)
    assert again == first and "the figures are those of the earlier run, even if settings" in caplog.text
    with pytest.raises(ValueError, match="no questions"):
        evaluate_file(FakeRetriever(), write_jsonl(tmp_path / "none.jsonl"), images, tmp_path / "none")


def test_rows_make_a_data_frame(tmp_path: Path, images: Path) -> None:
    pandas = pytest.importorskip("pandas")
    queries = write_jsonl(tmp_path / "q.jsonl", {"id": "a", "image": "red", "question": WAVE, "answers": ["700"]})
    table = pandas.DataFrame(evaluate_file(FakeRetriever(), queries, images, tmp_path / "run").rows)
    assert list(table["id"]) == ["a"] and list(table["title"]) == ["Redland"]
