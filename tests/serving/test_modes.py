"""`POST /answer` with a mode: real agents that use the service's own batches, with a scripted planner."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

import serving.modes
from chat_models.errors import ChatError
from chat_models.messages import Message
from chat_models.replies import ChatReply
from retriever.trail_views import CallStep, RequestStep, RoundStep, TrailOut
from search_agents.model import Schema, Tools
from serving.modes import Modes
from serving.settings import ServingSettings
from tests.fakes.asking import fault
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.modes import agents
from tests.fakes.planner import ScriptedPlanner, calling, text_of
from tests.fakes.service import World, served, wait_until

QUESTION = "What is the wave length of the color of the neighbor?"
ZOOM = calling("zoom_in", '{"box": [2, 2, 20, 20]}', "I look closer.")
SEARCH = calling("text_search", '{"queries": ["wave length green"]}')
ANSWER = "It is 530 nm [4]."


def play(asked: str) -> str | ChatReply:
    """Zooms in, searches, answers; the inspector finds the index's evidence insufficient."""
    if "Evidence:" in asked and "zoom" not in asked and "Still missing" not in asked:
        return json.dumps({"sufficient": False, "missing": "the neighbor's color"})
    return f"<answer>{ANSWER}</answer>" if "text_search" in asked else SEARCH if "zoom_in" in asked else ZOOM


class HeldPlanner(ScriptedPlanner):
    """A planner that answers when its gate opens, and counts canceled requests."""

    def __init__(self) -> None:
        super().__init__([f"<answer>{ANSWER}</answer>"])
        self.gate = threading.Event()
        self.canceled = 0

    async def reply(self, messages: Sequence[Message], max_tokens: int, tools: Tools, schema: Schema) -> ChatReply:
        found = await super().reply(messages, max_tokens, tools, schema)
        try:
            while not self.gate.is_set():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.canceled += 1
            raise
        return found


@contextmanager
def asking(folder: Path, modes: Modes | None, **settings: Any) -> Iterator[tuple[World, httpx.Client]]:
    with (
        served(folder, ServingSettings(**settings), modes=modes) as world,
        httpx.Client(base_url=world.url, timeout=30, trust_env=False) as client,
    ):
        yield world, client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    settings: dict[str, Any] = {"tokens": 50_000, "seconds": 60, "money": 2}
    with asking(tmp_path_factory.mktemp("agents"), agents(play, **settings)) as (_, client):
        yield client


def ask(client: httpx.Client, path: str = "/answer", **fields: Any) -> httpx.Response:
    content = {"image": data_uri(image_bytes("red")), "question": QUESTION, **fields}
    return client.post(path, json=content)


def events(response: httpx.Response) -> list[tuple[str, dict[str, Any]]]:
    found, name = [], ""
    for line in response.iter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            found.append((name, json.loads(value)))
    return found


def test_the_answer_has_its_trail(client: httpx.Client) -> None:
    found = ask(client, mode="auto").json()
    assert (found["answer"], found["abstained"], found["mode"]) == ("It is 530 nm.", False, "auto")
    assert (found["entity"], found["evidence"], found["candidates"]) == (None, [], [])
    assert found["generator"] == "scripted" and found["index"]["name"] == "three lands"
    assert set(found["timings_ms"]) == {"decode", "agent", "total"}
    trail = found["trail"]
    assert TrailOut.model_validate(trail).model_dump(mode="json") == trail
    assert [[call["tool"] for call in one["calls"]] for one in trail["rounds"]] == [
        ["ask_index"], ["zoom_in"], ["text_search"], [],
    ]  # fmt: skip
    [cited] = [source for source in trail["sources"] if source["number"] == 4]
    assert trail["claims"] == [{"text": "It is 530 nm.", "sources": [4]}]
    assert cited["url"].startswith("https://kb.example/") and trail["rounds"][1]["thought"] == "I look closer."
    assert trail["stopped"] == trail["failure"] == "" and trail["spent"]["calls"]["zoom_in"] == 1


