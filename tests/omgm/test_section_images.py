"""Images of the sections that answer, with the embedded profile from end to end."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from evaluation.recording import make_record
from evaluation.records import from_json, to_json
from indexes.image_source import thumbnail
from indexes.parts.split import split_index
from omgm.__main__ import main
from omgm.api import OMGM
from omgm.indexing import Build, build
from omgm.profile import load_profile
from omgm.served_app import build_app
from retriever.types import NO_IMAGE, ArticleImage, Generation, Query
from serving.keys import digest_of
from tests.fakes.images import data_uri
from tests.fakes.live import painting
from tests.fakes.questions import ask
from tests.fakes.service import listening
from tests.omgm.test_in_parts import threads

NIGHT = "What lights the tower at night?"
TOWER: dict[str, Any] = {
    "id": "acme/tower",
    "title": "Acme tower",
    "tenant": "acme",
    "image": "1.png",
    "images": [
        {"url": "1.png", "section": 0, "caption": "By day"},
        {"url": "2.png", "section": 1, "caption": "The tower at night"},
        {"url": "gone.png", "section": 1, "caption": "A lost one"},
        {"url": "3.png", "caption": "Its plan"},
    ],
    "sections": [
        {"title": "Height", "text": "The tower is 93 meters high and has 14 floors."},
        {"title": "Night", "text": "Forty lamps of sodium light the tower at night."},
    ],
}
MILL = {**TOWER, "id": "bolt/mill", "title": "Bolt mill", "tenant": "bolt", "image": "4.png", "images": []} | {
    "sections": [{"title": "Use", "text": "The mill grinds corn by wind."}]
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tower")
    (folder / "kb").mkdir()
    for number in range(1, 6):
        painting(number).resize((600, 600)).save(folder / "kb" / f"{number}.png")
    (folder / "kb" / "kb.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (TOWER, MILL)), encoding="utf-8")
    names = {"fields": "tenant"}
    order = Build(kb=folder / "kb" / "kb.jsonl", images=folder / "kb", out=folder / "index", names=names)
    build(load_profile("embedded"), order)
    assert [*split_index(folder / "index", 2, folder / "parts")]
    return folder


def copy_of(number: int) -> bytes:
    return thumbnail(painting(number).resize((600, 600)), 512, 85)


def test_in_python_and_in_records(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with OMGM.open(folder / "index") as omgm:
        answer = omgm.ask(None, NIGHT)
        [result] = omgm.retriever.retrieve([Query(NO_IMAGE, NIGHT, "1")])
        rows: dict[str, Any] = {"with_generator": True, "failed": None, "timings_ms": {}}
        record = make_record(ask(0, "red", NIGHT), omgm.index, result, Generation("lamps"), **rows)
    assert answer.evidence is not None and answer.evidence.section_title == "Night"
    night, lost, plan = answer.evidence.images
    assert night == ArticleImage("2.png", 1, "The tower at night") and (lost.caption, plan.url) == (
        "A lost one",
        "3.png",
    )
    assert answer.thumbnails == {f"{number}.png": copy_of(number) for number in (1, 2, 3)}
    assert from_json(json.loads(json.dumps(to_json(record)))).evidence == answer.evidence
    assert answer.request().thumbnails == answer.thumbnails
    assert main(["ask", "--index", str(folder / "index"), NIGHT]) == 0
    assert "\nPicture 1: The tower at night\nPicture 2: A lost one\nPicture 3: Its plan\n" in capsys.readouterr().out
    assert main(["ask", "--index", str(folder / "index"), "--json", NIGHT]) == 0
    assert json.loads(capsys.readouterr().out)["evidence"]["images"][2]["caption"] == "Its plan"


@pytest.mark.slow
def test_over_http_while_they_change_and_in_parts(folder: Path, tmp_path: Path) -> None:
    serving = {
        "read_keys": [digest_of(tenant) for tenant in ("acme", "bolt")],
        "write_keys": [digest_of("writer")],
        "key_filters": {digest_of(tenant): {"tenant": tenant} for tenant in ("acme", "bolt")},
    }
    profile = load_profile("embedded", {f"serving.{name}": value for name, value in serving.items()})
    with ExitStack() as stack:
        index = shutil.copytree(folder / "index", tmp_path / "index")
        whole, editor = build_app(profile, index, read_only=False)
        front, _ = build_app(profile, stack.enter_context(threads(folder / "parts")), read_only=False)
        assert not isinstance(editor, str)
        urls = [stack.enter_context(listening(app)) for app in (whole, front)]
        client, parted = (stack.enter_context(httpx.Client(base_url=url, trust_env=False, timeout=60)) for url in urls)

        def images(client: httpx.Client, question: str = NIGHT) -> list[list[dict[str, Any]]]:
            response = client.post("/answer", json={"question": question}, headers=key("acme"))
            assert response.status_code == 200, response.text
            return [section["images"] for section in response.json()["evidence"]]

        found = images(client)
        assert images(parted) == found
        (night, lost, plan), (day, same) = found
        assert (night["caption"], night["url"]) == ("The tower at night", "2.png") and same == plan
        assert lost == {"url": "gone.png", "caption": "A lost one", "image": None}
        for one, number in ((night, 2), (plan, 3), (day, 1)):
            for service in (client, parted):
                shown = service.get(one["image"], headers=key("acme"))
                assert shown.content == copy_of(number) and shown.headers["content-type"] == "image/jpeg"
                assert service.get(one["image"], headers=key("bolt")).status_code == 404
        new = {"id": TOWER["id"], "title": "Acme tower", "sections": TOWER["sections"], "image": data_uri(as_png(5))}
        put = client.put("/entities", params={"id": TOWER["id"]}, json=new, headers=key("writer"))
        assert put.status_code == 200, put.text
        assert images(client)[0] == [night, lost, plan]  # they stay where they are
        gone = client.delete("/entities", params={"id": TOWER["id"]}, headers=key("writer"))
        assert gone.status_code == 200 and client.get(night["image"], headers=key("acme")).status_code == 404
    editor.close()


def key(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


def as_png(number: int) -> bytes:
    from retriever.images import encoded

    return encoded(painting(number))


def test_over_mcp(folder: Path) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    from omgm.mcp_server import Tools
    from omgm.settings import AgentSettings
    from serving.settings import ServingSettings

    with OMGM.open(folder / "index") as omgm:
        tools = Tools(omgm, ServingSettings(), paths=False, agent=None, limits=AgentSettings())
        answered = asyncio.run(tools.answer(NIGHT))
        sections = asyncio.run(tools.search_sections(NIGHT))
    assert answered.structured_content is not None and sections.structured_content is not None
    images = answered.structured_content["evidence"]["images"]
    assert [(one["caption"], one["has_thumbnail"]) for one in images] == [
        ("The tower at night", True),
        ("A lost one", False),
        ("Its plan", True),
    ]
    for result, numbers in ((answered, (2, 3)), (sections, (2, 3, 1))):
        _, *shown = (one.model_dump() for one in result.content)
        assert [base64.b64decode(one["data"]) for one in shown] == [copy_of(number) for number in numbers]
