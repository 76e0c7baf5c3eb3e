"""Draws what `benchmarks/scale.py` measured: time per search, memory and recall by number of entities.

python benchmarks/scale_picture.py artifacts/scale.json docs/scale.svg
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from retriever.files import replace_with

matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "omgm"}  # text stays text, equal input equal bytes
PANELS = ("search p50, ms", "peak memory of the build, MB", "recall@20 against exact search")


def draw(report: dict[str, Any], path: Path) -> None:
    """Draws one panel per metric, with a line per kind of entity index."""
    runs = sorted((int(entities), run) for entities, run in report["runs"].items() if run.get("search_ms_p50"))
    if not runs:
        raise ValueError("the report has no run with the part `search`; run benchmarks/scale.py first")
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(11, 3.2), layout="constrained")
    kinds = dict.fromkeys(kind for _, run in runs for kind in run["search_ms_p50"])
    for kind in kinds:
        found = [(entities, run) for entities, run in runs if kind in run["search_ms_p50"]]
        columns = (
            [run["search_ms_p50"][kind] for _, run in found],
            [run["search"][kind]["peak_rss_mb"]["build"] for _, run in found],
            [run["recall@20_against_exact"][kind] for _, run in found],
        )
        for panel, values in zip(panels, columns, strict=True):
            panel.plot([entities for entities, _ in found], values, marker="o", label=kind)
    for panel, title in zip(panels, PANELS, strict=True):
        panel.set(title=title, xlabel="entities", xscale="log")
        panel.grid(alpha=0.3)
    panels[0].set_yscale("log")
    panels[2].axhline(0.98, color="gray", linestyle=":", label="goal")
    panels[2].legend()
    replace_with(path, lambda partial: figure.savefig(partial, format="svg", metadata={"Date": None}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="scale.json")
    parser.add_argument("out", type=Path, help="the image, .svg")
    args = parser.parse_args()
    draw(json.loads(args.report.read_text(encoding="utf-8")), args.out)


if __name__ == "__main__":
    main()
