"""The paper's prompt of each data set, as the real commands send it to a chat server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omgm.__main__ import main
from omgm.profile import load_profile
from tests.fakes.inputs import profile, write_inputs
from tests.fakes.question_files import INFOSEEK, NUMBER, evqa_row, write_infoseek
from tests.fakes.rows import write_csv
from tests.fakes.scripted_server import ScriptedServer
from training.generator.samples import read_samples

TABLE_16 = (
    "You are a helpful assistant for answering encyclopedic questions.\nIf the context does not contain the "
    "information required to answer the question, you should answer the question using internal model knowledge."
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inputs of all commands, with `infoseek_val.jsonl` and `evqa.csv` about the photographs."""
    world = write_inputs(tmp_path_factory.mktemp("prompts"))
    rows: list[dict[str, Any]] = [INFOSEEK | {"data_id": f"e{n}", "image_id": "q_red"} for n in range(2)]
    rows += [NUMBER | {"data_id": f"q{n}", "image_id": f"q_{color}"} for n, color in enumerate(("blue", "green"))]
    write_infoseek(world, rows, ["String", "String", "Numerical", "Numerical"])
    asked = (evqa_row(f"Question {n}?", "China", name) for n, name in enumerate(("q_red", "q_blue")))
    write_csv(world / "evqa.csv", *asked)
    return world


def questions(world: Path, dataset: str) -> list[str]:
    file = {"infoseek": "infoseek_val.jsonl", "evqa": "evqa.csv"}[dataset]
    return ["--dataset", dataset, "--queries", str(world / file), "--query-images", str(world / "queries")]


def asking(server: ScriptedServer, *more: str) -> list[str]:
    settings = ("generator.kind=openai", f"generator.base_url={server.url}", "generator.model=scripted", *more)
    return [f"--set={one}" for one in settings]


def table(body: dict[str, Any]) -> int:
    """Returns the number of the paper's table that a request follows."""
    system, user = (message["content"] for message in body["messages"])
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    if user.endswith("\nJust answer the questions , no explanations needed. Short answer is:"):
        assert system.startswith("You are a helpful assistant for answering encyclopedic questions. Do not answer any")
        assert "numbers or time, please output the corresponding numerical format directly. If the context" in system
        assert system.endswith(
            "- Question: Which city or region does this mountain locate in?\nJust answer the questions , no "
            "explanations needed. Short answer is: Province of Belluno"
        )
        return 17
    assert system == TABLE_16 and user.endswith("\nThe answer is:")
    return 16


def test_infoseek_is_asked_with_table_17_and_its_overall_is_shown(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    # Both of the unseen entities right, one of two unseen questions: 75 % of all, and 2 * 1 * 0.5 / 1.5 = 66.7 %.
    replies = {"land 0": "China", "land 1": "1.05", "land 2": "7"}

    def play(messages: list[dict[str, Any]]) -> str:
        return next(reply for land, reply in replies.items() if f"Wiki Article: {land}\n" in messages[1]["content"])

    with ScriptedServer(play) as server:
        command = ["evaluate", *profile(world), "--index", str(world / "index"), *questions(world, "infoseek")]
        assert main([*command, *asking(server), "--out", str(tmp_path / "run")]) == 0
        assert [table(body) for body in server.bodies[:4]] == [17] * 4
        assert all("- Context: # Wiki Article: land " in body["messages"][1]["content"] for body in server.bodies)
        printed = capsys.readouterr().out
        assert "answer  infoseek  75.0  overall (harmonic mean)  66.7  unseen question  50.0" in printed
        assert "protocol infoseek/official" in printed
        metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
        assert metrics["settings"]["generator"]["style"] == "infoseek" and metrics["deviations"] == {}

        before = len(server.bodies)
        caplog.clear()
        assert main([*command, *asking(server), "--out", str(tmp_path / "run")]) == 0
        assert "all questions were answered before and none is asked again" in caplog.text
        capsys.readouterr()
        assert len(server.bodies) == before

        explicit = asking(server, "generator.style=evqa")
        assert main([*command, *explicit, "--out", str(tmp_path / "other")]) == 0
        assert {table(body) for body in server.bodies[before:]} == {16}
        sentence = "infoseek is asked with the prompt of Table 16 (E-VQA), not of Table 17 (InfoSeek)."
        printed = capsys.readouterr().out
        assert "protocol infoseek/evqa-prompt" in printed and f"evqa-prompt: {sentence}" in printed
        metrics = json.loads((tmp_path / "other" / "metrics.json").read_text())
        assert (metrics["protocol"], metrics["deviations"]) == ("infoseek/evqa-prompt", {"evqa-prompt": sentence})
        assert main(["compare", str(tmp_path / "run"), str(tmp_path / "other")]) == 2
        assert "the runs follow different protocols (run: infoseek/official; other:" in capsys.readouterr().err


def test_e_vqa_and_the_tables(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer(["China"]) as server:
        index = ["--index", str(world / "index")]
        evqa = ["evaluate", *profile(world), *index, *questions(world, "evqa"), "--out", str(tmp_path / "evqa")]
        assert main([*evqa, *asking(server)]) == 0
        assert {table(body) for body in server.bodies} == {16}
        for style, expected in (("auto", 17), ("evqa", 16)):
            before = len(server.bodies)
            command = ["tables", "3", *profile(world), *index, *questions(world, "infoseek")]
            out = ["--out", str(tmp_path / style)]
            capsys.readouterr()
            assert main([*command, *asking(server, f"generator.style={style}"), *out]) == 0
            asked = server.bodies[before:]
            # The rows without evidence have no context and, whoever asks, the prompt of the same table.
            assert asked and {table(body) for body in asked} == {expected}
            note = "infoseek is asked with the prompt of Table 16 (E-VQA), not of Table 17"
            assert (note in capsys.readouterr().out) == (style == "evqa")


@pytest.mark.filterwarnings("ignore")
def test_a_generator_is_trained_with_its_data_set_s_prompt(
    world: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("peft")
    sizes = ["--rank", "4", "--batch-size", "1", "--accumulate", "1", "--steps", "1"]
    base = ["--index", str(world / "index"), "--base", str(world / "llama"), *sizes]
    command = ["train-generator", *profile(world), *base, *questions(world, "infoseek")]
    for style, trained in (("auto", "infoseek"), ("evqa", "evqa")):
        caplog.clear()
        out = tmp_path / style
        assert main([*command, "--set", f"generator.style={style}", "--out", str(out)]) == 0
        assert json.loads((out / "training.json").read_text())["settings"]["style"] == trained
        assert load_profile(str(out / "profile.toml")).generator.style == trained  # as it will be asked
        assert ("not of Table 17 (InfoSeek)" in caplog.text) == (trained == "evqa")
    assert {sample.answer for sample in read_samples(tmp_path / "auto" / "samples.jsonl")} == {"China", "1"}
