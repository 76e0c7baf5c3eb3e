"""Measures what two cores can measure in half an hour, and writes it into the pages; `make figures`.

    python -m benchmarks.figures                    all parts, one after another
    python -m benchmarks.figures --only load        one part; --atlas DIR says where Atlas is, for those that need it
    python -m benchmarks.figures --recorded         fills the pages from the last measurements, without new ones
    python -m benchmarks.figures --stale            lists the blocks whose code has changed since they were measured

A block of a page stands between `<!-- figures: NAME -->` and `<!-- /figures -->`. `BLOCKS` names the part that measures
it and the function that writes its tables; below them are the command, commit and machine. Each part of `PARTS` runs
commands that leave JSON in `artifacts/figures/PART`, and names the paths that its figures depend on. A part that fails
leaves its blocks as they are; the exit status is then 1. Nothing else should run meanwhile.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figure_tables import builds, codecs, first_use, overload, search, service, steps, training
from benchmarks.frame import arguments, processor
from retriever.files import write_json, write_whole

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/performance.md", "docs/results.md")
FOLDER = ROOT / "artifacts" / "figures"
BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n)(.*?)(<!-- /figures -->)", re.DOTALL)
COMMIT = re.compile(r"commit ([0-9a-f]{8,40})\b")


@dataclass(frozen=True, slots=True)
class Part:
    """A measurement.

    Attributes:
        minutes: How long it takes on two quiet cores.
        commands: Arguments of this Python, with `{out}` for the part's folder and `{atlas}` for that of Atlas.
        results: The files of JSON in the part's folder, by the names that the blocks use.
        paths: The paths that its figures depend on.
    """

    minutes: float
    commands: Sequence[str]
    results: Mapping[str, str]
    paths: Sequence[str]


@dataclass(frozen=True, slots=True)
class Block:
    """What a block of the pages shows: the part that measures it, and the tables of that part's results."""

    part: str
    tables: Callable[[Mapping[str, Any]], str]


def indexed(kb: str, more: str = "") -> str:
    """Returns the command that builds the index of a folder in E-VQA's format."""
    return f"-m omgm build-index --kb {kb}/kb_wiki.json --images {kb}/images --out {{out}}/index {more}"


def evaluated(kb: str, queries: str, more: str = "") -> str:
    """Returns the command that evaluates questions about such a folder."""
    asked = f"--dataset evqa --queries {queries} --query-images {kb}/queries"
    return f"-m omgm evaluate --index {{out}}/index {asked} --out {{out}}/run {more}"


DEMO = "artifacts/demo"
WRITE_DEMO = f"-m pretraining.demo.build --out {DEMO}"
RETRIEVAL = ("retriever", "indexes/builder", "indexes/store", "configs/embedded.toml", "weights/embedded")
ANSWERS = (*RETRIEVAL, "generators")
PARTS = {
    "load": Part(
        9,
        (
            WRITE_DEMO,
            indexed(DEMO),
            f"-m benchmarks.load --index {{out}}/index --queries {DEMO}/test.csv --query-images {DEMO}/queries "
            "--out {out}/load.json --seconds 30 --rounds 3 --factors 0.8 2 10",
        ),
        {"load": "load.json"},
        (*ANSWERS, "serving", "omgm/served_app.py", "omgm/server.py", "benchmarks/load.py", "benchmarks/open_loop.py"),
    ),
    "scale": Part(
        4,
        (
            "-m benchmarks.scale --entities 10000 --folder {out}/work --out {out}/scale.json",
            "-m benchmarks.scale --entities 100000 --parts search --kinds flat ivf-pq --folder {out}/work "
            "--out {out}/scale.json",
        ),
        {"scale": "scale.json"},
        ("indexes/store", "indexes/builder", "indexes/live", "benchmarks/scale.py", "benchmarks/made_up.py"),
    ),
    "demo": Part(
        2,
        (WRITE_DEMO, indexed(DEMO), evaluated(DEMO, f"{DEMO}/test.csv")),
        {"metrics": "run/metrics.json"},
        (*ANSWERS, "evaluation", "pretraining/demo"),
    ),
    "imagined": Part(
        5,
        (
            "-m pretraining.imagined --flags 150 --designs 150 --questions 1 --seed 2 --out {out}/kb",
            indexed("{out}/kb", "--set fusion.tokens=float16"),
            evaluated("{out}/kb", "{out}/kb/questions.csv", "--no-answers --set fusion.tokens=float16"),
            "-m omgm index tokens --index {out}/index --queries {out}/kb/questions.csv --query-images {out}/kb/queries "
            "--codecs int8,int4,bit1,pool16+bit1,pool4+bit1 --set fusion.tokens=float16 --out {out}/codecs",
        ),
        {"metrics": "run/metrics.json", "codecs": "codecs/codecs.json"},
        (*RETRIEVAL, "evaluation", "pretraining"),
    ),
    "atlas": Part(
        4,
        (indexed("{atlas}"), evaluated("{atlas}", "{atlas}/dev.csv", "--limit 1434")),  # those about countries
        {"metrics": "run/metrics.json"},
        (*ANSWERS, "evaluation"),
    ),
    "training": Part(
        3,
        ("-m benchmarks.train --out {out}/train.json --folder {out}/data",),
        {"train": "train.json"},
        ("training", "retriever/models", "benchmarks/train.py", "benchmarks/training_data.py"),
    ),
    "first-use": Part(
        4,
        ("-m tests.ways_in clone --out {out}/ways.json",),
        {"ways": "ways.json"},
        ("Makefile", "requirements.lock", "requirements-models.lock", "omgm/commands/demo.py", "tests/ways_in"),
    ),
}  # fmt: skip
BLOCKS = {
    "service": Block("load", service),
    "overload": Block("load", overload),
    "search": Block("scale", search),
    "builds": Block("scale", builds),
    "demo": Block("demo", steps),
    "imagined": Block("imagined", steps),
    "codecs": Block("imagined", codecs),
    "atlas": Block("atlas", steps),
    "training": Block("training", training),
    "first-use": Block("first-use", first_use),
}


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
    records = {name: read(FOLDER / f"{name}.json") for name in names if name not in failed}
    for page in PAGES:
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        write_whole(path, filled(text, {name: record for name, record in records.items() if record}).encode())
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


def read(path: Path) -> dict[str, Any] | None:
    """Returns what was recorded of a part, `None` if nothing was."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def filled(text: str, records: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a page with the blocks of the recorded parts; the rest stays as it is."""

    def block(match: re.Match[str]) -> str:
        name = match[2]
        record = records.get(BLOCKS[name].part)
        if record is None:
            return match[0]
        source = f'`make figures ARGS="--only {BLOCKS[name].part}"`, commit {record["commit"]}, {record["machine"]}.'
        return f"{match[1]}{BLOCKS[name].tables(record['results'])}\n\n{source}\n{match[4]}"

    return BLOCK.sub(block, text)


def list_stale() -> int:
    """Prints the blocks whose paths have changed since they were measured; returns 1 if there are any."""
    stale = 0
    for page in PAGES:
        for block in BLOCK.finditer((ROOT / page).read_text(encoding="utf-8")):
            measured = COMMIT.search(block[3])
            paths = PARTS[BLOCKS[block[2]].part].paths
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
    """Returns what a command of Git prints."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
