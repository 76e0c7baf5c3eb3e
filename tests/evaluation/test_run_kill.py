"""`omgm evaluate`, killed and restarted, against an undisturbed run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.report import write_report
from omgm.__main__ import main
from tests.evaluation.test_bem import bert
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.knowledge_base import write_kb
from tests.fakes.processes import kill_omgm_when
from tests.fakes.question_files import evqa_row
from tests.fakes.rows import write_csv
from tests.paths import ROOT

QUESTIONS = 12


def write_questions(folder: Path) -> Path:
    names = ("France", "Ireland", "Plain", "Lost")  # the last one has no image
    rows = (
        evqa_row(f"Question {number}?", "red", names[number % 4], evidence_section_id=0) for number in range(QUESTIONS)
    )
    return write_csv(folder / "questions.csv", *rows)


def asked(server: FakeChatServer) -> list[str]:
    """Returns the questions that the server received, in order, and forgets them."""
    prompts = [body["messages"][-1]["content"] for body in server.bodies]
    server.bodies.clear()
    return [f"Question {n}?" for text in prompts for n in range(QUESTIONS) if f"Question {n}?" in json.dumps(text)]


def without_times(out: Path, images: Path) -> dict[str, bytes]:
    """The files of a run without times and commit, with the report regenerated from them."""
    lines: list[dict[str, Any]] = []
    for text in (out / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        lines.append(line | {"timings_ms": dict.fromkeys(line["timings_ms"], 0.0)})
    (out / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    latency = metrics["latency_ms"]
    metrics["latency_ms"] = {
        key: dict.fromkeys(value, 0.0) if isinstance(value, dict) else value if key == "n" else 0.0
        for key, value in latency.items()
    }
    metrics["commit"] = None
    (out / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    write_report(out, images)
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "weights" / "embedded").is_dir(), reason="weights/embedded is not there yet")
def test_a_killed_run_ends_with_the_same_bytes(tmp_path: Path) -> None:
    kb, kb_images = write_kb(tmp_path)
    index, images, queries = tmp_path / "index", kb_images / "flag", write_questions(tmp_path)
    bert(tmp_path / "bem")
    assert main(["build-index", "--kb", str(kb), "--images", str(kb_images), "--out", str(index)]) == 0

    def command(out: Path, server: FakeChatServer) -> list[str]:
        inputs = {"--index": index, "--queries": queries, "--query-images": images, "--bem": tmp_path / "bem"}
        named = [str(part) for pair in inputs.items() for part in pair]
        # one query at a time, so that none is asked again for its latency
        named += ["--batch-size", "1", "--out", str(out)]
        settings = {"kind": "openai", "base_url": f"{server.url}/v1", "model": "counted"}
        return ["evaluate", *named, *(f"--set=generator.{key}={value}" for key, value in settings.items())]

    with FakeChatServer() as server:
        whole, killed = tmp_path / "whole", tmp_path / "killed"
        assert main(command(whole, server)) == 0
        every = asked(server)
        assert every == [f"Question {n}?" for n in range(QUESTIONS) if n % 4 != 3]

        records = killed / "queries.jsonl"
        kill_omgm_when(lambda: records.is_file() and records.read_bytes().count(b"\n") >= 3, command(killed, server))
        assert not (killed / "metrics.json").exists()
        whole_lines = records.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()
        done = [json.loads(line)["question"] for line in whole_lines]
        assert 3 <= len(done) < QUESTIONS
        first = asked(server)

        assert main(command(killed, server)) == 0
        second = asked(server)
        assert second == [
            question for question in every if question not in done
        ]  # recorded questions are not asked again
        assert len(set(first) & set(second)) <= 1  # at most the one that was in progress when it was killed
        assert without_times(killed, images) == without_times(whole, images)
