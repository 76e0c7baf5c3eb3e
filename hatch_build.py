"""Makes the README fit for a package index, where links into the repository lead nowhere.

With `Repository` in `[project.urls]` of pyproject.toml, such links and pictures get its address, as GitHub spells
addresses of files. Without it, only their words remain.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r'(?P<before>!\[[^\[\]]*\]\(|<img src=")(?!\w+:)(?P<file>[^()"\s]+)(?P<after>\)|"[^>]*>)')
_LINK = re.compile(r"\[(?P<words>[^\[\]]*)\]\((?!\w+:|#)(?P<file>[^()\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Hatchling calls it while it builds."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Puts the README into the package's metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        address = metadata.get("urls", {}).get("Repository", "")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_addresses(text, address)}


def with_addresses(text: str, repository: str) -> str:
    """Gives relative links and pictures of a Markdown text the address of a repository; without one, removes them."""
    if not repository:
        return _LINK.sub(r"\g<words>", _PICTURE.sub("", text))
    base = repository.rstrip("/")
    text = _PICTURE.sub(rf"\g<before>{base}/raw/HEAD/\g<file>\g<after>", text)
    return _LINK.sub(rf"[\g<words>]({base}/blob/HEAD/\g<file>)", text)
