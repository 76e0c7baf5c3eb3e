"""Finds chat servers that run on this machine, and the settings to use them."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import httpx

from omgm.machine import Finding
from serving.chat_schemas import MODEL
from serving.keys import CHALLENGE

PORTS: Mapping[int, str] = {
    11434: "Ollama",
    8080: "llama.cpp",
    9931: "llama.cpp",  # its announced next default
    8000: "vLLM",
    8001: "vLLM",  # where docs/generators.md puts it, beside the service
    1234: "LM Studio",
}
"""Default ports of chat servers."""
SECONDS = 2.0
"""Timeout in seconds for all ports together; a server on loopback responds within milliseconds."""

_NO_CHAT = ("embed", "rerank", "bge-", "minilm")
"""Parts of the names of non-chat models, which Ollama and LM Studio list too."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """An OpenAI-compatible server on loopback: its chat models, or the reason why it does not list them."""

    port: int
    models: tuple[str, ...] = ()
    reads_images: bool = False
    problem: str = ""

    @property
    def url(self) -> str:
        """The value for `generator.base_url`."""
        return f"http://127.0.0.1:{self.port}/v1"

    def settings(self) -> str:
        """Returns the command-line arguments for using the server's first model as the generator."""
        values = {"kind": "openai", "base_url": self.url, "model": self.models[0] if self.models else "NAME"}
        if self.reads_images:
            values["multimodal"] = "true"
        return " ".join(f"--set {shlex.quote(f'generator.{key}={value}')}" for key, value in values.items())


def local_server_findings(ports: Mapping[int, str], seconds: float = SECONDS) -> list[Finding]:
    """Returns a finding for each chat server that runs on this machine, with the settings to use it.

    Args:
        ports: Loopback ports to search, each with the server that usually listens there.
        seconds: Timeout in seconds for all ports together.
    """
    servers = asyncio.run(_find_servers(ports, seconds))
    if not servers:
        asked = ", ".join(map(str, sorted(ports)))
        return [Finding("local chat servers", "ok", f"none on ports {asked}; see docs/generators.md to start one")]
    findings = []
    for server in servers:
        name = f"port {server.port}, {ports[server.port]}"
        if server.problem:
            findings.append(Finding(name, "warn", f"{server.url}: {server.problem}", server.settings()))
        elif server.models:
            findings.append(Finding(name, "ok", f"{server.url} offers {', '.join(server.models)}", server.settings()))
        else:
            fix = "ollama pull gemma3:4b" if ports[server.port] == "Ollama" else "load a chat model there"
            findings.append(Finding(name, "warn", f"{server.url} has no chat model yet", fix))
    return findings


async def _find_servers(ports: Iterable[int], seconds: float) -> list[LocalServer]:
    """Returns the chat servers that respond on loopback. Asks all ports at once, without proxies or a key."""
    async with httpx.AsyncClient(trust_env=False) as http:
        servers = await asyncio.gather(*(_ask(http, port, seconds) for port in ports))
    return [server for server in servers if server is not None]


async def _ask(http: httpx.AsyncClient, port: int, seconds: float) -> LocalServer | None:
    try:
        async with asyncio.timeout(seconds):
            response = await http.get(f"{LocalServer(port).url}/models", timeout=seconds)
        listed = response.json()
    except (httpx.RequestError, ValueError, TimeoutError):
        return None  # nothing there, or not a chat server
    if response.headers.get("www-authenticate") == CHALLENGE:
        return None  # our own service, as below
    if response.status_code in (401, 403):
        return LocalServer(port, problem="needs a key; set OPENAI_API_KEY")
    if response.status_code == 503:
        return LocalServer(port, problem="is not ready; llama.cpp's server responds like this while loading its model")
    if not response.is_success or not isinstance(listed, dict) or "data" not in listed:
        return None
    models = [model for model in listed["data"] or () if isinstance(model, dict) and isinstance(model.get("id"), str)]
    if any(model.get("owned_by") == MODEL for model in models):
        return None  # our own service, which needs a generator and cannot be one
    chat = [model for model in models if not any(part in model["id"].lower() for part in _NO_CHAT)]
    about = chat[0].get("architecture") if chat else None
    images = isinstance(about, dict) and "image" in (about.get("input_modalities") or ())
    return LocalServer(port, tuple(model["id"] for model in chat), images)
