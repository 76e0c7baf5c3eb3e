"""Reports the entries and images that a build could not use: in `report.json`, and briefly in the terminal."""

from __future__ import annotations

import json
import logging
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from indexes.article_images import ImageProblem, MainImage
from indexes.formats.skipped import SkippedEntries
from indexes.image_records import ImageRecords
from indexes.images import FETCHABLE
from indexes.self_retrieval import SelfRetrieval
from indexes.thumbnails import SharedImages
from retriever.files import replacing, write_whole
from retriever.types import Entity
from retriever.wording import counted

logger = logging.getLogger(__name__)

Report = dict[str, Any]
"""`skipped`: entries of the knowledge base, counted and listed; `missing` and `unreadable`: lists of images;
`shared_images`: main images shared by several entities; `self_retrieval`: whether the encoder can tell images apart."""

PROBLEMS = get_args(ImageProblem)
"""Possible problems with a main image."""
_REASONS = 3
_SKIPPED = "skipped.json"


def write_report(
    path: Path,
    articles: Sequence[Entity],
    images: ImageRecords,
    skipped: dict[str, Any],
    shared: SharedImages,
    fit: SelfRetrieval | None = None,
) -> None:
    """Writes `report.json`: skipped entries, problems with main images, and how well the encoder tells them apart."""
    rows = {problem: array("q") for problem in PROBLEMS}
    for row, record in enumerate(images):
        if record.problem is not None:
            rows[record.problem].append(row)
    listed = {problem: _Entries(found, articles, images) for problem, found in rows.items()}
    report: Report = {"skipped": skipped, **listed, "shared_images": shared.to_json()}
    if fit is not None:
        report["self_retrieval"] = fit.to_json()
    with replacing(path) as partial, partial.open("w", encoding="utf-8") as file:
        file.writelines(json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(report))
        file.write("\n")


class _Entries(list[Any]):
    """The entries of a report about main images, created lazily as they are written, since there may be millions."""

    def __init__(self, rows: Sequence[int], articles: Sequence[Entity], images: ImageRecords) -> None:
        super().__init__()
        self._rows, self._articles, self._images = rows, articles, images

    def __bool__(self) -> bool:
        return bool(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return (image_problem(row, self._articles[row], self._images[row].main) for row in self._rows)


def image_problem(row: int, entity: Entity, image: MainImage) -> dict[str, Any]:
    """Returns the report's entry about a main image."""
    return {"row": row, "id": entity.id, "image": entity.image, "path": image.path, "reason": image.reason}


def write_skipped(parts: Path, skipped: SkippedEntries) -> None:
    """Writes the list of skipped entries to a file; a resumed build may only get to `write_report` in another run."""
    found = {"count": skipped.count, "of": skipped.total, "entries": skipped.listed}
    write_whole(parts / _SKIPPED, json.dumps(found, ensure_ascii=False).encode())


def read_skipped(parts: Path) -> dict[str, Any]:
    """Returns the skipped entries that `write_skipped` wrote."""
    found: dict[str, Any] = json.loads((parts / _SKIPPED).read_bytes())
    return found


def read_report(folder: Path) -> Report:
    """Returns the report of an index."""
    report: Report = json.loads((folder / "report.json").read_bytes())
    return report


def counts_of(report: Report) -> dict[str, int]:
    """Returns the numbers of skipped entries and of missing and unreadable images, by their names in JSON."""
    skipped = report.get("skipped", {"count": 0})["count"]
    return {"entries_skipped": skipped, **{f"images_{name}": len(report[name]) for name in PROBLEMS}}


def log_problems(images: ImageRecords) -> None:
    """Logs how many main images are missing or unreadable, if any."""
    problems = Counter(record.problem for record in images)
    if problems["missing"] or problems["unreadable"]:
        first = next((record for record in images if record.problem == "unreadable"), None)
        example = "" if first is None else f" ({first.path}: {first.reason})"
        missing = counted(problems["missing"], "image")
        logger.warning("%s missing, %d unreadable%s", missing, problems["unreadable"], example)


def problem_lines(report: Report) -> list[str]:
    """Returns a line for each kind of problem in a report: skipped entries, images, an unsuitable encoder."""
    lines = []
    skipped = report.get("skipped", {"count": 0})
    if skipped["count"]:
        first = skipped["entries"][0]
        share = 100 * skipped["count"] / skipped["of"]
        reasons = f"the first: {first['place']}: {first['reason']}"
        lines.append(f"{skipped['count']} of {skipped['of']} entries skipped ({share:.3g} %), {reasons}")
    for problem in PROBLEMS:
        entries = report[problem]
        occurrences = Counter(entry.get("reason", "no reason recorded") for entry in entries)
        named = "; ".join(f"{count} x {reason}" for reason, count in occurrences.most_common(_REASONS))
        if entries:
            more = "; …" if len(occurrences) > _REASONS else ""
            images = counted(len(entries), "image")
            remote = problem == "missing" and any("://" in str(entry.get("image")) for entry in entries)
            hint = f"; {FETCHABLE}" if remote else ""
            lines.append(f"{images} {problem}, the first of {entries[0]['id']}: {named}{more}{hint}")
    shared = report.get("shared_images", {"images": 0})  # not in indexes of older versions
    if shared["images"]:
        first = shared["most_frequent"][0]
        images, entities = counted(shared["images"], "main image"), counted(shared["entities"], "entity")
        lines.append(
            f"{images} shared by {entities}, which no photograph can tell apart; the most common, with "
            f"{counted(first['entities'], 'entity')}: {first['image']}"
        )
    if warning := encoder_warning(report):
        lines.append(f"warning: {warning}")
    return lines


def encoder_warning(report: Report) -> str:
    """Returns the warning that the encoder does not suit the images, or "" if there is none."""
    return str(report.get("self_retrieval", {}).get("warning", ""))
