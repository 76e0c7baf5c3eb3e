"""A planner that follows a script in place of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chat_models.messages import Message
from chat_models.replies import ChatReply

Play = Callable[[Sequence[Message], Mapping[str, Any] | None], ChatReply]
"""Takes a request's messages and the JSON schema for the reply; returns the reply."""


class ScriptedPlanner:
    """A `Planner` whose replies are computed by a function.

    Args:
        play: The function.
        name: The model's name in replies and reports.
    """

    def __init__(self, play: Play, name: str = "scripted") -> None:
        self.name = name
        self._play = play

    async def reply(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        tools: Sequence[Mapping[str, Any]],
        schema: Mapping[str, Any] | None,
    ) -> ChatReply:
        """Returns the script's reply."""
        return self._play(messages, schema)

    async def aclose(self) -> None:
        """Does nothing."""
