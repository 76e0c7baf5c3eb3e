"""A PUT keeps what it does not name of an entity, and what GET returned can be put back without any change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omgm.client import AsyncClient, Client
from retriever.images import encoded
from retriever.types import ArticleImage, Entity, Section
from tests.fakes.images import data_uri
from tests.fakes.live import article, painting
from tests.serving.test_entities import SETTINGS, Live, served_world

IMAGES = (ArticleImage("a-0/0.png", 0, "At night"), ArticleImage("a-0/1.png", 2, "From above"))
FULL = replace(
    article("full"),
    url="https://full.example/a",
    images=IMAGES,
    names=("Completely", "Whole"),
    sections=(
        Section("Intro", "It is full.", 0),
        Section("Use", "- one\n- two\n\nIt is used.", 2),
        Section("", "End.", 5),
    ),
)
TEXT = {"title": "New", "sections": [{"title": "Use", "text": "It is new."}]}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with served_world(tmp_path_factory.mktemp("world"), SETTINGS, image_keys=3, section_images=True) as world:
        yield world


def state(live: Live, id: str) -> tuple[Entity, bytes, list[Any]]:
    """Returns an entity as stored, its thumbnail, and its keys and the tokens of its images."""
    index = live.editor.index
    row = index.row_of(id)
    assert row is not None
    stored = index.stored(row)
    return stored.entity, stored.thumbnail, [stored.keys.tolist(), stored.tokens[stored.token_sections :].tolist()]


def put(live: Live, id: str, row: dict[str, Any], **files: Any) -> list[str]:
    content: dict[str, Any] = {"files": files, "data": {"article": json.dumps(row)}} if files else {"json": row}
    response = live.request("PUT", "/entities", params={"id": id}, **content)
    assert response.status_code == 200, response.text
    notes: list[str] = response.json()["notes"]
    return notes


def got(live: Live, id: str) -> dict[str, Any]:
    row: dict[str, Any] = live.request("GET", "/entities", "reader", params={"id": id}).json()
    return row


TEXTS = st.text("ab- *#\n|[](!)é\u0301", min_size=1, max_size=20).filter(lambda text: text.strip() == text)
ENTITIES = st.builds(
    Entity,
    id=st.just("kb/any"),
    title=TEXTS.filter(lambda text: "\n" not in text),
    sections=st.lists(st.tuples(TEXTS.filter(lambda text: "\n" not in text) | st.just(""), TEXTS), max_size=4).map(
        lambda pairs: tuple(Section(title, text, 2 * number) for number, (title, text) in enumerate(pairs))
    ),
    image=st.sampled_from([None, "of-full-0.png", "lost.png"]),
    url=st.sampled_from(["", "https://any.example"]),
    images=st.lists(st.sampled_from([*IMAGES, ArticleImage("lost-0/1.jpg", None, "Lost")]), max_size=3).map(tuple),
    names=st.lists(st.sampled_from(["One", "Zwei"]), unique=True).map(tuple),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entity=ENTITIES)
def test_what_get_returns_can_be_put_back(live: Live, entity: Entity) -> None:
    live.world.paint([FULL])
    live.world.put(live.editor, entity)
    before, logged = state(live, entity.id), live.editor.index.version.logged
    put(live, entity.id, got(live, entity.id) | {"sim_c": 0.5, "fused": 1.0})
    assert state(live, entity.id) == before and live.editor.index.version.logged == logged


def test_a_new_text_keeps_the_images_with_their_captions_and_keys(live: Live) -> None:
    live.world.put(live.editor, FULL)
    before, thumbnail, arrays = state(live, "kb/full")
    notes = put(live, "kb/full", TEXT)
    assert notes == ["the image and 2 further images of the index stayed, since the article names none; null removes"]
    after = replace(before, title="New", sections=(Section("Use", "It is new.", 0),))
    moved = (replace(IMAGES[0], section=None), replace(IMAGES[1], section=0))
    assert state(live, "kb/full") == (replace(after, images=moved), thumbnail, arrays)
    with Client(live.url, "writer") as client:
        address = got(live, "kb/full")["image"]
        changed = {**TEXT, "title": "Newer", "image": f"{live.url}{address}"}
        assert client.put_entity("kb/full", changed).notes == notes
    assert state(live, "kb/full") == (replace(after, images=moved, title="Newer"), thumbnail, arrays)


@pytest.mark.parametrize("removal", [{"image": None}, {"images": []}, {"image": None, "images": []}, {"image": ""}])
def test_nothing_removes_the_images(live: Live, removal: dict[str, Any]) -> None:
    live.world.put(live.editor, FULL)
    assert put(live, "kb/full", TEXT | removal) == ["images removed"]
    entity, thumbnail, arrays = state(live, "kb/full")
    assert (entity.image, entity.images, thumbnail, arrays) == (None, (), b"", [[], []])
    assert entity.names == FULL.names and entity.url == FULL.url
    assert got(live, "kb/full")["image"] is None


def test_another_main_image_keeps_the_further_ones(live: Live) -> None:
    live.world.put(live.editor, FULL)
    _, _, (keys, tokens) = state(live, "kb/full")
    notes = put(live, "kb/full", TEXT, image=("new.png", encoded(painting(77))))
    assert notes == ["2 further images of the index stayed, since the article names none; [] removes"]
    entity, _, (new_keys, new_tokens) = state(live, "kb/full")
    assert [image.caption for image in entity.images] == ["At night", "From above"]
    assert (new_keys[1:], new_tokens[1:]) == (keys[1:], tokens[1:]) and new_keys[0] != keys[0]
    assert live.best(77)["entity"]["id"] == "kb/full"
    assert put(live, "kb/full", TEXT | {"images": []}, image=("new.png", encoded(painting(78)))) == []
    assert len(state(live, "kb/full")[2][0]) == 1


def test_other_captions_keep_the_images(live: Live) -> None:
    live.world.put(live.editor, FULL)
    _, thumbnail, arrays = state(live, "kb/full")
    images = [{"url": image.url, "caption": "By day", "section": None} for image in IMAGES]
    put(live, "kb/full", {**TEXT, "images": images})
    entity, *same = state(live, "kb/full")
    assert same == [thumbnail, arrays] and {image.caption for image in entity.images} == {"By day"}
    notes = put(live, "kb/full", {**TEXT, "images": images[1:]})
    assert notes[0] == "1 image not searched any more, since not all of the old ones are named"
    entity, small, (keys, _) = state(live, "kb/full")
    assert small == thumbnail and len(keys) == 1 and entity.image == FULL.image
    assert keys == arrays[0][:1]


def test_ids_are_the_same_in_every_form_of_unicode(live: Live) -> None:
    composed, decomposed = normalize("NFC", "Bär"), normalize("NFD", "Bär")
    for id, other in ((composed, decomposed), (decomposed, composed)):
        live.world.put(live.editor, replace(FULL, id=id))
        assert got(live, other)["id"] == id
        response = live.request("PUT", "/entities", params={"id": other}, json=TEXT)
        assert (response.json()["id"], response.json()["created"]) == (id, False)
        assert state(live, id)[0].images
        assert live.request("DELETE", "/entities", params={"id": other}).status_code == 200


def test_an_address_of_no_image_is_refused_for_a_new_entity(live: Live) -> None:
    response = live.request("PUT", "/entities?id=unknown", json={**TEXT, "image": "/entities/0/image"})
    assert response.status_code == 422 and "send the file" in response.json()["error"]["message"]


async def test_the_clients_keep_images_too(live: Live, tmp_path: Path) -> None:
    live.world.put(live.editor, FULL)
    async with AsyncClient(live.url, "writer") as client:
        assert "stayed" in (await client.put_entity("kb/full", TEXT)).notes[0]
        painting(79).save(tmp_path / "new.png")
        row = got(live, "kb/full")  # its image is an address, which the file replaces
        assert "2 further images" in (await client.put_entity("kb/full", row, tmp_path / "new.png")).notes[0]
    assert state(live, "kb/full")[0].image != row["image"]


@pytest.mark.parametrize("compacted", [False, True])
def test_the_image_of_a_removed_or_replaced_article_is_gone_from_its_address(live: Live, compacted: bool) -> None:
    live.world.put(live.editor, article("gone"), article("kept"))
    gone, kept = (got(live, f"kb/{name}")["image"] for name in ("gone", "kept"))
    held = live.editor.index.version  # as an answer that is being written
    put(live, "kb/kept", TEXT)
    live.request("DELETE", "/entities?id=kb/gone")
    if compacted:
        live.editor.index.compact()
    assert live.request("GET", gone, "reader").status_code == 404
    assert live.request("GET", kept, "reader").status_code == 200  # another text, the same image
    put(live, "kb/kept", {**TEXT, "image": data_uri(encoded(painting(80)))})
    assert live.request("GET", kept, "reader").status_code == 404
    assert live.request("GET", got(live, "kb/kept")["image"], "reader").status_code == 200
    assert len(held) > 0
