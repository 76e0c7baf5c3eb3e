"""Processes batches of entities in order: threads read, a model encodes, while earlier results are written."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, islice
from typing import Any, Protocol, TypeVar

from indexes.ahead import map_ahead
from indexes.progress import progress_bar
from retriever.protocols import DualEncoder, FusionEncoder

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

ModelName = str  # "encoder", "fusion", or the name of a column

_READ_AHEAD = 16
"""Entities to read ahead: enough for every thread, but not more, since decoded images are large."""


class Work(Protocol[R_co]):
    """The work of a stage on a batch of entities, in two parts."""

    def read(self, row: int) -> Any:
        """Reads the entity at `row` for `encode`; called by several threads at once."""

    def encode(self, items: Sequence[Any]) -> R_co:
        """Returns the result for a batch, given the results of `read` for its rows; called by one thread."""


class Workers(Protocol):
    """Runs work with the models of a build, in this process or on several machines.

    Attributes:
        encoder: Step 1's model, also used directly for its dimension and for a few vectors.
        fusion: Step 2's model, also used directly for the shape of its tokens; `None` for an index without tokens.
        columns: The models of columns by their names, also used directly for their dimensions.
    """

    encoder: DualEncoder
    fusion: FusionEncoder | None
    columns: Mapping[str, Any]

    def run(
        self, make: Callable[..., Work[R]], models: Sequence[ModelName], batches: Sequence[range]
    ) -> Generator[R, None, None]:
        """Yields the result of each batch, in order.

        Args:
            make: Creates the work, given its models by name.
            models: The names of the models that it needs.
            batches: Rows of entities.
        """


class LocalWorkers:
    """Runs work in this process, with the models loaded here."""

    def __init__(
        self, encoder: DualEncoder, fusion: FusionEncoder | None, columns: Mapping[str, Any] | None = None
    ) -> None:
        self.encoder, self.fusion, self.columns = encoder, fusion, columns or {}

    def run(
        self, make: Callable[..., Work[R]], models: Sequence[ModelName], batches: Sequence[range]
    ) -> Generator[R, None, None]:
        """Yields the result of each batch, in order."""
        every = {"encoder": self.encoder, "fusion": self.fusion, **self.columns}
        return run_ahead(make(**{name: every[name] for name in models}), batches)


def run_ahead(work: Work[R], batches: Sequence[range]) -> Generator[R, None, None]:
    """Yields the result of each batch, in order.

    While the caller uses a result, the next batch is encoded and entities of the one after it are read. So the model
    waits only if reading or writing is slower than encoding, and about two and a half batches are in memory.
    """
    if not batches:
        return
    with closing(map_ahead(work.read, chain.from_iterable(batches), _READ_AHEAD)) as items:
        groups = (list(islice(items, len(rows))) for rows in batches)
        with closing(map_ahead(work.encode, groups, 1, threads=1)) as results:
            yield from results


def in_batches(
    what: str,
    workers: Workers,
    make: Callable[..., Work[R]],
    models: Sequence[ModelName],
    rows: range,
    batch: int,
) -> Generator[tuple[range, R], None, None]:
    """Yields the rows of each batch with its result, in order, and shows progress.

    Args:
        what: The stage's name, for the progress bar.
        workers: Run the work.
        make: Creates the work, given its models by name.
        models: The names of the models that it needs.
        rows: From the first remaining row to the number of entities.
        batch: Entities per batch.
    """
    batches = list(split(rows, batch))
    with (
        closing(workers.run(make, models, batches)) as results,
        progress_bar(total=rows.stop, initial=rows.start, desc=what, unit="entity") as bar,
    ):
        for part, result in zip(batches, results, strict=True):
            yield part, result
            bar.update(len(part))


def split(rows: range, batch: int) -> Iterator[range]:
    """Yields ranges of up to `batch` rows."""
    return (rows[start : start + batch] for start in range(0, len(rows), batch))
