"""Fakes of chat servers that people run on a laptop, with replies in the formats that their projects document.

Ollama: docs/api/openai-compatibility.mdx and the response types in openai/openai.go. llama.cpp's server:
tools/server/README.md. Both as of autumn 2026.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class CannedReply:
    """A server's response."""

    body: str
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


class LocalChatServer:
    """Answers each path with its replies in turn, repeating the last one; records the requests.

    Args:
        replies: The replies by path; any other path gets 404.
    """

    def __init__(self, replies: Mapping[str, CannedReply | list[CannedReply]]) -> None:
        self.headers: list[dict[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self._replies = {path: [reply] if isinstance(reply, CannedReply) else reply for path, reply in replies.items()}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                return

            def do_GET(self) -> None:
                outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                if length := int(self.headers.get("Content-Length", 0)):
                    body = self.rfile.read(length)
                    if self.headers.get_content_type() == "application/json":
                        outer.bodies.append(json.loads(body))
                self._send(outer._next(self.path))

            do_POST = do_GET

            def _send(self, reply: CannedReply) -> None:
                body = reply.body.encode()
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.content_type)
                self.send_header("Content-Length", str(len(body)))
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> LocalChatServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def _next(self, path: str) -> CannedReply:
        replies = self._replies.get(path, [CannedReply("404 page not found", 404, "text/plain")])
        return replies.pop(0) if len(replies) > 1 else replies[0]


def as_json(value: object, status: int = 200) -> CannedReply:
    """Returns a reply with a JSON body."""
    return CannedReply(json.dumps(value), status)


def as_events(events: Iterable[object], end: str = "data: [DONE]\n\n") -> CannedReply:
    """Returns a reply that streams events, followed by `end`."""
    return CannedReply(
        "".join(f"data: {json.dumps(event)}\n\n" for event in events) + end, content_type="text/event-stream"
    )


def ollama_models(*names: str) -> CannedReply:
    """Returns Ollama's list of models, which is null before the first `ollama pull`."""
    models = [{"id": name, "object": "model", "created": 1763683200, "owned_by": "library"} for name in names]
    return as_json({"object": "list", "data": models or None})


def ollama_error(message: str, status: int) -> CannedReply:
    """Returns an error of Ollama."""
    type_ = {400: "invalid_request_error", 404: "not_found_error"}.get(status, "api_error")
    return as_json({"error": {"message": message, "type": type_, "param": None, "code": None}}, status)


def ollama_completion(content: str, finish_reason: str = "stop", reasoning: str = "") -> CannedReply:
    """Returns a chat completion of Ollama; an empty `reasoning` is left out."""
    message = {"role": "assistant", "content": content} | ({"reasoning": reasoning} if reasoning else {})
    return as_json(
        {
            "id": "chatcmpl-531",
            "object": "chat.completion",
            "created": 1763683200,
            "model": "gemma3:4b",
            "system_fingerprint": "fp_ollama",
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
            "usage": {"prompt_tokens": 21, "completion_tokens": 3, "total_tokens": 24},
        }
    )


def ollama_chunk(finish_reason: str | None = None, **delta: str) -> dict[str, Any]:
    """Returns one event of an Ollama stream."""
    return {
        "id": "chatcmpl-531",
        "object": "chat.completion.chunk",
        "created": 1763683200,
        "model": "gemma3:4b",
        "system_fingerprint": "fp_ollama",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def llama_models(name: str, *modalities: str) -> CannedReply:
    """Returns the model list of llama.cpp's server, which includes the model's input modalities."""
    meta = {"vocab_type": 2, "n_vocab": 262144, "n_ctx_train": 131072, "n_embd": 2560, "n_params": 3880099328}
    model = {
        "id": name,
        "object": "model",
        "architecture": {"input_modalities": ["text", *modalities], "output_modalities": ["text"]},
        "created": 1763683200,
        "owned_by": "llamacpp",
        "meta": meta,
    }
    return as_json({"object": "list", "data": [model]})


def llama_error(message: str, status: int, type_: str, **more: int) -> CannedReply:
    """Returns an error of llama.cpp's server."""
    return as_json({"error": {"code": status, "message": message, "type": type_, **more}}, status)


def llama_completion(content: str, finish_reason: str = "stop", reasoning: str = "") -> CannedReply:
    """Returns a chat completion of llama.cpp's server."""
    message = {"role": "assistant", "content": content} | ({"reasoning_content": reasoning} if reasoning else {})
    return as_json(
        {
            "choices": [{"finish_reason": finish_reason, "index": 0, "message": message}],
            "created": 1763683200,
            "model": "gemma-3-4b",
            "system_fingerprint": "b8681",
            "object": "chat.completion",
            "usage": {"completion_tokens": 3, "prompt_tokens": 21, "total_tokens": 24},
            "id": "chatcmpl-ecQULm0W",
            "timings": {"cache_n": 0, "prompt_n": 21, "prompt_ms": 30.9, "predicted_n": 3, "predicted_ms": 61.1},
        }
    )


def llama_chunk(finish_reason: str | None = None, **delta: str | None) -> dict[str, Any]:
    """Returns one event of a llama.cpp server's stream."""
    return {
        "choices": [{"finish_reason": finish_reason, "index": 0, "delta": delta}],
        "created": 1763683200,
        "id": "chatcmpl-ecQULm0W",
        "model": "gemma-3-4b",
        "system_fingerprint": "b8681",
        "object": "chat.completion.chunk",
    }
