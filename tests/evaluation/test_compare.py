from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.compare import HARMONIC, as_markdown, compare
from evaluation.records import GoldRecord, QueryRecord
from omgm.__main__ import main
from tests.fakes.records import record, write_records


def line(id: str, rank: int | None, score: float | None = None, **changes: Any) -> QueryRecord:
    """A record whose right entity and section have the same rank."""
    fields: dict[str, Any] = {
        "ranks": {"step1": rank},
        "section_ranks": {"section": rank, "pseudo": rank},
        "section_correct": rank == 1,
        "answer_scores": {} if score is None else {"evqa_exact_match": score},
        "answer_correct": None if score is None else score >= 0.5,
    }
    return record(id, **fields | changes)


def write(folder: Path, records: list[QueryRecord], dataset: str = "evqa", **changes: Any) -> Path:
    folder.mkdir(parents=True)
    latency = {"retrieve_p50": 17.4, "answer_p50": None}
    metrics = {"dataset": dataset, "profile": "colors", "commit": "0123456789abcdef", "latency_ms": latency} | changes
    (folder / "metrics.json").write_text(json.dumps(metrics))
    write_records(folder / "queries.jsonl", records)
    return folder


def by_name(comparison: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in comparison["metrics"]}


def test_runs_over_other_knowledge_bases_are_told(tmp_path: Path) -> None:
    folders = [write(tmp_path / name, [line("q0", 1, 1.0)]) for name in ("old", "new", "revised", "unknown")]
    for folder, knowledge_base in zip(folders[:3], ("1c", "1c", "2d"), strict=True):
        (folder / "run.json").write_text(json.dumps({"index": {"inputs": {"knowledge_base": knowledge_base}}}))
    (folders[3] / "run.json").write_text("{}")
    assert compare(folders)["warning"] == "the index of revised is of another knowledge base than that of old"
    assert "warning" not in compare(folders[:2])


def test_labels_that_differ_are_told(tmp_path: Path) -> None:
    gold = GoldRecord(["a", "b"], section=2, answers=["x", "y"])
    others = [
        GoldRecord(["b", "a"], ["A"], section=2, section_title="S", answers=["y", "x"]),  # only titles and orders
        GoldRecord(["a"], section=2, answers=["x", "y"]),
        GoldRecord(["a", "b"], section=3, answers=["x", "y"]),
        GoldRecord(["a", "b"], section=2, answers=["x"]),
    ]
    first = write(tmp_path / "first", [line(f"q{n}", 1, 1.0, gold=gold) for n in range(4)])
    second = write(tmp_path / "second", [line(f"q{n}", 1, 1.0, gold=other) for n, other in enumerate(others)])
    assert compare([first, second])["warning"] == "in second, 3 of 4 common questions have other labels than in first"
    assert "warning" not in compare([first, first])
    agents = [agent_run(tmp_path / name, {"a": 1.0, "b": 0.0}, "mmsearch-end2end/official") for name in "xy"]
    rows = (agents[1] / "queries.jsonl").read_text()
    (agents[1] / "queries.jsonl").write_text(rows.replace('"answers": ["x"]', '"answers": ["z"]', 1))
    assert compare(agents)["warning"] == "in y, 1 of 2 common questions have other labels than in x"


def test_what_judged_the_answers_is_told(tmp_path: Path) -> None:
    judges: list[dict[str, Any]] = [{"bem": "1c"}, {"bem": "1c"}, {"bem": "2d"}, {}]
    folders = [write(tmp_path / f"run{n}", [line("q0", 1, 1.0)], **judge) for n, judge in enumerate(judges)]
    assert compare(folders)["warning"] == "another model judged the answers of run2 than those of run0"
    models = [{"models": {"planner": "p", "judge": name}} for name in ("small", "large")]
    official = "mmsearch-plus/official"
    agents = [agent_run(tmp_path / f"a{n}", {"a": 1.0}, official, **one) for n, one in enumerate(models)]
    assert compare(agents)["warning"] == "another model judged the answers of a1 than those of a0"


