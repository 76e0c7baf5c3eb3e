"""Views: parts of responses that read their fields, by name, from the objects that have them."""

from __future__ import annotations

from typing import Any, Self, dataclass_transform

from pydantic import BaseModel, ConfigDict, Field

from retriever.types import AnswerFields, RetrievalFields


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class View(BaseModel, frozen=True):
    """A part of a response; the docstrings of its fields are their descriptions in JSON schemas."""

    model_config = ConfigDict(from_attributes=True, use_attribute_docstrings=True)

    @classmethod
    def of(cls, *sources: object, **own: Any) -> Self:
        """Returns the view of some objects. A field is taken from `own`, or from the first object that has it.

        Raises:
            ValidationError: A field is in none of them, or has the wrong type.

        Example:
            >>> class Size(View):
            ...     real: float
            ...     unit: str
            >>> Size.of(2.5, unit="m")
            Size(real=2.5, unit='m')
        """
        missing = object()
        for name in cls.model_fields.keys() - own.keys():
            for source in sources:
                if (value := getattr(source, name, missing)) is not missing:
                    own[name] = value
                    break
        return cls.model_validate(own)


class RetrievalView(View, RetrievalFields):
    """What the image shows."""


class AnswerView(View, AnswerFields):
    """An answer, with what it rests on."""

    grounded: bool | None = None
    """Whether the evidence contains the answer word for word, or what a "Yes" or a "No" rests on.
    Null without an answer, and for an agent's, whose claims cite their sources."""
    abstained: bool
    """Whether there is no answer: the generator found none in the evidence, or the question was declined."""
    reason: str | None = None
    """Why there is no answer, as the end of a sentence that may change. Null with an answer, if the generator failed,
    and for an agent's answer."""
