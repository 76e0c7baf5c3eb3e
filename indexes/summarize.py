"""Summaries of articles, one JSON line an entity: what a summarizer is, and the file that survives a kill."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from indexes.growing import GrowingLines
from retriever.types import Entity


class Summarizer(Protocol):
    """Makes the short text that step 1 searches."""

    @property
    def name(self) -> str:
        """What summarized, with all that changes its output: two summarizers with one name write the same."""

    def summarize(self, entities: Sequence[Entity]) -> list[str]:
        """Returns one summary for each entity."""


def summarize_all(
    entities: Sequence[Entity], summarizer: Summarizer, path: Path, batch: int = 32, *, progress: bool = False
) -> int:
    """Returns how many summaries were made now; afterwards line i of `path` is `{"id", "summary"}` of entity i.

    What the file holds already is kept: a killed run continues after its last whole batch.

    Args:
        entities: The articles, in the order of the file. Only a batch of them is held at a time.
        summarizer: What writes the summaries.
        path: A JSON lines file; made when absent.
        batch: Entities a call of the summarizer.
        progress: Whether to show a bar.

    Raises:
        ValueError: The file belongs to other entities, or the summarizer returns another number of texts than asked.
    """
    with GrowingLines(path, batch, len(entities)) as lines:
        start = lines.done
        _check_ids(path, entities, start)
        bar = tqdm(total=len(entities), initial=start, desc="summarize", unit="entity", disable=not progress)
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
                    f"{path}: line {number}: entity {found!r} where {entities[row].id!r} is due; delete it"
                )
