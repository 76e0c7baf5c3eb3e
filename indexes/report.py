"""What a build says about the images that it could not use: `report.json`, and a few words of it for the screen."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from indexes.stages import MainImages
from retriever.files import write_whole
from retriever.types import Entity

logger = logging.getLogger(__name__)

_REASONS = 3


def write_report(path: Path, articles: Sequence[Entity], main_images: MainImages) -> None:
    """Writes `report.json`: each main image that is missing or unreadable, with the reason."""
    report: dict[str, list[dict[str, object]]] = {"missing": [], "unreadable": []}
    for row, image in enumerate(main_images):
        if image.problem is not None:
            entity = articles[row]
            entry = {"row": row, "id": entity.id, "image": entity.image, "path": image.path, "reason": image.reason}
            report[image.problem].append(entry)
    write_whole(path, (json.dumps(report, indent=2, ensure_ascii=False) + "\n").encode())


def read_report(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Returns the report of an index: its `missing` and its `unreadable` images."""
    report: dict[str, list[dict[str, Any]]] = json.loads((folder / "report.json").read_bytes())
    return report


def log_problems(main_images: MainImages) -> None:
    """Logs how many images are missing or unreadable, if any."""
    problems = Counter(image.problem for image in main_images)
    if problems["missing"] or problems["unreadable"]:
        first = next((image for image in main_images if image.problem == "unreadable"), None)
        example = "" if first is None else f" ({first.path}: {first.reason})"
        logger.warning("%d images missing, %d unreadable%s", problems["missing"], problems["unreadable"], example)


def problem_lines(report: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Returns a line for the missing and one for the unreadable images of a report, if any, with their main reasons."""
    lines = []
    for problem, entries in report.items():
        reasons = Counter(entry.get("reason", "no reason recorded") for entry in entries)
        named = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(_REASONS))
        if entries:
            more = "; …" if len(reasons) > _REASONS else ""
            lines.append(f"{len(entries)} images {problem}, the first of {entries[0]['id']}: {named}{more}")
    return lines