def test_what_the_runs_were_made_from_is_listed(tmp_path: Path) -> None:
    folders = [write(tmp_path / name, [line("q0", 1, 1.0)]) for name in ("wide", "narrow", "unknown")]
    for folder, k, weights in ((folders[0], 20, "1c" * 8), (folders[1], 3, "2d" * 8)):
        inputs = {"settings": {"search": {"k": k}}, "sections.model": weights, "precision": "float32"}
        (folder / "run.json").write_text(json.dumps(inputs))
    found = compare(folders)
    differs = ["settings.search.k was 20 and is now 3", "sections.model: other content"]
    assert [sorted(run["differs"]) for run in found["runs"]] == [[], sorted(differs), []]
    assert "\nnarrow differs from wide: " in as_markdown(found) and "unknown differs" not in as_markdown(found)
    (folders[1] / "run.json").write_text(json.dumps({f"setting {n}": n for n in range(17)}))
    assert len(compare(folders)["runs"][1]["differs"]) == 20
    assert "; 8 more (--json).\n" in as_markdown(compare(folders))


def test_two_runs_by_hand(tmp_path: Path) -> None:
    first = write(tmp_path / "first", [line(f"q{i}", 1 if i < 2 else 7, float(i < 2)) for i in range(6)])
    lost = line("q0", None, 0.0, failed="image: lost", ranks={}, section_ranks={"section": None, "pseudo": None})
    second = write(tmp_path / "second", [lost, *(line(f"q{i}", 1, 1.0) for i in range(1, 6)), line("extra", 1, 1.0)])
    found = compare([first, second])
    assert (found["dataset"], found["n_common"]) == ("evqa", 6)
    assert [(run["name"], run["n_queries"], run["n_not_common"], run["n_failed"]) for run in found["runs"]] == [
        ("first", 6, 0, 0),
        ("second", 7, 1, 1),
    ]
    assert found["runs"][1]["failed"] == ["q0"]
    recall = by_name(found)["step1 recall@1"]
    assert recall["n"] == 6
    assert [figure["value"] for figure in recall["figures"]] == [pytest.approx(2 / 6), pytest.approx(5 / 6)]
    # one lost, four won: |difference| is 3 or 5 in 2 * (5 + 1) of 32 ways
    assert recall["differences"][0]["value"] == pytest.approx(3 / 6)
    assert recall["differences"][0]["p_value"] == 12 / 32
    assert [figure["value"] for figure in by_name(found)["step1 recall@10"]["figures"]] == [1, pytest.approx(5 / 6)]
    assert [figure["value"] for figure in by_name(found)["evqa_exact_match"]["figures"]] == [
        pytest.approx(2 / 6),
        pytest.approx(5 / 6),
    ]
    assert set(by_name(found)) == {
        *(f"{name} recall@{k}" for name in ("step1", "section", "pseudo") for k in (1, 5, 10, 20)),
        "evqa_exact_match",
    }


def test_a_question_without_a_section_is_not_asked_for_it(tmp_path: Path) -> None:
    unlabeled = line("q2", 3, section_correct=None, section_ranks={"pseudo": 3})
    folders = [write(tmp_path / name, [line("q0", 1), line("q1", 2), unlabeled]) for name in "ab"]
    rows = by_name(compare(folders, resamples=100))
    assert (rows["section recall@1"]["n"], rows["pseudo recall@1"]["n"]) == (2, 3)
    assert rows["section recall@1"]["figures"][0]["value"] == 0.5


def test_a_data_set_without_entities_has_no_entity_recall(tmp_path: Path) -> None:
    lines = [line("q0", None, 1.0, gold=GoldRecord(), section_correct=None)]
    rows = by_name(compare([write(tmp_path / name, lines) for name in "ab"], resamples=100))
    assert set(rows) == {"evqa_exact_match", *(f"pseudo recall@{k}" for k in (1, 5, 10, 20))}


