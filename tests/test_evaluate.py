"""Whole runs over a knowledge base of three colors, with steps small enough to follow by hand."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from evaluation.datasets import Question
from evaluation.run import evaluate
from retriever.fusion import fuse
from retriever.types import (
    Candidate,
    Entity,
    FloatArray,
    Generation,
    GenerationRequest,
    IntArray,
    Query,
    Retrieved,
    ScoredSection,
    Section,
    StoredTokens,
)

COLORS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
ENTITIES = [
    Entity(
        id=f"https://kb/{name}",
        title=name.capitalize(),
        sections=(
            Section(name.capitalize(), f"{name} is a color", 0),
            Section("Wave", f"the wave length of {name} is {length} nm", 2),
        ),
    )
    for name, length in [("red", 700), ("green", 530), ("blue", 470)]
]


class Shelf:
    """The index: rows of ENTITIES, searched by mean color."""

    def __len__(self) -> int:
        return len(ENTITIES)

    def search(self, vectors: torch.Tensor, k: int) -> tuple[FloatArray, IntArray]:
        scores = vectors.numpy() @ (np.array(list(COLORS.values()), np.float32) / 255).T
        rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, rows, axis=1), rows

    def entity(self, row: int) -> Entity:
        return ENTITIES[row]

    def row_of(self, entity_id: str) -> int | None:
        return next((row for row, entity in enumerate(ENTITIES) if entity.id == entity_id), None)

    def section_rows(self, row: int) -> range:
        return range(2 * row, 2 * row + 2)

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        raise AssertionError("these steps keep no tokens")


def overlap(question: str, text: str) -> float:
    words = set(re.findall(r"\w+", question.lower()))
    return len(words & set(text.lower().split())) / len(words)


class Steps:
    """Step 1 by mean color, steps 2 and 3 by shared words; notes what it is asked, stumbles over `stumble`."""

    def __init__(self) -> None:
        self.index = Shelf()
        self.asked: list[str] = []
        self.stop_after: int | None = None

    def retrieve(self, queries: Sequence[Query]) -> list[Retrieved]:
        if self.stop_after is not None and len(self.asked) >= self.stop_after:
            raise KeyboardInterrupt
        if any("stumble" in query.question for query in queries):
            raise RuntimeError("stumbled")
        self.asked += [query.id for query in queries]
        return [self._one(query) for query in queries]

    def _one(self, query: Query) -> Retrieved:
        mean = np.asarray(query.image, np.float64).mean(axis=(0, 1))[None].astype(np.float32) / 255
        scores, rows = self.index.search(torch.from_numpy(mean), 2)
        candidates = [Candidate(int(r), sim_c=s, score=s) for s, r in zip(scores[0], rows[0], strict=True)]
        rankings = {"step1": [(c.row, c.score) for c in candidates]}
        for c in candidates:
            texts = [section.text for section in ENTITIES[c.row].sections]
            c.sections = [ScoredSection(i, sim_m=overlap(query.question, text)) for i, text in enumerate(texts)]
            c.sim_m = max(s.sim_m or 0.0 for s in c.sections)
        for c, score in zip(
            candidates, fuse([c.sim_c for c in candidates], [c.sim_m for c in candidates], 0.9), strict=True
        ):
            c.score = score
        candidates.sort(key=lambda c: -c.score)
        rankings["step2"] = [(c.row, c.score) for c in candidates]
        for s in candidates[0].sections:
            s.sim_t = s.sim_m
            s.score = s.sim_m
        candidates[0].sections.sort(key=lambda s: -(s.score or 0.0))
        rankings["step3"] = rankings["step2"]
        return Retrieved(query.id, candidates, {"step1": 1.0, "step2": 2.0, "step3": 3.0}, rankings)


class LastNumber:
    """Answers with the evidence's last number, abstains without one, and breaks on the word `break`."""

    name = "last number"

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        return [self._one(request) for request in requests]

    def _one(self, request: GenerationRequest) -> Generation:
        if "break" in request.question:
            raise ConnectionError("server gone")
        assert request.evidence is not None
        numbers = list(re.finditer(r"\d+", request.evidence.text))
        return Generation(numbers[-1][0], 0.5, numbers[-1].span()) if numbers else Generation(None)

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str]:
        yield self._one(request).answer or ""


