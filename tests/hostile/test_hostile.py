from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from serving.settings import ServingSettings
from tests.fakes.connection import address_of
from tests.fakes.service import served
from tests.hostile import __main__ as hostile
from tests.hostile.__main__ import faults, is_answered, schema_cases, send, send_all, send_cases
from tests.hostile.requests import HostileRequest, hostile_requests

# A pixel limit at which bombs are refused based on their headers: `make test-hostile` decodes them.
SETTINGS = ServingSettings(max_image_pixels=100_000)


def test_requests_depend_on_the_seed_only() -> None:
    first = hostile_requests(200, seed=1)
    assert first == hostile_requests(200, seed=1) != hostile_requests(200, seed=2)
    assert {request.manner for request in first} == {"whole", "half", "drip", "cut", "reset", "leave"}


def test_what_is_a_fault() -> None:
    outcomes = Counter({("a", "200"): 9, ("a", "500"): 2, ("b", "503"): 1, ("b", "504"): 1, ("c", "hung"): 1})
    assert faults(outcomes) == {"a: 500": 2, "c: hung": 1}


@pytest.mark.filterwarnings("ignore")  # Pillow's, about broken images
def test_a_service_under_hostile_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "DRIP_S", 0.3)
    with served(tmp_path, SETTINGS) as world:
        address = address_of(world.url)
        requests = hostile_requests(200, seed=0)
        outcomes = asyncio.run(send_all(address, requests, at_once=12))
        assert faults(outcomes) == {} and outcomes.total() == 200
        assert {"200", "400", "404", "413", "415", "422"} <= {outcome for _, outcome in outcomes}
        assert is_answered(address)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_service_under_cases_of_its_own_document(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis", reason="needs the extra dev")
    with served(tmp_path, SETTINGS) as world:
        document = world.app.openapi()
        document["paths"] = {path: document["paths"][path] for path in ("/answer", "/entities/{version}/image")}
        outcomes = send_cases(world.url, schema_cases(document, 40, seed=0))
        assert faults(outcomes) == {} and outcomes.total() >= 20
        assert {kind for kind, _ in outcomes} == {"schema: POST /answer", "schema: GET /entities/{version}/image"}
        assert is_answered(address_of(world.url))


def test_a_service_that_fails_is_noticed(tmp_path: Path) -> None:
    with served(tmp_path) as world:
        world.retriever.index.image_path = lambda row: 1 / 0  # type: ignore[assignment, return-value]
        request = HostileRequest(
            "image", b"GET /entities/0/image?id=https://kb/red HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        )
        assert asyncio.run(send(address_of(world.url), request)) == 500
