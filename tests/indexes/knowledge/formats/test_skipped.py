from __future__ import annotations

import json
import logging
import random
from pathlib import Path

import pytest

from indexes.knowledge.formats import read_knowledge_base
from indexes.knowledge.formats.reading import SeenHashes, SkippedEntries


def write_rows(path: Path, good: int, bad: int) -> Path:
    lines = [json.dumps({"id": str(number), "title": "t", "sections": []}) for number in range(good)]
    path.write_text("\n".join(lines[:5] + ["{broken"] * bad + lines[5:]) + "\n")
    return path


def test_one_percent_of_bad_entries_is_accepted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_rows(tmp_path / "kb.jsonl", 99, 1)
    with caplog.at_level(logging.WARNING):
        assert len(list(read_knowledge_base(path))) == 99
    assert "1 of 100 entries skipped (1 %): " in caplog.text and "kb.jsonl: line 6: Expecting" in caplog.text
    message = r"kb\.jsonl: 2 of 101 entries cannot be used, more than 1 %: .*line 6: .*; .*line 7: .*--max-bad"
    with pytest.raises(ValueError, match=message):
        list(read_knowledge_base(write_rows(path, 99, 2)))
    assert len(list(read_knowledge_base(path, skipped=SkippedEntries(0.02)))) == 99
    with pytest.raises(ValueError, match=r"kb\.jsonl: line 6: Expecting property name"):
        list(read_knowledge_base(path, skipped=SkippedEntries(0)))


def test_a_share_of_all_entries_is_told_in_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    list(read_knowledge_base(write_rows(tmp_path / "kb.jsonl", 0, 3), skipped=SkippedEntries(1)))
    assert "3 of 3 entries skipped (100 %): " in caplog.text


def test_a_hopeless_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "kb.jsonl", 10, 5000)
    with pytest.raises(ValueError, match=r"100 of the first 105 entries cannot be used"):
        list(read_knowledge_base(path))


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_is_between_0_and_1(share: float) -> None:
    with pytest.raises(ValueError, match="max_bad must be between 0 and 1"):
        SkippedEntries(share)


def test_seen_hashes_against_a_set() -> None:
    draw = random.Random(0)
    known: set[int] = set()
    seen = SeenHashes()
    for _ in range(20_000):
        value = draw.choice([draw.randrange(-(2**63), 2**63), draw.randrange(2, 5000)])
        assert seen.add(value) == (value not in known)
        known.add(value)
