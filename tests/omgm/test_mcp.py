"""`omgm mcp`, tested with the official SDK's client over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

pytest.importorskip("mcp", reason="needs the extra mcp")

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, ImageContent, TextContent, Tool

from chat_models.replies import ChatReply
from omgm.__main__ import main
from omgm.agent import Agent, access_of
from omgm.api import OMGM
from omgm.mcp_http import http_app
from omgm.mcp_images import image_text
from omgm.mcp_server import build_server
from omgm.settings import AgentSettings
from serving.keys import digest_of
from serving.settings import ServingSettings
from tests.fakes.images import data_uri
from tests.fakes.planner import ScriptedPlanner, calling
from tests.fakes.service import listening, wait_until
from tests.paths import ROOT

CAPITAL = "What is the capital of this country?"
KEY = "omgm-reader"
TOOLS = {"answer", "find_entity", "search_sections", "similar_images"}
AGENT_TOOLS = {"image_search", "text_search", "open_page"}


@pytest.fixture(scope="module")
def omgm(examples: Path) -> Iterator[OMGM]:
    with OMGM.open(examples / "index") as omgm:
        yield omgm


@pytest.fixture(scope="module")
def photo(examples: Path) -> bytes:
    return (examples / "photo.jpg").read_bytes()


@pytest.fixture(scope="module")
def url(omgm: OMGM) -> Iterator[str]:
    settings = ServingSettings(max_question_chars=100)
    with listening(http_app(build_server(omgm, settings), settings)) as url:
        yield f"{url}/mcp"


def call(url: str, tool: str, **arguments: Any) -> CallToolResult:
    async def run() -> CallToolResult:
        async with Client(url) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(run())


def structured(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error and result.structured_content is not None
    assert isinstance(result.content[0], TextContent)
    assert json.loads(result.content[0].text) == result.structured_content  # for clients that read only text
    found: dict[str, Any] = result.structured_content
    return found


def message(result: CallToolResult) -> str:
    assert result.is_error and isinstance(result.content[0], TextContent)
    return result.content[0].text


async def test_tools_are_described(url: str) -> None:
    async with Client(url) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == TOOLS
        for tool in tools.values():
            assert tool.output_schema is not None and tool.annotations is not None
            assert tool.annotations.read_only_hint and "image" in tool.input_schema["properties"]
        required = {name: tool.input_schema["required"] for name, tool in tools.items()}
        assert required["answer"] == required["search_sections"] == ["question"]
        assert required["find_entity"] == required["similar_images"] == ["image"]
        limit = tools["similar_images"].input_schema["properties"]["limit"]
        assert (limit["minimum"], limit["maximum"], limit["default"]) == (1, 50, 5)
        assert set((tools["answer"].output_schema or {})["properties"]) == {
            "answer",
            "abstained",
            "recognized",
            "crop",
            "turned",
            "text",
            "by_text",
            "reading",
            "searched",
            "parts",
            "filter",
            "photographs",
            "passages",
            "quote",
            "declined",
            "reason",
            "grounded",
            "confidence",
            "entity",
            "evidence",
            "sources",
            "stopped",
            "ending",
        }
        # what this index has vectors of
        assert "comparing an image with each entity's main image and a summary of its article" in str(
            tools["similar_images"].description
        )
        assert "6 entities" in str(client.instructions)


def test_answer(url: str, photo: bytes) -> None:
    for image in (data_uri(photo), base64.b64encode(photo).decode()):
        found = structured(call(url, "answer", image=image, question=CAPITAL))
        assert (found["answer"], found["abstained"], found["entity"]["title"]) == ("Tokyo", False, "Japan")
        assert "Tokyo" in found["evidence"]["text"] and 0 <= found["confidence"] <= 1
    found = structured(call(url, "answer", image=data_uri(photo), question="Who discovered penicillin?"))
    assert (found["answer"], found["abstained"]) == (None, True)


def test_find_entity(url: str, photo: bytes) -> None:
    entities = structured(call(url, "find_entity", image=data_uri(photo), limit=2))["entities"]
    assert (len(entities), entities[0]["title"]) == (2, "Japan")
    assert entities[0]["score"] >= entities[1]["score"] and entities[0]["url"].startswith("http")


def test_search_sections(url: str, photo: bytes) -> None:
    found = structured(call(url, "search_sections", image=data_uri(photo), question=CAPITAL, limit=2))
    assert found["entity"]["title"] == "Japan" and len(found["sections"]) == 2
    assert "Tokyo" in found["sections"][0]["text"]
    assert found["sections"][0]["score"] >= found["sections"][1]["score"]


def test_similar_images(url: str, photo: bytes, omgm: OMGM) -> None:
    result = call(url, "similar_images", image=data_uri(photo), limit=3)
    images = structured(result)["images"]
    assert (len(images), images[0]["title"]) == (3, "Japan")
    assert images[0]["similarity"] >= images[1]["similarity"] >= images[2]["similarity"]
    shown = [block for block in result.content if isinstance(block, ImageContent)]
    assert len(shown) == sum(image["has_thumbnail"] for image in images) == 3
    row = omgm.index.row_of(images[0]["id"])
    assert row is not None
    path = omgm.index.image_path(row)
    assert path is not None and base64.b64decode(shown[0].data) == path.read_bytes()
    with Image.open(io.BytesIO(base64.b64decode(shown[0].data))) as image:
        assert Image.MIME[str(image.format)] == shown[0].mime_type


@pytest.mark.slow
def test_an_index_of_images(examples: Path, tmp_path: Path) -> None:
    """Keys are main images read at two sizes, so an entity's own image is found with a similarity of nearly 1."""
    kb, out, images = examples / "kb.json", tmp_path / "index", examples / "images"
    settings = {"search.candidates": "image"}
    with OMGM.build(kb, out, images=images, settings=settings) as omgm:
        [nearest] = omgm.nearest(images / "flag/ke.png", k=1)
        assert nearest.title == "Kenya" and nearest.sim_c == pytest.approx(1, abs=0.01)
        tools = {tool.name: tool for tool in asyncio.run(build_server(omgm, ServingSettings()).list_tools())}
        assert "an image with each entity's main image" in str(tools["similar_images"].description)


