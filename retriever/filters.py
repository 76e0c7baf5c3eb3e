"""Which entities a search may find: those whose fields have certain values.

What a caller may see at all, such as a tenant's own entities, is the `SCOPE` of everything that is done for the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from retriever.types import Entity, Filter, Options

if TYPE_CHECKING:  # clients need no PyTorch
    from retriever.asking import EntityIndex

Value = str | bool | int | float
Values = Mapping[str, Value | Sequence[Value]]
"""Fields as users write them, each with a value or several."""
SCOPE: ContextVar[Filter] = ContextVar("scope", default=())
"""What the caller may see, which is added to the filter of every search."""


@runtime_checkable
class FieldIndex(Protocol):
    """An optional extension of an index whose entities have fields."""

    @property
    def fields(self) -> Any:
        """These, as an `indexes.live.fields.IndexFields`."""


def filter_of(values: Values) -> Filter:
    """Returns fields as a filter; numbers are compared as they are written, 5.0 like 5.

    Raises:
        ValueError: A value is neither text nor a number, or a field has none.

    Example:
        >>> filter_of({"year": [2024, "2025"], "category": "bird"})
        (('category', ('bird',)), ('year', ('2024', '2025')))
    """
    found = dict[str, tuple[str, ...]]()
    for name, value in sorted(values.items()):
        listed: Sequence[Value] = [value] if isinstance(value, str | int | float) else value
        if not isinstance(listed, list | tuple) or not listed or not all(isinstance(v, Value) for v in listed):
            raise ValueError(f"filter.{name} must be a text, a number or a list of them")
        found[name] = tuple(dict.fromkeys(map(text_of, listed)))
    return tuple(found.items())


def text_of(value: Value) -> str:
    """Returns a value as it is compared."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()


def fits(entity: Entity, filter: Filter) -> bool:
    """Returns whether an entity has one of the values of each field."""
    return all(any((name, value) in entity.fields for value in values) for name, values in filter)


def joined(first: Filter, second: Filter) -> Filter:
    """Returns the filter of what fits both."""
    both = dict(first)
    for name, values in second:
        both[name] = tuple(value for value in values if value in both.get(name, values))
    return tuple(both.items())


@contextmanager
def within(filter: Filter) -> Iterator[None]:
    """Narrows what is seen until the end of the block."""
    token = SCOPE.set(joined(SCOPE.get(), filter))
    try:
        yield
    finally:
        SCOPE.reset(token)


def scoped(options: Options) -> Options:
    """Returns the options of a search with what the caller may see."""
    return replace(options, filter=joined(SCOPE.get(), options.filter))


def options_of(index: EntityIndex, filter: Values | None = None, **options: Any) -> Options:
    """Returns the options of a search, given as keywords, with what the caller may see; raises as `limited`."""
    return limited(index, Options(**options, filter=filter_of(filter or {})))


def limited(index: EntityIndex, options: Options) -> Options:
    """Returns options with what the caller may see; raises as `check`, also for an entity that is not among it."""
    check(index, options.filter)
    options = scoped(options)
    row = None if options.entity is None else index.row_of(options.entity)
    if options.entity is not None and (row is None or not fits(index.entity(row), options.filter)):
        raise ValueError(f"entity: no entity that fits the filter has the id {options.entity!r}")
    return options


def check(index: EntityIndex, filter: Filter, scopes: Iterable[Values] = ()) -> None:
    """Checks a caller's filter, and that an index has the fields of `serving.key_filters`.

    Raises:
        ValueError: No entity that the caller may see has such a field or value, or a key's field is missing.
    """
    known = index.fields.names if isinstance(index, FieldIndex) else ()
    if unknown := sorted({name for scope in scopes for name in scope} - set(known)):
        listed = (
            f"its fields are {', '.join(known)}" if known else "build it again with `omgm build-index --field NAME`"
        )
        raise ValueError(f"serving.key_filters: the index {index.name} has no field {unknown[0]!r}; {listed}")
    if filter and isinstance(index, FieldIndex):
        index.fields.check(filter, SCOPE.get())
    elif filter:
        raise ValueError("filter: this index has no fields")
