"""The table of the number of passages with each stem."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pretraining.reader import rarity
from pretraining.reader.questions import share_of
from retriever import lexical


def test_frequent_stems_are_counted_once_a_passage() -> None:
    passages = ["A bell rings, and bells ring.", *(f"The bell of tower {i}." for i in range(4))]
    assert rarity.table([*passages, passages[0]]) == "\t5\nbell\t5\n"  # a tower is in four, and a passage twice


def test_the_command_leaves_out_blind_articles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = []
    for i in range(20):
        rows = [{"question": "?", "answers": []}]
        data.append({"title": f"Tower {i}", "paragraphs": [{"context": f"Bell number {i}.", "qas": rows}]})
    source, out = tmp_path / "squad.json", tmp_path / "rarity.txt"
    source.write_text(json.dumps({"data": data}))
    monkeypatch.setattr(sys, "argv", ["rarity", "--squad", str(source), "--out", str(out)])
    rarity.main()
    count = sum(share_of(f"Tower {i}") > 0 for i in range(20))
    assert out.read_text() == f"\t{count}\nbell\t{count}\nnumber\t{count}\n"
    lexical._rarities.cache_clear()
    monkeypatch.setattr(lexical, "RARITY_FILE", out)
    try:
        assert lexical.rarity("bell") == 0 and lexical.rarity("cave") > 0
    finally:
        lexical._rarities.cache_clear()
