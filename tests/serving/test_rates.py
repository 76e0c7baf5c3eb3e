"""The limit on requests per minute, with a clock that stands still unless it is set."""

from __future__ import annotations

from serving.access import MAX_CALLERS, RateLimiter, caller_of


def test_a_bucket() -> None:
    now = [0.0]
    limiter = RateLimiter(30, lambda: now[0])  # one token every 2 s
    assert [limiter.take("a") for _ in range(31)] == [0.0] * 30 + [2.0]
    assert limiter.take("b") == 0
    now[0] = 1.5
    assert limiter.take("a") == 0.5
    now[0] = 2.0
    assert [limiter.take("a"), limiter.take("a")] == [0, 2]
    now[0] = 1000.0
    assert [limiter.take("a") for _ in range(31)] == [0.0] * 30 + [2.0]  # no more than a minute's worth accumulates


def test_memory_is_bounded() -> None:
    limiter = RateLimiter(1, lambda: 0.0)
    for number in range(MAX_CALLERS + 5):
        assert limiter.take(str(number)) == 0
    assert len(limiter) == MAX_CALLERS
    assert (limiter.take(str(MAX_CALLERS + 4)), limiter.take("0")) == (60, 0)


def test_what_an_address_counts_as() -> None:
    assert caller_of("10.0.0.1") == "10.0.0.1"
    assert caller_of("2001:db8::1") == caller_of("2001:db8:0:0:ffff::2") == "2001:db8::/64"
    assert caller_of("") == ""
