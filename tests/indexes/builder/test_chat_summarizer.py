"""The paper's prompt through a real server, and summaries that are requested only once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, HTTPException

from chat_models.chat import ChatClient
from chat_models.errors import ChatError
from indexes.builder.chat_summarizer import ChatSummarizer, SummaryCounts, article_text, summary_messages
from indexes.builder.summarizers import summarize_all
from indexes.builder.summary_cache import SummaryCache
from retriever.types import Entity
from tests.fakes.articles import COUNTRY, entity
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.listening import listening_as


def test_the_papers_prompt() -> None:
    system, user = summary_messages(article_text(COUNTRY))
    assert system["content"].startswith("You are a Wiki Summary Generator Assistant.")
    assert "history, characteristics, significance, appearance and impact" in system["content"]
    assert user["content"].startswith(
        "Following is the input Wikipedia content:\n\n# Velland\n\n## Velland\nBackground"
    )
    assert user["content"].endswith("Here is the summary of the Wikipedia content:")


REPLIES: dict[str, dict[str, Any]] = {
    "Closed": {"message": {"content": "<think>\nPerhaps France?\n</think>\n\nA red disc."}, "finish_reason": "stop"},
    "Thinking": {"message": {"content": "<think>Perhaps"}, "finish_reason": "length"},
    "Apart": {"message": {"content": None, "reasoning": "Perhaps"}, "finish_reason": "length"},
    "Declined": {"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"},
    "Filtered": {"message": {"content": ""}, "finish_reason": "content_filter"},
    "Cut": {"message": {"content": "A red"}, "finish_reason": "length"},
}


class Desk:
    """The requests that the server received, their maximum concurrency, and its answers."""

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
        if title in REPLIES:
            return {"choices": [REPLIES[title]]}
        text = {"Void": "", "Velland": "  A country\n with a flag. "}.get(title, f"About {title}")
        return {"choices": [{"message": {"content": text}}]}


@pytest.fixture
def desk() -> Iterator[Desk]:
    app, desk = FastAPI(), Desk()
    app.post("/v1/chat/completions")(desk.answer)
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none", loop="asyncio")
    with listening_as(config) as desk.url:
        yield desk


def test_chat_summarizer(desk: Desk) -> None:
    summarizer = ChatSummarizer(ChatClient(desk.url, "small-model"))
    assert summarizer.name == "small-model"
    assert list(summarizer.stream([COUNTRY, entity("Void")])) == ["A country with a flag.", "Void"]
    assert list(summarizer.stream([COUNTRY])) == ["A country with a flag."]
    summarizer.close()


def test_a_slow_answer_holds_up_only_its_own_request(desk: Desk) -> None:
    summarizer = ChatSummarizer(ChatClient(desk.url, "small-model", concurrency=2))
    titles = ["Slow", *(f"Fast{n}" for n in range(6))]
    assert list(summarizer.stream([entity(title) for title in titles])) == [f"About {title}" for title in titles]
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
    assert read == list(range(9))  # the yielded one, and a window of four times two that includes the other
    summaries.close()
    assert list(summarizer.stream([entity("Velland")])) == ["A country with a flag."]
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


def test_only_what_changed_is_asked_again(desk: Desk, tmp_path: Path) -> None:
    cache, entities = SummaryCache(tmp_path / "kept.sqlite"), [entity(f"Fast{number}") for number in range(5)]
    first = ChatSummarizer(ChatClient(desk.url, "small-model"), cache=cache)
    expected = list(first.stream([*entities, COUNTRY]))
    first.close()
    changed = entity("Velland", ("Velland", "Now it has blue roofs."))
    moved = Entity("elsewhere", "Fast4", ())  # the same article under another id
    desk.asked.clear()
    again = ChatSummarizer(ChatClient(desk.url, "small-model"), cache=cache)
    assert list(again.stream([*entities[:4], moved, changed])) == expected
    assert desk.asked == ["Velland"]
    assert (again.counts.requests, again.counts.cached) == (1, 5)
    again.close()


def test_another_model_or_other_limits_are_other_questions(desk: Desk, tmp_path: Path) -> None:
    cache = SummaryCache(tmp_path / "kept.sqlite")
    made = [
        ChatSummarizer(ChatClient(desk.url, "small-model"), cache=cache),
        ChatSummarizer(ChatClient(desk.url, "other-model"), cache=cache),
        ChatSummarizer(ChatClient(desk.url, "small-model", reasoning_effort="none"), cache=cache),
        ChatSummarizer(ChatClient(desk.url, "small-model"), max_tokens=99, cache=cache),
        ChatSummarizer(ChatClient(desk.url, "small-model"), max_context_tokens=16, cache=cache),
    ]
    for summarizer in [*made, *made]:
        list(summarizer.stream([COUNTRY]))
    assert len(desk.asked) == len(made)
    for summarizer in made:
        summarizer.close()


def test_what_was_in_flight_when_a_build_failed_is_not_asked_again(desk: Desk, tmp_path: Path) -> None:
    cache = SummaryCache(tmp_path / "kept.sqlite")
    summarizer = ChatSummarizer(ChatClient(desk.url, "small-model", concurrency=2), cache=cache)
    titles = ["Slow", *(f"Fast{n}" for n in range(6))]
    summaries = summarizer.stream(entity(title) for title in [*titles, "Refused"])
    with pytest.raises(ChatError):
        list(summaries)
    desk.asked.clear()
    assert list(summarizer.stream([entity(title) for title in titles])) == [f"About {title}" for title in titles]
    assert desk.asked == []
    summarizer.close()


def test_an_empty_summary_is_asked_for_again(desk: Desk, tmp_path: Path) -> None:
    summarizer = ChatSummarizer(ChatClient(desk.url, "small-model"), cache=SummaryCache(tmp_path / "kept.sqlite"))
    assert [list(summarizer.stream([entity("Void")])) for _ in range(2)] == [["Void"], ["Void"]]
    assert desk.asked == ["Void", "Void"]
    summarizer.close()


def test_tokens_are_counted_by_the_server_or_estimated(desk: Desk) -> None:
    with FakeChatServer() as server:
        counted = ChatSummarizer(ChatClient(server.url, "counting"))
        list(counted.stream([COUNTRY, entity("Fast1"), entity("Fast2")]))
        assert counted.counts == SummaryCounts(requests=3, tokens_in=3 * 120, tokens_out=3 * 7)
        counted.close()
    estimated = ChatSummarizer(ChatClient(desk.url, "small-model"))
    list(estimated.stream([entity("Fast1")]))
    asked = sum(len(message["content"]) for message in summary_messages("# Fast1"))
    assert estimated.counts == SummaryCounts(requests=1, tokens_in=asked // 4, tokens_out=len("About Fast1") // 4)
    estimated.close()


def test_another_model_behind_the_same_name_writes_its_own_summaries(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = {"id": "small-model", "meta": {"size": 1}}

    async def reported(self: ChatClient) -> list[dict[str, Any]]:
        return [{"id": "another"}, served]

    monkeypatch.setattr(ChatClient, "reported", reported)

    def written() -> SummaryCounts:
        cache = SummaryCache(tmp_path / "summaries.sqlite")
        summarizer = ChatSummarizer(ChatClient(desk.url, "small-model"), cache=cache)
        assert list(summarizer.stream([COUNTRY])) == ["A country with a flag."]
        summarizer.close()
        return summarizer.counts

    counts = [(written().requests, served.update(meta={"size": size})) for size in (1, 2, 2, 1)]
    assert [requests for requests, _ in counts] == [1, 0, 1, 0]


def test_thoughts_are_no_summaries_and_replies_without_one_are_counted(desk: Desk, tmp_path: Path) -> None:
    cache = SummaryCache(tmp_path / "kept.sqlite")
    summarizer = ChatSummarizer(ChatClient(desk.url, "small-model"), cache=cache)
    found = dict(zip(REPLIES, summarizer.stream([entity(title) for title in REPLIES]), strict=True))
    told = {"Closed": "A red disc.", "Cut": "A red"}
    assert found == {title: told.get(title, title) for title in REPLIES}
    assert (summarizer.counts.cut, summarizer.counts.unanswered) == (3, 4)
    assert str(summarizer.counts).endswith("; 3 were cut at their maximum length; 4 have the title instead")
    desk.asked.clear()
    assert dict(zip(REPLIES, summarizer.stream([entity(title) for title in REPLIES]), strict=True)) == found
    assert sorted(desk.asked) == ["Apart", "Declined", "Filtered", "Thinking"]  # the others are in the cache
    summarizer.close()


def test_a_cached_summary_with_thoughts_is_asked_for_again(desk: Desk, tmp_path: Path) -> None:
    cache = SummaryCache(tmp_path / "kept.sqlite")
    summarizer = ChatSummarizer(ChatClient(desk.url, "small-model"), cache=cache)
    question = summarizer._question(summarizer.messages(COUNTRY))
    cache.put(question, "small-model", "<think> Hm. </think> A country.")  # as older versions kept it
    assert summarizer.cached(COUNTRY) is None
    assert list(summarizer.stream([COUNTRY])) == ["A country with a flag."] == [summarizer.cached(COUNTRY)]
    summarizer.close()


def test_a_build_stops_if_most_articles_get_no_summary(desk: Desk) -> None:
    summarizer = ChatSummarizer(ChatClient(desk.url, "small-model"))
    with pytest.raises(
        ValueError, match=r"\d+ of \d+ articles have no summary; the last: the model spent all of its 256"
    ):
        list(summarizer.stream([entity("Thinking")] * 30))
    summarizer.close()