def test_errors(url: str, photo: bytes, examples: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"image": data_uri(b"hello"), "question": CAPITAL}, "not an image"),
        ({"image": "photo.jpg", "question": CAPITAL}, "this server reads no files, got 'photo.jpg': pass its URL"),
        ({"image": str(examples / "photo.jpg"), "question": CAPITAL}, "this server reads no files"),
        ({"image": "http://127.0.0.1:9/a.png", "question": CAPITAL}, "images cannot be fetched from 127.0.0.1:9"),
        ({"image": data_uri(photo), "question": " "}, "the question is empty"),
        ({"image": data_uri(photo), "question": "x" * 101}, "the question has 101 characters"),
        ({"image": data_uri(photo)}, "question is missing; answer takes question, image, more_images, mode"),
        ({"image": "<image>", "question": CAPITAL}, "image must be its URL"),
        (
            {"picture": "x", "question": CAPITAL},
            "answer has no argument 'picture'; it takes question, image, more_images",
        ),
    ]
    for arguments, expected in wrong:
        assert expected in message(call(url, "answer", **arguments))
    assert "image is missing: pass its URL" in message(call(url, "find_entity", image=None))
    declined = structured(call(url, "answer", image=None, question=CAPITAL))  # which country?
    assert declined["answer"] is None and "send an image of it" in declined["reason"]
    assert "limit" in message(call(url, "find_entity", image=data_uri(photo), limit=0))
    assert "dance" in message(call(url, "dance"))


