"""Checks the fields of a request, for every route and format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from retriever.filters import filter_of
from retriever.strict_json import is_unicode
from retriever.types import Options
from serving.errors import ApiError, validation_message
from serving.schemas import AgentBudget, AnswerOptions, OnGeneratorError, RequestOptions
from serving.settings import ServingSettings

_RANGES = {"greater_than", "greater_than_equal", "less_than_equal", "finite_number", "literal_error"}
Model = TypeVar("Model", bound=BaseModel)
FOLLOWED = 20
"""How many of the questions before one are read."""
NO_QUESTION = "question is missing: send one, about an image or without an image"


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request whose fields have been checked; `images` are bytes, or still base64, data URIs or URLs."""

    images: tuple[bytes | str, ...]
    question: str
    options: Options
    stream: bool
    on_generator_error: OnGeneratorError
    mode: str | None = None
    budget: AgentBudget | None = None
    boxes: Sequence[Sequence[float]] = ()
    before: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    include_usage: bool = False
    thoughts: bool = False


def checked_request(
    images: Sequence[bytes | str],
    question: str,
    options: AnswerOptions,
    stream: bool,
    settings: ServingSettings,
    before: Sequence[str] = (),
) -> CheckedRequest:
    """Checks a request against the limits and returns it, with the latest of the questions before it.

    Raises:
        ApiError: 422 for an empty or overlong question, too many images, a `k` above `max_k`, or an option that the
            mode does not take.
    """
    question = question.strip()
    if not question:
        raise ApiError(422, "empty_question", "the question is empty", param="question")
    if len(question) > settings.max_question_chars:
        most = f"{settings.max_question_chars} are accepted (serving.max_question_chars)"
        message = f"the question has {len(question)} characters; at most {most}"
        raise ApiError(422, "question_too_long", message, param="question")
    if len(images) > settings.max_images:
        message = f"the question has {len(images)} images; at most {settings.max_images} are accepted"
        raise ApiError(422, "too_many_images", f"{message} (serving.max_images)", param="images")
    before = (options.before or () if isinstance(options, RequestOptions) else before)[-FOLLOWED:]
    if not is_unicode("".join((question, *before))):
        message = "the question is not valid Unicode: it has a lone surrogate"
        raise ApiError(422, "wrong_type", message, param="question")
    if options.k is not None and options.k > settings.max_k:
        message = f"k must be between 1 and {settings.max_k} (serving.max_k), got {options.k}"
        raise ApiError(422, "out_of_range", message, param="k")
    try:
        filter = filter_of(options.filter or {})
    except ValueError as error:
        raise ApiError(422, "wrong_type", str(error), param="filter") from error
    chosen = Options(options.k, options.alpha, options.beta, filter=filter, entity=options.entity)
    earlier = tuple(text[: settings.max_question_chars] for text in before)
    about = tuple(images), question, chosen, stream, options.on_generator_error
    checked = CheckedRequest(*about, before=earlier, thoughts=options.thoughts)
    if not isinstance(options, RequestOptions):
        return checked
    return replace(checked, mode=_mode(options), budget=options.budget, boxes=options.boxes or ())


def _mode(options: RequestOptions) -> str | None:
    """Returns the name of the agent, or `None` for plain retrieval."""
    agent = options.mode not in (None, "retrieve")
    foreign = ("k", "alpha", "beta", "entity", "before") if agent else ("budget", "boxes")
    if given := [name for name in foreign if getattr(options, name) is not None]:
        message = f"{given[0]} has no effect with mode {options.mode or 'retrieve'}; leave it out"
        raise ApiError(422, "unsupported_parameter", message, param=given[0])
    return options.mode if agent else None


def check(model: type[Model], data: Any, name: str = "the body") -> Model:
    """Validates `data` as a `model`; error messages refer to it as `name`.

    Raises:
        ApiError: 422 if a field is missing, unknown, of the wrong type or out of range.
    """
    if not isinstance(data, dict):
        raise ApiError(422, "wrong_type", f"{name} must be a JSON object", param=None if name == "the body" else name)
    data = {key: value for key, value in data.items() if value is not None}  # null means absent, for any field
    for key in data:
        if key not in model.model_fields:
            raise unknown_field(key, tuple(model.model_fields))
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    param = str(first["loc"][0])
    if first["type"] == "missing":
        message = NO_QUESTION if param == "question" else f"{param} is missing"
        raise ApiError(422, f"missing_{param}", message, param=param)
    if first["type"] == "extra_forbidden":
        message = f"unknown field {_shown(str(first['loc'][-1]))!r} in {param}"
        raise ApiError(422, "unknown_option", message, param=param)
    code = "out_of_range" if first["type"] in _RANGES else "wrong_type"
    place = ".".join(str(part) for part in first["loc"])
    raise ApiError(422, code, validation_message(place, first), param=param)


def unknown_field(name: str, known: tuple[str, ...], advice: str = "") -> ApiError:
    """Returns the error for a field that is not among the known ones."""
    shown = _shown(name)
    message = f"unknown field {shown!r}; known fields are {', '.join(sorted(known))}{advice}"
    return ApiError(422, "unknown_option", message, param=shown)


def _shown(name: str) -> str:
    """Returns the name of a field, made safe and short enough for a message."""
    shown = name.encode("utf-8", "replace").decode()
    return shown if len(shown) <= 40 else shown[:40] + "…"


def no_image(why: str = ", or leave it out") -> ApiError:
    """Returns the error for a request whose image is empty, or missing where one is needed."""
    return ApiError(422, "missing_image", f"image is missing: send the bytes of an image file{why}", param="image")
