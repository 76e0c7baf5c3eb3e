"""The curve of a training run: a CSV row per validation, and with their packages a plot and TensorBoard events."""

from __future__ import annotations

import csv
import importlib.util
import io
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.files import replace_with, write_whole

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

logger = logging.getLogger(__name__)

CURVE_NAME = "curve.csv"
_FIXED_COLUMNS = ("step", "loss", "learning_rate", "seconds")


class Curve:
    """The rows of `curve.csv`; a resumed run keeps those up to the step that it resumes from.

    Args:
        out: Folder of the run.
        step: The step that the run starts at.
    """

    def __init__(self, out: Path, step: int):
        self.path = out / CURVE_NAME
        self.rows: list[dict[str, str]] = []
        if self.path.is_file() and step:
            with self.path.open(encoding="utf-8", newline="") as file:
                self.rows = [row for row in csv.DictReader(file) if int(row["step"]) <= step]
        self._write()
        self._events = _event_writer(out / "tensorboard", step)

    def add(self, step: int, loss: float, rate: float, seconds: float, metrics: dict[str, float]) -> None:
        """Appends a row and writes the file."""
        values = {"loss": loss, "learning_rate": rate, "seconds": round(seconds, 1), **metrics}
        self.rows.append({"step": str(step)} | {key: f"{value:.6g}" for key, value in values.items()})
        self._write()
        if self._events is not None:
            for key, value in values.items():
                self._events.add_scalar(key, value, step)

    def close(self) -> None:
        """Draws `curve.png`: the loss on the left, validation metrics on the right."""
        if self._events is not None:
            self._events.close()
        if not self.rows:
            return
        if importlib.util.find_spec("matplotlib") is None:
            logger.warning("%s is not drawn: matplotlib is not installed", self.path)
            return
        from matplotlib.figure import Figure  # not pyplot, whose import takes longer than the picture

        columns = self._columns()
        figure = Figure(figsize=(9, 3.2))
        axes = figure.subplots(1, 2)
        figure.subplots_adjust(left=0.08, right=0.985, bottom=0.15, top=0.96, wspace=0.2)
        for axis, names in zip(axes, (["loss"], columns[len(_FIXED_COLUMNS) :]), strict=True):
            for name in names:
                points = [(int(row["step"]), float(row[name])) for row in self.rows if row.get(name)]
                axis.plot(*zip(*points, strict=True), label=name, marker=".")
            axis.set_xlabel("step")
            axis.grid(alpha=0.3)
            if names:
                axis.legend(loc="upper right")  # "best" takes long, and warns about it
        replace_with(self.path.with_suffix(".png"), lambda partial: figure.savefig(partial, dpi=110, format="png"))

    def _columns(self) -> list[str]:
        seen: Iterable[str] = (key for row in self.rows for key in row)
        return list(dict.fromkeys([*_FIXED_COLUMNS, *seen]))

    def _write(self) -> None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self._columns(), restval="")
        writer.writeheader()
        writer.writerows(self.rows)
        write_whole(self.path, text.getvalue().encode())


def _event_writer(folder: Path, step: int) -> SummaryWriter | None:
    """Returns a writer of TensorBoard events that purges those after `step`, or `None` if it is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=step or None)