@pytest.mark.slow
async def test_stdio(examples: Path, photo: bytes) -> None:
    """A client starts the command itself; images may then be files."""
    command = ["-m", "omgm", "mcp", "--index", str(examples / "index"), "--set", "device=cpu"]
    server = StdioServerParameters(command=sys.executable, args=command, cwd=ROOT, env={"OMP_NUM_THREADS": "1"})

    async with Client(server) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS | AGENT_TOOLS
        path = str(examples / "photo.jpg")
        (uri := examples / "my photo é.jpg").write_bytes(photo)
        for image in (path, f'"{path}"', uri.as_uri(), data_uri(photo), base64.b64encode(photo).decode()):
            found = structured(await client.call_tool("answer", {"image": image, "question": CAPITAL}))
            assert (found["answer"], found["entity"]["title"]) == ("Tokyo", "Japan")
        missing = message(await client.call_tool("find_entity", {"image": f"{path}.png"}))
        arguments = {"image": path, "question": CAPITAL, "mode": "auto"}
        assert "set generator.base_url and generator.model" in message(await client.call_tool("answer", arguments))
        assert "there is no file" in missing and "pass the path of its file on this machine" in missing
        for other in (str(examples / "questions.csv"), "/dev/zero"):
            assert (await client.call_tool("find_entity", {"image": other})).is_error


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ({"type": "image", "data": "QUJD", "mimeType": "image/jpeg"}, "QUJD"),
        ([{"type": "image", "data": "QUJD"}], "QUJD"),
        ('{"type": "image", "data": "QUJD"}', "QUJD"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}, "data:image/png;base64,QUJD"),
        ({"type": "image", "source": {"type": "base64", "data": "QUJD"}}, "QUJD"),
        ({"type": "resource", "resource": {"uri": "file:///a.jpg", "blob": "QUJD"}}, "QUJD"),
        ({"path": "/a.jpg"}, "/a.jpg"),
        ("`/a b.jpg`", "/a b.jpg"),
        (None, ""),
        ("[photo.jpg", "[photo.jpg"),
        (5, 5),
    ],
)
def test_an_image_as_clients_send_it(sent: object, text: object) -> None:
    assert image_text(sent) == text


def test_http_behind_a_proxy_and_for_browsers(omgm: OMGM) -> None:
    settings = ServingSettings(cors_origins=("http://localhost:6274", "https://app.example"))
    asked = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"Accept": "application/json, text/event-stream"}
    with listening(http_app(build_server(omgm, settings), settings)) as url, httpx.Client(trust_env=False) as http:
        for path in ("/health/live", "/health/ready"):
            assert http.get(f"{url}{path}").status_code == 200
        assert http.post(f"{url}/mcp/", json=asked, headers=accept).json()["result"] == {}
        first = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "mcp-protocol-version"}
        for origin in settings.cors_origins:
            allowed = http.options(f"{url}/mcp", headers={"Origin": origin, **first})
            assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, origin)
            assert http.post(f"{url}/mcp", json=asked, headers={"Origin": origin, **accept}).status_code == 200
        assert (
            http.post(f"{url}/mcp", json=asked, headers={"Origin": "https://evil.example", **accept}).status_code == 403
        )


def test_long_calls_report_progress(omgm: OMGM, photo: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """To clients of both protocols over HTTP, and in the same process as over stdio; others get one document."""
    monkeypatch.setattr("omgm.mcp_server.PROGRESS_S", 0.02)
    arguments = {"image": data_uri(photo), "question": CAPITAL}

    async def run(server: Any) -> list[float]:
        seen = list[float]()

        async def note(progress: float, total: float | None, message: str | None) -> None:
            seen.append(progress)

        async with Client(server) as client:
            structured(await client.call_tool("answer", arguments, progress_callback=note))
        return seen

    settings = ServingSettings()
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"name": "answer", "arguments": arguments, "_meta": {"progressToken": 7}}
    with listening(http_app(build_server(omgm, settings), settings)) as url, httpx.Client(trust_env=False) as http:
        for server in (build_server(omgm, settings), f"{url}/mcp"):
            seen = asyncio.run(run(server))
            assert seen and seen == sorted(seen)
        for accept, stream in (
            ("application/json, text/event-stream", True),
            ("text/event-stream", True),
            ("application/json", False),
            ("*/*", False),
            ("", False),
        ):
            headers = {"Accept": accept, "MCP-Protocol-Version": "2025-06-18"}
            reply = http.post(f"{url}/mcp", json={**asked, "params": params}, headers=headers, timeout=60)
            assert reply.headers["content-type"].startswith("text/event-stream" if stream else "application/json")
            lines = [line.partition(":")[2] for line in reply.text.splitlines() if line.startswith("data:")]
            *progress, last = map(json.loads, lines if stream else [reply.text])
            assert last["id"] == 1 and last["result"]["structuredContent"]["answer"] == "Tokyo"
            assert {one["method"] for one in progress} == ({"notifications/progress"} if stream else set())


