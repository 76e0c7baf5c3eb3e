"""Live updates over HTTP: articles are found once put and gone once deleted, and failed writes are errors."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
import torch

from chat_models.errors import ChatError
from indexes import svg
from indexes.live.drafts import DraftEditor
from indexes.live.editor import Editor
from omgm.client import AsyncClient, Client, ServiceError
from retriever.images import encoded, load_image
from retriever.models.bm25 import BM25
from retriever.pipeline import Retriever
from retriever.protocols import Step
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank
from serving.app import create_app
from serving.keys import digest_of
from serving.settings import ServingSettings
from tests.fakes.asking import fault
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.live import World, article, as_row, data_of, painting
from tests.fakes.models import FakeEncoder, FakeFusion
from tests.fakes.service import listening, served
from tests.fakes.web import serve_web
from tests.fakes.world import FakeGenerator, FakeIndex, FakeRetriever, write_images
from tests.indexes.store.test_change_log import largest_file

SETTINGS = ServingSettings(
    read_keys=(digest_of("reader"),), write_keys=(digest_of("writer"),), image_hosts=("127.0.0.1:9",)
)
DRAWING = """<svg xmlns="http://www.w3.org/2000/svg" width="80" height="40"><rect width="40" height="40" fill="#f00"/>
<image x="40" width="40" height="40" href="file:///etc/passwd"/>{}</svg>"""
PATTERN = '<pattern id="{}" width="4" height="4"><rect width="4" height="4" fill="url(#{})"/></pattern>'
CIRCLE = "".join(PATTERN.format(name, filled_with) for name, filled_with in ("ab", "bc", "ca"))
CRASHING = DRAWING.format(f'{CIRCLE}<rect width="1" height="1" fill="url(#a)"/>')
SECTIONS = [{"title": "Zed", "text": "Zed was painted in 1912."}]


@dataclass
class Live:
    """A service with an index that it can change."""

    world: World
    editor: Editor
    url: str

    def request(self, method: str, path: str, key: str = "writer", **content: Any) -> httpx.Response:
        with httpx.Client(base_url=self.url, timeout=30, trust_env=False) as client:
            return client.request(method, path, headers={"Authorization": f"Bearer {key}"}, **content)

    def best(self, seed: int) -> dict[str, Any]:
        """Retrieves for a painting."""
        fields = {"image": data_uri(encoded(painting(seed))), "question": "When was it painted?"}
        response = self.request("POST", "/retrieve", "reader", json=fields)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with served_world(tmp_path, SETTINGS) as found:
        yield found


@contextmanager
def served_world(folder: Path, settings: ServingSettings, **options: Any) -> Iterator[Live]:
    """Yields a service with an index of two articles."""
    world = World(folder, [article("a"), article("b")], candidates="image", **options)
    editor = world.editor()
    index = editor.index
    steps: list[Step] = [
        EntitySearch(FakeEncoder(), index, 3),
        FusionRerank(FakeFusion(), index, 0.9),
        SectionRerank(BM25(), index, 0.3),
    ]
    retriever = Retriever(steps, index, pin=index.pinned)
    editor.models = retriever.models
    app = create_app(retriever, FakeGenerator(), settings, DraftEditor(editor))
    with listening(app) as url:
        yield Live(world, editor, url)
    index.close()


def test_an_article_by_json_is_found_at_once(live: Live) -> None:
    image = encoded(painting(40))
    row = {"title": "Zed", "sections": SECTIONS, "url": "https://z.example", "image": data_uri(image)}
    response = live.request("PUT", "/entities?id=kb%2Fz", json=row)
    assert (response.status_code, response.json()) == (
        200,
        {"id": "kb/z", "created": True, "notes": [], "index": {"name": "index", "entities": 3}},
    )
    found = live.best(40)
    assert found["entity"]["id"] == "kb/z"
    assert found["evidence"][0]["text"] == SECTIONS[0]["text"]
    assert found["index"]["entities"] == 3
    assert live.request("GET", found["entity"]["image"], "reader").headers["content-type"] == "image/jpeg"
    shown = live.request("GET", "/entities?id=kb/z", "reader").json()
    assert shown == {
        "id": "kb/z",
        "title": "Zed",
        "url": "https://z.example",
        "image": found["entity"]["image"],
        "fields": {},
        "sections": [{**SECTIONS[0], "index": 0}],
    }


def test_readiness_says_where_the_tokens_are(live: Live) -> None:
    tokens = live.request("GET", "/health/ready").json()["tokens"]
    assert tokens == "tokens take 0.0 MB: read from disk for each batch"


def test_further_images_of_an_article_are_fetched(tmp_path: Path) -> None:
    files = {f"{seed}.png": encoded(painting(seed)) for seed in (50, 51)} | {"bad.png": b"none"}
    with serve_web(files) as web:
        host = f"127.0.0.1:{web.port}"
        settings = SETTINGS.model_copy(update={"image_hosts": (host,)})
        urls = [f"http://{host}/{name}" for name in ("good/bad.png", "good/50.png", "missing/50.png", "good/51.png")]
        main, sections = data_uri(encoded(painting(49))), [*SECTIONS, {"title": "Other", "text": "More."}]
        images = [{"url": "http://elsewhere.example/x.png"}, *({"url": url, "section": 1} for url in urls)]
        with served_world(tmp_path, settings, image_keys=2, section_images=True) as live:
            response = live.request(
                "PUT", "/entities/z", json={"title": "Z", "sections": sections, "image": main, "images": images}
            )
            assert response.status_code == 200, response.text
            unsearched, *skipped = response.json()["notes"]
            assert unsearched.startswith("4 images of 1 entity, such as z: not searched, only the first 2 of each are")
            assert len(skipped) == 3 and "elsewhere.example" in skipped[0] and "bad.png" in skipped[1]
            assert [live.best(seed)["entity"]["id"] for seed in (49, 50)] == ["z", "z"]
            index = live.editor.index
            row = index.row_of("z")
            assert row is not None and len(index._entries[row].change.keys) == 2  # "51.png" is one too many
            section = FakeFusion().encode([painting(50)], ["wiki article z\n section title other\nmore"])[0]
            own = index.tokens(np.array(index.section_rows(row)))[1]
            torch.testing.assert_close(own, torch.nn.functional.normalize(section, dim=-1), atol=1e-2, rtol=0)


def test_an_article_by_form_replaces_one(live: Live) -> None:
    row = as_row(article("a", 3))
    files = {"image": ("a.png", encoded(painting(41)))}
    response = live.request("PUT", "/entities?id=kb/a", data={"article": json.dumps(row)}, files=files)
    assert response.json() == {"id": "kb/a", "created": False, "notes": [], "index": {"name": "index", "entities": 2}}
    assert live.best(41)["entity"]["title"] == "a 3"
    assert [one["entity_id"] for one in live.best(41)["candidates"]].count("kb/a") == 1
    reader = live.world.open()
    assert reader.entity(reader.row_of("kb/a") or -1) == article("a", 3)


def test_a_deleted_entity_is_gone(live: Live) -> None:
    response = live.request("DELETE", "/entities?id=kb/a")
    assert response.json() == {"id": "kb/a", "created": False, "notes": [], "index": {"name": "index", "entities": 1}}
    assert [one["entity_id"] for one in live.best(0)["candidates"]] == ["kb/b"]
    for method in ("GET", "DELETE"):
        key = "reader" if method == "GET" else "writer"
        assert fault(live.request(method, "/entities?id=kb/a", key)) == (404, "not_found", "entity_id")


def test_writing_needs_a_write_key(live: Live) -> None:
    row = {"title": "Z", "sections": []}
    assert fault(live.request("PUT", "/entities/z", "reader", json=row))[:2] == (403, "permission_denied")
    assert fault(live.request("DELETE", "/entities?id=kb/a", "reader"))[:2] == (403, "permission_denied")
    assert fault(live.request("GET", "/entities?id=kb/a", "writer"))[:2] == (403, "permission_denied")
    assert live.request("GET", "/entities?id=kb/a", "reader").status_code == 200


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([], (422, "wrong_type", None)),
        ({"sections": []}, (422, "bad_article", "title")),
        ({"title": 0, "sections": []}, (422, "bad_article", "title")),
        ({"title": "Z", "sections": [], "url": 3}, (422, "bad_article", "url")),
        ({"title": "Z", "sections": [{"title": "Z"}]}, (422, "bad_article", None)),
        ({"title": "Z", "sections": [], "summary": "Z"}, (422, "unknown_option", "summary")),
        ({"title": "Z", "sections": [], "id": "y"}, (422, "id_mismatch", "id")),
        ({"title": "Z", "sections": [], "image": "no base64!"}, (422, "bad_image_url", "image")),
        ({"title": "Z", "sections": [], "image": "http://evil.example/x.png"}, (422, "host_not_allowed", "image")),
        ({"title": "Z", "sections": [], "images": [{"url": "http://evil.example/x.png", "caption": ""}]}, None),
        ({"title": "Z", "sections": [], "image": data_uri(b"no image")}, (415, "not_an_image", "image")),
        ({"title": "Z", "sections": [], "image": 7}, (422, "bad_article", None)),
    ],
)
def test_bad_articles_change_nothing(live: Live, row: Any, expected: tuple[int, str, str | None] | None) -> None:
    response = live.request("PUT", "/entities/z", json=row)
    assert fault(response) == (expected or (422, "host_not_allowed", "image"))
    assert live.best(0)["index"]["entities"] == 2


def test_an_svg_is_put_as_a_build_reads_it(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py", reason="needs the extra svg")
    drawing, new = DRAWING.format("").encode(), article("z", image="z.svg")
    with served_world(tmp_path, SETTINGS) as live:
        (live.world.images / "z.svg").write_bytes(drawing)
        files = {"image": ("z.svg", drawing)}
        response = live.request("PUT", "/entities?id=kb/z", data={"article": json.dumps(as_row(new))}, files=files)
        assert response.status_code == 200, response.text
        shown = live.request("GET", live.request("GET", "/entities?id=kb/z", "reader").json()["image"], "reader")
        small = load_image(shown.content)
        assert small.size == (320, 160)  # the drawing is rendered 512 pixels wide
        red, white = small.getpixel((80, 80)), small.getpixel((240, 80))
        assert red == pytest.approx((255, 0, 0), abs=3) and white == pytest.approx((255, 255, 255), abs=3)
        live.editor.index.compact()
        live.world.build([article("a"), article("b"), new], tmp_path / "fresh")
        put, fresh = data_of(live.world.open().folder), data_of(tmp_path / "fresh")
        for name in ("entities.jsonl", "entities.offsets.npy"):  # with the source of the new one
            assert put.pop(name) != fresh.pop(name)
        assert put == fresh


def test_svgs_that_cannot_be_rendered_change_nothing(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("resvg_py", reason="needs the extra svg")

    def put(drawing: str) -> tuple[tuple[int, str, str | None], str]:
        row = {"title": "Z", "sections": SECTIONS, "image": data_uri(drawing.encode())}
        response = live.request("PUT", "/entities/z", json=row)
        return fault(response), response.json()["error"]["message"]

    assert put(DRAWING.format("<rect>")) == (
        (400, "broken_image", "image"),
        "image: SVG that cannot be rendered: mismatched tag: line 2, column 72",
    )
    assert put(CRASHING) == (
        (400, "broken_image", "image"),
        "image: SVG that cannot be rendered: it crashes the renderer or fills its memory",
    )
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    assert put(DRAWING.format("")) == (
        (415, "not_an_image", "image"),
        "image: SVG, which needs resvg: pip install 'omgm[svg]'",
    )
    assert live.best(0)["index"]["entities"] == 2


WAITING = """
import os, sys, time
sys.stdin.buffer.read()
os.mkdir({folder!r})  # fails if another one is being rendered
while os.path.exists({hold!r}):
    time.sleep(0.01)
