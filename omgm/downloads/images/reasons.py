"""Why a picture is missing, and whether to ask for it again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """A way to fail.

    Attributes:
        meaning: What to tell people.
        retry: Ask again in the same run, after a pause.
        later: Ask again in the next run; what is not stays failed until `--retry`.
        blames_host: Counts toward giving the host up.
    """

    meaning: str
    retry: bool = False
    later: bool = False
    blames_host: bool = False


REASONS = {
    "not_a_url": Reason("not an http or https address"),
    "name_taken": Reason("another picture has its place under the folder"),
    "private_address": Reason("the host is on a private network (--allow-private HOST lets it)"),
    "robots": Reason("the host's robots.txt forbids it (--ignore-robots)"),
    "gone": Reason("404 or 410: not there"),
    "forbidden": Reason("401, 403 or 451: not given; see the user agent", later=True, blames_host=True),
    "refused": Reason("another status than 200"),
    "redirects": Reason("redirected in a circle, too often or to nowhere"),
    "too_large": Reason("more than --max-bytes"),
    "too_many_pixels": Reason("more pixels than are decoded"),
    "empty": Reason("no content"),
    "not_a_picture": Reason("not a picture of a known format"),
    "damaged": Reason("a picture that cannot be decoded to its end"),
    "busy": Reason("429 to the last try", retry=True, later=True, blames_host=True),
    "server_error": Reason("408, 425 or 5xx to the last try", retry=True, later=True, blames_host=True),
    "no_connection": Reason("no such host, or no connection", retry=True, later=True, blames_host=True),
    "timeout": Reason("silent, or too slow", retry=True, later=True, blames_host=True),
    "broken_off": Reason("the connection broke", retry=True, later=True, blames_host=True),
    "host_given_up": Reason("its host failed too often in a row in this run", later=True),
}
"""Every way to fail by its name in reports."""

ASKED_AGAIN = tuple(name for name, reason in REASONS.items() if reason.later)
"""What a later run asks for again by itself."""


class Failure(Exception):
    """A picture could not be had.

    Args:
        reason: A key of `REASONS`.
        detail: What happened, in a few words.
        wait: Seconds that the server asked to be left alone for.
    """

    def __init__(self, reason: str, detail: str = "", wait: float | None = None) -> None:
        super().__init__(f"{reason}: {detail}")
        self.name, self.reason, self.detail, self.wait = reason, REASONS[reason], detail, wait
