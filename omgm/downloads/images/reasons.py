"""The reasons why an image is missing, and whether to request it again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """A way to fail.

    Attributes:
        meaning: An explanation for people.
        retry: Whether to retry in the same run, after a pause.
        later: Whether to retry in the next run; otherwise only with `--retry`.
        blames_host: Whether it counts toward giving up the host.
    """

    meaning: str
    retry: bool = False
    later: bool = False
    blames_host: bool = False


REASONS = {
    "not_a_url": Reason("not an http or https address"),
    "name_taken": Reason("another image already has its place under the folder"),
    "private_address": Reason("the host is on a private network; to allow it, add --allow-private HOST --retry"),
    "robots": Reason("the host's robots.txt forbids it; to ignore it, add --ignore-robots --retry"),
    "gone": Reason("404 or 410: not found"),
    "forbidden": Reason("401, 403 or 451: refused; check the user agent", later=True, blames_host=True),
    "refused": Reason("a status other than 200"),
    "redirects": Reason("a redirect loop, too many redirects, or an invalid target"),
    "too_large": Reason("more than --max-bytes"),
    "too_many_pixels": Reason("more pixels than the limit"),
    "too_thin": Reason("one side is more than 100 times as long as the other"),
    "empty": Reason("no content"),
    "not_a_picture": Reason("not an image of a known format"),
    "damaged": Reason("an image that cannot be decoded completely"),
    "busy": Reason("429 at the last attempt", retry=True, later=True, blames_host=True),
    "server_error": Reason("408, 425 or 5xx at the last attempt", retry=True, later=True, blames_host=True),
    "no_connection": Reason("no such host, or no connection", retry=True, later=True, blames_host=True),
    "timeout": Reason("silent, or too slow", retry=True, later=True, blames_host=True),
    "broken_off": Reason("the connection broke", retry=True, later=True, blames_host=True),
    "host_given_up": Reason("too many consecutive failures of its host in this run", later=True),
}
"""All reasons, by their names in reports."""

ASKED_AGAIN = tuple(name for name, reason in REASONS.items() if reason.later)
"""Failures that a later run retries without `--retry`."""


class Failure(Exception):
    """An image could not be fetched.

    Args:
        reason: A key of `REASONS`.
        detail: What happened, in a few words.
        wait: Seconds that the server asked to wait.
    """

    def __init__(self, reason: str, detail: str = "", wait: float | None = None) -> None:
        super().__init__(f"{reason}: {detail}")
        self.name, self.reason, self.detail, self.wait = reason, REASONS[reason], detail, wait
