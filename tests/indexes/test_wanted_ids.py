"""Entity ids in questions resolve to the same entities while a knowledge base is read as in its index."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from indexes.knowledge.reading import read_knowledge_base
from indexes.store.index import Index
from indexes.wanted_ids import WantedIds
from retriever.types import Entity
from tests.fakes.models import FakeEncoder, FakeSummarizer
from tests.fakes.plans import build_index

WIKI = "https://en.wikipedia.org/wiki/"
MEANT = {
    f"{WIKI}São_Paulo": 0,  # an id
    "http://en.m.wikipedia.org/wiki/S%C3%A3o%20Paulo?oldid=1#History": 0,  # another spelling of it
    f"{WIKI}Sampa": 0,  # another name
    f"{WIKI}S%61mpa": 0,  # another spelling of another name
    f"{WIKI}Fox": 2,  # an id, although also an earlier entity's name
    f"{WIKI}F%6Fx": 2,
    f"{WIKI}Red_Fox": 1,  # a name of two entities
    f"{WIKI}A%62": 3,  # an exact id, although its canonical spelling is another id
    f"{WIKI}Ab": 4,
    f"{WIKI}Nobody": None,
    "Sampa": None,  # names of pages are URLs
    "http://[x": None,
}


@pytest.fixture
def entities(tmp_path: Path) -> list[Entity]:
    rows = [("São_Paulo", ["Sampa"]), ("Vulpes", ["Fox", "Red Fox"]), ("Fox", ["Red Fox"]), ("A%62", []), ("Ab", [])]
    lines = [
        {"id": WIKI + name, "title": name, "names": names, "sections": [{"title": name, "text": name}]}
        for name, names in rows
    ]
    (tmp_path / "kb.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return list(read_knowledge_base(tmp_path / "kb.jsonl"))


def test_ids_mean_what_they_mean_in_an_index(tmp_path: Path, entities: list[Entity]) -> None:
    build_index(
        *(tmp_path / "kb.jsonl", None, tmp_path / "index"),
        summarizer=FakeSummarizer(),
        encoder=FakeEncoder(),
        fusion=None,
        candidates="summary",
    )
    index = Index.open(tmp_path / "index")
    assert {one: index.row_of(one) for one in MEANT} == MEANT
    ids = WantedIds(MEANT)
    for row, entity in enumerate(entities):
        ids.add(entity, row)
    assert ids.rows() == {one: row for one, row in MEANT.items() if row is not None}


def test_nothing_is_kept_of_entities_that_nobody_wants(entities: list[Entity]) -> None:
    ids = WantedIds([f"{WIKI}S%C3%A3o_Paulo", f"{WIKI}Sampa"])
    assert [ids.add(entity, row) for row, entity in enumerate(entities)] == [
        [f"{WIKI}S%C3%A3o_Paulo", f"{WIKI}Sampa"],
        [],
        [],
        [],
        [],
    ]