def test_agents(omgm: OMGM, photo: bytes) -> None:
    """`answer` takes a mode, and the agents' own tools are offered."""
    script: list[str | ChatReply] = [
        calling("text_search", '{"queries": "capital of France"}'),
        "<answer>Paris [1]</answer>",
    ]
    settings, image = ServingSettings(), data_uri(photo)
    limits = AgentSettings(searxng_url="http://127.0.0.1:9", runs=1)
    planner = ScriptedPlanner(lambda asked: script["text_search" in asked])
    with (
        Agent(omgm, planner, **access_of(limits)) as agent,
        listening(http_app(build_server(omgm, settings, agent=agent, limits=limits), settings)) as at,
    ):
        url = f"{at}/mcp"
        found = structured(call(url, "answer", image=image, question="And of France?", mode="mmsearch-plus"))
        assert (found["answer"], found["entity"], found["stopped"]) == ("Paris", None, "")
        assert (found["sources"][0]["title"], len(found["sources"])) == ("France", 1)
        assert "mode must be one of retrieve, auto" in message(
            call(url, "answer", image=image, question=CAPITAL, mode="magic")
        )

        found = structured(call(url, "image_search", image=image, question=CAPITAL))
        assert found["excerpts"][0]["title"] == "Japan" and "Tokyo" in found["excerpts"][0]["text"]
        found = structured(call(url, "image_search", image=image, question=CAPITAL, exclude=["Japan"]))
        assert "Japan" not in {excerpt["title"] for excerpt in found["excerpts"]}
        found = structured(call(url, "text_search", queries=["capital of France"], limit=1))
        assert [excerpt["title"] for excerpt in found["excerpts"]] == ["France"]
        found = structured(call(url, "open_page", page="France", question="capital"))
        assert "Paris" in found["excerpts"][0]["text"] and found["note"].startswith("Sections of France")
        assert "there is no page 'Atlantis'" in message(call(url, "open_page", page="Atlantis", question="capital"))
        assert "the search engine failed" in message(call(url, "web_search", queries=["France"]))


def test_what_models_leave_open(omgm: OMGM, photo: bytes) -> None:
    """Each parameter has one type, which every framework can pass on; null, or one text for a list, is taken, too."""
    settings, image = ServingSettings(), data_uri(photo)
    with (
        Agent(omgm, None) as agent,
        listening(http_app(build_server(omgm, settings, agent=agent), settings)) as at,
    ):
        url = f"{at}/mcp"

        async def tools() -> list[Tool]:
            async with Client(url) as client:
                return (await client.list_tools()).tools

        offered = {tool.name: tool for tool in asyncio.run(tools())}
        for tool in offered.values():
            assert {"type"} == {key for schema in tool.input_schema["properties"].values() for key in schema} & {
                "type",
                "anyOf",
                "$ref",
            }
        queries = offered["text_search"].input_schema["properties"]["queries"]
        assert (queries["minItems"], queries["maxItems"]) == (1, 5)
        found = structured(call(url, "answer", image=image, question=CAPITAL, mode=None))
        assert found["answer"] == "Tokyo"
        assert len(structured(call(url, "find_entity", image=image, question=None, limit=None))["entities"]) == 5
        assert len(structured(call(url, "search_sections", image=image, question=CAPITAL, limit=None))["sections"]) == 3
        for exclude in ("Japan", ["Japan", ""], '["Japan"]'):
            excerpts = structured(call(url, "image_search", image=image, exclude=exclude))["excerpts"]
            assert "Japan" not in {excerpt["title"] for excerpt in excerpts}
        assert structured(call(url, "image_search", image=image, exclude=None))["excerpts"][0]["title"] == "Japan"
        found = structured(call(url, "text_search", queries="capital of France", limit=None))
        assert found["excerpts"][0]["title"] == "France"


