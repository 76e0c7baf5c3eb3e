"""Full-text search over an index that changes while it is open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from indexes.live.editor import Editor
from retriever.types import Entity, Query, RetrievalResult, Section
from search_agents.engine import Engine
from search_agents.records import Call
from search_agents.tools.fulltext import FullText
from search_agents.tools.index import IndexTools
from search_agents.tools.page import open_page
from tests.fakes.live import World
from tests.fakes.planner import ScriptedPlanner
from tests.fakes.searcher import FakeSearcher


def lands(*texts: tuple[str, str], names: tuple[str, ...] = ()) -> list[Entity]:
    """Returns articles with one section each, by title."""
    return [Entity(f"kb/{title}", title, (Section("Facts", text, 0),), names=names) for title, text in texts]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[World, Editor]]:
    world = World(tmp_path, lands(("Niger", "Its capital is Niamey."), ("Chad", "Its capital is Njamena.")))
    editor = world.editor()
    with closing(editor.index):
        yield world, editor


def titles(texts: FullText, query: str) -> list[str]:
    return [place.entity.title for place in texts.search(query, 5)]


def test_changes_are_found_at_once(world: tuple[World, Editor]) -> None:
    folder, editor = world
    texts = FullText(editor.index)
    assert titles(texts, "capital Niamey") == ["Niger", "Chad"] and texts.changes == 0
    folder.put(
        editor,
        *lands(("Mali", "Its capital is Bamako.")),
        *lands(("Chad", "Its seat is Ndjamena."), names=("Tchad",)),
    )
    assert titles(texts, "Bamako") == ["Mali"] and titles(texts, "capital") == ["Niger", "Mali"]
    assert titles(texts, "Njamena") == [] and titles(texts, "Ndjamena") == ["Chad"]
    assert texts.changes == 1
    editor.remove(["kb/Niger"])
    assert titles(texts, "capital") == ["Mali"]
    assert texts.row_of_name("Niger") is None
    found = texts.entity_of("tchad")
    assert found is not None and found.sections[0].text == "Its seat is Ndjamena."


def test_what_another_process_changes_is_read_by_the_search(world: tuple[World, Editor]) -> None:
    folder, editor = world
    reader = folder.open()
    texts = FullText(reader)
    assert texts.changes == 0
    folder.put(editor, *lands(("Mali", "Its capital is Bamako.")))
    assert texts.changes == 1 and len(reader) == 2  # detected in the event loop, which must not wait for files
    assert titles(texts, "Bamako") == ["Mali"] and len(reader) == 3


def test_a_name_falls_to_the_next_when_its_owner_goes(world: tuple[World, Editor]) -> None:
    folder, editor = world
    texts = FullText(editor.index)
    folder.put(editor, *lands(("Republic of Niger", "A second article."), names=("niger",)))
    first = texts.entity_of("Niger")
    editor.remove(["kb/Niger"])
    second = texts.entity_of("Niger")
    assert first is not None and second is not None
    assert (first.title, second.title) == ("Niger", "Republic of Niger")


def test_a_compaction_changes_no_result(world: tuple[World, Editor]) -> None:
    folder, editor = world
    texts = FullText(editor.index)
    folder.put(editor, *lands(("Mali", "Its capital is Bamako.")))
    before = titles(texts, "capital")
    editor.index.compact()
    assert titles(texts, "capital") == before == ["Niger", "Chad", "Mali"]
    folder.put(editor, *lands(("Togo", "Its capital is Lome.")))
    assert titles(texts, "capital Lome") == ["Togo", "Niger", "Chad", "Mali"]


def test_no_tool_answers_from_before_a_change(world: tuple[World, Editor]) -> None:
    """Tool results are cached for an hour, but a change of the index invalidates them."""
    folder, editor = world

    def retrieve(query: Query) -> RetrievalResult:
        raise AssertionError("no image is searched")

    tools = IndexTools(FakeSearcher(editor.index, retrieve))
    engine = Engine(ScriptedPlanner([""]), [*tools.tools(), open_page([tools.opener], changes=tools.changes)])
    search, opened = Call("text_search", {"queries": ["Niger"]}), Call("open_page", {"page": "Niger"})

    async def run() -> list[list[str]]:
        found = []
        for capital in ("Zinder", "Agadez"):
            found.append([(await engine.call(call)).sources[0].text for call in (search, opened)])
            folder.put(editor, *lands(("Niger", f"Its capital is {capital}.")))
        found.append([(await engine.call(call)).sources[0].text for call in (search, opened)])
        return found

    assert asyncio.run(run()) == [[f"Its capital is {name}."] * 2 for name in ("Niamey", "Zinder", "Agadez")]


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("入場料", "水車博物館"),
        ("水車博物館の入場料はいくらですか", "水車博物館"),
        ("料", "水車博物館"),
        ("塔", "東京塔"),
        ("高さ", "東京塔"),
        ("ﾀﾜｰ", "東京塔"),  # half-width katakana
        ("故宫的门票多少钱", "故宫"),
        ("ค่าเข้าชมผู้ใหญ่", "พิพิธภัณฑ์"),
        ("박물관의 입장료", "물레방아"),
        ("कीमत", "संग्रहालय"),
        ("entrance costs", "Mill"),
        ("МУЗЕЙ", "Мельница"),
        ("musee", "Moulin"),
    ],
)
def test_languages_whose_words_are_joined_are_searched(tmp_path: Path, query: str, title: str) -> None:
    articles = lands(
        ("東京塔", "東京塔は高さ三百三十三メートルのタワーです。"),
        ("水車博物館", "大人の入場料は五百円です。"),
        ("故宫", "成人门票为六十元，儿童免费。"),
        ("พิพิธภัณฑ์", "ค่าเข้าชมผู้ใหญ่ห้าสิบบาท"),
        ("물레방아", "박물관은 어른 입장료가 오백원입니다."),
        ("संग्रहालय", "टिकट की कीमत पाँच रुपये है।"),
        ("Mill", "The entrance costs five euros."),
        ("Мельница", "Музей открыт в 1987 году."),
        ("Moulin", "Le musée est ouvert."),
    )
    with closing(World(tmp_path, articles).editor().index) as index:
        assert titles(FullText(index), query)[0] == title