def test_steps_come_as_events(client: httpx.Client) -> None:
    options = json.dumps({"mode": "mmsearch-plus", "stream": True})
    form = {"question": QUESTION, "options": options}
    with client.stream("POST", "/answer", files={"image": image_bytes("red")}, data=form) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        found = events(response)
    names = [name for name, _ in found]
    assert names == ["request", "round", "call", "request", "round", "call", "request", "round", "done"]
    models: dict[str, type[BaseModel]] = {"request": RequestStep, "round": RoundStep, "call": CallStep}
    for name, values in found[:-1]:
        assert models[name].model_validate(values).model_dump(mode="json") == values
    decided, zoomed, searched = found[1][1], found[2][1], found[5][1]
    assert decided["calls"] == [{"tool": "zoom_in", "arguments": {"box": [2, 2, 20, 20]}}]
    assert (decided["round"], decided["thought"]) == (1, "I look closer.")
    [thumbnail] = zoomed["thumbnails"].values()
    assert thumbnail.startswith("data:image/jpeg;base64,") and zoomed["images"] == list(zoomed["thumbnails"])
    assert searched["round"] == 2 and [one["number"] for one in searched["found"]] == searched["sources"]
    assert any("wave length of green" in one["text"] for one in searched["found"])
    answer = found[-1][1]
    for name, values in found:  # the streamed steps equal those of the trail
        if name == "call":
            recorded = answer["trail"]["rounds"][values["round"] - 1]["calls"][values["position"]]
            assert {key: values[key] for key in recorded} == recorded
    assert answer["trail"]["policy"] == "mmsearch-plus" and answer["answer"] == "It is 530 nm."


def test_every_mode_answers(client: httpx.Client) -> None:
    modes = client.get("/info").json()["modes"]
    assert modes == ["retrieve", "auto", "mmsearch-plus", "omnisearch", "mmsearch", "vsa"]
    for mode in modes:
        found = ask(client, mode=mode)
        assert found.status_code == 200 and found.json()["mode"] == mode
        assert (found.json()["trail"] is None) == (mode == "retrieve")
    assert ask(client, mode=None).json()["entity"]["title"] == "Redland"


def test_a_request_may_lower_the_budget(client: httpx.Client) -> None:
    once = ask(client, mode="auto", budget={"rounds": 1}).json()
    assert (once["trail"]["stopped"], len(once["trail"]["rounds"])) == ("rounds", 1)
    poor = ask(client, mode="auto", budget={"tokens": 10}).json()
    assert poor["trail"]["stopped"] == "tokens" and poor["trail"]["spent"]["tokens"] == 0
    for name, value in (("tokens", 50_001), ("seconds", 61), ("money", 2.5)):
        response = ask(client, mode="auto", budget={name: value})
        assert fault(response) == (422, "out_of_range", "budget")
        assert f"budget.{name} must be at most" in response.json()["error"]["message"]
    schema = client.get("/openapi.json").json()["paths"]["/answer"]["post"]["requestBody"]["content"]
    budget = schema["application/json"]["schema"]["properties"]["budget"]["anyOf"][0]
    assert set(budget["properties"]) == {"rounds", "tokens", "seconds", "money"} and "$defs" not in str(schema)
    assert client.get("/info").json()["agent_limits"] == {
        "rounds": None, "tokens": 50_000, "seconds": 60.0, "money": 2.0,
    }  # fmt: skip


def zoomed(response: httpx.Response) -> dict[str, Any]:
    """Returns the first call of an answer."""
    call: dict[str, Any] = response.json()["trail"]["rounds"][0]["calls"][0]
    return call


