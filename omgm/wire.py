"""The code shared by both clients of the service: request forms, errors, events and retry delays."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, TypeVar
from urllib.parse import quote

import httpx
import numpy as np
from PIL import Image, ImageOps
from pydantic import BaseModel, ValidationError

from chat_models.event_lines import EventLines
from chat_models.proxies import through_proxy
from chat_models.retries import MAX_WAIT, seconds_to_wait
from omgm.search_params import Images, SearchParams, each_of
from retriever.images import ImageInput, encoded, load_image
from retriever.trail_views import CallStep, RequestStep, RoundStep
from serving.schemas import AnswerOut, OnGeneratorError, RetrieveOut

RETRIED = (429, 503)
"""Statuses of a service that is busy or not ready yet."""
MAX_CONNECT = 10.0
"""Connect timeout in seconds."""

AgentStep = RequestStep | RoundStep | CallStep
"""A step of an agent: the model has replied, the policy has decided, or a tool call has ended."""
_STEPS: dict[str, type[AgentStep]] = {"request": RequestStep, "round": RoundStep, "call": CallStep}

Model = TypeVar("Model", bound=BaseModel)


class BudgetParams(TypedDict, total=False):
    """Limits of an agent's run; none may exceed the service's own."""

    rounds: int
    tokens: int
    seconds: float
    money: float


class RetrieveParams(SearchParams, total=False):
    """Options of a request for evidence; see docs/clients.md."""

    on_generator_error: OnGeneratorError
    before: Sequence[str]


class AnswerParams(RetrieveParams, total=False):
    """Options of a request for an answer; see docs/clients.md."""

    mode: str
    budget: BudgetParams
    boxes: Sequence[Sequence[float]]


class ServiceError(Exception):
    """A request that the service refused or could not answer.

    Attributes:
        message: What is wrong and how to fix it.
        status: The HTTP status, `None` if there was no response.
        type: `invalid_request_error`, `rate_limit_error`, `server_error`, or `connection_error` without a response.
        param: The request field at fault, if it is one.
        code: A stable error code; `None` if the response did not come from the service.
        request_id: The id of the request in the service's log; `None` if the service did not respond.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        type: str = "server_error",
        param: str | None = None,
        code: str | None = None,
        request_id: str | None = None,
    ) -> None:
        about = ", ".join(str(part) for part in (status, code, request_id and f"request {request_id}") if part)
        super().__init__(f"{message} ({about})" if about else message)
        self.message, self.status, self.type, self.param = message, status, type, param
        self.code, self.request_id = code, request_id


def form(images: Images, question: str, options: RetrieveParams, stream: bool = False) -> dict[str, Any]:
    """Returns a request's form as arguments of httpx. Images in memory are encoded as PNG, files are sent unchanged.

    Raises:
        OSError: The file cannot be read.
        ValueError: An array is not an image.
    """
    fields: dict[str, str | bytes] = {"question": question, "options": json.dumps({**options, "stream": stream})}
    files: list[tuple[str, tuple[str | None, str | bytes]]] = [(name, (None, value)) for name, value in fields.items()]
    for image in each_of(images):
        if isinstance(image, str) and image.startswith(("http://", "https://", "data:")):
            files.append(("image", (None, image)))  # the service decodes or fetches it
        else:
            files.append(("image", ("image", _bytes(image))))
    return {"files": files}


def article_form(article: Mapping[str, Any], image: ImageInput | None) -> dict[str, Any]:
    """Returns an article with its main image, if one is given, as arguments of httpx; raises as `form`."""
    if image is None:
        return {"json": dict(article)}
    return {"files": {"image": ("image", _bytes(image))}, "data": {"article": json.dumps(dict(article))}}


def entity_path(entity_id: str) -> str:
    """Returns the path of an entity. Its id is in the query, which proxies leave as it is."""
    return f"/entities?id={quote(entity_id, safe='')}"


