"""Questions that follow others in a conversation, with the embedded profile from end to end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from omgm.api import OMGM
from omgm.indexing import Build, build
from omgm.profile import load_profile
from omgm.retriever_messages import read_queries, write_queries
from retriever.types import NO_IMAGE, Query
from serving.app import create_app
from serving.openai_routes import OPENAI
from serving.settings import ServingSettings
from tests.browser import Browser, by_id, opened_anew, wait
from tests.fakes.images import data_uri
from tests.fakes.service import listening

ARTICLES = {
    "Eiffel Tower": ("The tower is 330 metres tall.", "Gustave Eiffel's company built it in 1889 in Paris."),
    "Tokyo Tower": ("The tower is 333 metres tall.", "The Takenaka company built it in 1958 in Minato."),
    "Saxophone": ("It was invented by the Belgian Adolphe Sax in 1846.", "A saxophone is made of brass."),
    "Mount Fuji": ("The volcano is 3,776 metres tall.", "It last erupted in 1707."),
}
PAINTED = ("Saxophone", "Mount Fuji")
"""The entities with an image: the others are only named."""
Turn = str | tuple[str, str]
"""A question, or the title of the entity that a new image shows and a question."""
CONVERSATIONS: dict[str, list[tuple[Turn, str, str | None]]] = {
    "named, pointing, another named, pointing": [
        ("How tall is the Eiffel Tower?", "Eiffel Tower", "330"),
        ("And in which year was it built?", "Eiffel Tower", "1889"),
        ("And Tokyo Tower?", "Tokyo Tower", "1958"),
        ("How tall is it?", "Tokyo Tower", "333"),
    ],
    "the question before is asked of another thing": [
        ("How tall is the Eiffel Tower?", "Eiffel Tower", "330"),
        ("What about Mount Fuji?", "Mount Fuji", "3,776"),
        ("And Tokyo Tower?", "Tokyo Tower", "333"),
    ],
    "image, text, another image": [
        (("Saxophone", "Who invented this?"), "Saxophone", "Adolphe Sax"),
        ("What is it made of?", "Saxophone", "brass"),
        ("How tall is the Eiffel Tower?", "Eiffel Tower", "330"),
        ("And in which year was it built?", "Eiffel Tower", "1889"),
        (("Mount Fuji", "How tall is this?"), "Mount Fuji", "3,776"),
        ("When did it last erupt?", "Mount Fuji", "1707"),
    ],
    "an image is meant again": [
        (("Saxophone", "What is this?"), "Saxophone", "Saxophone"),
        ("How tall is Tokyo Tower?", "Tokyo Tower", "333"),
        ("And who invented this?", "Saxophone", "Adolphe Sax"),
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notes")
    for number, title in enumerate(PAINTED):
        blocks = np.random.default_rng(number).integers(0, 256, (6, 8, 3), np.uint8)
        Image.fromarray(blocks).resize((320, 240), Image.Resampling.NEAREST).save(folder / f"{title}.png")
    lines = [
        {
            "id": title,
            "title": title,
            **({"image": f"{title}.png"} if title in PAINTED else {}),
            "sections": [{"title": f"Part {i}", "text": text} for i, text in enumerate(texts)],
        }
        for title, texts in ARTICLES.items()
    ]
    (folder / "notes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    build(load_profile("embedded"), Build(kb=folder / "notes.jsonl", images=folder, out=folder / "index"))
    return folder


@pytest.fixture(scope="module")
def omgm(folder: Path) -> Iterator[OMGM]:
    with OMGM.open(folder / "index") as omgm:
        yield omgm


@pytest.fixture(scope="module")
def url(omgm: OMGM) -> Iterator[str]:
    settings = ServingSettings()
    with listening(create_app(omgm.retriever, omgm.generator, settings, routes=OPENAI), settings) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        yield client


def messages(folder: Path, turns: Sequence[Turn], responses: bool) -> list[dict[str, Any]]:
    """Returns a conversation up to its last question, in the format of the chat or the Responses API."""
    texts, images = ("input_text", "input_image") if responses else ("text", "image_url")
    found: list[dict[str, Any]] = []
    for turn in turns:
        title, question = (None, turn) if isinstance(turn, str) else turn
        parts: list[dict[str, Any]] = [{"type": texts, "text": question}]
        if title is not None:
            uri = data_uri((folder / f"{title}.png").read_bytes())
            parts.append({"type": images, "image_url": uri if responses else {"url": uri}})
        answer = [{"type": "output_text", "text": "…"}] if responses else "…"
        found += [{"role": "user", "content": parts}, {"role": "assistant", "content": answer}]
    return [message for message in found[:-1] if not (responses and message["role"] == "assistant")]


def streamed(client: httpx.Client, path: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns the text and the evidence of a streamed answer."""
    lines = client.post(path, json=body | {"stream": True}).text.splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    if path.endswith("responses"):
        text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
        return text, events[-1]["response"]["omgm"]
    text = "".join(event["choices"][0]["delta"].get("content", "") for event in events)
    return text, events[-1]["omgm"]