def test_the_functions_for_agents_of_others(omgm: OMGM, examples: Path) -> None:
    """Those of docs/agents.md, which need no SDK."""
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    [code] = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    functions: dict[str, Any] = {}
    exec(code, functions)
    settings = ServingSettings()
    with (
        Agent(omgm, None) as agent,
        listening(http_app(build_server(omgm, settings, agent=agent), settings)) as url,
    ):
        functions["SERVER"] = f"{url}/mcp"
        first, second = functions["image_search"](examples / "photo.jpg", limit=2)
        assert first["title"] == "Japan" != second["title"] and first["url"].startswith("http")
        assert first["image"].getpixel((0, 0)) == (255, 255, 255)  # the thumbnail of the flag
        [found] = functions["text_search"]("capital of France", limit=1)
        assert (found["title"], "Paris" in found["text"], found["url"]) == ("France", True, found["url"])
        with pytest.raises(RuntimeError, match="not an image"):
            functions["image_search"](examples / "questions.csv")


def test_an_agent_ends_with_its_caller(omgm: OMGM, photo: bytes) -> None:
    """A caller who leaves, as one whose time is over, frees the place for the next."""
    settings, limits = ServingSettings(), AgentSettings(runs=1)
    asked = threading.Event()

    class SlowPlanner(ScriptedPlanner):
        async def reply(self, *arguments: Any, **more: Any) -> ChatReply:
            if not asked.is_set():
                asked.set()
                await asyncio.sleep(60)
            return await super().reply(*arguments, **more)

    arguments = {"image": data_uri(photo), "question": CAPITAL, "mode": "mmsearch-plus"}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "answer", "arguments": arguments}}

    async def leave(url: str) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            sent = asyncio.ensure_future(client.post(url, json=request, headers={"Accept": "application/json"}))
            await asyncio.to_thread(asked.wait, 20)
            sent.cancel()

    with (
        Agent(omgm, SlowPlanner(["<answer>Tokyo</answer>"])) as agent,
        listening(http_app(build_server(omgm, settings, agent=agent, limits=limits), settings)) as at,
    ):
        asyncio.run(leave(f"{at}/mcp"))
        wait_until(lambda: not call(f"{at}/mcp", "answer", **arguments).is_error)


@asynccontextmanager
async def with_key(url: str, key: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


def test_keys_over_http(omgm: OMGM, photo: bytes) -> None:
    settings = ServingSettings(read_keys=(digest_of(KEY),))

    async def ask(url: str) -> CallToolResult:
        async with with_key(url, KEY) as client:
            return await client.call_tool("answer", {"image": data_uri(photo), "question": CAPITAL})

    with listening(http_app(build_server(omgm, settings), settings)) as url:
        assert structured(asyncio.run(ask(f"{url}/mcp")))["answer"] == "Tokyo"
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            response = httpx.post(f"{url}/mcp", json={}, headers=headers, trust_env=False)
            assert (response.status_code, response.json()["error"]["type"]) == (401, "invalid_request_error")


def test_a_strange_host_is_refused(url: str) -> None:
    """A page of another site can make a browser resolve that site's name to 127.0.0.1 (DNS rebinding)."""
    response = httpx.post(url, json={}, headers={"Host": "evil.example"}, trust_env=False)
    assert response.status_code == 421


def test_a_named_host_is_answered(omgm: OMGM) -> None:
    """A proxy on the same machine may forward its public name."""
    settings = ServingSettings(hosts=("omgm.example",))
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    with listening(http_app(build_server(omgm, settings), settings)) as url:
        for host, origin, status in (
            ("omgm.example", "https://omgm.example", 200),
            ("omgm.example", "https://evil.example", 403),
            ("other.example", "https://omgm.example", 421),
        ):
            named = {"Host": host, "Origin": origin, "Accept": "application/json"}
            response = httpx.post(f"{url}/mcp", json=call, headers=named, trust_env=False)
            assert response.status_code == status


def test_without_an_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--index", str(tmp_path / "none")]) == 2
    assert "--index" in capsys.readouterr().err


def test_agents_get_regions_proposed_as_the_profile_says(examples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"generator.base_url": "http://127.0.0.1:9", "generator.model": "m", "agents.propose_regions": "true"}
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    absent = ["--set", f"regions.model={examples / 'absent'}"]
    assert main(["mcp", "--index", str(examples / "index"), *options, *absent]) == 2
    assert "regions.model" in capsys.readouterr().err