def wait_of(response: httpx.Response, attempt: int) -> float | None:
    """Returns the seconds to wait before a retry, or `None` if the request should not be retried.

    If Retry-After is longer than `MAX_WAIT`, the error is raised instead.
    """
    if response.status_code not in RETRIED:
        return None
    wait = seconds_to_wait(response.headers.get("retry-after"), attempt)
    return wait if wait <= MAX_WAIT else None


def failure(response: httpx.Response) -> ServiceError:
    """Returns the error of a response whose body has been read."""
    request_id = response.headers.get("x-request-id")
    try:
        return _reported(response.json(), response.status_code, request_id)
    except (ValueError, LookupError, TypeError):
        text = " ".join(response.text.split())[:200]
        return ServiceError(text or response.reason_phrase, status=response.status_code, request_id=request_id)


def unreachable(url: str, error: httpx.HTTPError) -> ServiceError:
    """Returns the error for a request that got no complete response; it names the proxy, if there is one."""
    reason = str(error) or type(error).__name__
    return ServiceError(f"{url}: no answer: {reason}{through_proxy(url)}", type="connection_error")


def parsed(model: type[Model], response: httpx.Response) -> Model:
    """Validates a response's body as a `model`.

    Raises:
        ServiceError: It does not match, so the response is not from the service, or from another version of it.
    """
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        message = f"unexpected response, maybe from another version: {error.errors(include_input=False)[0]['msg']}"
        raise ServiceError(message, status=response.status_code) from error


class EventReader:
    """Parses the server-sent events of one answer."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._lines = EventLines()
        self._name = ""
        self._retrieved: dict[str, Any] = {}
        self._done = False

    def feed(self, data: bytes) -> Iterator[RetrieveOut | str | AgentStep | AnswerOut]:
        """Yields the events that are completed by `data`, the next bytes of the stream.

        An event is the retrieval result, a piece of the answer's text, a step of an agent, or the whole answer.

        Raises:
            ServiceError: The event is an error, or unknown to this version of the client.
        """
        for line in self._lines.feed(data):
            field, _, value = line.partition(": ")
            if field == "event":
                self._name = value
            if field == "data":
                yield self._event(value)

    def _event(self, value: str) -> RetrieveOut | str | AgentStep | AnswerOut:
        try:
            return self._parsed(json.loads(value))
        except (ValueError, LookupError, TypeError) as error:
            message = f"unexpected event, maybe from another version of the service: {self._name!r} with {value[:200]}"
            raise ServiceError(message, status=self._response.status_code) from error

    def _parsed(self, data: Any) -> RetrieveOut | str | AgentStep | AnswerOut:
        if self._name == "error":
            raise _reported(data, self._response.status_code, self._response.headers.get("x-request-id"))
        if self._name == "answer":
            return str(data["text"])
        if self._name == "retrieval":
            self._retrieved = data
            return RetrieveOut.model_validate(data)
        if step := _STEPS.get(self._name):
            return step.model_validate(data)
        self._done = True
        return AnswerOut.model_validate(self._retrieved | data)

    def close(self) -> None:
        """Checks that the stream is complete.

        Raises:
            ServiceError: The stream ended before the whole answer.
        """
        if not self._done:
            raise ServiceError("the stream ended before the answer was complete", type="connection_error")


def _reported(body: Any, status: int, request_id: str | None) -> ServiceError:
    error = body["error"]
    more = {key: error[key] for key in ("type", "param", "code")}
    return ServiceError(error["message"], status=status, request_id=request_id, **more)


def _bytes(image: ImageInput) -> bytes:
    if isinstance(image, bytes):
        return image
    if isinstance(image, str | os.PathLike):
        return Path(image).expanduser().read_bytes()
    if not isinstance(image, Image.Image) and hasattr(image, "read"):
        return image.read()
    prepared = load_image(image)
    given = Image.fromarray(image) if isinstance(image, np.ndarray) else image
    if isinstance(given, Image.Image) and given.has_transparency_data:  # articles keep theirs
        prepared = ImageOps.exif_transpose(given).convert("RGBA")
    return encoded(prepared)
