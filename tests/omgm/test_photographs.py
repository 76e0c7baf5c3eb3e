"""Several images of one question, with the embedded profile from end to end, through every door."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from omgm.__main__ import main
from omgm.api import OMGM
from omgm.client import AsyncClient, Client
from omgm.retriever_messages import read_queries, write_queries
from retriever.image_cache import content_of, set_content
from retriever.images import ALPHA, ImageInput, load_image
from retriever.types import Query
from serving.app import create_app
from serving.openai_routes import OPENAI
from serving.settings import ServingSettings
from tests.browser import Browser, by_id, opened_anew, wait
from tests.fakes.asking import events, fault
from tests.fakes.images import data_uri
from tests.fakes.service import listening
from tests.serving.test_page import violations

CAPITAL = "What is the capital of this country?"
BOTH = "Japan (image 1): Tokyo; Kenya (image 2): Nairobi"


@pytest.fixture(scope="module")
def photos(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns two images of Japan's flag, one of Kenya's, and one of nothing."""
    gray = tmp_path_factory.mktemp("gray") / "gray.png"
    Image.linear_gradient("L").save(gray)
    found = {name: examples / "queries" / f"{name}.jpg" for name in ("jp_0", "jp_1", "ke_0")}
    return {**found, "gray": gray}


@pytest.fixture(scope="module")
def omgm(examples: Path) -> Iterator[OMGM]:
    with OMGM.open(examples / "index") as omgm:
        yield omgm


@pytest.fixture(scope="module")
def url(omgm: OMGM) -> Iterator[str]:
    settings = ServingSettings(max_images=3, max_image_bytes=400_000)
    with listening(create_app(omgm.retriever, omgm.generator, settings, routes=OPENAI), settings) as url:
        yield url


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        yield client


def uri(path: Path) -> str:
    return data_uri(path.read_bytes())


def test_python(omgm: OMGM, photos: dict[str, Path]) -> None:
    front, back, other, gray = (str(photos[name]) for name in ("jp_0", "jp_1", "ke_0", "gray"))
    alone = omgm.ask(front, CAPITAL)
    listed = omgm.ask([front], CAPITAL)
    assert (listed.answer, listed.candidates, listed.photographs) == (alone.answer, alone.candidates, ())
    for images in ([front, back], [back, front], [front, gray], (gray, front)):
        same = omgm.ask(images, CAPITAL)
        assert same.answer == "Tokyo" and same.entity == alone.entity and same.evidence == alone.evidence
        assert same.recognized is not None and len(same.photographs) == 2
        assert [same.picture, *same.more] == images if isinstance(images, list) else same.more == (front,)
        assert same.recognized == max(one.recognized or 0 for one in same.photographs)
    both = omgm.ask([front, other], CAPITAL)
    assert both.answer == BOTH
    assert [one.entity_title for one in both.photographs] == ["Japan", "Kenya"]
    assert [one.sections[0].evidence.entity_title for one in both.photographs] == ["Japan", "Kenya"]
    assert {(one.title, one.photograph) for one in both.candidates} >= {("Japan", 1), ("Kenya", 2)}
    assert omgm.ask([other, front], CAPITAL).answer == "Kenya (image 1): Nairobi; Japan (image 2): Tokyo"
    assert asyncio.run(omgm.ask_async([front, other], CAPITAL)).answer == BOTH


def test_a_batch_gives_the_same_as_each_question_alone(omgm: OMGM, photos: dict[str, Path]) -> None:
    front, back, other, gray = (load_image(photos[name]) for name in ("jp_0", "jp_1", "ke_0", "gray"))
    pairs: list[Any] = [
        ([front, other], CAPITAL),
        (gray, CAPITAL),
        ([gray, front, back], CAPITAL),
        (None, "Is Kenya big?"),
    ]
    together = omgm.retrieve(pairs)

    def scores(found: Any) -> list[tuple[str, int, float]]:
        return [(one.title, one.photograph, one.fused) for one in found.candidates]

    for pair, found in zip(pairs, together, strict=True):
        [single] = omgm.retrieve([pair])
        assert scores(found) == [(*about, pytest.approx(score, abs=1e-4)) for *about, score in scores(single)]
        assert found.recognized == pytest.approx(single.recognized, abs=1e-3)
        assert [row.title for row in found.sections] == [row.title for row in single.sections]
        for one, other_one in zip(found.photographs, single.photographs, strict=True):
            assert (one.entity_id, one.crop, one.turned) == (other_one.entity_id, other_one.crop, other_one.turned)
            assert [row.evidence for row in one.sections] == [row.evidence for row in other_one.sections]


