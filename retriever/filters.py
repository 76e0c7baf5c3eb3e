"""Which entities a search may find: those whose fields have certain values.

What a caller may see at all, such as a tenant's own entities, is the `SCOPE` of everything that is done for the caller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Protocol, runtime_checkable

from retriever.asking import EntityIndex
from retriever.types import Entity, Filter, Options

Value = str | bool | int | float
Values = Mapping[str, Value | Sequence[Value]]
"""Fields as users write them, each with a value or several."""
SCOPE: ContextVar[Filter] = ContextVar("scope", default=())
"""What the caller may see, which is added to the filter of every search."""


class Fields(Protocol):
    """The fields of an index's entities."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the fields."""

    def check(self, filter: Filter, within: Filter) -> None:
        """Checks that there are such fields, with such values among the entities that fit `within`.

        Raises:
            ValueError: There are none; the message says what there is.
        """


@runtime_checkable
class FieldIndex(Protocol):
    """An optional extension of an index whose entities have fields."""

    @property
    def fields(self) -> Fields:
        """These."""


def filter_of(values: Values) -> Filter:
    """Returns fields as a filter; numbers are compared as they are written, 5.0 like 5.

    Raises:
        ValueError: A value is neither text nor a number, or a field has none.

    Example:
        >>> filter_of({"year": [2024, "2025"], "category": "bird"})
        (('category', ('bird',)), ('year', ('2024', '2025')))
    """
    if not isinstance(values, Mapping):
        raise ValueError('filter must be an object of fields and values, such as {"category": "bird"}')
    pairs = [(str(name), *_listed(name, value)) for name, value in values.items()]
    return tuple((name, tuple(dict.fromkeys(texts))) for name, *texts in sorted(pairs))


def _listed(name: str, value: Value | Sequence[Value]) -> list[str]:
    listed: Sequence[Value] = [value] if isinstance(value, str | int | float) else value
    if not isinstance(listed, list | tuple) or not listed or not all(isinstance(v, str | int | float) for v in listed):
        raise ValueError(f"filter.{name} must be a text, a number or a list of them")
    return [text_of(one) for one in listed]


def text_of(value: Value) -> str:
    """Returns a value as it is compared."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    return str(value).strip()


def fits(entity: Entity, filter: Filter) -> bool:
    """Returns whether an entity has one of the values of each field."""
    return all(any((name, value) in entity.fields for value in values) for name, values in filter)


@contextmanager
def within(filter: Filter) -> Iterator[None]:
    """Narrows what is seen until the end of the block."""
    token = SCOPE.set(joined(SCOPE.get(), filter))
    try:
        yield
    finally:
        SCOPE.reset(token)


def joined(first: Filter, second: Filter) -> Filter:
    """Returns the filter of what fits both."""
    both = dict(first)
    for name, values in second:
        both[name] = tuple(value for value in values if value in both.get(name, values))
    return tuple(both.items())


def scoped(options: Options) -> Options:
    """Returns the options of a search with what the caller may see."""
    scope = SCOPE.get()
    return replace(options, filter=joined(scope, options.filter)) if scope else options


def check(index: EntityIndex, filter: Filter) -> None:
    """Checks a caller's filter.

    Raises:
        ValueError: No entity that the caller may see has such a field or value.
    """
    if filter:
        if not isinstance(index, FieldIndex):
            raise ValueError("filter: this index has no fields")
        index.fields.check(filter, SCOPE.get())


def check_scopes(index: EntityIndex, scopes: Iterable[Values]) -> None:
    """Checks that an index has the fields of what its callers may see.

    Raises:
        ValueError: It has not.
    """
    known = index.fields.names if isinstance(index, FieldIndex) else ()
    if unknown := sorted({name for scope in scopes for name in scope} - set(known)):
        listed = f"its fields are {', '.join(known)}" if known else "build it again with --field NAME"
        raise ValueError(f"serving.key_filters: the index {index.name} has no field {unknown[0]!r}; {listed}")
