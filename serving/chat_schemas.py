"""Requests and responses of the OpenAI-compatible routes at `/v1`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from retriever.strict_json import is_unicode
from retriever.types import Ending
from retriever.views import View
from serving.schemas import AnswerOptions, AnswerOut, OnGeneratorError, RequestModel

MODEL = "omgm"
"""Name and owner of the only model of this service; lets `omgm doctor` tell it from a generator's server."""

MAX_STOPS, LONGEST_STOP = 4, 256
"""Limits of `stop`: the number of strings, which is OpenAI's, and their characters."""

IGNORED = frozenset(
    {
        "frequency_penalty",
        "metadata",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "safety_identifier",
        "seed",
        "service_tier",
        "store",
        "temperature",
        "top_p",
        "user",
        "verbosity",
    }
)
"""Parameters that are accepted but ignored: they tune how a model writes, which the profile determines, or how the
request is stored, billed or cached."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "audio": (None,),
    "function_call": (None, "none", "auto"),
    "functions": (None, []),
    "logit_bias": (None, {}),
    "logprobs": (None, False),
    "modalities": (None, ["text"]),
    "moderation": (None,),
    "n": (None, 1),
    "response_format": (None, {"type": "text"}),
    "tool_choice": (None, "none", "auto"),
    "tools": (None, []),
    "top_logprobs": (None, 0),
    "web_search_options": (None,),
}
"""Parameters that ask for a different kind of answer, with their neutral values, which are accepted."""

FinishReason = Literal["stop", "length", "content_filter"]
FINISH_REASONS: dict[Ending, FinishReason] = {"cut": "length", "filtered": "content_filter"}
"""OpenAI's words for how a reply ended; all others are "stop"."""


INSTEAD = {
    "conversation": "nothing is stored, so send the whole conversation as input",
    "previous_response_id": "nothing is stored, so send the whole conversation as input",
    "response_format": "leave it out; the response's `omgm` field has the answer, its source and its scores",
    "text": "leave out text.format; the response's `omgm` field has the answer, its source and its scores",
    "tool_choice": "to give a language model this index as tools, use omgm mcp",
    "tools": "to give a language model this index as tools, use omgm mcp",
}
"""What to do instead of sending a parameter, where leaving it out is not enough."""


class ChatOptions(AnswerOptions):
    """This project's own options of a chat request."""

    on_generator_error: OnGeneratorError = "fail"
    """When the generator fails: `fail` returns an error (424), `degrade` a sentence as the answer, and the evidence in
    `omgm`."""


class ChatFields(RequestModel):
    """A chat request. OpenAI's other parameters that tune how a model writes are accepted but ignored."""

    model: str = Field(examples=[MODEL], json_schema_extra={"enum": [MODEL]})
    """Always `omgm`."""
    messages: list[Any] = Field(
        min_length=1,
        examples=[
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is the capital of this country?"},
                        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,..."}},
                    ],
                }
            ]
        ],
    )
    """The conversation. The text of the last user message is the question; "And this one?" repeats the one before. The
    images are those of the message, or else of the most recent one with some: data URIs or URLs on an allowed host.
    Without one, all sections are searched for the question. Other messages are not read."""
    stream: bool = False
    """Whether to answer with server-sent events, as OpenAI's chunks."""
    stream_options: dict[str, Any] | None = Field(default=None, examples=[{"include_usage": True}])
    """With `include_usage`, a stream ends with one more chunk, which has the usage and no choices."""
    stop: str | list[str] | None = Field(default=None, examples=[["\n"]])
    """Up to 4 strings of at most 256 characters; the answer ends before the first of them."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Maximum length of a chat model's answer, in tokens, if the profile's is not lower."""
    max_completion_tokens: int | None = Field(default=None, ge=1)
    """The newer name of `max_tokens`; with both, the lower one counts."""
    omgm: ChatOptions = ChatOptions()
    """Options of the retrieval."""

    @field_validator("stop", mode="before")
    @classmethod
    def _check_stop(cls, value: Any) -> Any:
        if value in ("", []):  # some clients send what they have not set
            return None
        listed = [value] if isinstance(value, str) else value
        if isinstance(listed, list) and 0 < len(listed) <= MAX_STOPS and all(map(_can_stop, listed)):
            return listed
        message = f"must be a string of 1 to {LONGEST_STOP} characters, or a list of 1 to {MAX_STOPS} of them"
        raise PydanticCustomError("stop", message)


def _can_stop(text: Any) -> bool:
    return isinstance(text, str) and 0 < len(text) <= LONGEST_STOP and is_unicode(text)


class ChatMessageOut(View):
    """The answer as a message."""

    role: Literal["assistant"] = "assistant"
    content: str
    """The answer, or a sentence that explains why there is none."""


class ChatChoiceOut(View):
    """The only choice."""

    index: int = 0
    message: ChatMessageOut
    finish_reason: FinishReason
    """`length` if the answer was cut at its maximum length."""


class UsageOut(View):
    """The generator's tokens, 0 if nobody counts them: some clients cannot read a completion without `usage`."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


def usage_of(answer: AnswerOut) -> UsageOut:
    """Returns the tokens of an answer."""
    read, written = answer.prompt_tokens or 0, answer.completion_tokens or 0
    return UsageOut(prompt_tokens=read, completion_tokens=written, total_tokens=read + written)


class ChatCompletionOut(View):
    """A chat completion with the evidence for its answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str = MODEL
    choices: list[ChatChoiceOut]
    usage: UsageOut
    omgm: AnswerOut
    """What `POST /answer` returns."""


class ModelOut(View):
    """A model of this service."""

    id: str = MODEL
    object: Literal["model"] = "model"
    created: int
    owned_by: str = MODEL


class ModelsOut(View):
    """The models of this service."""

    object: Literal["list"] = "list"
    data: list[ModelOut]
