"""Measures what two cores can measure in half an hour, and writes it into the pages; `make figures`.

    python -m benchmarks.figures                    all parts, one after another
    python -m benchmarks.figures --only load        one part; --atlas DIR says where Atlas is, for those that need it
    python -m benchmarks.figures --recorded         fills the pages from the last measurements, without new ones
    python -m benchmarks.figures --stale            lists the blocks whose code has changed since they were measured

A block of a page stands between `<!-- figures: NAME -->` and `<!-- /figures -->`; below its tables are command, commit
and machine. `figures.toml` lists the parts that measure, and their blocks. A part that fails leaves its blocks as they
are; the exit status is then 1. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import figure_tables
from benchmarks.frame import arguments, processor
from retriever.files import write_json, write_whole

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/performance.md", "docs/results.md")
FOLDER = ROOT / "artifacts" / "figures"
BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n)(.*?)(<!-- /figures -->)", re.DOTALL)
LIST = Path(__file__).with_suffix(".toml")
COMMIT = re.compile(r"commit ([0-9a-f]{8,40})\b")


@dataclass(frozen=True, slots=True)
class Part:
    """A measurement, as `figures.toml` describes it."""

    minutes: float
    commands: Sequence[str]
    results: Mapping[str, str]
    blocks: Mapping[str, str]
    paths: Sequence[str]


PARTS = {name: Part(**row) for name, row in tomllib.loads(LIST.read_text(encoding="utf-8")).items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, fills the pages, and returns the exit status."""
    parser = arguments(__doc__, out="")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="only this part; may be repeated")
    parser.add_argument("--atlas", type=Path, metavar="DIR", help="where Atlas is; without it, that part is left out")
    parser.add_argument("--recorded", action="store_true", help="measure nothing, take what was measured last")
    parser.add_argument("--stale", action="store_true", help="only list the blocks whose code has changed since")
    args = parser.parse_args(argv)
    if args.stale:
        return list_stale()
    names = list(args.only or PARTS)
    if "atlas" in names and not (args.atlas or args.recorded):
        print("atlas is left out: --atlas DIR says where it is", file=sys.stderr)
        names.remove("atlas")
    failed = [] if args.recorded else [name for name in names if not measure(name, names, args)]
    files = {name: FOLDER / f"{name}.json" for name in names if name not in failed}
    records = {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.is_file()}
    for page in PAGES:
        path = ROOT / page
        write_whole(path, filled(path.read_text(encoding="utf-8"), records).encode())
    if failed:
        print(f"failed, so that their blocks are as before: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def measure(name: str, names: Sequence[str], args: argparse.Namespace) -> bool:
    """Runs the commands of a part and records what they measured; returns whether all succeeded."""
    part, out, started = PARTS[name], FOLDER / name, time.monotonic()
    print(f"{names.index(name) + 1}/{len(names)}  {name}: about {part.minutes:g} minutes", file=sys.stderr, flush=True)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    record = {"commit": commit(), "machine": f"{len(os.sched_getaffinity(0))} cores of {processor()}"}
    for command in part.commands:
        folders = {"out": out, "atlas": args.atlas and args.atlas.resolve()}
        words = [word.format(**folders) for word in shlex.split(command)]
        with (FOLDER / f"{name}.log").open("a") as log:
            print("$ python", *words, file=log, flush=True)
            environment = {"OMP_NUM_THREADS": "1", **os.environ}
            done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, stdout=log, stderr=log)
        if done.returncode:
            print(f"     python {shlex.join(words)}: exit status {done.returncode}, see {log.name}", file=sys.stderr)
            return False
    results = {key: json.loads((out / file).read_text(encoding="utf-8")) for key, file in part.results.items()}
    write_json(FOLDER / f"{name}.json", {**record, "results": results})
    print(f"     took {(time.monotonic() - started) / 60:.1f} minutes", file=sys.stderr, flush=True)
    return True


def part_of(block: str) -> str:
    """Returns the name of the part that measures a block."""
    return next(name for name, part in PARTS.items() if block in part.blocks)


def filled(text: str, records: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a page with the blocks of the recorded parts; the rest stays as it is."""

    def block(match: re.Match[str]) -> str:
        name = part_of(match[2])
        if name not in records:
            return match[0]
        record, tables = records[name], getattr(figure_tables, PARTS[name].blocks[match[2]])
        source = f'`make figures ARGS="--only {name}"`, commit {record["commit"]}, {record["machine"]}.'
        return f"{match[1]}{tables(record['results'])}\n\n{source}\n{match[4]}"

    return BLOCK.sub(block, text)


def list_stale() -> int:
    """Prints the blocks whose paths have changed since they were measured; returns 1 if there are any."""
    stale = 0
    for page in PAGES:
        for block in BLOCK.finditer((ROOT / page).read_text(encoding="utf-8")):
            measured = COMMIT.search(block[3])
            paths = PARTS[part_of(block[2])].paths
            try:
                changed = git("diff", "--shortstat", measured[1], "--", *paths) if measured else "never measured"
            except subprocess.CalledProcessError:
                changed = "measured at a commit that is not in this repository"
            if changed:
                print(f"{page}: {block[2]}: {changed}")
                stale = 1
    return stale


def commit() -> str:
    """Returns the commit, with `-dirty` if anything but the pages differs from it."""
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *(f":!{page}" for page in PAGES))
    return git("rev-parse", "--short=8", "HEAD") + ("-dirty" if changed else "")


def git(*words: str) -> str:
    """Runs a Git command and returns its output."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
