"""Fields of entities: searches limited by them find what brute force finds, in files, live changes and new files."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexes.fields import FieldsModel
from indexes.live.image_text import IndexText
from indexes.live.index import LiveIndex
from indexes.live.section_search import IndexSections
from indexes.section_words import WordsModel
from indexes.store.fields import hashes_of
from indexes.store.index import Index
from retriever.filters import SCOPE, filter_of, fits, joined, text_of, within
from retriever.types import Entity, Filter
from tests.fakes.live import World, article, as_row, painting
from tests.fakes.models import FakeEncoder
from tests.fakes.text_reader import LabelReader

NAMES = ("category", "tenant", "year")
MODELS = {"fields": FieldsModel(*NAMES), "section_words": WordsModel(), "image_text": LabelReader()}


class FieldWorld(World):
    """A world whose articles have fields."""

    def __init__(self, folder: Path, articles: list[Entity], **options: Any) -> None:
        fields = {"names": {"fields": "\n".join(NAMES)}, "columns": MODELS}
        super().__init__(folder, articles, **fields | options)


@pytest.fixture(autouse=True)
def with_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(entity: Entity) -> dict[str, Any]:
        fields: dict[str, list[str]] = {}
        for name, value in entity.fields:
            fields.setdefault(name, []).append(value)
        return as_row(entity) | {"fields": fields}

    monkeypatch.setattr("tests.fakes.live.as_row", row)


def made(number: int, seed: int = 0) -> Entity:
    """An article with one to three categories, a tenant and perhaps a year."""
    draw = random.Random(f"{number} {seed}")
    fields = [("category", name) for name in draw.sample(["bird", "fish", "fungus", "fern"], draw.randint(1, 3))]
    fields.append(("tenant", draw.choice(["acme", "bolt"])))
    fields += [("year", str(draw.choice([1999, 2024])))] if draw.random() < 0.7 else []
    return replace(article(f"n{number:02}", seed), fields=tuple(fields))


def found_by(index: Index, filter: Filter, count: int = 50) -> set[str]:
    rows = index.search(FakeEncoder().encode_images([painting(1)]), count, filter)[1][0]
    return {index.entity(row).id for row in rows.tolist() if row >= 0}


def check_all(index: LiveIndex, held: dict[str, Entity]) -> None:
    """Every filter finds exactly what fits it, in the order in which a search among all finds it."""
    queries = FakeEncoder().encode_images([painting(seed) for seed in range(5)])
    everything = index.search(queries, len(held))
    sections, texts = IndexSections(index), IndexText(index)
    named = texts.similar("n01 n12 n23 n34", 100)
    every: list[dict[str, Any]] = [
        {"category": "bird"},
        {"category": ["fish", "fern"]},
        {"tenant": "acme"},
        {"tenant": "bolt", "category": "fungus", "year": 2024},
        {"year": [1999, 2024.0]},
        {"year": "1000"},
    ]
    for values in every:
        filter = filter_of(values)
        expected = {name for name, entity in held.items() if fits(entity, filter)}
        assert found_by(index, filter) == expected
        scores, rows = index.search(queries, 4, filter)
        for number, (own, order) in enumerate(zip(rows, everything[1], strict=True)):
            fitting = [row for row in order.tolist() if index.entity(row).id in expected][:4]
            assert own.tolist() == [*fitting, *[-1] * (4 - len(fitting))]
            same = [score for score, row in zip(*(part[number] for part in everything), strict=True) if row in fitting]
            np.testing.assert_allclose(scores[number][: len(fitting)], same, atol=1e-6)
        matches = sections.search("Which red is by n01, n02, n03, n04 and n05?", None, (), filter)
        assert {index.entity(match.row).id for match in matches} <= expected
        fitting = [row for row in named if index.entity(row).id in expected]
        similar = texts.similar("n01 n12 n23 n34", 3, fitting[-1:], filter)
        assert set(similar) == {*fitting[:3], *fitting[-1:]}
        assert list(similar.values())[:3] == [named[row] for row in fitting[:3]]


def test_filters_hold_in_files_changes_and_after_compactions(tmp_path: Path) -> None:
    articles = [made(number) for number in range(40)]
    world = FieldWorld(tmp_path, articles)
    editor = world.editor(columns=MODELS)
    held = {entity.id: entity for entity in articles}
    check_all(editor.index, held)
    draw = random.Random(7)
    for step in range(3):
        changed = [made(number, seed=step + 1) for number in draw.sample(range(50), 12)]
        world.put(editor, *changed)
        gone = draw.sample(sorted(held), 4)
        editor.remove(gone)
        held |= {entity.id: entity for entity in changed}
        held = {name: entity for name, entity in held.items() if name not in gone}
        check_all(editor.index, held)
        check_all(world.open(verify=True), held)
        if step == 1:
            assert editor.index.compact()
            check_all(editor.index, held)
    editor.index.compact()
    editor.close()
    check_all(world.open(verify=True), held)
    assert all(set(entity.fields) == set(held[entity.id].fields) for entity in _entities(world.open()))


def _entities(index: LiveIndex) -> list[Entity]:
    return [index.entity(row) for row in index.rows()]


def test_what_is_wrong_with_a_filter_is_said(tmp_path: Path) -> None:
    articles = [replace(article("a"), fields=(("category", "bird"), ("tenant", "acme")))]
    articles += [replace(article("b"), fields=(("category", "fish"), ("tenant", "bolt"), ("year", "1999")))]
    index = FieldWorld(tmp_path, articles).open()
    index.fields.check(filter_of({"category": ["bird", "fish"]}), ())
    bolt = filter_of({"tenant": "bolt"})
    for values, scope, message in (
        ({"colour": "red"}, (), "filter.colour: unknown field; fields are category, tenant, year"),
        ({"category": "bear"}, (), "filter.category: no entity has 'bear'; values are 'bird', 'fish'"),
        ({"category": "bird"}, bolt, "filter.category: no entity has 'bird'; values are 'fish'"),
        ({"tenant": "acme"}, bolt, "filter.tenant: no entity has 'acme'; values are 'bolt'"),
        ({"year": 2000}, filter_of({"tenant": "acme"}), "filter.year: no entity has '2000'; values are none"),
    ):
        with pytest.raises(ValueError) as raised:
            index.fields.check(filter_of(values), scope)
        assert str(raised.value) == message
    plain = World(tmp_path / "plain", [article("a")]).open()
    with pytest.raises(
        ValueError,
        match="the index index was built without fields; build it again with `omgm build-index --field NAME`",
    ):
        plain.fields.check(bolt, ())
    assert found_by(plain, bolt) == set() and found_by(index, bolt) == {"kb/b"}


def test_filters_are_read_and_joined() -> None:
    assert filter_of({}) == () and text_of(True) == "true" and text_of(0.5) == "0.5" and text_of(" a ") == "a"
    assert filter_of({"b": 5.0, "a": ["x", "y", "x"]}) == (("a", ("x", "y")), ("b", ("5",)))
    malformed: list[Any] = [None, [], {"b": 1}, ["x", None]]
    for wrong in malformed:
        with pytest.raises(ValueError, match=r"filter\.a must be a text, a number or a list of them"):
            filter_of({"a": wrong})
    narrow = joined(filter_of({"a": ["x", "y"]}), filter_of({"a": ["y", "z"], "b": 1}))
    assert narrow == (("a", ("y",)), ("b", ("1",)))
    entity = Entity("e", "E", (), fields=(("a", "y"), ("b", "1")))
    assert fits(entity, narrow) and fits(entity, ()) and not fits(entity, joined(narrow, filter_of({"b": 2})))
    with within(filter_of({"a": ["x", "y"]})), within(filter_of({"a": "y"})):
        assert SCOPE.get() == (("a", ("y",)),)
    assert SCOPE.get() == ()
    assert len(set(hashes_of([("a", "bc"), ("ab", "c"), ("a", "b")]).tolist())) == 3 and not len(hashes_of(()))
