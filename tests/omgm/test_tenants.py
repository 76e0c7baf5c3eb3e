"""Two tenants of one service: with its key, each sees and changes only its own, over every route and over MCP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from chat_models.replies import ChatReply
from indexes.live.drafts import DraftEditor
from indexes.live.editor import Editor
from omgm.__main__ import main
from omgm.agent import Agent
from omgm.api import OMGM
from omgm.indexing import Build, build
from omgm.parts import build_encoder, build_generator
from omgm.profile import load_profile
from omgm.retriever_messages import read_queries, read_results, write_queries, write_results
from omgm.served_app import open_service
from retriever.filters import filter_of, within
from retriever.images import encoded
from retriever.types import NO_IMAGE, Options, Query
from serving.app import create_app
from serving.keys import digest_of
from serving.openai_routes import OPENAI
from serving.settings import ServingSettings
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.live import painting
from tests.fakes.modes import agents
from tests.fakes.planner import calling
from tests.fakes.service import listening

TENANTS = {"acme": "Acme", "bolt": "Bolt"}
SETTINGS = ServingSettings(
    read_keys=(*(digest_of(f"{tenant}-read") for tenant in TENANTS), digest_of("all")),
    write_keys=tuple(digest_of(f"{tenant}-write") for tenant in TENANTS),
    key_filters={digest_of(f"{tenant}-{kind}"): {"tenant": tenant} for tenant in TENANTS for kind in ("read", "write")},
    hosts=("127.0.0.1",),
)
QUESTION = "How heavy is the pump?"


def row(tenant: str, number: int) -> dict[str, Any]:
    """Machines of both tenants look the same, are called the same and weigh the same."""
    name = TENANTS[tenant]
    return {
        "id": f"{tenant}/{number}",
        "title": f"{name} pump {number}",
        "names": ["the pump", f"pump {number}"],
        "image": f"{number}.png",
        "tenant": tenant,
        "about": {"kind": ["pump", f"type {number % 2}"]},
        "sections": [{"title": "Weight", "text": f"The pump of {name} weighs {10 + number} kilograms."}],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tenants")
    (folder / "kb").mkdir()
    for number in range(4):
        painting(number).save(folder / "kb" / f"{number}.png")
    rows = [row(tenant, number) for number in range(4) for tenant in TENANTS]
    (folder / "kb" / "pumps.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    names = {"fields": "tenant\nkind=about.kind\nfile"}
    order = Build(kb=folder / "kb" / "pumps.jsonl", images=folder / "kb", out=folder / "index", names=names)
    build(load_profile("embedded"), order)
    return folder


@dataclass
class Service:
    """A service, asked with the key of a tenant."""

    url: str
    mcp: str

    def ask(self, tenant: str, method: str, path: str, **content: Any) -> httpx.Response:
        key = tenant if tenant == "all" else f"{tenant}-{'write' if method in ('PUT', 'DELETE') else 'read'}"
        with httpx.Client(base_url=self.url, timeout=60, trust_env=False) as client:
            return client.request(method, path, headers={"Authorization": f"Bearer {key}"}, **content)


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    profile = load_profile("embedded")
    script: list[str | ChatReply] = [
        calling("text_search", '{"queries": ["pump weighs"]}'),
        calling("image_search", "{}"),
        calling("open_page", '{"page": "the pump"}'),
        calling("ask_index", "{}"),
        "<answer>See above [1]</answer>",
    ] * 8
    with ExitStack() as stack:
        retriever, editor = open_service(profile, folder / "index", build_encoder(profile))
        assert isinstance(editor, Editor)
        changes = DraftEditor(editor)
        stack.callback(changes.close)
        app = create_app(retriever, build_generator(profile), SETTINGS, changes, modes=agents(script), routes=OPENAI)
        url = stack.enter_context(listening(app, SETTINGS))
        pytest.importorskip("mcp", reason="needs the extra mcp")
        from omgm.mcp_http import http_app
        from omgm.mcp_server import build_server

        omgm = stack.enter_context(OMGM.open(folder / "index"))
        agent = stack.enter_context(Agent(omgm, None))
        mcp = stack.enter_context(listening(http_app(build_server(omgm, SETTINGS, agent=agent), SETTINGS)))
        yield Service(url, f"{mcp}/mcp")


def only(tenant: str, text: str) -> bool:
    """Returns whether a response has something of a tenant, and nothing of the other."""
    [other] = TENANTS.keys() - {tenant}
    return tenant in text.lower() and other not in text.lower()


@pytest.mark.slow
@pytest.mark.parametrize("tenant", TENANTS)
def test_every_route_shows_a_tenant_only_its_own(service: Service, tenant: str) -> None:
    image = data_uri(encoded(painting(1)))
    [other] = TENANTS.keys() - {tenant}
    for fields in (
        {"question": QUESTION},
        {"question": QUESTION, "image": image},
        {"question": "How heavy is it?", "image": image, "k": 8},
        {"question": "How heavy is it?", "image": image, "before": ["What is this?"]},
        {"question": QUESTION, "image": image, "filter": {"kind": "type 1"}},
        {"question": "How heavy is pump 2?", "image": data_uri(image_bytes("gray"))},
        {"question": "How heavy is it?", "image": image, "entity": f"{tenant}/2"},
    ):
        for path in ("/retrieve", "/answer"):
            for stream in (False, True):
                response = service.ask(tenant, "POST", path, json={**fields, "stream": stream})
                assert response.status_code == 200 and only(tenant, response.text), response.text
    found = service.ask(tenant, "POST", "/answer", json={"question": QUESTION, "image": image, "k": 8}).json()
    assert {one["entity_id"] for one in found["candidates"]} == {f"{tenant}/{number}" for number in range(4)}
    assert found["filter"] == {"tenant": [tenant]}
    narrow = {"question": QUESTION, "image": image, "filter": {"kind": "type 1", "file": "pumps.jsonl"}}
    found = service.ask(tenant, "POST", "/retrieve", json=narrow).json()
    assert {one["entity_id"] for one in found["candidates"]} == {f"{tenant}/1", f"{tenant}/3"}
    assert found["filter"] == {"tenant": [tenant], "file": ["pumps.jsonl"], "kind": ["type 1"]}
    content = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": image}}]
    for omgm in ({}, {"filter": {"kind": "type 0"}}):
        chat = {"model": "omgm", "messages": [{"role": "user", "content": content}], "omgm": omgm}
        assert only(tenant, service.ask(tenant, "POST", "/v1/chat/completions", json=chat).text)
        assert only(tenant, service.ask(tenant, "POST", "/v1/chat/completions", json={**chat, "stream": True}).text)
        responses = {"model": "omgm", "input": QUESTION, "omgm": omgm}
        assert only(tenant, service.ask(tenant, "POST", "/v1/responses", json=responses).text)
    asked = {"question": QUESTION, "image": image, "mode": "omnisearch"}
    limited = {**asked, "filter": {"kind": "type 1"}, "stream": True}
    events = service.ask(tenant, "POST", "/answer", json=limited).text
    done = json.loads(events.partition("event: done")[2].partition("data: ")[2].splitlines()[0])
    assert only(tenant, events) and done["filter"] == {"tenant": [tenant], "kind": ["type 1"]}
    titles = {source["title"] for source in done["trail"]["sources"]}
    assert titles == {f"{TENANTS[tenant]} pump 1", f"{TENANTS[tenant]} pump 3"}
    agent = service.ask(tenant, "POST", "/answer", json=asked)
    assert agent.status_code == 200 and only(tenant, agent.text), agent.text
    assert len(agent.json()["trail"]["sources"]) > 3 and agent.json()["filter"] == {"tenant": [tenant]}
    shown = {one["image"] for one in found["candidates"]}
    assert {service.ask(tenant, "GET", path).status_code for path in shown} == {200}
    assert {service.ask(other, "GET", path).status_code for path in shown} == {404}
    assert {service.ask("all", "GET", path).status_code for path in shown} == {200}
    assert only(tenant, service.ask(tenant, "GET", f"/entities?id={tenant}/1").text)
    for path in (f"/entities?id={other}/1", f"/entities/{other}%2F1"):
        assert service.ask(tenant, "GET", path).status_code == 404
    for entity in (f"{other}/1", f"{tenant}/9"):
        hidden = service.ask(tenant, "POST", "/answer", json={"question": QUESTION, "entity": entity})
        assert (hidden.status_code, hidden.json()["error"]["code"]) == (422, "bad_entity")
    everything = service.ask("all", "POST", "/retrieve", json={"question": QUESTION, "image": image, "k": 8}).json()
    assert len(everything["candidates"]) == 8 and everything["filter"] is None


def test_what_others_have_is_no_value(service: Service) -> None:
    for filter, message in (
        ({"tenant": "bolt"}, "filter.tenant: no entity has 'bolt'; values are 'acme'"),
        ({"color": "red"}, "filter.color: unknown field; fields are file, kind, tenant"),
        ({"kind": "bear"}, "filter.kind: no entity has 'bear'; values are 'pump', 'type 0', 'type 1'"),
        ({"kind": {}}, "filter.kind must be a text, a number or a list of them"),
    ):
        for path in ("/retrieve", "/answer"):
            response = service.ask("acme", "POST", path, json={"question": QUESTION, "filter": filter})
            error = response.json()["error"]
            assert (response.status_code, error["param"], error["message"]) == (422, "filter", message)
        asked = {"model": "omgm", "messages": [{"role": "user", "content": QUESTION}], "omgm": {"filter": filter}}
        response = service.ask("acme", "POST", "/v1/chat/completions", json=asked)
        assert (response.status_code, response.json()["error"]["message"]) == (400, message)


def test_a_tenant_changes_only_its_own(service: Service) -> None:
    sections = [{"title": "Weight", "text": "The crane weighs 99 kilograms."}]
    new = {"title": "Crane", "sections": sections}
    assert service.ask("acme", "PUT", "/entities?id=crane", json=new).json()["created"]
    assert service.ask("acme", "GET", "/entities?id=crane").json()["fields"] == {"tenant": ["acme"]}
    assert service.ask("bolt", "GET", "/entities?id=crane").status_code == 404
    for hidden in ("crane", "acme/1"):  # as if it were missing
        taken = service.ask("bolt", "PUT", f"/entities?id={hidden}", json=new)
        missing = service.ask("bolt", "DELETE", f"/entities?id={hidden}")
        assert (taken.status_code, taken.json()["error"]) == (404, missing.json()["error"])
    assert service.ask("bolt", "DELETE", "/entities?id=crane").status_code == 404
    others: list[dict[str, Any]] = [{"tenant": "bolt"}, {"tenant": ["acme", "bolt"]}, {"tenant": []}]
    for fields in others:
        wrong = service.ask("acme", "PUT", "/entities?id=crane", json={**new, "fields": fields})
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (422, "fields")
    unknown = service.ask("acme", "PUT", "/entities?id=crane", json={**new, "fields": {"color": "red"}})
    assert unknown.status_code == 422 and "it has file, kind, tenant" in unknown.json()["error"]["message"]
    question = {"question": "How heavy is the crane?", "filter": {"kind": "lift"}}
    assert service.ask("acme", "POST", "/retrieve", json=question).status_code == 422
    assert (
        service.ask("acme", "PUT", "/entities?id=crane", json={**new, "fields": {"kind": ["lift"]}}).status_code == 200
    )
    article = service.ask("acme", "GET", "/entities?id=crane").json()
    assert article["fields"] == {"kind": ["lift"], "tenant": ["acme"]}
    assert service.ask("acme", "POST", "/retrieve", json=question).json()["entity"]["id"] == "crane"
    assert service.ask("bolt", "POST", "/retrieve", json=question).status_code == 422
    alone = {"question": "How heavy is the crane?", "k": 8}
    assert "crane" not in {
        one["entity_id"] for one in service.ask("bolt", "POST", "/retrieve", json=alone).json()["candidates"]
    }
    assert service.ask("acme", "PUT", "/entities?id=crane", json={**new, "title": "Crane 2"}).status_code == 200
    assert (
        service.ask("acme", "GET", "/entities?id=crane").json()["fields"] == article["fields"]
    )  # what is not named stays
    assert service.ask("acme", "PUT", "/entities?id=crane", json={**new, "fields": None}).status_code == 200
    assert service.ask("acme", "GET", "/entities?id=crane").json()["fields"] == {"tenant": ["acme"]}
    assert service.ask("acme", "DELETE", "/entities?id=crane").status_code == 200
    assert service.ask("acme", "GET", "/entities?id=crane").status_code == 404


def test_one_tenant_gets_an_id_that_both_put_at_the_same_time(service: Service) -> None:
    new = {"title": "Crane", "sections": [{"title": "Weight", "text": "It is heavy."}]}
    for number in range(5):
        path = f"/entities?id=race-{number}"
        with ThreadPoolExecutor(2) as threads:
            sent = [threads.submit(service.ask, tenant, "PUT", path, json=new) for tenant in TENANTS]
        answers = [future.result() for future in sent]
        assert sorted(answer.status_code for answer in answers) == [200, 404]
        [made] = [answer for answer in answers if answer.status_code == 200]
        assert made.json()["index"] == {"name": "pumps", "entities": None}
        for tenant, answer in zip(TENANTS, answers, strict=True):
            found = service.ask(tenant, "GET", path)
            assert found.status_code == answer.status_code
            assert answer.status_code == 404 or found.json()["fields"] == {"tenant": [tenant]}
            assert service.ask(tenant, "DELETE", path).status_code == answer.status_code


@pytest.mark.parametrize("tenant", TENANTS)
def test_mcp_shows_a_tenant_only_its_own(service: Service, tenant: str) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    image = data_uri(encoded(painting(1)))
    headers = {"Authorization": f"Bearer {tenant}-read"}

    async def run() -> None:
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
            Client(streamable_http_client(service.mcp, http_client=http)) as client,
        ):
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            about = tools["answer"].input_schema["properties"]["filter"]["description"]
            assert about.endswith("are found: file, kind, tenant") and "filter" not in str(tools["open_page"])
            for filter in ({}, {"kind": "type 1"}):
                for tool, arguments in (
                    ("answer", {"question": QUESTION, "image": image}),
                    ("answer", {"question": QUESTION}),
                    ("find_entity", {"image": image}),
                    ("search_sections", {"question": QUESTION}),
                    ("similar_images", {"image": image, "limit": 8}),
                    ("image_search", {"image": image}),
                    ("text_search", {"queries": ["pump weighs"], "limit": 8}),
                ):
                    found = (await client.call_tool(tool, {**arguments, "filter": filter})).structured_content
                    text = json.dumps(found)
                    assert only(tenant, text), (tool, text)
                    assert not filter or "pump 0" not in text, (tool, text)
            page = json.dumps(
                (await client.call_tool("open_page", {"page": "the pump", "question": QUESTION})).structured_content
            )
            assert only(tenant, page)
            [other] = TENANTS.keys() - {tenant}
            hidden = await client.call_tool("open_page", {"page": f"{other}/1", "question": QUESTION})
            assert hidden.is_error
            wrong = await client.call_tool("answer", {"question": QUESTION, "filter": {"tenant": other}})
            assert wrong.is_error and f"no entity has '{other}'" in str(wrong.content)

    asyncio.run(run())


def test_python_and_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with OMGM.open(folder / "index") as omgm:
        image = folder / "kb" / "1.png"
        for tenant in TENANTS:
            answer = omgm.ask(image, QUESTION, filter={"tenant": tenant, "kind": "pump"}, k=8)
            assert {one.entity for one in answer.candidates} == {f"{tenant}/{number}" for number in range(4)}
            assert answer.filter == {"kind": ("pump",), "tenant": (tenant,)}
            assert omgm.nearest(image, filter={"tenant": tenant})[0].entity == f"{tenant}/1"
            [found] = omgm.retrieve([(None, "How heavy is pump 2?")], filter={"tenant": [tenant]})
            assert found.entity is not None and found.entity.id == f"{tenant}/2"
        with pytest.raises(ValueError, match="no entity has 'cog'; values are 'acme', 'bolt'"):
            omgm.ask(image, QUESTION, filter={"tenant": "cog"})
        with within(filter_of({"tenant": "bolt"})):
            assert omgm.nearest(image)[0].entity == "bolt/1"
        mixed = [Query(NO_IMAGE, QUESTION, options=Options(filter=filter_of({"tenant": name}))) for name in TENANTS]
        first, *others = write_queries(mixed, omgm.index)
        queries, _ = read_queries(json.loads(first), iter(others), omgm.index)
        results = omgm.retriever.retrieve(queries)
        sent = json.loads(write_results(results, omgm.index))
        for tenant, result in zip(TENANTS, read_results(sent, omgm.index, None), strict=True):
            assert result.filter == {"tenant": (tenant,)}
            assert {omgm.index.entity(one.row).id.split("/")[0] for one in result.candidates} == {tenant}
    asked = ["ask", "--index", str(folder / "index"), "--json", "--filter", "tenant=bolt", "--filter", "kind=type 0"]
    main([*asked, str(image), QUESTION])
    shown = json.loads(capsys.readouterr().out)
    assert {one["entity"] for one in shown["candidates"]} == {"bolt/0", "bolt/2"}
    assert shown["filter"] == {"kind": ["type 0"], "tenant": ["bolt"]}


def test_settings_of_key_filters() -> None:
    digest = digest_of("acme-read")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"tenant": "acme"}, "is in neither read_keys nor write_keys"),
        ({"tenant": []}, "must be a text, a number or a list of them"),
        ({}, "has no field, or "),
    ]
    for filter, message in wrong:
        with pytest.raises(ValueError, match=message):
            ServingSettings(read_keys=() if "neither" in message else (digest,), key_filters={digest: filter})


def test_an_index_without_the_field_is_not_served(folder: Path) -> None:
    settings = SETTINGS.model_copy(update={"key_filters": {digest_of("acme-read"): {"owner": "acme"}}})
    with OMGM.open(folder / "index") as omgm, pytest.raises(ValueError) as raised:
        create_app(omgm.retriever, omgm.generator, settings)
    assert str(raised.value) == (
        "serving.key_filters: the index pumps has no field 'owner'; its fields are file, kind, tenant"
    )
