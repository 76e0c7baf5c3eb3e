"""Server-sent events."""

import json

import pytest

from serving.events import event


@pytest.mark.parametrize("mark", ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_an_event_has_one_line_of_data(mark: str) -> None:
    sent = event({"text": f"a{mark}é"}, "answer")
    assert sent.splitlines() == ["event: answer", sent.splitlines()[1], ""] and sent.endswith("\n\n")
    assert json.loads(sent.splitlines()[1].removeprefix("data: ")) == {"text": f"a{mark}é"} and "é" in sent
