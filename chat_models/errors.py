"""The failure of a request to a chat server."""

from __future__ import annotations

import re

TOO_LONG = re.compile(
    r"context[ _-]?(?:length|window|size|limit)"
    r"|(?:prompt|input|inputs|request|conversation|messages?)\b[^.]{0,40}\b(?:too (?:long|large)|exceed)"
    r"|(?:exceed|longer than|larger than|more than|at most|less than|maximum|must be <=)[^.]{0,60}\btokens?\b"
    r"|\btokens?\b[^.]{0,60}(?:exceed|must be <=|maximum)"
    r"|maximum (?:model|input|prompt|sequence) (?:length|tokens)",
    re.IGNORECASE,
)
"""How servers say that a conversation does not fit: vLLM, TGI, llama.cpp, Ollama, Gemini, Groq and others."""
ROLES = re.compile(
    r"\broles?\b[^.]{0,60}\b(?:must|should|alternat|not (?:supported|allowed)|unsupported|are supported)"
    r"|\b(?:unsupported|unknown|invalid|unexpected|only)\b[^.]{0,60}\broles?\b|\bsuccessive (?:user|assistant)"
    r"|\b(?:system|developer) (?:message|prompt|instruction)s?\b[^.]{0,40}"
    r"(?:not (?:supported|allowed|enabled)|unsupported)",
    re.IGNORECASE,
)
"""How chat templates say that they take fewer roles, or only turns of user and assistant."""
_UNSUPPORTED = re.compile(
    r"\bnot (?:be )?(?:supported|enabled|implemented)\b|\bunsupported\b|(?:not|n't) (?:support|accept|take|process)\b"
    r"|missing data required|\brequires? (?:the )?--|BadRequestError|invalid_request_error|jinja|\btemplate\b",
    re.IGNORECASE,
)
"""How servers that answer with status 500 (llama.cpp, Ollama, proxies) say that the same request would fail again."""


def is_too_long(message: str, status: int | None) -> bool:
    """Returns whether a refusal says that the conversation has too many tokens; 429 is about several requests."""
    return status == 413 or (status != 429 and TOO_LONG.search(message) is not None)


def is_unsupported(message: str, status: int | None) -> bool:
    """Returns whether a failure of the server is a refusal: it says that it cannot do what the request needs."""
    return status in (500, 501) and (_UNSUPPORTED.search(message) or ROLES.search(message)) is not None


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
