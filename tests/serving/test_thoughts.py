"""What a reasoning model thinks is sent on request only, and is never the answer."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from chat_models.chat import ChatClient
from generators.chat import ChatGenerator
from tests.fakes.asking import WHEN
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.scripted_server import ScriptedServer
from tests.fakes.service import served

THOUGHT = "1850? No, 1848."


@pytest.mark.parametrize("reply", [f"<think>{THOUGHT}</think>1848", f"<think>\n{THOUGHT}\n</think>\n\n1848"])
def test_thoughts_come_on_request(tmp_path: Path, reply: str) -> None:
    body = {"image": data_uri(image_bytes("red")), "question": WHEN}
    with ScriptedServer([reply]) as server:
        generator = ChatGenerator(ChatClient(server.url, "scripted"))
        with (
            served(tmp_path, generator=generator) as world,
            httpx.Client(base_url=world.url, trust_env=False) as client,
        ):
            plain = client.post("/answer", json=body).json()
            asked = client.post("/answer", json=body | {"thoughts": True}).json()
            form = {"question": WHEN, "options": '{"thoughts": true}'}
            sent = client.post("/answer", data=form, files={"image": image_bytes("red")}).json()
            chat = {"model": "omgm", "omgm": {"thoughts": True}}
            parts = [
                {"type": "text", "text": WHEN},
                {"type": "image_url", "image_url": {"url": data_uri(image_bytes("red"))}},
            ]
            told = client.post("/v1/chat/completions", json=chat | {"messages": [{"role": "user", "content": parts}]})
    assert (plain["answer"], plain["thoughts"]) == ("1848", None) and THOUGHT not in str(plain)
    assert (asked["answer"], asked["thoughts"]) == (sent["answer"], sent["thoughts"]) == ("1848", THOUGHT)
    assert (told.json()["choices"][0]["message"]["content"], told.json()["omgm"]["thoughts"]) == ("1848", THOUGHT)


def test_a_cut_thought_is_no_answer_and_a_model_without_thoughts_has_empty_ones(tmp_path: Path) -> None:
    body = {"image": data_uri(image_bytes("red")), "question": WHEN, "thoughts": True}
    with ScriptedServer(["<think>1850?", "1848"]) as server:
        generator = ChatGenerator(ChatClient(server.url, "scripted"))
        with (
            served(tmp_path, generator=generator) as world,
            httpx.Client(base_url=world.url, trust_env=False) as client,
        ):
            first, second = (client.post("/answer", json=body).json() for _ in range(2))
    assert (first["answer"], first["abstained"], first["thoughts"]) == (None, True, "1850?")
    assert (second["answer"], second["thoughts"]) == ("1848", "")
