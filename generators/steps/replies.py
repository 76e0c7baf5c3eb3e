"""A chat model that steps of retrieval ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from chat_models.background import BackgroundLoop
from chat_models.chat import ChatClient
from chat_models.errors import ChatError
from chat_models.messages import Message
from retriever.types import EngineError


class Replies:
    """Asks a chat model from any thread.

    Args:
        client: The client of the model.
        sees: Whether it takes images.
        max_tokens: Maximum length of a reply with its thoughts, in tokens.
    """

    def __init__(self, client: ChatClient, sees: bool, max_tokens: int) -> None:
        self.sees = sees
        self._client, self._max_tokens, self._loop = client, max_tokens, BackgroundLoop()

    def request(self, conversations: Sequence[list[Message]]) -> Callable[[], list[str]]:
        """Sends conversations; returns a function that waits for the replies.

        The function raises an `EngineError` if the server fails for one of them.
        """
        replies = self._loop.submit(self._all(conversations))

        def wait() -> list[str]:
            try:
                return replies.result()
            except ChatError as error:
                raise EngineError(f"a step of retrieval asks {self._client.model}: {error}") from error

        return wait

    async def _all(self, conversations: Sequence[list[Message]]) -> list[str]:
        replies = (self._client.converse(messages, self._max_tokens) for messages in conversations)
        return [reply.text for reply in await asyncio.gather(*replies)]