os.rmdir({folder!r})
sys.stdout.buffer.write(open({image!r}, "rb").read())
"""


def test_svgs_are_rendered_in_turn_while_others_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("resvg_py", reason="needs the extra svg")
    working, hold, image, renderer = (tmp_path / name for name in ("working", "hold", "z.png", "renderer.py"))
    hold.touch()
    image.write_bytes(encoded(painting(60)))
    renderer.write_text(WAITING.format(folder=str(working), hold=str(hold), image=str(image)))
    monkeypatch.setattr(svg, "_RENDERER", renderer)
    row = {"title": "Z", "sections": SECTIONS, "image": data_uri(DRAWING.format("").encode())}
    with (
        served_world(tmp_path / "world", SETTINGS.model_copy(update={"decode_threads": 1})) as live,
        ThreadPoolExecutor(3) as clients,
    ):
        puts = [clients.submit(live.request, "PUT", f"/entities/z{number}", json=row) for number in range(3)]
        try:
            while not working.exists():
                assert not any(put.done() for put in puts)
                time.sleep(0.01)
            assert live.best(0)["index"]["entities"] == 2
            assert not any(put.done() for put in puts)
        finally:
            hold.unlink()
        assert [put.result().status_code for put in puts] == [200, 200, 200]
        assert live.best(60)["index"]["entities"] == 5


def test_ids_with_any_characters(live: Live) -> None:
    for entity_id in ("https://a.example//b/../c?d=e&f#g", "100%", "%2F", "a+b", "7/image", "ü/日本", "."):
        row = {"title": "Z", "sections": SECTIONS, "url": None}
        query = f"/entities?id={quote(entity_id, safe='')}"
        created = live.request("PUT", query, json=row).json()
        assert (created["id"], created["created"]) == (entity_id, True)
        again = live.request("PUT", "/entities", json={"id": entity_id, **row}).json()
        assert (again["id"], again["created"]) == (entity_id, False)
        assert live.request("GET", query, "reader").json()["title"] == "Z"
        assert live.request("DELETE", query).json()["id"] == entity_id
        assert live.request("GET", query, "reader").status_code == 404
    for path in ("/entities/https:/kb/a", "/entities/kb/a", "/entities/kb//a"):  # as nginx passes on kb%2Fa
        response = live.request("DELETE", path)
        assert fault(response) == (422, "bad_article", "id")
        assert "DELETE /entities?id=" in response.json()["error"]["message"]
    assert live.request("GET", "/entities?id=kb%2Fa", "reader").status_code == 200


def test_bad_bodies(live: Live) -> None:
    def put(path: str = "/entities/z", **content: Any) -> tuple[int, str, str | None]:
        return fault(live.request("PUT", path, **content))

    assert put(content=b"{") == (415, "unsupported_media_type", None)
    # GET finds the image of a row at the path of one, and a proxy changes slashes.
    for path in ("", "/", "/7/image", "/z%2Fimage", "/https:/a", "/https://a", "/a/b", "?id="):
        assert put(path=f"/entities{path}", json={"title": "Z", "sections": []}) == (422, "bad_article", "id"), path
    for content in ({"id": 7}, {"id": None}, {"id": ""}):
        assert put(path="/entities", json={"title": "Z", "sections": [], **content}) == (422, "bad_article", "id")
    assert put(path="/entities?id=a", json={"id": "b", "title": "Z"}) == (422, "id_mismatch", "id")
    image = {"image": ("z.png", image_bytes("red"))}
    assert put(files=image) == (422, "missing_article", "article")
    assert put(files=image, data={"article": "{"}) == (400, "malformed_json", "article")
    article_field = {"article": json.dumps({"title": "Z", "sections": []})}
    assert put(files=image, data=article_field | {"question": "?"}) == (422, "unknown_option", "question")
    assert put(files={"article": (None, article_field["article"]), "image": (None, "http://x")})[:2] == (
        422,
        "wrong_type",
    )


def test_what_cannot_be_written_is_an_error(live: Live) -> None:
    row = {"title": "Z", "sections": SECTIONS}
    with largest_file(100):
        response = live.request("PUT", "/entities/z", json=row)
    assert fault(response)[:2] == (507, "not_written")
    message = response.json()["error"]["message"]
    assert "free space" in message and "/" not in message  # no path of the server
    assert live.request("GET", "/entities/z", "reader").status_code == 404
    assert live.request("PUT", "/entities/z", json=row).status_code == 200


def test_a_change_to_an_index_that_was_removed_is_an_error(live: Live) -> None:
    """The service keeps answering from its open files, but a restart would not find the change."""
    row = {"title": "Z", "sections": SECTIONS}
    folder = live.editor.index.folder
    for kept in ("unchanged", "changed"):
        moved = folder.rename(folder.with_name(kept))
        assert fault(live.request("PUT", "/entities/z", json=row))[:2] == (503, "not_written")
        assert not folder.exists() and live.request("GET", "/entities/z", "reader").status_code == 404
        moved.rename(folder)
        assert live.request("PUT", "/entities/y", json=row).status_code == 200


def test_a_failing_summarizer_changes_nothing(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise ChatError("no answer", "http://secret")

    monkeypatch.setattr("tests.fakes.models.FakeSummarizer.stream", fail)
    response = live.request("PUT", "/entities/z", json={"title": "Z", "sections": SECTIONS})
    assert fault(response)[:2] == (424, "summarizer_failed")
    assert "secret" not in response.text
    assert live.request("GET", "/entities/z", "reader").status_code == 404


def test_the_index_is_compacted_while_it_answers(live: Live) -> None:
    row = {"title": "Zed", "sections": SECTIONS}
    live.editor.compact_after = 3
    for number in range(50, 60):
        image = {"image": ("z.png", encoded(painting(number)))}
        path = f"/entities/z{number}"
        assert live.request("PUT", path, data={"article": json.dumps(row)}, files=image).status_code == 200
        found = live.best(number)
        assert found["entity"]["id"] == f"z{number}"
        assert live.request("GET", found["entity"]["image"], "reader").status_code == 200
    for thread in threading.enumerate():
        if thread.name == "compact the index":
            thread.join()
    assert live.world.open().folder.parent.name == "live"
    assert live.best(50)["entity"]["id"] == "z50"


def test_a_service_that_cannot_change_its_index_says_why(tmp_path: Path) -> None:
    with served(tmp_path) as world, httpx.Client(base_url=world.url, trust_env=False) as client:
        response = client.put("/entities/z", json={"title": "Z", "sections": []})
        assert fault(response) == (409, "read_only", None)
        assert (
            response.json()["error"]["message"]
            == "this service cannot change its index: it was opened for reading only"
        )
        assert client.get("/entities/https%3A%2F%2Fkb%2Fred").json()["title"] == "Redland"
        for old in (-1, 3, 10**30):
            assert client.get(f"/entities/{old}/image").status_code == 404


def test_a_service_whose_index_another_process_changes_says_so(tmp_path: Path) -> None:
    retriever = FakeRetriever(FakeIndex(write_images(tmp_path)))
    app = create_app(retriever, FakeGenerator(), editor=lambda: "another process changes it")
    with listening(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        for response in (client.put("/entities/z", json={"title": "Z"}), client.delete("/entities/z")):
            assert fault(response) == (409, "read_only", None)
            told = "this service cannot change its index now: another process changes it"
            assert response.json()["error"]["message"] == told


async def test_the_clients(live: Live, tmp_path: Path) -> None:
    path = tmp_path / "z.png"
    painting(42).save(path)
    row = {"title": "Zed", "sections": SECTIONS}
    with Client(live.url, "writer") as client:
        assert client.put_entity("https://kb.example/z?a=1#b", row, path).created
        assert not client.put_entity("https://kb.example/z?a=1#b", row, painting(42)).created
        assert client.put_entity("plain", row).index.entities == 4
        assert client.delete_entity("plain").id == "plain"
        with pytest.raises(ServiceError, match="no entity 'plain'") as caught:
            client.delete_entity("plain")
        assert caught.value.status == 404
    assert live.best(42)["entity"]["id"] == "https://kb.example/z?a=1#b"

    async with AsyncClient(live.url, "writer") as client:
        assert (await client.put_entity("other", row, path)).created
        assert (await client.delete_entity("other")).index.entities == 3
