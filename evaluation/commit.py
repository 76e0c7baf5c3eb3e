"""The commit that a run was made with."""

from __future__ import annotations

import logging
import os
import subprocess
from pathlib import Path

logger = logging.getLogger(__name__)


def commit() -> str | None:
    """Returns the commit of the code, with `-dirty` if there are uncommitted changes; `None` outside a repository."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", os.fspath(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("cannot determine the commit: %s", error)
        return None
