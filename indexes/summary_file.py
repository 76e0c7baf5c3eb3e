"""The file of summaries: one JSON line per entity, written batch by batch so that a killed run resumes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from indexes.growing import GrowingLines
from indexes.progress import progress_bar
from indexes.summarizers import Summarizer
from retriever.types import Entity


def summarize_all(
    entities: Sequence[Entity], summarizer: Summarizer, path: Path, batch: int = 32, *, progress: bool = False
) -> int:
    """Writes line i of `path` as `{"id", "summary"}` of entity i, and returns how many summaries were new.

    Summaries that the file already holds are kept: a killed run resumes after its last whole batch.

    Args:
        entities: The articles, in the order of the file; one batch of them is held in memory.
        summarizer: Writes the summaries.
        path: A JSON lines file; created if absent.
        batch: Entities per call of the summarizer.
        progress: Whether to show a progress bar.

    Raises:
        ValueError: The file belongs to other entities, or the summarizer returns too few or too many texts.
    """
    with GrowingLines(path, batch, len(entities)) as lines:
        start = lines.done
        _check_ids(path, entities, start)
        bar = progress_bar(total=len(entities), initial=start, desc="summarize", unit="entity", shown=progress)
        for first in range(start, len(entities), batch):
            articles = entities[first : first + batch]
            summaries = summarizer.summarize(articles)
            if len(summaries) != len(articles):
                raise ValueError(f"{summarizer.name}: {len(summaries)} summaries for {len(articles)} entities")
            lines.append(
                {"id": article.id, "summary": summary} for article, summary in zip(articles, summaries, strict=True)
            )
            bar.update(len(articles))
        bar.close()
        return lines.done - start


def _check_ids(path: Path, entities: Sequence[Entity], done: int) -> None:
    with path.open("rb") as file:
        for number, (line, row) in enumerate(zip(file, range(done), strict=False), start=1):
            try:
                found = json.loads(line)["id"]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}: line {number}: not a summary ({error}); delete the file") from error
            if found != entities[row].id:
                raise ValueError(
                    f"{path}: line {number}: expected entity {entities[row].id!r}, found {found!r}; delete it"
                )
