"""Extractive summaries of hand-written articles, and the paper's prompt through a real server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from indexes.summarizers import ChatSummarizer, ExtractiveSummarizer, article_text, summary_messages
from llm.chat import ChatClient
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


@pytest.fixture
def server() -> Iterator[str]:
    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def answer(body: dict[str, Any]) -> dict[str, Any]:
        content = body["messages"][1]["content"]
        text = "" if "# Void" in content else "  A country\n with a flag. "
        return {"choices": [{"message": {"content": text}}]}

    running = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    running.should_exit = True
    thread.join(5)


def test_chat_summarizer(server: str) -> None:
    summarizer = ChatSummarizer(ChatClient(server, "small-model"))
    assert summarizer.name == "small-model"
    assert summarizer.summarize([COUNTRY, entity("Void")]) == ["A country with a flag.", "Void"]
    assert summarizer.summarize([COUNTRY]) == ["A country with a flag."]
    summarizer.close()
