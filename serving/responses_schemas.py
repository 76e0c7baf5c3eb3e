"""Requests and responses of `/v1/responses`, in the format of OpenAI's Responses API."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from retriever.views import View
from serving.chat_schemas import MODEL, ChatOptions
from serving.schemas import AnswerOut, RequestModel

RESPONSES_IGNORED = frozenset(
    {
        "access_programs",
        "background_options",
        "context_management",
        "image",
        "include",
        "instructions",
        "max_tool_calls",
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options",
        "temperature",
        "top_p",
        "truncation",
        "user",
    }
)
"""Parameters that are accepted but ignored, as in the chat API; nothing is ever stored."""

RESPONSES_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "background": (None, False),
    "conversation": (None,),
    "moderation": (None,),
    "previous_response_id": (None,),
    "prompt": (None,),
    "text": (None, {}, {"format": None}, {"format": {"type": "text"}}),
    "tool_choice": (None, "none", "auto"),
    "tools": (None, []),
    "top_logprobs": (None, 0),
}
"""Parameters that ask for a different kind of answer, with their neutral values, which are accepted."""


IncompleteReason = Literal["max_output_tokens", "content_filter"]
Status = Literal["in_progress", "completed", "incomplete"]


class ResponsesFields(RequestModel):
    """A request of the Responses API. Other parameters that tune how a model writes are accepted but ignored."""

    model: str = Field(examples=[MODEL], json_schema_extra={"enum": [MODEL]})
    """Always `omgm`."""
    input: str | list[Any] = Field(
        examples=[
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "What is the capital of this country?"},
                        {"type": "input_image", "image_url": "data:image/jpeg;base64,..."},
                    ],
                }
            ]
        ],
    )
    """The conversation. The text of the last user message is the question; the images are its own,
    or else those of the most recent one with some: data URIs or URLs on an allowed host. Other items are not read."""
    stream: bool = False
    """Whether to answer with server-sent events."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Maximum length of a chat model's answer, in tokens, if the profile's is not lower."""
    omgm: ChatOptions = ChatOptions()
    """Options of the retrieval."""


class OutputTextOut(View):
    """The text of the answer."""

    type: Literal["output_text"] = "output_text"
    text: str
    """The answer, or a sentence that explains why there is none."""
    annotations: list[Any] = Field(default=[])
    logprobs: list[Any] = Field(default=[])


class OutputMessageOut(View):
    """The answer as a message."""

    id: str
    type: Literal["message"] = "message"
    status: Status
    role: Literal["assistant"] = "assistant"
    content: list[OutputTextOut]


class InputDetailsOut(View):
    """Details of the input's tokens."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputDetailsOut(View):
    """Details of the output's tokens."""

    reasoning_tokens: int = 0


class ResponsesUsageOut(View):
    """The generator's tokens, 0 if nobody counts them: some clients cannot read a response without `usage`."""

    input_tokens: int = 0
    input_tokens_details: InputDetailsOut = InputDetailsOut()
    output_tokens: int = 0
    output_tokens_details: OutputDetailsOut = OutputDetailsOut()
    total_tokens: int = 0


class IncompleteDetailsOut(View):
    """Why a response is incomplete."""

    reason: IncompleteReason


class ResponsesOut(View):
    """A response with the evidence for its answer.

    Fields that are always null or empty are for clients that read them.
    """

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Status
    """`incomplete` if the answer was cut at its maximum length or by the server's content filter."""
    model: str = MODEL
    output: list[OutputMessageOut]
    error: None = None
    incomplete_details: IncompleteDetailsOut | None = None
    instructions: None = None
    metadata: dict[str, str] = Field(default={})
    parallel_tool_calls: bool = False
    previous_response_id: None = None
    store: bool = False
    temperature: None = None
    tool_choice: Literal["none"] = "none"
    tools: list[Any] = Field(default=[])
    top_p: None = None
    usage: ResponsesUsageOut = ResponsesUsageOut()
    omgm: AnswerOut | None
    """What `POST /answer` returns; null while a stream is in progress."""
