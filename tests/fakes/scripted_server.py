"""An OpenAI-compatible server on loopback that follows a script."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from chat_models.replies import ChatReply
from tests.fakes.chat_server import FakeChatServer

Play = Callable[[list[dict[str, Any]]], str | ChatReply]
"""Takes a request's messages and returns the reply."""


class ScriptedServer(FakeChatServer):
    """Answers according to the script and records the requests.

    Args:
        play: The script: replies in order, or a function.
        refuses: Request fields, or `image_url`, that the server does not support and answers with status 400.
        longest: Number of characters beyond which a conversation is refused.
        whole: Whether `play` takes the whole request instead of its messages.
    """

    def __init__(
        self,
        play: Play | Callable[[dict[str, Any]], ChatReply] | Sequence[str | ChatReply],
        refuses: Sequence[str] = (),
        longest: int | None = None,
        whole: bool = False,
    ) -> None:
        self._play, self._refuses, self._next = play, refuses, 0
        self._longest, self._whole = longest, whole
        super().__init__()

    async def models(self) -> dict[str, Any]:
        return {"object": "list", "data": [{"id": "scripted"}]}

    async def answer(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        said = json.dumps(body["messages"])
        if refused := [name for name in self._refuses if name in body or (name == "image_url" and name in said)]:
            return JSONResponse({"error": {"message": f"unknown field {refused[0]}"}}, 400)
        if self._longest is not None and len(said) > self._longest + 500:
            return JSONResponse({"error": {"message": "This model's maximum context length is 2500 tokens."}}, 400)
        if callable(self._play):
            reply = self._play(body if self._whole else body["messages"])
        else:
            reply = self._play[min(self._next, len(self._play) - 1)]
            self._next += 1
        reply = ChatReply(reply) if isinstance(reply, str) else reply
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.calls:
            message["tool_calls"] = [
                {"id": f"call_{n}", "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for n, call in enumerate(reply.calls)
            ]
        finish = "tool_calls" if reply.calls else "length" if reply.cut else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        return JSONResponse(
            {"id": "1", "object": "chat.completion", "model": "scripted", "choices": [choice], "usage": usage}
        )
