from __future__ import annotations

import json
from pathlib import Path

from benchmarks.left_out import left_out, write_rest


def test_a_third_is_left_out(tmp_path: Path) -> None:
    ids = [str(number) for number in range(300)]
    (tmp_path / "kb.jsonl").write_text("".join(json.dumps({"id": key}) + "\n" for key in ids))
    (tmp_path / "out").mkdir()
    rest = write_rest(tmp_path / "kb.jsonl", tmp_path / "out")
    kept = [json.loads(line)["id"] for line in rest.read_text().splitlines()]
    assert kept == [key for key in ids if not left_out(key)]
    assert 170 <= len(kept) <= 230  # about two thirds