def test_infoseek_has_its_harmonic_mean(tmp_path: Path) -> None:
    def lines(scores: str) -> list[QueryRecord]:
        splits = ["val_unseen_question", "val_unseen_entity"] * 3
        return [
            line(f"q{i}", 1, split=split, answer_scores={"infoseek": float(score)})
            for i, (split, score) in enumerate(zip(splits, scores, strict=True))
        ]

    first = write(tmp_path / "a", lines("110110"), "infoseek")  # questions 1 0 1, entities 1 1 0
    second = write(tmp_path / "b", lines("101000"), "infoseek")  # questions 1 1 0, entities 0 0 0
    row = by_name(compare([first, second], resamples=100))[HARMONIC]
    assert [figure["value"] for figure in row["figures"]] == [pytest.approx(2 / 3), 0]
    assert row["differences"][0]["value"] == pytest.approx(-2 / 3)


def test_metrics_that_only_some_runs_have_are_listed(tmp_path: Path) -> None:
    judged = line("q0", 1, answer_scores={"evqa_bem": 1.0, "evqa_exact_match": 0.0})
    folders = [write(tmp_path / "with", [judged]), write(tmp_path / "without", [line("q0", 1, 0.0)])]
    found = compare(folders, resamples=100)
    assert found["not_compared"] == [{"name": "evqa_bem", "only_in": ["with"]}]
    assert "evqa_exact_match" in by_name(found)
    assert "Not in all runs: evqa_bem (with)" in as_markdown(found)


def test_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    folders = [write(tmp_path / name / "run", [line("q0", 1)]) for name in "ab"]
    assert [run["name"] for run in compare(folders, resamples=10)["runs"]] == ["a/run", "b/run"]
    again = compare([folders[0], folders[0]], resamples=10)
    assert [run["name"] for run in again["runs"]] == ["run (1)", "run (2)"]
    assert by_name(again)["step1 recall@1"]["differences"][0]["p_value"] == 1


