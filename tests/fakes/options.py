"""Options of `omgm` that set settings of a profile."""

from __future__ import annotations


def with_settings(*settings: str) -> list[str]:
    """Returns `--set` before each setting."""
    return [word for setting in settings for word in ("--set", setting)]


def planner(url: str = "http://127.0.0.1:9") -> list[str]:
    """Returns the options that name the chat model "scripted" of a server; by default, of one that does not answer."""
    return with_settings(f"generator.base_url={url}", "generator.model=scripted")
