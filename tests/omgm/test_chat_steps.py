"""Steps that ask a chat model, from a profile to an answer; the model is a script on a server on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from omgm.__main__ import main
from omgm.api import OMGM
from omgm.indexing import Build, build
from omgm.profile import load_profile
from retriever.types import EngineError
from tests.fakes.scripted_server import ScriptedServer

COLORS = {"Alder": "red", "Birch": "green", "Cedar": "blue", "Dogwood": "yellow"}
TEXTS = {"Bark": "Its bark is smooth.", "Height": "It is 30 m high.", "Leaves": "Its leaves are round."}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trees")
    (folder / "images").mkdir()
    rows = []
    for name, color in COLORS.items():
        image = Image.new("RGB", (90, 60), color)
        image.paste("white", (20, 10, 50, 40))
        image.save(folder / "images" / f"{name}.png")
        sections = [{"title": title, "text": f"{name}: {text}"} for title, text in TEXTS.items()]
        rows.append({"id": name, "title": name, "image": f"{name}.png", "sections": sections})
    (folder / "kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    profile = load_profile("embedded")
    build(profile, Build(kb=folder / "kb.jsonl", images=folder / "images", out=folder / "index"))
    return folder


def says(messages: Sequence[dict[str, Any]]) -> str:
    """Returns the texts of a conversation."""
    parts = [part for message in messages for part in message["content"]]
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


Opened = Callable[..., OMGM]


@pytest.fixture
def opened(folder: Path) -> Iterator[Opened]:
    opened: list[OMGM] = []

    def open_with(server: ScriptedServer, steps: Sequence[object], **settings: object) -> OMGM:
        of_chat = {"base_url": server.url + "/v1", "model": "scripted", "multimodal": True, "retries": 0} | settings
        chosen = {f"generator.{name}": value for name, value in of_chat.items()}
        opened.append(OMGM.open(folder / "index", settings={"steps": list(steps), **chosen}))
        return opened[-1]

    yield open_with
    for one in opened:
        one.close()


def titles(omgm: OMGM, folder: Path, *names: str, question: str = "How high is it?") -> list[list[str]]:
    found = omgm.retrieve([(folder / "images" / f"{name}.png", question) for name in names])
    return [[candidate.title for candidate in one.candidates] for one in found]


def place_of(name: str, text: str) -> str:
    [number] = [line.partition(".")[0] for line in text.splitlines() if line.endswith(f". {name}")]
    return number


def test_the_candidate_that_the_model_names_comes_first(folder: Path, opened: Opened) -> None:
    def play(messages: list[dict[str, Any]]) -> str:
        return f"It is number {place_of('Dogwood', says(messages))}."

    with ScriptedServer(play) as server:
        omgm = opened(server, ["search", "fusion", {"kind": "identify", "pictures": 2}, "sections"])
        plain = opened(server, ["search", "fusion", "sections"])
        before, after = titles(plain, folder, "Alder", "Cedar"), titles(omgm, folder, "Alder", "Cedar")
        assert [ranked[0] for ranked in after] == ["Dogwood", "Dogwood"]
        assert [ranked[1:] for ranked in after] == [[name for name in ranked if name != "Dogwood"] for ranked in before]
        assert [len(body["messages"][0]["content"]) for body in server.bodies] == [2 + 4 + 2 + 1] * 2
        images = [part for part in server.bodies[0]["messages"][0]["content"] if part["type"] == "image_url"]
        assert len(images) == 3
        [one] = omgm.retrieve([(folder / "images" / "Alder.png", "How high is it?")])
        assert one.candidates[0].fused >= one.candidates[1].fused
        assert one.sections[0].title == "Height" and one.sections[0].text.startswith("Dogwood")


@pytest.mark.slow
@pytest.mark.parametrize("reply", ["0", "None of them.", "17", ""])
def test_a_reply_that_names_none_changes_nothing(folder: Path, opened: Opened, reply: str) -> None:
    with ScriptedServer(lambda _: reply or " ") as server:
        omgm = opened(server, ["search", {"kind": "identify", "candidates": 3}, "sections"])
        assert titles(omgm, folder, "Birch") == titles(opened(server, ["search", "sections"]), folder, "Birch")
        assert len(server.bodies) == 1 and "4." not in says(server.bodies[0]["messages"])


def test_sections_that_do_not_help_come_last(folder: Path, opened: Opened) -> None:
    def play(messages: list[dict[str, Any]]) -> str:
        return "**No**, it does not." if "30 m" in says(messages) else "Yes."

    with ScriptedServer(play) as server:
        plain = opened(server, ["search", "fusion", "sections"])
        [before] = plain.retrieve([(folder / "images" / "Alder.png", "How high is it?")])
        omgm = opened(server, ["search", "fusion", "sections", {"kind": "inspect", "sections": 2}])
        [after] = omgm.retrieve([(folder / "images" / "Alder.png", "How high is it?")])
    assert before.sections[0].title == "Height" and len(server.bodies) == 2
    order = [section.title for section in before.sections]
    assert [section.title for section in after.sections] == [*order[1:], "Height"]
    scores = [section.score for section in after.sections]
    assert None not in scores and scores == sorted(scores, key=lambda score: -(score or 0))


def test_an_entity_without_a_section_that_helps_comes_behind_the_inspected(folder: Path, opened: Opened) -> None:
    def play(messages: list[dict[str, Any]]) -> str:
        return "no" if "Alder" in says(messages) else "yes"

    steps = ["search", "fusion", {"kind": "sections", "entities": 3, "weight": 1}]
    with ScriptedServer(play) as server:
        [before] = titles(opened(server, steps), folder, "Alder")
        [after] = titles(opened(server, [*steps, {"kind": "inspect", "entities": 3, "sections": 1}]), folder, "Alder")
    assert before[0] == "Alder" and len(server.bodies) == 3
    assert after == [before[1], before[2], "Alder", before[3]]


def test_a_rewritten_question_ranks_the_sections(folder: Path, opened: Opened) -> None:
    with ScriptedServer(lambda messages: "Alder:\n how smooth is the bark?") as server:
        omgm = opened(server, ["search", "fusion", {"kind": "rewrite", "step": {"kind": "sections", "entities": 2}}])
        [found] = omgm.retrieve([(folder / "images" / "Alder.png", "How high is it?")])
        assert found.sections[0].title == "Bark" and "step3" in found.timings_ms
        assert says(server.bodies[0]["messages"]).endswith("Question: How high is it?")
    with ScriptedServer(lambda messages: " ") as server:
        omgm = opened(server, ["search", "fusion", "rewrite"], multimodal=False)
        [found] = omgm.retrieve([(folder / "images" / "Alder.png", "How high is it?")])
        assert found.sections[0].title == "Height"
        assert [part["type"] for part in server.bodies[0]["messages"][0]["content"]] == ["text"]


def test_batched_is_single(folder: Path, opened: Opened) -> None:
    def play(messages: list[dict[str, Any]]) -> str:
        return "Yes" if "number" not in says(messages) else str(len(says(messages)) % 3 + 1)

    with ScriptedServer(play) as server:
        omgm = opened(server, ["search", "fusion", "identify", "sections", {"kind": "inspect", "entities": 2}])
        assert titles(omgm, folder, *COLORS) == [titles(omgm, folder, name)[0] for name in COLORS]


def test_questions_without_an_image_are_not_identified(folder: Path, opened: Opened) -> None:
    with ScriptedServer(["1"]) as server:
        omgm = opened(server, ["search", "fusion", "identify", "sections"])
        assert omgm.retrieve([(None, "How high is the Cedar?")])[0].candidates[0].title == "Cedar"
        assert not server.bodies


def test_a_server_that_fails_is_named(folder: Path, opened: Opened) -> None:
    with ScriptedServer(["1"], refuses=("image_url",)) as server:
        omgm = opened(server, ["search", "fusion", "identify", "sections"])
        with pytest.raises(EngineError, match=r"a step of retrieval asks scripted: .*image_url"):
            titles(omgm, folder, "Alder")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ('["search", "identify"]', "the step identify needs a model that sees: set generator.multimodal = true"),
        ('["identify", "search"]', "steps.0: 'identify' only scores candidates"),
        ('["search", {kind = "inspect", entities = 0}]', "steps.1 (inspect): entities: Input should be greater"),
        ('["search", {kind = "rewrite", step = "section"}]', "'section' is unknown"),
        (
            '["search", {kind = "rewrite", step = {kind = "sections", entities = 0}}]',
            "rewrite.step (sections): entities: Input should be greater",
        ),
    ],
)
def test_wrong_settings_are_named(folder: Path, capsys: pytest.CaptureFixture[str], steps: str, message: str) -> None:
    chat = ("--set=generator.base_url=http://127.0.0.1:9/v1", "--set=generator.model=none")
    question = ("--index", folder / "index", folder / "images" / "Alder.png", "How high is it?", f"--set=steps={steps}")
    assert main(["ask", *map(str, question), *chat]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_an_evaluation_depends_on_the_server(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = {"image": "Alder", "question": "How high is it?", "entity": "Alder", "answers": ["30 m"]}
    (tmp_path / "q.jsonl").write_text(json.dumps(question) + "\n")
    with ScriptedServer(["1"]) as server:
        chat = (f"--set=generator.base_url={server.url}/v1", "--set=generator.model=scripted")
        given = ("evaluate", "--dataset", "plain", "--queries", tmp_path / "q.jsonl", "--out", tmp_path / "out")
        images = ("--query-images", folder / "images", "--index", folder / "index", "--no-answers")
        steps = '--set=steps=["search", "fusion", "sections", "inspect"]'
        assert main([*map(str, given), *map(str, images), steps, *chat]) == 0, capsys.readouterr().err
        assert server.bodies
    noted = json.loads((tmp_path / "out" / "run.json").read_text())
    assert "'id': 'scripted'" in str(noted)
