"""docs/serving.md and docs/clients.md are complete: every route, field, parameter and error code."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from serving.chat_schemas import IGNORED, NEUTRAL
from serving.responses_schemas import RESPONSES_IGNORED, RESPONSES_NEUTRAL
from serving.schemas import RequestFields
from tests.fakes.service import World
from tests.paths import ROOT

SERVING, CLIENTS = ((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("serving.md", "clients.md"))


def table(page: str, title: str) -> list[list[str]]:
    """Returns the cells of the first table under a heading, without its header row."""
    section = re.split(r"\n#+ ", page.partition(f"# {title}\n")[2])[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_fields() -> None:
    documented = [name.strip("`") for name, _, _ in table(CLIENTS, "Requests")]
    assert sorted(documented) == sorted(RequestFields.model_fields)


def test_routes(tmp_path: Path) -> None:
    routes = {
        f"{method.upper()} {path}"
        for path, methods in World(tmp_path).app.openapi()["paths"].items()
        for method in methods
    }
    documented = {route for row in table(SERVING, "Routes") for route in re.findall(r"`(.+?)`", row[0])}
    assert documented == routes | {"GET /openapi.json"}


def test_parameters_of_openai() -> None:
    documented = [
        [set(re.findall(r"`(\w+)`", cell)) for cell in row[1:]] for row in table(CLIENTS, "OpenAI's parameters")
    ]
    assert documented == [[IGNORED, RESPONSES_IGNORED], [set(NEUTRAL), set(RESPONSES_NEUTRAL)]]


def test_the_api_s_document(tmp_path: Path) -> None:
    document = World(tmp_path).app.openapi()
    assert document["info"]["version"] == version("omgm")
    for path in ("/answer", "/retrieve", "/v1/chat/completions", "/v1/responses"):
        assert set(document["paths"][path]["post"]["responses"]["200"]["content"]) == {
            "application/json",
            "text/event-stream",
        }


def test_error_codes() -> None:
    used: dict[str, set[str]] = {}
    for path in (ROOT / "serving").glob("*.py"):
        for status, code in re.findall(r'\(\s*(\d{3}),\s*"(\w+)"', path.read_text(encoding="utf-8")):
            used.setdefault(code, set()).add(status)
    del used["client_gone"]  # no client receives it
    documented = {code: row[0] for row in table(CLIENTS, "Errors") for code in re.findall(r"`(\w+)`", row[1])}
    assert {code for code in used if not used[code] <= set(documented[code].split(", "))} == set()
    missing = {"missing_question", "missing_model", "missing_messages", "missing_input"}
    composed = {"method_not_allowed", "wrong_type", "out_of_range"} | missing  # not literals in every place
    assert set(documented) - set(used) <= composed