@pytest.mark.slow
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_chat_and_responses(client: httpx.Client, folder: Path, name: str) -> None:
    turns = CONVERSATIONS[name]
    for count, (_, title, answer) in enumerate(turns, 1):
        asked = [turn for turn, *_ in turns[:count]]
        chat = {"model": "omgm", "messages": messages(folder, asked, False)}
        responses = {"model": "omgm", "input": messages(folder, asked, True)}
        whole = client.post("/v1/chat/completions", json=chat).json()
        text, about = whole["choices"][0]["message"]["content"], whole["omgm"]
        assert about["entity"]["title"] == title and (answer is None or answer in text), (asked[-1], text)
        again = client.post("/v1/responses", json=responses).json()
        assert (again["output"][0]["content"][0]["text"], again["omgm"]["searched"]) == (text, about["searched"])
        for path, body in (("/v1/chat/completions", chat), ("/v1/responses", responses)):
            piece, evidence = streamed(client, path, body)
            assert (piece, evidence["entity"]) == (text, about["entity"])


def test_what_is_not_in_the_notes_is_declined_in_a_conversation_too(omgm: OMGM) -> None:
    before = ("How tall is the Eiffel Tower?",)
    for question in ("And Atlantis?", "Who wrote War and Peace?", "What is the capital of France?"):
        [result] = omgm.retriever.retrieve([Query(NO_IMAGE, question, before=before)])
        assert result.recognized is not None and result.recognized < 0.5 and result.searched == question
    [result] = omgm.retriever.retrieve([Query(NO_IMAGE, "How old is it?", before=("Who wrote War and Peace?",))])
    assert result.recognized == 0.0
    [result] = omgm.retriever.retrieve([Query(NO_IMAGE, "And Mount Fuji?", before=("Good morning",))])
    assert result.searched == "And Mount Fuji?" and result.recognized is not None and result.recognized > 0.5


def test_answer_and_what_it_says_of_the_question(client: httpx.Client, folder: Path) -> None:
    before = ["How tall is the Eiffel Tower?"]
    answer = client.post("/answer", json={"question": "And Tokyo Tower?", "before": before}).json()
    assert "333" in answer["answer"] and answer["searched"] == "How tall is Tokyo Tower?"
    form: dict[str, Any] = {
        "question": "What is it made of?",
        "options": json.dumps({"before": ["Who invented this?"]}),
    }
    files = {"image": (folder / "Saxophone.png").read_bytes()}
    answer = client.post("/answer", data=form, files=files).json()
    assert answer["answer"] == "brass" and answer["searched"] is None
    for wrong, code in ((["\ud800"], "wrong_type"), (["x"] * 21, "wrong_type"), ("x", "wrong_type")):
        refused = client.post(
            "/answer",
            content=json.dumps({"question": "How tall is it?", "before": wrong}),
            headers={"content-type": "application/json"},
        )
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, code)


def test_previous_response_id_is_refused(client: httpx.Client) -> None:
    body = {"model": "omgm", "input": "How tall is it?", "previous_response_id": "resp_1"}
    refused = client.post("/v1/responses", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "previous_response_id")