def test_an_image_that_cannot_be_read_is_named(omgm: OMGM, http: httpx.Client, photos: dict[str, Path]) -> None:
    good, bad = photos["jp_0"].read_bytes(), b"no image"
    with pytest.raises(ValueError, match=r"image 2: not an image of a known format"):
        omgm.ask([good, bad], CAPITAL)
    with pytest.raises(ValueError, match=r"pair 0: image 3: .*gone\.jpg"):
        omgm.retrieve([([good, good, "gone.jpg"], CAPITAL)])
    for names in (("image", "image"), ("images", "images"), ("image", "images"), ("images", "image")):
        files = [(name, ("a.jpg", part)) for name, part in zip(names, (good, bad), strict=True)]
        refused = http.post("/answer", files=files, data={"question": CAPITAL})
        assert fault(refused) == (415, "not_an_image", "image")
        assert refused.json()["error"]["message"].startswith("image 2: not an image of a known format")
    refused = http.post("/answer", json={"images": [uri(photos["jp_0"]), "data:image/png;base64"], "question": CAPITAL})
    assert fault(refused) == (400, "malformed_data_uri", "image")
    assert refused.json()["error"]["message"].startswith("image 2: ")


def test_http(http: httpx.Client, photos: dict[str, Path]) -> None:
    japan, kenya = uri(photos["jp_0"]), uri(photos["ke_0"])
    alone = http.post("/answer", json={"image": japan, "question": CAPITAL}).json()
    assert alone["answer"] == "Tokyo" and alone["photographs"] == []
    one = http.post("/answer", json={"images": [japan], "question": CAPITAL}).json()
    assert (one["answer"], one["candidates"]) == (alone["answer"], alone["candidates"])
    for images in ({"images": [japan, kenya]}, {"image": japan, "images": [kenya]}):
        both = http.post("/answer", json={**images, "question": CAPITAL}).json()
        assert both["answer"] == BOTH
    first, second = both["photographs"]
    assert (first["entity_title"], second["entity_title"], second["turned"]) == ("Japan", "Kenya", 0)
    assert second["sections"][0]["evidence"]["text"].startswith("Nairobi is the capital")
    assert [one["entity_title"] for one in both["passages"]] == ["Japan", "Kenya"] and alone["passages"] == []
    assert {one["title"]: one["photograph"] for one in both["candidates"][:2]} == {"Japan": 1, "Kenya": 2}
    best = both["entity"]["title"]
    span, text = both["evidence"][0]["span"], both["evidence"][0]["text"]
    assert text[slice(*span)] == {"Japan": "Tokyo", "Kenya": "Nairobi"}[best]
    files: list[Any] = [("image", ("a.jpg", photos["jp_0"].read_bytes())), ("image", (None, kenya))]
    form = {"question": CAPITAL, "options": json.dumps({"stream": True})}
    sent = events(http.post("/answer", files=files, data=form))
    assert [name for name, _ in sent][::2] == ["retrieval", "done"] and sent[-1][1]["answer"] == BOTH
    assert [one["entity_title"] for one in sent[0][1]["photographs"]] == ["Japan", "Kenya"]
    assert len(http.post("/retrieve", files=files, data={"question": CAPITAL}).json()["photographs"]) == 2


def test_limits(http: httpx.Client, photos: dict[str, Path]) -> None:
    assert http.get("/info").json()["limits"]["max_images"] == 3
    image = photos["gray"]
    too_many = http.post("/answer", json={"images": [uri(image)] * 4, "question": CAPITAL})
    assert fault(too_many) == (422, "too_many_images", "images")
    assert "the question has 4 images; at most 3 are accepted" in too_many.json()["error"]["message"]
    files = [("image", ("a.png", image.read_bytes()))] * 4
    assert fault(http.post("/answer", files=files, data={"question": CAPITAL})) == (422, "too_many_images", "images")
    files = [("image", ("a.png", b"x" * 350_000))] * 3  # each alone could be sent
    refused = http.post("/answer", files=files, data={"question": CAPITAL})
    assert fault(refused) == (413, "image_too_large", "image") and "together" in refused.json()["error"]["message"]
    assert fault(http.post("/answer", json={"images": [""], "question": CAPITAL})) == (422, "missing_image", "image")
    twice = http.post("/answer", files=[("question", (None, CAPITAL))] * 2)
    assert fault(twice) == (422, "duplicate_field", "question")


