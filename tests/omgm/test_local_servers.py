from __future__ import annotations

import shlex
import socket
from pathlib import Path

import pytest

from omgm import doctor
from omgm.__main__ import main
from omgm.local_servers import local_server_findings
from omgm.machine import Finding
from omgm.profile import load_profile
from tests.fakes.local_chat_servers import (
    CannedReply,
    LocalChatServer,
    as_json,
    llama_completion,
    llama_error,
    llama_models,
    ollama_models,
)

MODELS = "/v1/models"


def find(reply: CannedReply, usual: str = "Ollama") -> tuple[Finding, int]:
    with LocalChatServer({MODELS: reply}) as server:
        [finding] = local_server_findings({server.port: usual}, seconds=60)
    return finding, server.port


def test_ollama() -> None:
    finding, port = find(ollama_models("nomic-embed-text:latest", "gemma3:4b", "llama3.2:latest"))
    assert (finding.name, finding.status) == (f"port {port}, Ollama", "ok")
    assert finding.found == f"http://127.0.0.1:{port}/v1 offers gemma3:4b, llama3.2:latest"
    assert finding.fix.split(" --set ") == [
        "--set generator.kind=openai",
        f"generator.base_url=http://127.0.0.1:{port}/v1",
        "generator.model=gemma3:4b",
    ]


def test_the_settings_are_those_of_a_profile() -> None:
    finding, port = find(llama_models("../models/my model.gguf", "image"), "llama.cpp")
    assert finding.fix.endswith("--set 'generator.model=../models/my model.gguf' --set generator.multimodal=true")
    overrides = ["generator.kind=openai", f"generator.base_url=http://127.0.0.1:{port}/v1"]
    generator = load_profile(
        "embedded", [*overrides, "generator.model=gemma3:4b", "generator.multimodal=true"]
    ).generator
    assert (generator.kind, generator.model, generator.multimodal) == ("openai", "gemma3:4b", True)


def test_the_settings_work(example_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replies = {MODELS: llama_models("gemma", "image"), "/v1/chat/completions": llama_completion("Tokyo, of course")}
    question = "What is the capital of this country?"
    with LocalChatServer(replies) as server:
        [finding] = local_server_findings({server.port: "llama.cpp"}, seconds=60)
        assert main(["ask", "--index", "index", "photo.jpg", question, *shlex.split(finding.fix)]) == 0
    assert capsys.readouterr().out.startswith("Tokyo, of course\n")
    image, text = server.bodies[0]["messages"][1]["content"]
    assert image["type"] == "image_url" and "# Wiki Article: Japan" in text["text"] and question in text["text"]


def test_a_text_model_gets_no_images() -> None:
    assert "multimodal" not in find(llama_models("llama"), "llama.cpp")[0].fix


def test_ollama_without_a_model() -> None:
    finding, port = find(ollama_models())
    assert finding.status == "warn" and finding.found == f"http://127.0.0.1:{port}/v1 has no chat model yet"
    assert finding.fix == "ollama pull gemma3:4b"
    assert find(as_json({"object": "list", "data": []}), "LM Studio")[0].fix == "load a chat model there"


def test_a_server_that_is_not_ready_or_wants_a_key() -> None:
    loading, _ = find(llama_error("Loading model", 503, "unavailable_error"), "llama.cpp")
    assert loading.status == "warn" and "is not ready" in loading.found
    locked, _ = find(llama_error("Invalid API Key", 401, "authentication_error"), "llama.cpp")
    assert locked.status == "warn" and "OPENAI_API_KEY" in locked.found and "generator.model=NAME" in locked.fix


@pytest.mark.parametrize(
    "reply",
    [
        CannedReply("<html>a wiki</html>", content_type="text/html"),
        CannedReply("no such page", 404, "text/plain"),
        as_json({"detail": "Not Found"}, 404),
        as_json({"error": "Unexpected endpoint or method. (GET /v1/models)"}),
        as_json(["a"]),
    ],
)
def test_something_else_is_no_chat_server(reply: CannedReply) -> None:
    finding, port = find(reply)
    assert (finding.name, finding.status) == ("local chat servers", "ok")
    assert finding.found.startswith(f"none on ports {port};")


def test_odd_lists_are_no_accident() -> None:
    odd = as_json({"data": ["a", {"id": 3}, {"id": "m", "architecture": "gemma"}, {"architecture": {}}]})
    finding, _ = find(odd)
    assert finding.found.endswith(" offers m") and "multimodal" not in finding.fix


def test_a_server_that_says_nothing_is_left_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        [finding] = local_server_findings({silent.getsockname()[1]: "vLLM", 9: "vLLM"}, seconds=0.1)
    assert finding.name == "local chat servers"


def test_no_key_and_no_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with LocalChatServer({MODELS: ollama_models("m")}) as server:
        [finding] = local_server_findings({server.port: "Ollama"}, seconds=60)
    assert finding.found.endswith("offers m")
    assert [headers for headers in server.headers if "authorization" in headers] == []


def test_doctor_lists_them() -> None:
    with (
        LocalChatServer({MODELS: ollama_models("gemma3:4b")}) as ollama,
        LocalChatServer({MODELS: llama_models("gemma")}) as llama,
    ):
        ports = {ollama.port: "Ollama", llama.port: "llama.cpp"}
        findings = doctor.examine(load_profile("embedded", ["device=cpu"]), ports=ports)
    assert [finding.name for finding in findings][-2:] == [
        f"port {ollama.port}, Ollama",
        f"port {llama.port}, llama.cpp",
    ]
    setting = f"-> --set generator.kind=openai --set generator.base_url=http://127.0.0.1:{llama.port}/v1"
    assert setting in doctor.as_text(findings)
