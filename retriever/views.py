"""Views: parts of responses that read their fields, by name, from the objects that have them."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict


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
