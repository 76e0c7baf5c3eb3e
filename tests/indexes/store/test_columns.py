"""A column of another package: one file and its entry point, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexes.live.index import LiveIndex
from indexes.live.version import count
from indexes.store.index import Index
from omgm.parts import build_columns
from omgm.profile import load_profile
from tests.fakes.live import BASE, World, article
from tests.fakes.packages import installing

PACKAGE = '''
import numpy as np

from indexes.store.columns import Column, Encoded


class Counter:
    """Counts the bytes of thumbnails, and the words of titles."""

    dimension, fingerprint = 2, "counter-1"


def encode(model, items):
    rows = [np.array([[len(item.thumbnail), len(item.entity.title.split())]], np.int32) for item in items]
    return [Encoded(row, np.zeros(1, np.int64)) for row in rows]


COUNTS = Column("counts", "images", np.int32, encode, ("counts.npy", "counts_of.npy"), lambda profile: Counter())
'''


def check(index: Index) -> None:
    for row in index.rows() if isinstance(index, LiveIndex) else range(len(index)):
        path, encoded = index.image_path(row), index.column("counts", row)
        size = 0 if path is None else path.stat().st_size
        assert encoded is not None and encoded.values.tolist() == [[size, len(index.entity(row).title.split())]]


def test_a_column_of_another_package_is_built_changed_and_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installing(tmp_path / "packages", monkeypatch) as install:
        install("counts_column", PACKAGE, "omgm.columns", "counts = counts_column:COUNTS")
        models = build_columns(load_profile("embedded"), ["counts"])
        world = World(tmp_path / "world", BASE, columns=models)
        index = Index.open(world.index, columns=models, verify=True)
        assert index.manifest.inputs.columns == {"counts": "counter-1"}
        assert index.manifest.counts.columns == {"counts": len(BASE)}
        check(index)
        editor = world.editor(columns=models)
        world.put(editor, article("b", 7), article("new", 1), article("bare", image=None))
        editor.remove([BASE[0].id])
        check(editor.index)
        check(world.open())  # a reader, from the log
        counted = count(editor.index.version).columns
        assert editor.index.compact() and editor.index.manifest.counts.columns == counted == {"counts": len(BASE) + 1}
        editor.close()
        check(world.open(verify=True))
