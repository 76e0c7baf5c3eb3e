from __future__ import annotations

import sys
from contextlib import closing

import pytest

from benchmarks.started import Answerer


def test_a_process_answers_line_by_line() -> None:
    code = "from benchmarks.started import answer_lines; answer_lines(lambda numbers: [2 * n for n in numbers])"
    with closing(Answerer([sys.executable, "-c", code])) as answerer:
        assert answerer.ask([1, 2]) == [2, 4] and answerer.ask([]) == []


def test_a_process_that_does_not_start() -> None:
    with pytest.raises(OSError, match="did not start"):
        Answerer([sys.executable, "-c", "raise SystemExit(1)"])