def ask(number: int, color: str, question: str, answer: str = "1", **changes: Any) -> Question:
    fields = {"question_type": "templated", "data_split": "val", "category": "colors", "section_index": 2} | changes
    return Question(f"q{number}", question, color, (answer,), (f"https://kb/{color}",), **fields)


WAVE = "What is the wave length <b>here</b>?"
QUESTIONS = [
    ask(0, "red", WAVE, "700"),
    ask(1, "green", WAVE, "530"),
    ask(2, "blue", WAVE, "999"),  # wrong answer
    ask(3, "absent", WAVE),  # no picture
    ask(4, "red", "Make it stumble"),  # retrieval fails
    ask(5, "green", "What wave length would break it?", "530"),  # the generator fails
    ask(6, "blue", "Is this a color?", section_index=0),  # abstains
    ask(7, "broken", WAVE),  # unreadable picture
    ask(8, "red", WAVE, "700", section_index=None, category="other"),
    Question("q9", WAVE, "green", ("530",), ("https://kb/black",), 2, "automatic", "val", "colors"),  # not in the index
]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name, color in COLORS.items():
        Image.new("RGB", (400, 300), color).save(folder / f"{name}.png")
    (folder / "broken.jpg").write_bytes(b"no picture")
    return folder


def run(
    steps: Steps, pictures: Path, out: Path, questions: Sequence[Question] = QUESTIONS, **changes: Any
) -> dict[str, Any]:
    options = {"batch_size": 4, "generator": LastNumber(), "settings": {"alpha": 0.9}} | changes
    return evaluate(
        steps,
        options.pop("generator"),
        questions,
        pictures,
        out,
        dataset="evqa",
        profile_name="colors",
        index_info={"entities": 3},
        progress=False,
        **options,
    )


def lines_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "queries.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_whole_run(tmp_path: Path, pictures: Path) -> None:
    out = tmp_path / "run"
    metrics = run(Steps(), pictures, out)
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
    # the answers of five stand in the first section read, q9's in that of another entity; "999" and "1" stand nowhere
    sections = {f"section_recall@{k}": 5 / 9 for k in (1, 5, 10, 20)} | {"n_with_section": 9}
    assert metrics["step3"] == sections | {f"pseudo_recall@{k}": 0.5 for k in (1, 5, 10, 20)}
    assert (metrics["answer"]["metric"], metrics["answer"]["accuracy"]) == ("evqa_exact_match", 0.4)
    assert "BEM is missing" in metrics["answer"]["note"]
    assert metrics["by_category"]["other"] == {
        "n": 1,
        "step1_recall@1": 1.0,
        "step1_recall@20": 1.0,
        "step2_recall@1": 1.0,
        "section_recall@1": None,
        "accuracy": 1.0,
    }
    assert {failure["id"]: failure["reason"].split(":")[0] for failure in metrics["failed"]} == {
        "q3": "picture",
        "q4": "retrieval",
        "q5": "generator",
        "q7": "picture",
    }
    assert metrics["unanswered"] == ["q6"]
    assert set(metrics["latency_ms"]) >= {"retrieve_p50", "retrieve_p95", "answer_p50", "answer_p95"}
    assert metrics["latency_ms"]["n"] == 6
    assert metrics["latency_ms"]["stages_p50"]["step2"] == 2.0