def test_boxes_are_regions_that_the_agent_may_name(tmp_path: Path) -> None:
    planner = ScriptedPlanner([calling("zoom_in", '{"region": 2}'), f"<answer>{ANSWER}</answer>"])
    with asking(tmp_path, agents(planner), max_image_side=100) as (_, client):
        image = data_uri(image_bytes("red", size=(400, 300)))
        boxes = [[0, 0, 10, 10], [380, 30, 40.4, 900]]
        call = zoomed(ask(client, image=image, mode="mmsearch-plus", boxes=boxes))
        assert call["images"] == ["image_crop_10_7_95_75"] and call["error"] == ""  # the image is shrunk to 100 x 75
        shown = planner.asked[0][1]["content"]
        assert [part["type"] for part in shown] == ["image_url", "image_url", "text"]  # with the numbered overlay
        options = json.dumps({"mode": "mmsearch-plus", "boxes": boxes})
        form = {"question": QUESTION, "options": options}
        sent = client.post("/answer", files={"image": image_bytes("red", size=(400, 300))}, data=form)
        assert sent.json()["trail"]["answer"] == "It is 530 nm."


@pytest.mark.parametrize(
    ("boxes", "code", "message"),
    [
        ([[400, 300, 500, 400]], "out_of_range", "has no pixel of the image, which is"),
        ([[1, 2, 3]], "out_of_range", "a box needs four finite numbers, x1 y1 x2 y2; got [1.0, 2.0, 3.0]"),
        ([[1, 2, 3, "4"]], "wrong_type", "boxes.0.3"),
        ([1, 2, 3, 4], "wrong_type", "boxes.0"),
        ({"x1": 1}, "wrong_type", "boxes"),
        ([[0, 0, 9, 9]] * 51, "wrong_type", "at most 50"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_boxes_that_are_wrong(client: httpx.Client, boxes: Any, code: str, message: str, stream: bool) -> None:
    response = ask(client, mode="mmsearch-plus", boxes=boxes, stream=stream)
    assert fault(response) == (422, code, "boxes") and message in response.json()["error"]["message"]


def test_what_does_not_go_together(client: httpx.Client) -> None:
    assert fault(ask(client, mode="magic")) == (422, "out_of_range", "mode")
    assert "retrieve, auto, mmsearch-plus" in ask(client, mode="magic").json()["error"]["message"]
    assert fault(ask(client, mode="auto", k=5)) == (422, "unsupported_parameter", "k")
    assert fault(ask(client, budget={"rounds": 1})) == (422, "unsupported_parameter", "budget")
    assert fault(ask(client, boxes=[[0, 0, 9, 9]])) == (422, "unsupported_parameter", "boxes")
    assert fault(ask(client, mode="auto", budget={"rounds": 0})) == (422, "out_of_range", "budget")
    assert fault(ask(client, mode="auto", budget={"steps": 1})) == (422, "unknown_option", "budget")
    assert fault(ask(client, mode=3)) == (422, "wrong_type", "mode")
    assert fault(ask(client, "/retrieve", mode="auto")) == (422, "unsupported_parameter", "mode")
    assert fault(ask(client, mode="auto", image="!")) == (422, "bad_image_url", "image")


def test_without_a_chat_model(tmp_path: Path) -> None:
    with asking(tmp_path, None) as (_, client):
        for mode in ("auto", "nonsense"):
            response = ask(client, mode=mode)
            assert fault(response) == (422, "mode_not_available", "mode")
            message = response.json()["error"]["message"]
            assert message.startswith(f"mode must be retrieve here, got '{mode}'")
            assert message.endswith("generator.base_url and generator.model are not set")
        assert client.get("/info").json()["modes"] == ["retrieve"]


def test_more_runs_than_allowed_are_refused(tmp_path: Path) -> None:
    planner = HeldPlanner()
    with asking(tmp_path, agents(planner, runs=2)) as (_, client), ThreadPoolExecutor(2) as pool:
        held = [pool.submit(ask, client, mode="mmsearch-plus") for _ in range(2)]
        wait_until(lambda: len(planner.asked) == 2)
        for stream in (False, True):
            refused = ask(client, mode="auto", stream=stream)
            assert fault(refused) == (429, "agents_busy", None) and int(refused.headers["retry-after"]) >= 1
        assert ask(client).json()["entity"]["title"] == "Redland"  # retrieval continues meanwhile
        planner.gate.set()
        assert [one.result().json()["answer"] for one in held] == ["It is 530 nm."] * 2
        assert ask(client, mode="mmsearch-plus").status_code == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_ends_the_run(tmp_path: Path, stream: bool) -> None:
    planner = HeldPlanner()
    with asking(tmp_path, agents(planner, runs=1)) as (world, client):
        content = {"image": data_uri(image_bytes("red")), "question": QUESTION, "mode": "omnisearch", "stream": stream}
        leaving = threading.Thread(target=_leave, args=(world.url, content, planner))
        leaving.start()
        wait_until(lambda: planner.canceled == 1)
        leaving.join()
        planner.gate.set()
        assert ask(client, mode="mmsearch-plus").json()["answer"] == "It is 530 nm."


def _leave(url: str, content: dict[str, Any], planner: HeldPlanner) -> None:
    """Sends a question and closes the connection once the planner has been called."""
    host, _, port = url.removeprefix("http://").partition(":")
    body = json.dumps(content).encode()
    fields = f"Host: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    head = f"POST /answer HTTP/1.1\r\n{fields}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(head.encode() + body)
        wait_until(lambda: bool(planner.asked))


def test_a_stream_shows_that_it_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving.modes, "_PING_S", 0.01)
    planner = HeldPlanner()
    content = {"image": data_uri(image_bytes("red")), "question": QUESTION, "mode": "mmsearch-plus", "stream": True}
    with asking(tmp_path, agents(planner)) as (_, client), client.stream("POST", "/answer", json=content) as response:
        lines = response.iter_lines()
        assert next(lines) == ": waiting"
        planner.gate.set()
        assert [line for line in lines if line.startswith("event")][-1] == "event: done"


def test_a_failed_model(tmp_path: Path) -> None:
    """The caller learns that it failed, but not where it is."""
    planner = ScriptedPlanner([ChatError("no answer: refused", "http://10.0.0.7:8080/v1/chat/completions")])
    with asking(tmp_path, agents(planner)) as (_, client):
        found = ask(client, mode="auto")
        assert found.status_code == 200 and found.json()["answer"] == "700"  # the index's answer
        assert found.json()["generator_error"]["code"] == "generator_unavailable"
        assert found.json()["trail"]["stopped"] == "the model failed"
        assert found.json()["trail"]["failure"] == "the generator cannot be reached" and "10.0.0.7" not in found.text
        nothing = ask(client, mode="mmsearch-plus").json()
        assert (nothing["answer"], nothing["abstained"]) == (None, False)
        assert fault(ask(client, mode="auto", on_generator_error="fail")) == (424, "generator_unavailable", None)
        [(name, error)] = events(ask(client, mode="mmsearch-plus", on_generator_error="fail", stream=True))
        assert (name, error["error"]["code"]) == ("error", "generator_unavailable")


def test_a_failed_generator_is_a_result_of_the_tool(tmp_path: Path) -> None:
    with asking(tmp_path, agents([f"<answer>{ANSWER}</answer>"])) as (_, client):
        found = ask(client, mode="auto", question="When did it break?")
        assert found.status_code == 200 and "secret" not in found.text
        [call] = found.json()["trail"]["rounds"][0]["calls"]
        assert call["tool"] == "ask_index" and call["error"].startswith("internal error; see the server's log")


def test_runs_are_counted(tmp_path: Path) -> None:
    with asking(tmp_path, agents(play)) as (_, client):
        ask(client, mode="mmsearch-plus")
        lines = client.get("/metrics").text.splitlines()
        assert 'omgm_agent_runs_total{mode="mmsearch-plus",outcome="answered"} 1.0' in lines
        [tokens] = [line for line in lines if line.startswith('omgm_agent_tokens_total{mode="mmsearch-plus"}')]
        assert float(tokens.split()[-1]) > 0


def test_the_planner_reads_what_the_service_found(tmp_path: Path) -> None:
    planner = ScriptedPlanner(play)
    with asking(tmp_path, agents(planner)) as (world, client):
        ask(client, mode="auto")
        asked = text_of(planner.asked[0][1])
        assert "Proposed answer: 700" in asked and "the wave length of red is 700 nm" in asked
        assert len(world.retriever.batches) == 1
