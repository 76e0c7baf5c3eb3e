from __future__ import annotations

import io

from indexes.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_log_gets_a_line_at_the_start_and_one_at_the_end() -> None:
    log = io.StringIO()
    assert list(progress_bar(range(1000), desc="encode", unit="entity", file=log)) == list(range(1000))
    lines = log.getvalue().splitlines()
    assert len(lines) == 2 and "\r" not in log.getvalue()
    assert lines[0].startswith("encode:   0%") and "0/1000" in lines[0]
    assert lines[1].startswith("encode: 100%") and "1000/1000" in lines[1]


def test_a_bar_of_unknown_length_counts() -> None:
    log = io.StringIO()
    assert list(progress_bar(iter("abc"), desc="read", unit="entity", file=log)) == ["a", "b", "c"]
    assert log.getvalue().splitlines() == ["read: 0 in 00:00", "read: 3 in 00:00"]


def test_terminal_is_redrawn_in_place() -> None:
    terminal = Terminal()
    with progress_bar(total=3, file=terminal) as bar:
        bar.update(3)
    assert "\r" in terminal.getvalue() and "3/3" in terminal.getvalue()


def test_hidden_bar_writes_nothing() -> None:
    log = io.StringIO()
    assert list(progress_bar([1, 2], shown=False, file=log)) == [1, 2]
    assert log.getvalue() == ""
