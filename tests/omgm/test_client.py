"""The clients of the service, against a real one."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import anyio
import numpy as np
import pytest
from PIL import Image

from chat_models.replies import ChatReply
from chat_models.retries import MAX_WAIT
from omgm.client import AnswerOut, AsyncClient, Client, RetrieveOut, ServiceError
from omgm.wire import article_form
from retriever.images import ALPHA, ImageInput, load_image
from retriever.trail_views import CallStep, RequestStep, RoundStep
from serving.keys import digest_of
from serving.settings import ServingSettings
from tests.fakes.asking import RED, WHEN
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.local_chat_servers import CannedReply, LocalChatServer, as_json
from tests.fakes.modes import agents
from tests.fakes.planner import calling
from tests.fakes.processes import run_python
from tests.fakes.service import World, served

KEY = "omgm-reader"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    settings = ServingSettings(read_keys=(digest_of(KEY),))
    script: list[str | ChatReply] = [
        calling("text_search", '{"queries": "wave length green"}'),
        "<answer>530 nm [1]</answer>",
    ]

    modes = agents(lambda asked: script["text_search" in asked])
    with served(tmp_path_factory.mktemp("world"), settings, modes=modes) as world:
        yield world


@pytest.fixture
def client(world: World) -> Iterator[Client]:
    with Client(world.url, KEY, timeout=20) as client:
        yield client


def title(found: RetrieveOut) -> str | None:
    return None if found.entity is None else found.entity.title


def test_answer(client: Client) -> None:
    found = client.answer(image_bytes("red"), WHEN, k=2, alpha=1.0)
    assert isinstance(found, AnswerOut) and found.entity is not None
    assert (found.answer, found.confidence, found.abstained) == ("1848", 0.75, False)
    assert (found.entity.title, found.entity.url) == ("Redland", "https://kb.example/Redland")
    assert (found.evidence[0].section, found.evidence[0].scores.sim_t, len(found.candidates)) == ("History", 0.75, 2)


def test_retrieve(client: Client) -> None:
    found = client.retrieve(image_bytes("green"), WHEN)
    assert type(found) is RetrieveOut and found.entity is not None
    assert (found.entity.title, len(found.candidates)) == ("Greenland", 3)


def test_stream(client: Client) -> None:
    retrieved, *pieces, answer = client.stream(image_bytes("red"), WHEN)
    assert isinstance(retrieved, RetrieveOut) and isinstance(answer, AnswerOut) and answer.entity is not None
    assert (pieces, answer.answer, answer.entity.title) == (["1", "8", "4", "8"], "1848", "Redland")
    assert answer.candidates == retrieved.candidates and "generate" in answer.timings_ms


async def test_an_agent(client: Client, world: World) -> None:
    question = "What is the wave length of green?"
    *steps, answer = client.stream(image_bytes("red"), question, mode="mmsearch-plus", budget={"rounds": 3})
    assert [type(step) for step in steps] == [RequestStep, RoundStep, CallStep, RequestStep, RoundStep]
    [call] = [step for step in steps if isinstance(step, CallStep)]
    assert (call.tool, call.found[0].title, call.found[0].text) == (
        "text_search",
        "Greenland",
        "the wave length of green is 530 nm",
    )
    assert isinstance(answer, AnswerOut) and answer.trail is not None
    assert (answer.answer, answer.mode, answer.trail.claims[0].sources) == ("530 nm", "mmsearch-plus", [1])
    assert client.answer(image_bytes("red"), question, mode="auto").mode == "auto"
    assert client.answer(image_bytes("red"), WHEN, mode="retrieve").answer == "1848"

    async with AsyncClient(world.url, KEY) as other:
        run = other.stream(image_bytes("red"), question, mode="mmsearch-plus")
        tools = [step.tool async for step in run if isinstance(step, CallStep)]
        found = await other.answer(image_bytes("red"), question, mode="mmsearch-plus")
    assert (found.answer, tools) == ("530 nm", ["text_search"])
    with pytest.raises(ServiceError) as raised:
        client.answer(image_bytes("red"), question, mode="magic")
    assert (raised.value.status, raised.value.param) == (422, "mode")


def test_every_kind_of_image(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "flag.png"
    path.write_bytes(image_bytes("green"))
    array = np.full((40, 60, 3), (0, 128, 0), np.uint8)
    images: list[ImageInput] = [
        str(path),
        path,
        path.read_bytes(),
        io.BytesIO(path.read_bytes()),
        Image.open(path),
        array,
        data_uri(path.read_bytes()),
    ]
    assert [title(client.retrieve(image, WHEN)) for image in images] == ["Greenland"] * 7
    with pytest.raises(FileNotFoundError):
        client.answer(tmp_path / "none.png", WHEN)
    with pytest.raises(ValueError, match="expected uint8"):
        client.answer(np.zeros((2, 2, 7)), WHEN)
    with pytest.raises(ServiceError) as raised:
        client.answer("https://example.org/flag.png", WHEN)  # the service decides which hosts it fetches from
    assert raised.value.code == "host_not_allowed"


def test_errors_carry_everything(client: Client, world: World) -> None:
    with pytest.raises(ServiceError) as raised:
        client.answer(b"hello", WHEN)
    error = raised.value
    assert (error.status, error.type) == (415, "invalid_request_error")
    assert (error.param, error.code) == ("image", "not_an_image")
    assert error.request_id is not None and len(error.request_id) == 32
    assert str(error) == f"{error.message} (415, not_an_image, request {error.request_id})"
    with pytest.raises(ServiceError) as raised:
        client.answer(image_bytes("red"), WHEN, k=101)
    assert (raised.value.status, raised.value.param, raised.value.code) == (422, "k", "out_of_range")
    with Client(world.url, "wrong") as stranger, pytest.raises(ServiceError) as raised:
        stranger.retrieve(image_bytes("red"), WHEN)
    assert (raised.value.status, raised.value.code) == (401, "invalid_api_key")
    with pytest.raises(ServiceError) as raised:
        list(client.stream(image_bytes("red"), "When did the treaty break?", on_generator_error="fail"))
    assert (raised.value.type, raised.value.code) == ("server_error", "internal_error")
    *_, last = client.stream(image_bytes("red"), "When did the treaty break?")
    assert isinstance(last, AnswerOut) and last.answer is None and last.generator_error is not None


def test_async(world: World) -> None:
    async def ask() -> tuple[str | None, str | None, list[str]]:
        async with AsyncClient(world.url, KEY) as client:
            answer, found = await asyncio.gather(
                client.answer(image_bytes("red"), WHEN), client.retrieve(image_bytes("green"), WHEN)
            )
            pieces = [piece async for piece in client.stream(image_bytes("red"), WHEN) if isinstance(piece, str)]
            with pytest.raises(ServiceError) as raised:
                await client.answer(b"hello", WHEN)
            assert raised.value.code == "not_an_image"
            return answer.answer, title(found), pieces

    assert asyncio.run(ask()) == ("1848", "Greenland", ["1", "8", "4", "8"])


def test_trio(world: World) -> None:
    """Another event loop, in which nothing of asyncio works; a refused request is tried again there, too."""
    pytest.importorskip("trio")

    async def ask() -> tuple[str | None, list[str], int]:
        async with AsyncClient(world.url, KEY) as client:
            answer = await client.answer(image_bytes("red"), WHEN)
            pieces = [piece async for piece in client.stream(image_bytes("red"), WHEN) if isinstance(piece, str)]
        with LocalChatServer({"/answer": busy("0")}) as server:
            async with AsyncClient(server.url, retries=1) as client:
                with pytest.raises(ServiceError):
                    await client.answer(image_bytes("red"), WHEN)
        return answer.answer, pieces, len(server.headers)

    assert anyio.run(ask, backend="trio") == ("1848", ["1", "8", "4", "8"], 2)


def busy(after: str | None = None, status: int = 429) -> CannedReply:
    error = {"message": "the queue is full", "type": "rate_limit_error", "param": None, "code": "queue_full"}
    headers = {} if after is None else {"Retry-After": after}
    return CannedReply(as_json({"error": error}, status).body, status, headers=headers)


def whole(world: World) -> CannedReply:
    with Client(world.url, KEY) as client:
        return CannedReply(client.answer(image_bytes("red"), WHEN).model_dump_json())


def test_retries_wait_as_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chat_models.retries.random", SimpleNamespace(random=lambda: 1.0))
    for replies, told in (
        ([busy("0.2"), busy("3", 503), whole(world)], [0.2, 3]),
        ([busy(), busy(), whole(world)], [0.625, 1.25]),  # no Retry-After: half a second, doubled, plus jitter
        ([busy("Wed, 21 Oct 2015 07:28:00 GMT"), whole(world)], [0]),  # a date, as some proxies send; it is past
    ):
        waits: list[float] = []
        monkeypatch.setattr("omgm.client.time", SimpleNamespace(sleep=waits.append))
        with LocalChatServer({"/answer": list(replies)}) as server, Client(server.url) as client:
            assert client.answer(image_bytes("red"), WHEN).answer == "1848"
        assert (waits, len(server.headers)) == (told, len(replies))


def test_retries_end(world: World) -> None:
    async def ask_async(url: str) -> None:
        async with AsyncClient(url, retries=1) as client:
            await client.answer(image_bytes("red"), WHEN)

    with LocalChatServer({"/answer": busy("0")}) as server:
        with Client(server.url, retries=3) as client, pytest.raises(ServiceError) as raised:
            client.answer(image_bytes("red"), WHEN)
        assert (raised.value.status, raised.value.code, len(server.headers)) == (429, "queue_full", 4)
        with pytest.raises(ServiceError):
            asyncio.run(ask_async(server.url))
        assert len(server.headers) == 6
    for reply in (busy(str(MAX_WAIT + 1)), busy("0", 500), busy("0", 504)):
        with LocalChatServer({"/answer": reply}) as server, Client(server.url) as client:
            with pytest.raises(ServiceError):
                client.answer(image_bytes("red"), WHEN)
            assert len(server.headers) == 1


def test_a_full_service_is_asked_again(tmp_path: Path) -> None:
    settings = ServingSettings(requests_per_minute=120)  # a token every half second, a burst of 120
    with served(tmp_path, settings) as world, Client(world.url) as client, ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: client.retrieve(image_bytes("red"), WHEN).entity, range(121)))
    assert len(found) == 121


def test_something_else_answers() -> None:
    for reply, status, message in (
        (CannedReply("<html>Bad  Gateway</html>", 502, "text/html"), 502, "<html>Bad Gateway</html>"),
        (as_json({"error": "no"}, 404), 404, '{"error": "no"}'),
        (CannedReply("", 404), 404, "Not Found"),
        (as_json({"hello": 1}), 200, "unexpected response, maybe from another version: Field required"),
    ):
        with LocalChatServer({"/answer": reply}) as server, Client(server.url) as client:
            with pytest.raises(ServiceError) as raised:
                client.answer(image_bytes("red"), WHEN)
            assert (raised.value.status, raised.value.message, raised.value.code) == (status, message, None)


def test_nobody_answers(world: World) -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(ServiceError) as raised:
        client.answer(image_bytes("red"), WHEN)
    assert (raised.value.status, raised.value.type) == (None, "connection_error")
    assert raised.value.message.startswith("http://127.0.0.1:9: no answer: ")
    world.retriever.gate.clear()
    with Client(world.url, KEY, timeout=0.2) as client, pytest.raises(ServiceError) as raised:
        client.answer(image_bytes("red"), WHEN)
    world.retriever.gate.set()
    assert raised.value.type == "connection_error"
    cut = CannedReply('event: answer\ndata: {"text": "18"}\n\n', content_type="text/event-stream")
    with LocalChatServer({"/answer": cut}) as server, Client(server.url) as client:
        stream = client.stream(image_bytes("red"), WHEN)
        assert next(stream) == "18"
        with pytest.raises(ServiceError, match="the stream ended before the answer was complete"):
            next(stream)


def test_events_of_any_text() -> None:
    """U+2028, U+2029 and U+0085 are line separators to some readers, but not in JSON or server-sent events."""
    text = "18\u202885\u2029 \u0085"
    stream = CannedReply(f'event: answer\r\ndata: {{"text": "{text}"}}\r\n\r\n', content_type="text/event-stream")

    async def first(url: str) -> object:
        async with AsyncClient(url) as client:
            return await anext(client.stream(image_bytes("red"), WHEN))

    with LocalChatServer({"/answer": stream}) as server, Client(server.url) as client:
        assert next(client.stream(image_bytes("red"), WHEN)) == text
        assert asyncio.run(first(server.url)) == text


@pytest.mark.parametrize("event", ["answer\ndata: {", "answer\ndata: {}", "error\ndata: []", "done\ndata: {}"])
def test_events_of_something_else(event: str) -> None:
    reply = CannedReply(f"event: {event}\n\n", content_type="text/event-stream")
    told = pytest.raises(ServiceError, match="unexpected event, maybe from another version of the service")
    with LocalChatServer({"/answer": reply}) as server, Client(server.url) as client, told:
        list(client.stream(image_bytes("red"), WHEN))


def test_settings() -> None:
    for wrong in ({"timeout": 0}, {"retries": -1}):
        with pytest.raises(ValueError, match="needs timeout > 0 and retries >= 0"):
            Client(**wrong)  # type: ignore[arg-type]
    for key in ("omgm-secret omgm-other", "omgm-sec\nret", "omgm-s\u00e9cret"):
        with pytest.raises(ValueError, match=r"^api_key: has spaces, line breaks or letters that no key has$"):
            Client(api_key=key)


def test_the_line_break_of_a_file_is_no_part_of_a_key(tmp_path: Path) -> None:
    settings = ServingSettings(read_keys=(digest_of("omgm-reader"),))
    with served(tmp_path, settings) as world, Client(world.url, api_key="omgm-reader\n") as client:
        assert client.answer(image_bytes(RED), WHEN).answer == "1848"


def test_it_needs_no_models() -> None:
    code = "import sys, omgm.client; print(sorted({'torch', 'transformers', 'fastapi', 'faiss'} & set(sys.modules)))"
    assert run_python("-c", code, check=True).stdout == "[]\n"


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_an_image_keeps_its_transparency_on_the_way(mode: str) -> None:
    image = Image.new("RGBA", (60, 40), (200, 30, 40, 0))
    image.paste((20, 90, 160, 255), (10, 5, 30, 30))
    image.paste((20, 90, 160, 128), (30, 5, 40, 30))
    given = image.quantize(8) if mode == "P" else image.convert(mode)
    given.getexif()[0x0112] = 6  # on its side
    sources: list[ImageInput] = [given, np.asarray(image)] if mode == "RGBA" else [given]
    for source in sources:
        sent = load_image(article_form({"title": "Lighthouse 7"}, source)["files"]["image"][1])
        read = load_image(source)
        assert (sent.size, sent.tobytes()) == (read.size, read.tobytes())
        assert sent.info[ALPHA].tobytes() == read.info[ALPHA].tobytes()
