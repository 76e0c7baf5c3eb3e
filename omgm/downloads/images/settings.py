"""Settings of image downloads: user agent, rates and limits."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass

import httpx


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadSettings:
    """Settings of a download; the defaults per host follow Wikimedia's rules for robots: two connections, 25 Mbit/s.

    Attributes:
        user_agent: Names the software and a contact.
        per_host: Concurrent requests to one host.
        per_second: Requests per second to one host.
        megabits: Download rate from one host in Mbit/s.
        hosts: Number of hosts used at the same time.
        retries: Maximum number of retries.
        give_up_after: Number of consecutive failures blamed on a host after which it is given up for this run.
        max_redirects: Maximum number of redirects to follow.
        max_bytes: Maximum size of an image as sent, in bytes.
        max_side: Longest side of a stored image, in pixels.
        silence_s: Maximum silence of a host, in seconds.
        attempt_s: Maximum duration of one request, in seconds.
        backoff_s: Seconds before the first retry; doubled each time, with jitter.
        max_wait_s: Longest wait; a host that asks for a longer one is given up for this run.
        allow_private: Hosts (`name` or `name:port`) that may be on a private network.
        robots: Whether to follow robots.txt.
        thumbnails: Whether to request scaled images from Wikimedia.
        mirror: Another place of the same files: its URL takes the place of scheme and host, or `{url}` in it is
            replaced by the whole URL, as in web archives. Empty for none.
    """

    user_agent: str
    per_host: int = 2
    per_second: float = 10
    megabits: float = 25
    hosts: int = 16
    retries: int = 4
    give_up_after: int = 10
    max_redirects: int = 5
    max_bytes: int = 32 << 20
    max_side: int = 1024
    silence_s: float = 20
    attempt_s: float = 120
    backoff_s: float = 1
    max_wait_s: float = 300
    allow_private: frozenset[str] = frozenset()
    robots: bool = True
    thumbnails: bool = False
    mirror: str = ""

    def requested(self, url: str) -> str:
        """Returns the URL to request in place of an image's own.

        Example:
            >>> DownloadSettings(user_agent="a", mirror="https://m.example/dyn/").requested("https://a.example/b/c.jpg")
            'https://m.example/dyn/b/c.jpg'
            >>> archive = "https://web.archive.org/web/2024id_/{url}"
            >>> DownloadSettings(user_agent="a", mirror=archive).requested("https://a.example/b/c.jpg")
            'https://web.archive.org/web/2024id_/https://a.example/b/c.jpg'
        """
        if not self.mirror:
            return url
        if "{url}" in self.mirror:
            return self.mirror.replace("{url}", url)
        return f"{self.mirror.rstrip('/')}/{url.partition('://')[2].partition('/')[2]}"

    def __post_init__(self) -> None:
        """Checks that the user agent can be sent in a header, and that the mirror is a URL."""
        if self.mirror and not self.mirror.startswith(("http://", "https://")):
            raise ValueError(f"--mirror must be an http or https URL, got {self.mirror!r}")
        if not self.user_agent.strip() or not self.user_agent.isascii() or not self.user_agent.isprintable():
            raise ValueError(f"--user-agent must be printable ASCII text, got {self.user_agent!r}")


def user_agent(contact: str) -> str:
    """Returns the user agent: this software, a contact, and its HTTP library.

    Args:
        contact: An e-mail address or the URL of a page that leads to the operator.

    Raises:
        ValueError: The contact is neither.
    """
    if not contact.isascii() or not contact.isprintable() or not ("@" in contact or "://" in contact):
        raise ValueError(
            f"--contact: {contact!r} is neither an e-mail address nor a URL; hosts such as Wikimedia refuse software "
            "without a contact"
        )
    try:
        version = importlib.metadata.version("omgm")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        version = "source"
    return f"omgm/{version} ({contact}) httpx/{httpx.__version__}"
