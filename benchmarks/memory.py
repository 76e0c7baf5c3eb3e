"""Whether the memory of `omgm serve` grows: open-loop load for an hour, measured every minute.

    python -m benchmarks.memory --index INDEX --queries QUERIES --query-images IMAGES --rate 8 --out memory.json

`memory.json` has the resident memory of the service's processes after each minute, shared pages counted once, and how
much the mean of the last ten minutes is above that of the ten that follow the first five, in percent (goal: within 3).
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.frame import arguments, write_report
from benchmarks.load import Requests, put_load
from benchmarks.processes import folders_of, service
from omgm.commands.common import add_index, add_profile, add_questions
from omgm.commands.serve import limit_threads
from omgm.profile import load_profile

_WARM, _MEAN = 5, 10
"""Minutes until caches are full, and minutes whose mean is compared."""


def resident_mib(pid: int) -> float:
    """Returns the resident memory of a process and its descendants in MiB; pages of several count in equal shares."""
    lines = [line for folder in folders_of(pid) for line in (folder / "smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Puts load on a service; returns the report."""
    limit_threads(load_profile(args.profile, args.overrides).serving.model_threads)
    requests, minutes = Requests(args), list[dict[str, Any]]()
    with service(args.profile, args.index, args.overrides) as running:
        for minute in range(args.minutes):
            figures = put_load(running, requests(1000 * minute), args.rate, 60.0, minute)
            kept = {name: figures[name] for name in ("answered_per_s", "errors")}
            minutes.append({"mib": round(resident_mib(running[0].pid), 1), **kept})
            print(json.dumps(minutes[-1]), flush=True)
    mib = [minute["mib"] for minute in minutes]
    early, late = statistics.fmean(mib[_WARM : _WARM + _MEAN]), statistics.fmean(mib[-_MEAN:])
    return {
        "profile": args.profile,
        "rate": args.rate,
        "growth_percent": round(100 * (late / early - 1), 2),
        "minutes": minutes,
    }


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__)
    add_profile(parser)
    add_index(parser)
    add_questions(parser)
    parser.add_argument("--rate", type=float, default=8.0, help="requests a second (%(default)s)")
    parser.add_argument("--minutes", type=int, default=60, help="minutes of load (%(default)s)")
    parser.set_defaults(out=Path("memory.json"))
    args = parser.parse_args(argv)
    if args.minutes < _WARM + 2 * _MEAN:
        parser.error(f"--minutes: must be at least {_WARM + 2 * _MEAN}, got {args.minutes}")
    report = measure(args)
    write_report(args.out, report)
    print(json.dumps({"growth_percent": report["growth_percent"]}))


if __name__ == "__main__":
    main()