def test_follow_up_questions_keep_the_images(http: httpx.Client, photos: dict[str, Path]) -> None:
    images = [uri(photos[name]) for name in ("jp_0", "ke_0")]
    asked: dict[str, Any] = {"images": images, "question": "And what is its capital?", "before": ["What is this?"]}
    after = http.post("/answer", json=asked).json()
    assert after["answer"] == BOTH and after["searched"] is None
    named = http.post("/answer", json={**asked, "question": "What is the capital of Nepal?"}).json()
    assert (named["answer"], named["photographs"]) == ("Kathmandu", []) and named["searched"] is not None


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_openai_routes(http: httpx.Client, photos: dict[str, Path], path: str) -> None:
    is_chat = path.endswith("completions")

    def message(text: str, *names: str) -> dict[str, Any]:
        kinds = ("text", "image_url") if is_chat else ("input_text", "input_image")
        uris = [uri(photos[name]) for name in names]
        images = [{"type": kinds[1], "image_url": {"url": one} if is_chat else one} for one in uris]
        return {"role": "user", "content": [{"type": kinds[0], "text": text}, *images]}

    def ask(*turns: dict[str, Any]) -> httpx.Response:
        return http.post(path, json={"model": "omgm", "messages" if is_chat else "input": turns})

    def text(response: httpx.Response) -> str:
        body = response.json()
        said: str = body["choices"][0]["message"]["content"] if is_chat else body["output"][0]["content"][0]["text"]
        return said

    assert text(ask(message(CAPITAL, "jp_0", "ke_0"))) == BOTH
    assert text(ask(message(CAPITAL, "jp_0", "jp_0"))) == "Tokyo"  # the same image twice
    turns = (
        message("What is this?", "gray"),
        message("What is this?", "jp_0", "ke_0"),
        message("And what is its capital?"),
    )
    assert text(ask(*turns)) == BOTH  # of the latest turn that has images
    refused = ask(message(CAPITAL, "jp_0", "jp_1", "ke_0", "gray"))
    assert fault(refused) == (400, "too_many_images", "messages" if is_chat else "input")


def test_clients(url: str, photos: dict[str, Path]) -> None:
    pair: list[ImageInput] = [photos["jp_0"], load_image(photos["ke_0"])]
    with Client(url) as client:
        answer = client.answer(pair, CAPITAL)
        assert answer.answer == BOTH and answer.photographs[1].entity_title == "Kenya"
        assert len(client.retrieve((uri(photos["jp_0"]), photos["jp_1"]), CAPITAL).photographs) == 2
        *_, last = client.stream(pair, CAPITAL)
        assert last == answer.model_copy(update={"timings_ms": last.timings_ms, "request_id": last.request_id})  # type: ignore[union-attr]

    async def ask() -> str | None:
        async with AsyncClient(url) as client:
            return (await client.answer(pair, CAPITAL)).answer

    assert asyncio.run(ask()) == BOTH


