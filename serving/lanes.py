"""What the service asks of a retriever that works on several batches at once, and of a generator that computes here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Any, Protocol, runtime_checkable

from retriever.asking import Generator
from retriever.types import Generation, GenerationRequest, Query, RetrievalResult

Submit = Callable[[GenerationRequest], Awaitable[Generation]]


class Lane(Protocol):
    """Works on one batch at a time, beside others."""

    def retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        """Returns one result per query, in order."""

    def read(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer per request, in order; asked only if the service's generator is a `BatchedGenerator`."""

    def revive(self) -> None:
        """Makes this lane usable again, if the last batch has broken it; may take seconds."""

    def close(self) -> None:
        """Frees what the lane holds; it is not used any more."""


@runtime_checkable
class PipelinedRetriever(Protocol):
    """An optional extension of a retriever that can work on several batches at once, each in other steps."""

    @property
    def in_flight(self) -> int:
        """How many batches can be in progress at once."""

    def retrieve(self, queries: Sequence[Query], *, free: Callable[[], object]) -> list[RetrievalResult]:
        """Returns one result per query, in order; calls `free` as soon as another batch may begin."""


@runtime_checkable
class ParallelRetriever(Protocol):
    """An optional extension of a retriever that works on several batches side by side, in lanes."""

    @property
    def lanes(self) -> Sequence[Lane]:
        """The lanes."""


@runtime_checkable
class BatchedGenerator(Protocol):
    """An optional extension of a generator that computes here: a service reads the requests of several callers at once.

    Attributes:
        submit: Takes a request to where `read_all` reads it with others; see `submitting`.
    """

    submit: Submit | None

    def read_all(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer per request; computes for as long as that takes."""


def batched(generator: Generator) -> BatchedGenerator | None:
    """Returns the `BatchedGenerator` that answers, maybe behind a guard; `None` if it is another one."""
    inner = getattr(generator, "generator", generator)
    return inner if isinstance(inner, BatchedGenerator) else None


def submitting(generator: Any, submit: Submit) -> Any:
    """Returns a copy of a generator whose `BatchedGenerator` has this `submit`: others may use the same one."""
    own = copy(generator)
    if isinstance(own, BatchedGenerator):
        own.submit = submit
    else:
        own.generator = submitting(own.generator, submit)
    return own