def test_every_score_is_on_record(tmp_path: Path, pictures: Path) -> None:
    run(Steps(), pictures, tmp_path / "run")
    lines = lines_of(tmp_path / "run")
    assert [line["id"] for line in lines] == [question.id for question in QUESTIONS]
    first = lines[0]
    assert first["gold"] == {
        "entities": ["https://kb/red"],
        "titles": ["Red"],
        "missing": False,
        "section": 2,
        "section_title": "Wave",
        "answers": ["700"],
    }
    # "what is the wave length b here b" are 7 words; "is" is one of the lead's, "is the wave length" are the other's
    assert first["candidates"][0] == {
        "entity": "https://kb/red",
        "title": "Red",
        "sim_c": 1.0,
        "sim_m": 4 / 7,
        "score": pytest.approx(0.9 + 0.1 * 4 / 7),
        "lead": 0,
        "sections": [[2, 4 / 7, 4 / 7, 4 / 7], [0, 1 / 7, 1 / 7, 1 / 7]],
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
    assert (failed["failed"], failed["candidates"], failed["ranks"]) == ("retrieval: RuntimeError: stumbled", [], {})
    assert (failed["answer_correct"], failed["section_correct"], failed["unanswered"]) == (False, False, False)
    broken = lines[5]
    assert (broken["ranks"]["step2"], broken["section_correct"], broken["answer_correct"]) == (1, True, False)


def test_run_files(tmp_path: Path, pictures: Path) -> None:
    questions = [QUESTIONS[0], ask(1, "blue", WAVE, "470"), QUESTIONS[3]]
    run(Steps(), pictures, tmp_path / "run", questions)
    # blue shares nothing with red and green: the search returns red, equal scores then stand in the order of their ids
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
        .startswith("q0 Q0 https://kb/red#2 1 1.0 omgm-colors\nq0 Q0 https://kb/red#0 2 0.5 omgm-colors\n")
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
def test_resumed_equals_uninterrupted(tmp_path: Path, pictures: Path, torn: bytes) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(Steps(), pictures, whole)
    first = Steps()
    first.stop_after = 3
    with pytest.raises(KeyboardInterrupt):
        run(first, pictures, killed)
    assert not (killed / "metrics.json").exists()
    assert [line["id"] for line in lines_of(killed)] == ["q0", "q1", "q2", "q3"]
    with (killed / "queries.jsonl").open("ab") as file:
        file.write(torn)
    second = Steps()
    run(second, pictures, killed)
    assert second.asked[:3] == ["q5", "q6", "q8"]  # the rest is the sample that latency is measured on
    assert without_times(killed) == without_times(whole)


def test_a_finished_run_asks_nothing_again(tmp_path: Path, pictures: Path) -> None:
    run(Steps(), pictures, tmp_path / "run", batch_size=1)
    before = without_times(tmp_path / "run")
    again = Steps()
    run(again, pictures, tmp_path / "run", batch_size=1)
    assert again.asked == []
    assert without_times(tmp_path / "run") == before


def test_another_run_in_the_folder_is_refused(tmp_path: Path, pictures: Path) -> None:
    run(Steps(), pictures, tmp_path / "run", QUESTIONS[:2])
    with pytest.raises(ValueError, match="holds a run with other settings; choose another --out"):
        run(Steps(), pictures, tmp_path / "run", QUESTIONS[:2], settings={"alpha": 0.5})
    with pytest.raises(ValueError, match="holds a run with other questions_sha256"):
        run(Steps(), pictures, tmp_path / "run", QUESTIONS[:3])


def test_bad_calls(tmp_path: Path, pictures: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(ValueError, match="no questions"):
        run(Steps(), pictures, out, [])
    with pytest.raises(ValueError, match="share an id"):
        run(Steps(), pictures, out, QUESTIONS[:1] * 2)
    with pytest.raises(ValueError, match="no such folder"):
        run(Steps(), tmp_path / "absent", out)
    with pytest.raises(ValueError, match="batch_size"):
        run(Steps(), pictures, out, batch_size=0)
    assert not out.exists()


def test_retrieval_alone(tmp_path: Path, pictures: Path) -> None:
    metrics = run(Steps(), pictures, tmp_path / "run", generator=None)
    assert (metrics["answer"]["accuracy"], metrics["n_unanswered"], metrics["n_failed"]) == (None, 0, 3)
    assert (metrics["latency_ms"]["answer_p50"], metrics["latency_ms"]["retrieve_p50"] is None) == (None, False)


def test_all_fail(tmp_path: Path, pictures: Path) -> None:
    metrics = run(Steps(), pictures, tmp_path / "run", [QUESTIONS[3]])
    assert (metrics["n_failed"], metrics["answer"]["accuracy"], metrics["latency_ms"]["retrieve_p50"]) == (1, 0.0, None)
    assert (tmp_path / "run" / "report.html").is_file()


def test_the_report_holds_everything(tmp_path: Path, pictures: Path) -> None:
    out = tmp_path / "run"
    run(Steps(), pictures, out)
    shutil.rmtree(pictures)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert set(re.findall(r'(?:src|href)="([^"]{1,10})', page)) == {"data:image"}
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "What is the wave length &lt;b&gt;here&lt;/b&gt;?" in page
    assert "<b>here" not in page
    assert "the wave length of red is <mark>700</mark>" in " ".join(page.split()).replace("</blockquote>", "")
    assert page.count('data-kind="right"') == 4
    assert [page.count(f'data-kind="{kind}"') for kind in ("wrong", "unanswered", "failed")] == [1, 1, 0]
    assert "BEM is missing, so this is exact match alone" in page
    assert "retrieval: RuntimeError: stumbled" in page