def test_command_line(examples: Path, photos: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    command = ["ask", "--index", str(examples / "index")]
    capsys.readouterr()
    assert main([*command, str(photos["jp_0"]), str(photos["ke_0"]), CAPITAL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == BOTH
    assert lines[2].startswith(f"image 1, {photos['jp_0']}: Japan (recognized: ")
    assert lines[3].startswith(f"image 2, {photos['ke_0']}: Kenya (recognized: ")
    assert any(line.startswith("Nairobi is the capital") for line in lines)
    assert main([*command, "--json", str(photos["jp_0"]), str(photos["jp_1"]), CAPITAL]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["answer"] == "Tokyo" and [one["entity_title"] for one in found["photographs"]] == ["Japan", "Japan"]
    assert {one["photograph"] for one in found["candidates"]} <= {1, 2}
    assert main([*command, str(photos["jp_0"]), "gone.jpg", CAPITAL]) != 0
    assert "gone.jpg" in capsys.readouterr().err
    assert main([*command, "--mode", "mmsearch", str(photos["jp_0"]), str(photos["ke_0"]), CAPITAL]) != 0
    assert "several IMAGEs" in capsys.readouterr().err


async def test_mcp(omgm: OMGM, photos: dict[str, Path]) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    from mcp import Client as McpClient

    from omgm.mcp_server import build_server

    async with McpClient(build_server(omgm, ServingSettings(max_images=2), paths=True)) as client:

        async def call(*images: str) -> tuple[str, Any]:
            arguments = {"question": CAPITAL, "image": images[0], "more_images": list(images[1:])}
            found = await client.call_tool("answer", arguments)
            return found.content[0].text, found.structured_content  # type: ignore[union-attr]

        japan, kenya = str(photos["jp_0"]), uri(photos["ke_0"])
        _, both = await call(japan, kenya)
        assert both["answer"] == BOTH and [one["entity_title"] for one in both["photographs"]] == ["Japan", "Kenya"]
        assert "there are 3 images; at most 2 are accepted" in (await call(japan, kenya, kenya))[0]
        assert "image 2: " in (await call(japan, "data:image/png;base64,AAAA"))[0]


def test_images_go_to_another_process(omgm: OMGM, photos: dict[str, Path]) -> None:
    first, second = load_image(photos["jp_0"]), load_image(photos["ke_0"]).resize((31, 17))
    set_content(second, "kenya")
    second.info[ALPHA] = Image.new("L", second.size, 200)
    queries = [Query(first, CAPITAL, more=(second, first)), Query(second, CAPITAL)]
    start, *others = write_queries(queries, omgm.index)
    again, _ = read_queries(json.loads(start), iter(others), omgm.index)
    for query, other in zip(queries, again, strict=True):
        pairs = zip((query.image, *query.more), (other.image, *other.more), strict=True)
        for sent, read in pairs:
            assert (read.tobytes(), read.size, content_of(read)) == (sent.tobytes(), sent.size, content_of(sent))
            assert (ALPHA in read.info) == (ALPHA in sent.info)


@pytest.mark.slow
@pytest.mark.browser
def test_page(chromium: Browser, url: str, photos: dict[str, Path], tmp_path: Path) -> None:
    opened_anew(chromium, url)

    def turn(question: str, count: int) -> Any:
        by_id(chromium, "question").clear()
        by_id(chromium, "question").send_keys(question + "\n")
        done = f"return document.querySelectorAll('.turn[aria-busy=false]').length === {count}"
        wait(chromium, lambda: chromium.execute_script(done))
        return chromium.find_element("class name", "turn")

    def shown(element: Any, selector: str) -> list[str]:
        return [one.text for one in element.find_elements("css selector", selector)]

    assert not by_id(chromium, "more").is_displayed()
    by_id(chromium, "file").send_keys(str(photos["jp_0"]))
    by_id(chromium, "another").send_keys(str(photos["ke_0"]))
    assert len(shown(chromium, "#more li")) == 1
    both = turn(CAPITAL, 1)
    assert shown(both, ".reply") == [BOTH]
    assert len(both.find_elements("css selector", ".asked img")) == 2
    assert "image 1: Japan (" in shown(both, ".sure")[-1] and "image 2: Kenya (" in shown(both, ".sure")[-1]
    assert violations(chromium) == []
    headings = shown(both, ".evidence > .passage h3")
    assert sorted(heading.split(":")[0] for heading in headings) == ["Japan", "Kenya"]
    command = both.find_element("css selector", ".curl code").get_attribute("textContent")
    assert command.count("-F ") == 2 and "ke_0.jpg" in command
    assert shown(turn("And what is its area?", 2), ".reply")[0].startswith("Japan (image 1): ")  # of both, still
    chromium.find_element("css selector", "#more li button").click()
    assert shown(chromium, "#more li") == []
    assert shown(turn(CAPITAL, 3), ".reply") == ["Tokyo"]
    chromium.refresh()  # the answers stay, with small photos
    wait(chromium, lambda: len(chromium.find_elements("css selector", ".turn .asked img")) == 5)
    assert shown(chromium, ".reply")[-1] == BOTH
