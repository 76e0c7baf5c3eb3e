"""The file of summaries: one JSON line per entity, written as soon as it is ready, so that a killed run resumes."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from itertools import chain, islice, tee
from pathlib import Path

from indexes.builder.summarizers import Summarizer
from indexes.growing import GrowingLines
from indexes.progress import progress_bar
from retriever.types import Entity


def summarize_all(entities: Sequence[Entity], summarizer: Summarizer, path: Path, batch: int = 32) -> int:
    """Writes `{"id", "summary"}` of entity i to line i of `path`; returns the number of new summaries.

    Summaries that are already in the file are kept, so a killed run resumes after its last complete line.

    Args:
        entities: The articles, in the order of the file; only those being summarized are held in memory.
        summarizer: Writes the summaries.
        path: A JSON lines file; created if absent.
        batch: Number of lines between syncs to disk.

    Raises:
        ValueError: The file belongs to other entities, or the summarizer returns too few texts.
    """
    with GrowingLines(path, 1, len(entities)) as lines:
        start = lines.done
        _check_ids(path, entities, start)
        left = (entities[row] for row in range(start, len(entities)))
        with closing(_rows(left, summarizer)) as made:
            rows = iter(progress_bar(made, total=len(entities), initial=start, desc="summarize", unit="entity"))
            for first in rows:
                lines.append(chain([first], islice(rows, batch - 1)))
        return lines.done - start


def _rows(entities: Iterable[Entity], summarizer: Summarizer) -> Generator[dict[str, str]]:
    """Yields the rows of the file as soon as the summarizer yields their summaries."""
    asked, named = tee(entities)
    with closing(summarizer.stream(asked)) as summaries:
        for entity in named:
            summary = next(summaries, None)
            if summary is None:
                raise ValueError(f"{summarizer.name}: returned no summary for entity {entity.id!r}")
            yield {"id": entity.id, "summary": summary}


def _check_ids(path: Path, entities: Sequence[Entity], done: int) -> None:
    with path.open("rb") as file:
        for number, (line, row) in enumerate(zip(file, range(done), strict=False), start=1):
            try:
                found = json.loads(line)["id"]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}: line {number}: not a summary ({error}); delete the file") from error
            if found != entities[row].id:
                raise ValueError(
                    f"{path}: line {number}: expected entity {entities[row].id!r}, got {found!r}; delete the file"
                )
