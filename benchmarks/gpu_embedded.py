"""Builds and evaluates the embedded profile on a CPU and on a GPU, with the commands themselves, and compares them.

    python -m benchmarks.gpu_embedded --folder DIR [--countries 196]

Float32 on both devices must retrieve alike; bfloat16, the default on a GPU, may differ a little. Without a GPU, float32
is compared with bfloat16 on the CPU. Needs no network and no package beyond those of `benchmarks/gpu.py`.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

from benchmarks.frame import arguments, recorder
from evaluation.records import RECORDS
from omgm.__main__ import main as omgm
from omgm.demo import write_demo

STEPS = ("step1", "step2")


def write_world(folder: Path, count: int) -> None:
    """Writes a knowledge base of some of the demo's flags, and one question with a photograph about each."""
    write_demo(folder)
    with (folder / "train.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["dataset_image_ids"].endswith("_0")][:count]
    articles = json.loads((folder / "kb_wiki.json").read_text(encoding="utf-8"))
    (folder / "kb.json").write_text(json.dumps({row["wikipedia_url"]: articles[row["wikipedia_url"]] for row in rows}))
    with (folder / "questions.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows({**row, "encyclopedic_vqa_split": "test"} for row in rows)


def run(folder: Path, device: str, dtype: str) -> dict[str, Any]:
    """Builds an index and evaluates it; returns the times and the metrics. The records stay in the folder.

    Raises:
        RuntimeError: A command failed; its message is on standard error.
    """
    own = folder / f"{device}-{dtype}"
    settings = ["--profile", "embedded", "--set", f"device={device}", "--set", f"dtype={dtype}"]
    settings += ["--set", "sections.kind=bm25"]  # the base model may be missing
    build = ["build-index", "--kb", folder / "kb.json", "--images", folder / "images", "--out", own / "index"]
    asked = ["--dataset", "evqa", "--queries", folder / "questions.csv", "--query-images", folder / "queries"]
    evaluate = ["evaluate", "--index", own / "index", *asked, "--out", own, "--no-answers"]
    seconds = {}
    for command in (build, evaluate):
        started = time.perf_counter()
        with redirect_stdout(sys.stderr):
            status = omgm([*map(str, command), *settings])
        if status:
            raise RuntimeError(f"omgm {command[0]} with device={device}, dtype={dtype} ended with status {status}")
        seconds[f"{command[0]}_s"] = round(time.perf_counter() - started, 2)
    metrics = json.loads((own / "metrics.json").read_text(encoding="utf-8"))
    kept = {key: metrics[key] for key in ("n_queries", "n_failed", *STEPS, "step3", "latency_ms")}
    return {"device": device, "dtype": dtype, **seconds, **kept}


def records(folder: Path, of: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the record of each question of a run, in the order of the file."""
    with (folder / f"{of['device']}-{of['dtype']}" / RECORDS).open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def compare(folder: Path, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Compares two runs: recalls, first entities and sections, and the largest differences of scores."""
    entities = sections = 0
    differences = dict.fromkeys(("sim_c", "sim_m", "score"), 0.0)
    for left, right in zip(records(folder, one), records(folder, other), strict=True):
        assert left["id"] == right["id"]
        first, second = ({c["entity"]: c for c in side["candidates"]} for side in (left, right))
        entities += next(iter(first)) == next(iter(second))
        sections += left["section_ranks"] == right["section_ranks"]
        for entity in first.keys() & second.keys():
            for name in differences:
                pair = (first[entity][name], second[entity][name])
                if None not in pair:
                    differences[name] = max(differences[name], abs(pair[0] - pair[1]))
    return {
        "compared": [f"{side['device']}, {side['dtype']}" for side in (one, other)],
        "recall_equal": all(one[step] == other[step] for step in (*STEPS, "step3")),
        "same_first_entity": entities,
        "same_section_ranks": sections,
        "n_queries": one["n_queries"],
        "largest_difference": {name: float(f"{value:.2e}") for name, value in differences.items()},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns 1 if float32 retrieves differently on the two devices."""
    parser = arguments(__doc__, out="", lines=True)
    parser.add_argument("--folder", type=Path, required=True, metavar="DIR", help="an empty folder for data and runs")
    parser.add_argument("--countries", type=int, default=196, metavar="N", help="entities and questions (%(default)s)")
    args = parser.parse_args(argv)
    record = recorder(args.lines, benchmark="embedded")
    write_world(args.folder, args.countries)
    cuda = torch.cuda.is_available()
    torch.backends.cudnn.allow_tf32 = False  # PyTorch's default, which is not float32
    others = [("cuda", "float32"), ("cuda", "bfloat16")] if cuda else [("cpu", "bfloat16")]
    base = run(args.folder, "cpu", "float32")
    record(base)
    status = 0
    for device, dtype in others:
        other = run(args.folder, device, dtype)
        comparison = compare(args.folder, base, other)
        for result in (other, comparison):
            record(result)
            print(json.dumps(result, indent=2))
        if dtype == "float32" and not comparison["recall_equal"]:
            print("benchmarks/gpu_embedded.py: float32 retrieves differently on the two devices", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
