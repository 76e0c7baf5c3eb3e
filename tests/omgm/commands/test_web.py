"""`omgm download --queries`, and an agent that replays it: SearXNG, pages and a real Chromium on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from chat_models.messages import Message
from chat_models.replies import ChatReply
from omgm.__main__ import main
from omgm.web_access import WebAccess, WebSettings
from search_agents.browsing.chromium import find_chromium
from search_agents.corpus import Corpus
from search_agents.engine import Engine
from search_agents.policies.mmsearch_plus import MMSearchPlus
from search_agents.tools.page import open_page
from search_agents.tools.web import web_pages
from tests.fakes.inputs import with_settings
from tests.fakes.planner import ScriptedPlanner, calling, image
from tests.fakes.web import FakeWeb, serve_web

pytest.importorskip("trafilatura", reason="needs the extra agents")

PAGE = b"""<html><head><title>Niger</title></head><body><article><p>Niger is a landlocked country in West Africa.</p>
<p>Its capital and largest city is Niamey, which lies on the river.</p></article></body></html>"""


@pytest.fixture
def web() -> Iterator[FakeWeb]:
    with serve_web({"niger.html": PAGE}) as pages:
        rows = [
            {"url": pages.url("page/niger.html"), "title": "Niger", "content": "a country"},
            {"url": pages.url("page/niger.html").replace("127.0.0.1", "localhost"), "title": "Private"},
        ]
        pages.files["search"] = json.dumps({"results": rows}).encode()
        yield pages


def bits(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def record(web: FakeWeb, folder: Path, *more: str) -> int:
    queries = folder.with_suffix(".txt")
    queries.write_text("capital of Niger\n\n")
    return main(
        ["download", "--queries", str(queries), "--out", str(folder), *more,
         *with_settings(f"agents.searxng_url={web.url('good')}", "agents.contact=me@example.org",
                        f'agents.allow_private=["{web.place}"]')]
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(find_chromium() is None, reason="Chromium is not installed: apt-get install chromium")
def test_a_recorded_web_is_replayed_bit_by_bit(
    web: FakeWeb, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "corpus"
    assert record(web, folder, "--set", "agents.screenshots=true", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    private = web.url("page/niger.html").replace("127.0.0.1", "localhost")
    assert {kind: report[kind] for kind in ("search", "page", "screenshot")} == {
        "search": 1,
        "page": 1,
        "screenshot": 2,
    }
    assert sorted(report["failed"]) == [f"page {private}", f"screenshot full {private}", f"screenshot top {private}"]
    assert all("localhost" not in headers["host"] for _, headers in web.log)
    recorded = bits(folder)
    web.forget()
    corpus = Corpus(folder)
    settings = WebSettings(engine="searxng", searxng_url=web.url("good"), screenshots=True, corpus=corpus)
    first, second = (asyncio.run(replay(settings)) for _ in range(2))
    assert first == second
    searched, opened, missing = first
    assert f"({web.url('page/niger.html')})" in "".join(searched)
    assert "largest city is Niamey" in "".join(opened)
    assert sum("image_url" in part for part in opened) == 1  # one slice of the page
    assert "this search is not in the frozen corpus corpus" in "".join(missing)
    assert web.log == [] and bits(folder) == recorded


async def replay(settings: WebSettings) -> list[list[str]]:
    """Returns the texts and encoded images that a model sees after each of three calls."""
    script: list[str | ChatReply] = [
        calling("web_search", '{"queries": ["capital of Niger"]}'),
        calling("open_page", '{"page": "[1]", "screenshot": "full"}'),
        calling("web_search", '{"queries": ["capital of Mali"]}'),
        "<answer>Niamey [1]</answer>",
    ]
    access, planner = WebAccess(settings), ScriptedPlanner(script)
    assert access.fetch is not None
    tools = [*access.tools(), open_page([web_pages(access.fetch)], access.screenshot)]
    answer = await Engine(planner, tools).run(MMSearchPlus(), "What is the capital?", image())
    await access.aclose()
    assert answer.answer == "Niamey"
    return [[part for message in asked for part in parts_of(message)] for asked in map(results, planner.asked[1:])]


def results(messages: Sequence[Message]) -> list[Message]:
    """Returns the messages after the last one of the model."""
    last = max(n for n, message in enumerate(messages) if message["role"] == "assistant")
    return list(messages[last + 1 :])


def parts_of(message: Message) -> list[str]:
    content = message["content"]
    return [content] if isinstance(content, str) else [json.dumps(part) for part in content]


def test_recording_again_asks_only_for_what_failed(
    web: FakeWeb, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "corpus"
    assert record(web, folder) == 0
    out = capsys.readouterr().out
    assert "1 search, 1 page, 0 screenshots" in out
    assert "failed, to be retried by the next run: page http://localhost" in out and "private_address" in out
    before, asked = bits(folder), len(web.log)
    assert record(web, folder) == 0
    after = bits(folder)
    assert len(web.log) == asked
    changed = [name for name in before if before[name] != after[name]]
    assert len(before) == len(after) == 4 and all(b"private_address" in after[name] for name in changed)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["contact=a@b.c"], "name a search engine"),
        (["searxng_url=http://a"], "agents.contact is needed"),
        (["searxng_url=http://a", "search_engine=duckduckgo", "contact=a@b.c"], "select two engines; set one"),
        (["search_engine=serpapi", "contact=a@b.c"], "SERPAPI_API_KEY"),
        (["searxng_url=http://a", "contact=a@b.c", "publish_dir=a", "publish_url=b"], "publish_url belong together"),
        (["searxng_url=http://a", "contact=nobody"], "is neither an e-mail address nor a URL"),
    ],
)
def test_wrong_arguments_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    monkeypatch.delenv("SERPAPI_API_KEY", raising=False)
    (tmp_path / "queries.txt").write_text("a\n")
    given = ["download", "--queries", str(tmp_path / "queries.txt"), "--out", str(tmp_path / "corpus")]
    assert main([*given, *with_settings(*(f"agents.{setting}" for setting in arguments))]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "corpus").exists()
