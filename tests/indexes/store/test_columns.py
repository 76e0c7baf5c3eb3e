"""A column of another package: one file and its entry point, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.paths import ROOT

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
USE = """
import sys
from pathlib import Path

import numpy as np

from indexes.live.index import LiveIndex
from indexes.live.version import count
from indexes.store.columns import columns
from indexes.store.index import Index
from omgm.parts import build_columns
from omgm.profile import load_profile
from tests.fakes.live import BASE, World, article

models = build_columns(load_profile("embedded"), ["counts"])
world = World(Path(sys.argv[1]), BASE, columns=models)


def check(index):
    for row in index.rows() if isinstance(index, LiveIndex) else range(len(index)):
        path, encoded = index.image_path(row), index.column("counts", row)
        size = 0 if path is None else path.stat().st_size
        assert encoded.values.tolist() == [[size, len(index.entity(row).title.split())]], (row, encoded)


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
"""


def test_a_column_of_another_package_is_built_changed_and_compacted(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "counts-1.0.dist-info").mkdir(parents=True)
    (package / "counts_column.py").write_text(PACKAGE)
    (package / "counts-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: counts\nVersion: 1.0\n")
    (package / "counts-1.0.dist-info/entry_points.txt").write_text("[omgm.columns]\ncounts = counts_column:COUNTS\n")
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", USE, str(tmp_path / "world")]
    environment = {"PYTHONPATH": f"{package}:{ROOT}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
