"""Writes a table as Markdown, JSON and PNG, with the measured figures beside the published ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.tables.make import MeasuredTable
from evaluation.tables.paper import FigureBlock, is_time
from retriever.files import replacing, write_json, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = ("#2f6f8f", "#7fb0c6", "#e0a458", "#b5563c", "#8a9a5b")


def write(table: MeasuredTable, out: Path) -> Path:
    """Writes a table to `out` as Markdown, JSON and PNG, and returns the path of the Markdown file."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{_name(table)}.md"
    _draw(table, path.with_suffix(".png"))
    write_json(path.with_suffix(".json"), as_json(table))
    write_whole(path, as_markdown(table).encode())
    return path


def as_markdown(table: MeasuredTable) -> str:
    """Returns the table in percent and seconds: first the figures measured here, then the paper's."""
    kind = "Figure" if table.source.id.startswith("figure") else "Table"
    lines = [f"# {kind} {table.source.id.removeprefix('figure')}: {table.source.title}", "", table.source.caption, ""]
    for block in table.blocks:
        lines += [f"**Measured here: {block.on}**", "", *_rows(block, _shown), ""]
    for block in table.source.paper:
        lines += [f"**The paper: {block.on}**", "", *_rows(block, _as_published), ""]
    lines += [f"- {note}" for note in table.notes]
    return "\n".join(lines).rstrip() + "\n"


def as_json(table: MeasuredTable) -> dict[str, Any]:
    """Returns the table ready for JSON, with the folders of its runs."""
    return {
        "table": table.source.id,
        "title": table.source.title,
        "measured": [_as_dict(block) for block in table.blocks],
        "paper": [_as_dict(block) for block in table.source.paper],
        "notes": list(table.notes),
        "runs": dict(table.runs),
    }


def _name(table: MeasuredTable) -> str:
    return table.source.id if table.source.id.startswith("figure") else f"table{table.source.id}"


def _as_dict(block: FigureBlock) -> dict[str, Any]:
    rows = [{"name": name} | dict(zip(block.columns, cells, strict=True)) for name, cells in block.rows]
    return {"on": block.on, "rows": rows}


def _rows(block: FigureBlock, shown: Callable[[float | None, str], str]) -> list[str]:
    head = ["| | " + " | ".join(block.columns) + " |", "| --- |" + " ---: |" * len(block.columns)]
    return head + [
        f"| {name} | " + " | ".join(shown(v, c) for v, c in zip(cells, block.columns, strict=True)) + " |"
        for name, cells in block.rows
    ]


def _shown(value: float | None, column: str) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if is_time(column) else f"{value:.1f}"


def _as_published(value: float | None, column: str) -> str:
    """Returns a figure with up to two decimals, as in the paper."""
    return _shown(value, column) if value is None or is_time(column) else f"{value:.2f}".removesuffix("0")


def _draw(table: MeasuredTable, path: Path) -> None:
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    named = [("here", block) for block in table.blocks] + [("paper", block) for block in table.source.paper]
    panels = [(f"{source}: {block.on}", block) for source, block in named]
    most = max((len(block.rows) for _, block in panels), default=1)
    is_curve = table.source.id.startswith("figure")
    height = 3.6 if is_curve else 1.6 + 0.5 * most
    figure = Figure(figsize=(5.2 * max(1, len(panels)), height), layout="constrained")
    figure.suptitle(table.source.title)
    names = list(dict.fromkeys(name for _, block in panels for name in block.columns if not is_time(name)))
    colors = dict(zip(names, _COLORS, strict=False))
    for place, (title, block) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), place)
        (_curve if is_curve else _bars)(axes, block, colors)
        if not is_curve:
            axes.set_ylim(most - 0.5, -0.5)  # bars of the same size in all panels
        axes.set_title(title, fontsize=8, wrap=True)
        axes.spines[["top", "right"]].set_visible(False)
    patches = [Patch(color=color, label=name) for name, color in colors.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=6, fontsize=8)
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=110)


def _bars(axes: Axes, block: FigureBlock, colors: Mapping[str, str]) -> None:
    shares = [(i, name) for i, name in enumerate(block.columns) if name in colors]
    width = 0.8 / max(1, len(shares))
    for order, (column, name) in enumerate(shares):
        places = [row + (order - (len(shares) - 1) / 2) * width for row in range(len(block.rows))]
        values = [cells[column] or 0.0 for _, cells in block.rows]
        axes.barh(places, values, width, color=colors[name])
    axes.set_yticks(range(len(block.rows)), [name for name, _ in block.rows], fontsize=8)
    axes.set_xlim(0, 100)
    axes.grid(axis="x", alpha=0.25)


def _curve(axes: Axes, block: FigureBlock, colors: Mapping[str, str]) -> None:
    for column, name in enumerate(block.columns):
        points = [(float(x), cells[column]) for x, cells in block.rows if cells[column] is not None]
        style = "-" if len(points) > 3 else ""  # a line would suggest values that were not published
        axes.plot(*zip(*points, strict=True), color=colors[name], linestyle=style, marker="o", markersize=4)
    axes.set_xlim(-0.03, 1.03)
    axes.grid(alpha=0.25)
