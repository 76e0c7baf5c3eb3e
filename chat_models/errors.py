"""The failure of a request to a chat server."""

from __future__ import annotations

from chat_models.refusals import is_too_long, is_unsupported


class ChatError(OSError):
    """A failed request to a chat server.

    Attributes:
        url: The address of the request.
        status: The HTTP status, or `None` if there was no response.
        wait: The seconds after which the server asks to be tried again, if it does.
        timed_out: Whether the server was silent for too long.
        incomplete: Whether the response is only a part of a reply.
        param: The field of the request that the server names as the reason, or "".
    """

    def __init__(
        self,
        message: str,
        url: str,
        status: int | None = None,
        *,
        wait: float | None = None,
        timed_out: bool = False,
        incomplete: bool = False,
        param: str = "",
    ) -> None:
        super().__init__(f"{url}: {message}")
        self.message, self.url, self.status = message, url, status
        self.wait, self.timed_out, self.incomplete, self.param = wait, timed_out, incomplete, param

    @property
    def refused(self) -> bool:
        """Whether the server refuses the request as it is."""
        return self.status in (400, 413, 422) or self.too_long

    @property
    def too_long(self) -> bool:
        """Whether the server says that the conversation has too many tokens."""
        return self.status is not None and is_too_long(self.message, self.status)

    @property
    def unsupported(self) -> bool:
        """Whether the server says, if only with status 500, that it cannot do what the request needs."""
        return is_unsupported(self.message, self.status)
