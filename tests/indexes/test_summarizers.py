"""Extractive summaries of hand-written articles, and the paper's prompt through a real server."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, HTTPException

from indexes.summarizers import ChatSummarizer, ExtractiveSummarizer, article_text, summary_messages
from indexes.summary_file import summarize_all
from llm.chat import ChatClient, ChatError
from retriever.types import Entity, Section


def entity(title: str, *sections: tuple[str, str]) -> Entity:
    return Entity(title, title, tuple(Section(name, text, i) for i, (name, text) in enumerate(sections)))


COUNTRY = entity(
    "Velland",
    ("Velland", "Background: Velland has known many kings. It has red roofs and white walls of stone everywhere."),
    ("Government", "Capital: name: Orrin\nFlag: description: three equal vertical bands of teal (left), white, and "
     "red; a yellow sun is centered meaning: teal stands for the sea history: adopted in 1961"),
)  # fmt: skip


def test_a_labeled_description_leads() -> None:
    summary = ExtractiveSummarizer().summarize([COUNTRY])[0]
    assert summary.startswith(
        "Velland. three equal vertical bands of teal (left), white, and red; a yellow sun is centered."
    )
    assert "sea" not in summary and "adopted" not in summary and "Orrin" not in summary


def test_a_section_about_looks_leads() -> None:
    bird = entity(
        "Ortolan",
        ("Ortolan", "The ortolan is a bunting of Europe, and it migrates."),
        ("History", "It was hunted for centuries. In 1961 the hunt was forbidden."),
        ("Appearance", "The head is green and grey with a yellow ring around the eye. The name means gardener."),
    )
    summary = ExtractiveSummarizer().summarize([bird])[0]
    assert summary.startswith("Ortolan. The head is green and grey with a yellow ring around the eye.")


def test_lead_clause_then_rich_sentences() -> None:
    fruit = entity(
        "Quince",
        ("Quince", "Quince (Fruit). The quince is a fruit of the rose family, which is old. It is eaten cooked. The "
         "peel is golden yellow and the shape is like a pear."),
    )  # fmt: skip
    summary = ExtractiveSummarizer().summarize([fruit])[0]
    assert summary.startswith(
        "Quince. Fruit. The quince is a fruit of the rose family, which is old. "
        "The peel is golden yellow and the shape is like a pear."
    )


def test_without_looks_the_first_sentences_stand() -> None:
    club = entity("Club", ("Club", "The club was founded in 1901. It has won twice.\nMembers: 300"))
    assert ExtractiveSummarizer().summarize([club])[0] == "Club. The club was founded in 1901. It has won twice."


def test_word_budget_and_empty_articles() -> None:
    long = entity("Wall", ("Wall", "The wall is white and red and long. " * 3 + "It has a blue gate, " * 60))
    for budget in (1, 5, 64):
        assert 1 <= len(ExtractiveSummarizer(budget).summarize([long])[0].split()) <= budget
    assert ExtractiveSummarizer().summarize([entity("Void"), entity("Blank", ("Blank", " \n "))]) == ["Void.", "Blank."]
    assert ExtractiveSummarizer().summarize([]) == []
    with pytest.raises(ValueError, match="max_words"):
        ExtractiveSummarizer(0)


def test_the_papers_prompt() -> None:
    system, user = summary_messages(article_text(COUNTRY))
    assert system["content"].startswith("You are a Wiki Summary Generator Assistant.")
    assert "history, characteristics, significance, appearance and impact" in system["content"]
    assert user["content"].startswith(
        "Following is the input Wikipedia content:\n\n# Velland\n\n## Velland\nBackground"
    )
    assert user["content"].endswith("Here is the summary of the Wikipedia content:")


class Desk:
    """What the server was asked, most of it at once, and what it answered."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.answered: list[str] = []
        self.most_active = 0

    async def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        title = body["messages"][1]["content"].split("# ")[1].split()[0]
        self.asked.append(title)
        self.most_active = max(self.most_active, len(self.asked) - len(self.answered))
        if title == "Refused":
            raise HTTPException(400, "too rude")
        if title == "Slow":
            for _ in range(500):  # at most 5 seconds
                if len(self.answered) >= 3:
                    break
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        self.answered.append(title)
        text = {"Void": "", "Velland": "  A country\n with a flag. "}.get(title, f"About {title}")
        return {"choices": [{"message": {"content": text}}]}


@pytest.fixture
def desk() -> Iterator[Desk]:
    app, desk = FastAPI(), Desk()
    app.post("/v1/chat/completions")(desk.answer)
    running = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none", loop="asyncio")
    )
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    desk.url = f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    yield desk
    running.should_exit = True
    thread.join(5)


def test_chat_summarizer(desk: Desk) -> None:
    summarizer = ChatSummarizer(ChatClient(desk.url, "small-model"))
    assert summarizer.name == "small-model"
    assert summarizer.summarize([COUNTRY, entity("Void")]) == ["A country with a flag.", "Void"]
    assert summarizer.summarize([COUNTRY]) == ["A country with a flag."]
    summarizer.close()


def test_a_slow_answer_holds_up_only_its_own_request(desk: Desk) -> None:
    summarizer = ChatSummarizer(ChatClient(desk.url, "small-model", concurrency=2))
    titles = ["Slow", *(f"Fast{n}" for n in range(6))]
    assert summarizer.summarize([entity(title) for title in titles]) == [f"About {title}" for title in titles]
    assert desk.answered.index("Slow") >= 3  # it waited for three that came after it
    assert desk.most_active == 2
    summarizer.close()


def test_articles_are_read_as_the_window_moves_on(desk: Desk) -> None:
    summarizer, read = ChatSummarizer(ChatClient(desk.url, "small-model", concurrency=2)), list[int]()

    def entities() -> Iterator[Entity]:
        for number in range(20):
            read.append(number)
            yield entity(f"Fast{number}")

    summaries = summarizer.stream(entities())
    assert [next(summaries), next(summaries)] == ["About Fast0", "About Fast1"]
    assert read == list(range(9))  # one that was yielded, and the window of four times two with the other
    summaries.close()
    assert summarizer.summarize([entity("Velland")]) == ["A country with a flag."]
    assert set(desk.asked) <= {"Velland", *(f"Fast{number}" for number in read)}
    summarizer.close()


def test_what_was_summarized_before_a_failure_is_kept(desk: Desk, tmp_path: Path) -> None:
    path, entities = tmp_path / "summaries.jsonl", [entity(f"Fast{number}") for number in range(9)]
    broken = [*entities[:5], Entity("Fast5", "Refused", ()), *entities[6:]]
    summarizer = ChatSummarizer(ChatClient(desk.url, "small-model", concurrency=2))
    with pytest.raises(ChatError, match="too rude"):
        summarize_all(broken, summarizer, path)
    kept = [json.loads(line)["id"] for line in path.read_text().splitlines()]
    assert kept == [f"Fast{number}" for number in range(5)]
    assert summarize_all(entities, summarizer, path) == 4
    summaries = [json.loads(line)["summary"] for line in path.read_text().splitlines()]
    assert summaries == [f"About Fast{number}" for number in range(9)]
    summarizer.close()
