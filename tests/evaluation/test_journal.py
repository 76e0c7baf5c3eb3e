from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation.journal import Row, fill, read_rows
from retriever.files import as_line


class Work:
    """Marks the numbers 0 to 9 with the call's `mark`; `failing` ones fail, and `kill_at` ends the process."""

    def __init__(self, path: Path) -> None:
        self.path, self.mark, self.failing, self.kill_at = path, "", frozenset[int](), -1
        self.batches: list[list[int]] = []

    def call(self, mark: str, failing: set[int], kill_at: int = -1) -> list[str]:
        """Fills the file in batches of 3 and returns its marks."""
        self.mark, self.failing, self.kill_at, self.batches = mark, frozenset(failing), kill_at, []
        fill(self.path, lambda: range(10), 10, 3, self._do, lambda _, row: row["failed"])
        return [row["mark"] for row in read_rows(self.path)]

    def _do(self, batch: list[int]) -> Iterator[Row]:
        self.batches.append(batch)
        for number in batch:
            if number == self.kill_at:
                raise KeyboardInterrupt
            yield {"id": f"q{number}", "mark": self.mark, "failed": number in self.failing}


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path / "queries.jsonl")


def test_what_failed_is_done_again_once_per_call(work: Work) -> None:
    assert work.call("a", {1, 4, 5, 8, 9}) == list("aaaaaaaaaa")
    assert work.batches == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert work.call("b", {5}) == list("abaabbaabb")
    assert work.batches == [[1, 4, 5], [8, 9]]
    assert work.call("c", {5}) == list("abaabcaabb") and work.batches == [[5]]
    assert work.call("d", set()) == list("abaabdaabb")
    assert work.call("e", set()) == list("abaabdaabb") and work.batches == []
    assert list(work.path.parent.iterdir()) == [work.path]


def test_a_killed_call_resumes_before_it_does_anything_again(work: Work) -> None:
    with pytest.raises(KeyboardInterrupt):
        work.call("a", {1, 4}, kill_at=7)
    assert work.call("b", {8}) == list("abaababbbb")
    assert work.batches == [[6, 7, 8], [9], [1, 4]]  # 8 failed in this call


def test_what_was_done_again_survives_a_kill(work: Work) -> None:
    work.call("a", {1, 4, 5, 8, 9})
    with pytest.raises(KeyboardInterrupt):
        work.call("b", {4}, kill_at=9)
    again = work.path.with_name("queries.again.jsonl")
    assert again.read_bytes().count(b"\n") == 4
    with again.open("ab") as file:
        file.write(b'{"id":"q9","ma')
    assert work.call("c", set()) == list("abaacbaabc")
    assert work.batches == [[4, 9]]


def test_a_kill_between_replacing_and_deleting_changes_nothing(work: Work) -> None:
    work.call("a", {3, 6})
    work.call("b", set())
    rows = [row for row in read_rows(work.path) if row["mark"] == "b"]
    work.path.with_name("queries.again.jsonl").write_bytes(b"".join(map(as_line, rows)))
    assert work.call("c", set()) == list("aaabaabaaa") and work.batches == []


def test_separators_of_lines_that_are_text_do_not_end_a_row(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(as_line({"text": "a\u2028b\x85c\rd"}) * 2)
    assert [row["text"] for row in read_rows(tmp_path / "x.jsonl")] == ["a\u2028b\x85c\rd"] * 2


@pytest.mark.parametrize("line", [b"{", b"3", b"\xff"])
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"{}\n" + line + b"\n")
    with pytest.raises(ValueError, match=r"x\.jsonl: line 2 is damaged .*; delete "):
        list(read_rows(tmp_path / "x.jsonl"))
