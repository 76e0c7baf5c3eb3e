from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.token_reads import by_faults, main, write_array


@pytest.mark.parametrize("advice", [False, True])
def test_spans_are_copied_from_a_memory_map(tmp_path: Path, advice: bool) -> None:
    write_array(tmp_path / "a.npy", "int8", (500, 3, 7))
    array = np.load(tmp_path / "a.npy")
    assert array.shape == (500, 3, 7) and len(np.unique(array)) > 200
    found = by_faults(tmp_path / "a.npy", [range(490, 500), range(3, 5)], advice=advice)
    assert np.array_equal(found, np.concatenate([array[490:], array[3:5]]))


def test_every_way_is_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(
        [
            "--folder",
            str(tmp_path),
            "--gigabytes",
            "0.002",
            "--batches",
            "1",
            "2",
            "--rounds",
            "1",
            "--out",
            f"{tmp_path}/out",
        ]
    )
    report = json.loads((tmp_path / "out").read_text())
    ways = [
        (codec, batch, way) for codec in ("int8", "bit1") for batch in (1, 2) for way in ("faults", "advice", "store")
    ]
    assert [(row["codec"], row["batch"], row["way"]) for row in report["rows"]] == ways
    assert [row["mb"] for row in report["rows"][::3]] == [9.86, 19.71, 0.2, 0.41]  # of which some overlap
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]
    assert capsys.readouterr().out.count("\n|") == 2 + len(ways)
