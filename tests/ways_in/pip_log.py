"""Adds up what pip loaded, by the log that it writes where PIP_LOG names a file."""

from __future__ import annotations

import re
from pathlib import Path

_UNITS = {"bytes": 1, "kB": 1e3, "MB": 1e6}
_LOADED = re.compile(r" Downloading (\S+) \((\d[\d.]*) (bytes|kB|MB)\)")
_LOCAL = re.compile(r" Processing (/\S+\.(?:whl|tar\.gz))")


def loaded(log: Path, own: str = "omgm-") -> dict[str, float]:
    """Returns the bytes of each package that pip loaded, from the network or from a folder that stands in for it.

    Args:
        log: Its log, of any number of calls; a missing one is that of no call.
        own: Start of the names of files that are not counted.
    """
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    found = {name.rpartition("/")[2]: float(size) * _UNITS[unit] for name, size, unit in _LOADED.findall(text)}
    local = {Path(path).name: Path(path) for path in _LOCAL.findall(text) if Path(path).is_file()}
    return found | {name: path.stat().st_size for name, path in local.items() if not name.startswith(own)}
