"""Names of fields, typed access to them, and values as words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from indexes.knowledge.understanding import fields
from indexes.knowledge.understanding.facts import as_sections, facts_of, plain, text_in, words_within
from indexes.knowledge.understanding.fields import GUESSES, image_pattern, without_pattern
from indexes.labeled_values import parse_names


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("title", "expected FIELD=NAME, such as id=name, got 'title'"),
        ("title=", "expected FIELD=NAME"),
        ("heading=name", "unknown field 'heading'; fields are id, title, url, image, text"),
    ],
)
def test_bad_maps(pair: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_names([pair], GUESSES)


def test_maps_name_fields_or_rules_for_images() -> None:
    names = parse_names(["title=display_name", "image=a.b=c"], GUESSES)
    assert names == {"title": "display_name", "image": "a.b=c"} == without_pattern(names) and not image_pattern(names)
    for rule in ("{id}*", "none"):
        names = parse_names(["id=key", f"image={rule}"], GUESSES)
        assert image_pattern(names) == rule and without_pattern(names) == {"id": "key"}


@pytest.mark.parametrize(
    ("read", "row", "message"),
    [
        (fields.text, {"a": 3}, "x: field 'a': expected text, but found a number"),
        (fields.text, {}, "x: field 'a' is missing"),
        (fields.text, [], "x: expected an object, but found a list"),
        (fields.items, {"a": True}, "x: field 'a': expected a list, but found true or false"),
        (fields.texts, {"a": ["b", None]}, r"x: field 'a\[1\]': expected text, but found null"),
        (fields.texts, {"a": ["\ud83d"]}, "not valid Unicode"),
    ],
)
def test_values_of_other_types_are_named(read: Callable[..., Any], row: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(row, "a", "x")
    assert not read({}, "a", "x", required=False)


@pytest.mark.parametrize("depth", [1, 3, 100_000])
def test_lists_in_lists_are_one_list(depth: int) -> None:
    nested: Any = {"name": "Fox", "seen": ["den"]}
    for _ in range(depth):
        nested = [nested]
    assert facts_of("animals", ["Owl", nested]) == [("Animals", "Owl, Fox (seen: den)")]
    assert text_in(["Owl", [nested, [["Den"]]]]) == "Owl\nFox\nDen"
    assert words_within(nested) == "Fox den"


def test_objects_in_lists_say_all_they_know() -> None:
    maker = {"artist_id": "p:7", "full_name": "Ann Potter", "born": "1951-03-05", "alive": True, "role": None}
    values: dict[str, Any] = {
        "creator": [maker],
        "cameras": [{"flash": "LED", "info": "50 MP"}, {"info": "2 MP"}],
        "glaze": {"id": 3, "name": "Celadon", "url": "https://a.example/3"},
        "words": {"deu": {"one": "Schale", "many": "Schalen"}, "fra": {"one": "bol"}},
        "parts": [{"part": {"name": "Lid", "url": "https://a.example/lid"}, "slot": 1}],
        "actions": [{"name": "Bite", "entries": ["The fox bites one target within five feet."]}, {"name": "Run"}],
        "sizes": [{"name": "Height", "value": 40, "unit": "cm"}, {"name": "Mass", "value": [6, 7]}],
        "attributes": "[{'trait_type': 'Fur', 'value': 'Red'}]",
        "steps": ["Heat the oven, then wait.", "Bake it. " * 30],
    }
    facts = [fact for name, value in values.items() for fact in facts_of(name, value)]
    assert [f"{label}: {value}" for label, value in facts] == [
        "Creator: Ann Potter (born: 1951-03-05; alive: yes)",
        "Cameras: flash: LED; info: 50 MP\ninfo: 2 MP",
        "Glaze: Celadon",
        "Words: deu (one: Schale; many: Schalen); fra (one: bol)",
        "Parts: part: Lid; slot: 1",
        "Actions: Bite: The fox bites one target within five feet., Run",
        "Sizes: Height: 40 (unit: cm)\nMass: 6, 7",
        "Attributes: Fur: Red",
        f"Steps: Heat the oven, then wait.\n{('Bake it. ' * 30).strip()}",
    ]
    assert [title for title, _ in as_sections(facts, {"Glaze": True})] == [
        *("Cameras", "Glaze", "Sizes", "Steps", "Facts"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<p>A Stack<Plate> holds plates</p>", "A Stack<Plate> holds plates"),
        ("R&amp;D <2020>", "R&D <2020>"),
        ("0<p<1 is a <i>chance</i>", "0<p<1 is a chance"),
        ("<p>Red.</p><h2>Den</h2><p>A hole.</p>", "Red.\n== Den ==\nA hole."),
    ],
)
def test_html_in_values_leaves_words(text: str, words: str) -> None:
    assert plain(text) == words
