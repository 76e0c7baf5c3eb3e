"""Views: parts of responses that read their fields, by name, from the objects that have them."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from retriever.types import Crop, Ending


class View(BaseModel):
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
        fields = {
            name: getattr(source, name)
            for source in reversed(sources)
            for name in cls.model_fields
            if hasattr(source, name)
        }
        return cls.model_validate(fields | own)


class RecognitionView(View):
    """What the image shows."""

    recognized: float | None = None
    """Probability that the image shows `entity`; null if the profile is not calibrated."""
    crop: Crop | None = None
    """The part of the image in which `entity` was recognized: left, top, right and bottom edge as shares of its width
    and height; null for the whole image."""


class AnswerView(View):
    """An answer. A field that is added here, and to `Generation`, is in every response with an answer."""

    answer: str | None
    """Null if the evidence does not answer the question, or the generator failed."""
    grounded: bool | None = None
    """Whether the evidence contains the answer word for word, or what a "Yes", a "No" or a converted value rests on.
    Null without an answer, and for an agent's, whose claims cite their sources."""
    confidence: float | None
    """From 0 to 1, null if the generator reports none."""
    abstained: bool
    """Whether there is no answer: the generator found none in the evidence, or the question was declined."""
    declined: bool = False
    """Whether the question was declined because the image was not recognized."""
    reason: str | None = None
    """Why there is no answer, as the end of a sentence that may change. Null with an answer, if the generator failed,
    and for an agent's answer."""
    ending: Ending = "complete"
    """How a chat model's reply ended: `complete`, `cut` at its maximum length, `refused` by the model, or `filtered` by
    its server. An agent's are in its trail."""
