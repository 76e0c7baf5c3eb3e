"""The reports of a run: `report.json`, and `missing.jsonl` with every missing image and its reason."""

from __future__ import annotations

from typing import Any

from omgm.downloads.images.journal import Journal
from omgm.downloads.images.plan import EntityCounts
from omgm.downloads.images.reasons import REASONS
from retriever.files import write_json, write_lines

_EXAMPLES = 5
_HOSTS = 20


def write_report(journal: Journal, counts: EntityCounts, this_run: dict[str, Any]) -> dict[str, Any]:
    """Writes the report of a run and the list of missing images to the journal's folder, and returns the report.

    Args:
        journal: The journal after the run.
        counts: Entities of the knowledge base.
        this_run: Figures of this run only.
    """
    states = {state: 0 for state in ("here", "done", "failed", "wanted")}
    with_main = 0
    for state, count, entities in journal.rows(
        "SELECT state, count(*), sum(entities) FROM pictures WHERE run = ? GROUP BY state", journal.run
    ):
        states[state] = count
        with_main += entities if state in ("here", "done") else 0
    [(sent, stored, contents)] = journal.rows(
        "SELECT coalesce(sum(bytes), 0), coalesce(sum(stored), 0), count(DISTINCT sha) FROM pictures "
        "WHERE state = 'done' AND run = ?",
        journal.run,
    )
    report = {
        "entities": {
            "all": counts.entities,
            "main_image_there": with_main,
            "main_image_missing": counts.entities - counts.without - with_main,
            "no_image_named": counts.without,
        },
        "images": {
            "named": sum(states.values()),
            "there": states["done"] + states["here"],
            "not_from_here": states["here"],
            "duplicates": states["done"] - contents,
            "missing": states["failed"] + states["wanted"],
        },
        "bytes": {"as_sent": sent, "as_stored": stored},
        "this_run": this_run,
        "missing": _missing(journal),
    }
    rows = journal.rows(
        "SELECT url, reason, detail FROM pictures WHERE state = 'failed' AND run = ? ORDER BY id", journal.run
    )
    listed = ({"url": url, "reason": reason, "detail": detail} for url, reason, detail in rows)
    write_lines(journal.folder / "missing.jsonl", listed)
    write_json(journal.folder / "report.json", report)
    return report


def _missing(journal: Journal) -> dict[str, Any]:
    """Returns for each reason, most frequent first, the number of images, their hosts, and examples."""
    reasons: dict[str, Any] = {}
    failed = "FROM pictures WHERE state = 'failed' AND run = ?"
    counts = journal.rows(f"SELECT reason, count(*) {failed} GROUP BY reason ORDER BY 2 DESC, 1", journal.run)
    for reason, count in list(counts):
        hosts = journal.rows(
            f"SELECT host, count(*) {failed} AND reason = ? GROUP BY host ORDER BY 2 DESC, 1 LIMIT {_HOSTS}",
            journal.run,
            reason,
        )
        examples = journal.rows(
            f"SELECT url, detail {failed} AND reason = ? ORDER BY id LIMIT {_EXAMPLES}", journal.run, reason
        )
        reasons[reason] = {
            "meaning": REASONS[reason].meaning,
            "asked_again_by_next_run": REASONS[reason].later,
            "images": count,
            "hosts": dict(hosts),
            "examples": [{"url": url, "detail": detail} for url, detail in examples],
        }
    return reasons