def test_runs_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    first = write(tmp_path / "first", [line("q0", 1)])
    with pytest.raises(ValueError, match="at least two runs, got 1"):
        compare([first])
    with pytest.raises(ValueError, match=r"other is a run over infoseek, .*first one over evqa"):
        compare([first, write(tmp_path / "other", [line("q0", 1)], "infoseek")])
    with pytest.raises(ValueError, match="no question in common"):
        compare([first, write(tmp_path / "apart", [line("q0", 1, question="Another?")])])
    with pytest.raises(ValueError, match=r"no metrics\.json; it is not a finished run"):
        compare([first, tmp_path])
    broken = write(tmp_path / "broken", [line("q0", 1)])
    with (broken / "queries.jsonl").open("a") as file:
        file.write('{"id": "q1"}\n')
    with pytest.raises(
        ValueError, match=r"queries\.jsonl: line 2: not a record of omgm evaluate \(question, image_id, "
    ):
        compare([first, broken])
    (broken / "metrics.json").write_text("{}")
    (broken / "queries.jsonl").write_text("")
    with pytest.raises(ValueError, match="broken: not a run of omgm evaluate"):
        compare([first, broken])
    agent = write(tmp_path / "agent", [line("q0", 1)], mode="vsa")
    (agent / "queries.jsonl").write_text('{"id": "q0", "trail": {}}\n')
    with pytest.raises(ValueError, match=r"agent/queries\.jsonl: not a run of omgm evaluate --mode \(KeyError"):
        compare([first, agent])
    with pytest.raises(ValueError, match="empty: the run has no questions"):
        compare([first, write(tmp_path / "empty", [])])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write(tmp_path / "first", [line(f"q{i}", 1 if i < 2 else 7) for i in range(6)])
    second = write(tmp_path / "second", [line(f"q{i}", 1) for i in range(6)])
    out = tmp_path / "tables" / "compare.md"
    command = ["compare", str(first), str(second), "--out", str(out), "--resamples", "500"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert shown == out.read_text()
    assert "# evqa: 2 runs over 6 common questions" in shown
    assert "| first | colors | - | 0123456789 | 6 | 0 | 17 ms | - | - |" in shown
    row = next(text for text in shown.splitlines() if text.startswith("| step1 recall@1 |")).split(" | ")
    assert row[1] == "6" and row[2].startswith("33.3 [") and row[3] == "100.0 [100.0, 100.0]"
    assert row[4].startswith("+66.7 [") and row[5] == "0.125 |"  # 2 of 16
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(out.with_suffix(".json").read_text())
    assert main(["compare", str(first), str(second), "--out", str(tmp_path / "x.txt")]) == 2
    assert "--out" in capsys.readouterr().err
    assert main(["compare", str(first), str(tmp_path / "gone")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_runs_of_different_protocols_are_compared_only_if_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"official": "evqa/official", "exact": "evqa/exact-match", "retrieval": "evqa/retrieval"}
    runs = {name: write(tmp_path / name, [line("q0", 1, 1.0)], protocol=row) for name, row in names.items()}
    old = write(tmp_path / "old", [line("q0", 1, 1.0)])
    said = r"different protocols \(official: evqa/official; exact: evqa/exact-match\).*force=True"
    with pytest.raises(ValueError, match=said):
        compare([runs["official"], runs["exact"]], resamples=100)
    with pytest.raises(ValueError, match="old: not named"):
        compare([runs["official"], old], resamples=100)
    assert "warning" not in compare([runs["exact"], runs["retrieval"]], resamples=100)
    assert "warning" not in compare([old, old], resamples=100)
    command = ["compare", str(runs["official"]), str(runs["exact"]), "--resamples", "100"]
    assert main(command) == 2 and "--force compares them" in capsys.readouterr().err
    assert main([*command, "--force"]) == 0
    printed = capsys.readouterr().out
    assert "| evqa/exact-match |" in printed and "Warning: the runs follow different protocols" in printed


def agent_run(folder: Path, answers: dict[str, float], protocol: str, **changes: Any) -> Path:
    write(folder, [], "mmsearch", mode="mmsearch", protocol=protocol, **changes)
    rows = [
        {
            "id": id, "question": f"{id}?", "answers": ["x"], "answer": "x" if score else None, "failed": None,
            "scores": {"mmsearch_f1": score}, "groups": {"area": "news"},
        }
        for id, score in answers.items()
    ]  # fmt: skip
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_runs_of_agents_are_compared(tmp_path: Path) -> None:
    official = "mmsearch-end2end/official"
    first = agent_run(tmp_path / "first", {"a": 1.0, "b": 0.0, "c": 0.5}, official)
    second = agent_run(tmp_path / "second", {"a": 1.0, "b": 1.0, "c": 1.0}, official)
    for folder, score in ((first, 0.5), (second, 1.0)):
        (folder / "rerank.jsonl").write_text(json.dumps({"id": "a", "score": score}) + "\n")
    found = by_name(compare([first, second], resamples=100))
    assert [figure["value"] for figure in found["mmsearch_f1"]["figures"]] == [0.5, 1.0]
    assert [figure["value"] for figure in found["rerank"]["figures"]] == [pytest.approx(0.5 / 3), pytest.approx(1 / 3)]
    assert set(found) == {"mmsearch_f1", "rerank"}
    other = agent_run(tmp_path / "other", {"a": 1.0}, "mmsearch-end2end/own-image-search")
    with pytest.raises(ValueError, match="other: mmsearch-end2end/own-image-search"):
        compare([first, other], resamples=100)


def test_a_judged_agent_s_verdicts_are_compared(tmp_path: Path) -> None:
    runs = [agent_run(tmp_path / name, {"a": 0.0}, "mmsearch-plus/official") for name in "xy"]
    for folder, verdict in zip(runs, (True, None), strict=True):
        (folder / "judge.jsonl").write_text(json.dumps({"id": "a", "verdict": verdict}) + "\n")
    found = by_name(compare(runs, resamples=100))
    assert [figure["value"] for figure in found["llm_judge"]["figures"]] == [1.0, 0.0]