def test_questions_before_go_to_another_process_and_mix_in_a_batch(omgm: OMGM, folder: Path) -> None:
    image = Image.open(folder / "Saxophone.png").convert("RGB")
    queries = [
        Query(NO_IMAGE, "How tall is it?", before=("Who built Tokyo Tower?",)),
        Query(image, "What is it made of?", before=("What is this?",)),
        Query(NO_IMAGE, "How tall is Mount Fuji?"),
        Query(image, "Who invented this?"),
    ]
    first, *others = write_queries(queries, omgm.index)
    again, _ = read_queries(json.loads(first), iter(others), omgm.index)
    assert [query.before for query in again] == [query.before for query in queries]
    results = omgm.retriever.retrieve(again)
    titles = [omgm.index.entity(result.candidates[0].row).title for result in results]
    assert titles == ["Tokyo Tower", "Saxophone", "Mount Fuji", "Saxophone"]
    assert [result.searched for result in results] == ["How tall is it?", None, "How tall is Mount Fuji?", None]
    assert asyncio.run(omgm.answer_query(queries[0]))[0] == "333 metres"


@pytest.mark.slow
@pytest.mark.browser
def test_page(chromium: Browser, url: str, folder: Path) -> None:
    opened_anew(chromium, url)

    def turns() -> list[Any]:
        found: list[Any] = chromium.find_elements("class name", "turn")
        return found

    def ask(question: str, count: int) -> list[str]:
        """Returns the answer, the entity, what the page says that the question is about, and its number of photos."""
        by_id(chromium, "question").clear()
        by_id(chromium, "question").send_keys(question + "\n")
        wait(chromium, lambda: len(turns()) == count and turns()[0].get_attribute("aria-busy") == "false")
        shown = turns()[0]
        parts = (shown.find_element("css selector", name).text for name in (".reply", ".entity h3", ".topic"))
        return [*parts, str(len(shown.find_elements("css selector", ".asked img")))]

    def choose(title: str) -> None:
        by_id(chromium, "file").send_keys(str(folder / f"{title}.png"))

    assert ask("How tall is the Eiffel Tower?", 1) == ["330 metres", "Eiffel Tower", "", "0"]
    assert ask("When was it built?", 2) == ["1889", "Eiffel Tower", "About Eiffel Tower", "0"]
    chromium.refresh()  # the thread goes on
    wait(chromium, lambda: len(turns()) == 2)
    assert ask("And Tokyo Tower?", 3) == ["1958", "Tokyo Tower", "About Tokyo Tower: When was it built?", "0"]
    choose("Saxophone")
    assert ask("Who invented this?", 4) == ["Belgian Adolphe Sax", "Saxophone", "", "1"]
    assert ask("What is it made of?", 5) == ["brass", "Saxophone", "About the photo", "1"]
    assert ask("How tall is Tokyo Tower?", 6) == ["333 metres", "Tokyo Tower", "About Tokyo Tower, not the photo", "0"]
    choose("Mount Fuji")
    assert ask("When did it last erupt?", 7) == ["1707", "Mount Fuji", "", "1"]
    opened_anew(chromium, url)
    Image.effect_noise((320, 240), 90).save(folder / "unknown.png")
    choose("unknown")
    assert ask("How tall is Tokyo Tower?", 1) == ["333 metres", "Tokyo Tower", "About Tokyo Tower, not the photo", "0"]
    opened_anew(chromium, url)
    choose("unknown")
    assert ask("How tall is this?", 1)[0].startswith("The image was not recognized")
    [button] = [one for one in chromium.find_elements("css selector", ".choices button") if one.text == "Mount Fuji"]
    button.click()
    wait(chromium, lambda: len(turns()) == 2 and turns()[0].get_attribute("aria-busy") == "false")
    assert turns()[0].find_element("css selector", ".reply").text == "3,776 metres"
    assert turns()[0].find_element("css selector", ".topic").text == "About Mount Fuji"
    assert ask("When did it last erupt?", 3) == ["1707", "Mount Fuji", "About Mount Fuji", "0"]
    chromium.refresh()
    wait(chromium, lambda: len(turns()) == 3)
    assert ask("How tall is it?", 4) == ["3,776 metres", "Mount Fuji", "About Mount Fuji", "0"]
