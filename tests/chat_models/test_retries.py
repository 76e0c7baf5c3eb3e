from __future__ import annotations

import pytest

from chat_models.retries import retry_after, seconds_to_wait

PAST = "Fri, 31 Dec 1999 23:59:59 GMT"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), (" 0 ", 0), ("0.5", 0.5), ("soon", None), ("-3", None), ("inf", None), (None, None), (PAST, 0)],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after(header) == seconds


def test_without_a_header_the_wait_doubles() -> None:
    for attempt, least in enumerate((0.5, 1.0, 2.0)):
        assert least <= seconds_to_wait(None, attempt) <= least * 1.25
    assert seconds_to_wait("3", 5) == 3
