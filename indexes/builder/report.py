"""Reports the entries and images that a build could not use: in two files, and briefly in the terminal."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from indexes.account import Account, warning_of
from indexes.article_images import ImageProblem, MainImage
from indexes.builder.image_records import ImageRecords
from indexes.image_source import advice_on
from indexes.store.manifest import IMAGE_PROBLEMS, REPORT
from retriever.files import as_line, replacing, write_json, write_whole
from retriever.types import Entity
from retriever.wording import counted

logger = logging.getLogger(__name__)

Report = dict[str, Any]
"""`words`, `pictures` and `left_out`: see `indexes.knowledge.ledger`. `skipped`: entries of the knowledge base;
`missing` and `unreadable`: main images; all three are counted, and the first ones are listed. `shared_images`: main
images shared by several entities; `self_retrieval`: whether the encoder can tell images apart."""

PROBLEMS = get_args(ImageProblem)
"""Possible problems with a main image."""
_LISTED = 1000  # most images of a kind of problem that the report lists
_REASONS = 3
_MOST_REASONS = 100
READING = "reading.json"
"""The file of an unfinished build with what reading the knowledge base left out."""


def write_report(folder: Path, problems: Iterable[dict[str, Any]], others: Report) -> None:
    """Writes `report.json`, and `image_problems.jsonl` with all problems with main images, which may be millions.

    Args:
        folder: The index's folder.
        problems: The entries about main images (`image_problem`), in the order of rows.
        others: The other parts of the report.
    """
    with replacing(folder / IMAGE_PROBLEMS) as partial, partial.open("wb") as file:

        def written() -> Iterator[dict[str, Any]]:
            for problem in problems:
                file.write(as_line(problem))
                yield problem

        summary = ImageSummary(written()).to_json()
    write_json(folder / REPORT, others | summary)


class ImageSummary:
    """The part of a report about main images: for each kind of problem, how many, why, and the first ones."""

    def __init__(self, problems: Iterable[dict[str, Any]] = ()) -> None:
        self._reasons: dict[str, Counter[str]] = {problem: Counter() for problem in PROBLEMS}
        self._entries: dict[str, list[dict[str, Any]]] = {problem: [] for problem in PROBLEMS}
        for entry in problems:
            self.add(entry)

    def add(self, entry: dict[str, Any]) -> None:
        """Counts an entry (`image_problem`)."""
        problem = entry["problem"]
        reason = entry.get("reason", "no reason recorded")
        self._reasons[problem][reason.partition(": ")[0] if problem == "missing" else reason] += 1  # without examples
        if len(self._entries[problem]) < _LISTED:
            self._entries[problem].append(entry)

    def to_json(self) -> Report:
        """Returns the part of the report."""
        return {
            problem: {
                "count": self._reasons[problem].total(),
                "reasons": dict(self._reasons[problem].most_common(_MOST_REASONS)),
                "entries": self._entries[problem],
            }
            for problem in PROBLEMS
        }


def image_problems(articles: Sequence[Entity], images: ImageRecords) -> Iterator[dict[str, Any]]:
    """Yields the entries about the main images of a build."""
    for row, record in enumerate(images):
        if record.problem is not None:
            yield image_problem(row, articles[row], record.main)


def image_problem(row: int, entity: Entity, image: MainImage) -> dict[str, Any]:
    """Returns the entry about a main image."""
    return {
        "row": row,
        "id": entity.id,
        "problem": image.problem,
        "image": entity.image,
        "path": image.path,
        "reason": image.reason,
    }


def read_problems(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields the entries about the main images of an index, in the order of rows."""
    if not (folder / IMAGE_PROBLEMS).exists():
        yield from sorted(_listed(json.loads((folder / REPORT).read_bytes())), key=lambda entry: int(entry["row"]))
        return
    with (folder / IMAGE_PROBLEMS).open("rb") as file:
        yield from map(json.loads, file)


def _listed(report: Report) -> Iterator[dict[str, Any]]:
    """Yields the entries about main images in a report of an older version, which lists them all."""
    return ({"problem": problem} | entry for problem in PROBLEMS for entry in report[problem])


def write_reading(parts: Path, account: Account) -> None:
    """Writes what was not read to a file; a resumed build may only get to `write_report` in another run."""
    write_whole(parts / READING, json.dumps(account, ensure_ascii=False).encode())


def read_reading(parts: Path, found: int) -> Report:
    """Reads the account that `write_reading` wrote, with the number of main images that were found."""
    report: Report = json.loads((parts / READING).read_bytes())
    report["pictures"]["found"] = found
    return report


def read_report(folder: Path) -> Report:
    """Returns the report of an index."""
    report: Report = json.loads((folder / REPORT).read_bytes())
    return report if (folder / IMAGE_PROBLEMS).exists() else report | ImageSummary(_listed(report)).to_json()


def counts_of(report: Report) -> dict[str, int]:
    """Returns the numbers of skipped entries and of missing and unreadable images, by their names in JSON."""
    skipped = report.get("skipped", {"count": 0})["count"]
    return {"entries_skipped": skipped, **{f"images_{name}": report[name]["count"] for name in PROBLEMS}}


def ledger_of(report: Report) -> Report:
    """Returns the part of a report about what was kept and left out; empty for an index of an older version."""
    return {name: report[name] for name in ("words", "pictures", "left_out") if name in report}


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
    lines = list(filter(None, [warning_of(report) if "left_out" in report else ""]))  # not in older versions' indexes
    lines += report.get("notes", [])
    skipped = report.get("skipped", {"count": 0})
    if skipped["count"]:
        first = skipped["entries"][0]
        share = 100 * skipped["count"] / skipped["of"]
        reasons = f"the first: {first['place']}: {first['reason']}"
        lines.append(f"{skipped['count']} of {skipped['of']} entries skipped ({share:.3g} %), {reasons}")
    for problem in PROBLEMS:
        found = report[problem]
        if found["count"]:
            reasons, entries = found["reasons"], found["entries"]
            named = "; ".join(f"{count} x {reason}" for reason, count in islice(reasons.items(), _REASONS))
            more = "; …" if len(reasons) > _REASONS else ""
            images = counted(found["count"], "image")
            hint = advice_on(str(entry["image"]) for entry in entries) if problem == "missing" else ""
            lines.append(f"{images} {problem}, the first of {entries[0]['id']}: {named}{more}{hint}")
    shared = report.get("shared_images", {"images": 0})  # not in indexes of older versions
    if shared["images"]:
        first = shared["most_frequent"][0]
        images, entities = counted(shared["images"], "main image"), counted(shared["entities"], "entity")
        lines.append(
            f"{images} shared by {entities}, which no photograph can tell apart; the most common, with "
            f"{counted(first['entities'], 'entity')}: {first['image']}"
        )
    plain = report.get("plain_images", {"count": 0})  # not in indexes of older versions
    if plain["count"]:
        first, images = plain["entries"][0], counted(plain["count"], "main image")
        lines.append(f"{images} of only one color, such as {first['image']} of {first['id']}: nothing to recognize")
    if texts := report.get("image_text", {"images": 0})["images"]:  # not in indexes without such a column
        lines.append(f"text read on {counted(texts, 'image')}")
    if warning := encoder_warning(report):
        lines.append(f"warning: {warning}")
    return lines


def encoder_warning(report: Report) -> str:
    """Returns the warning that the encoder does not suit the images, or "" if there is none."""
    return str(report.get("self_retrieval", {}).get("warning", ""))
