"""Paths of the repository and of the test data beside it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""
GOLDEN_FILES = ROOT / "tests" / "golden"
"""Stored outputs of published code that ordinary tests compare with."""
SHARED = ROOT.parent / "shared"
"""Test data beside the repository; tests that read it are skipped if it is missing."""


def contents(folder: Path, without: str = "") -> dict[str, bytes]:
    """Returns the content of every file under `folder`, by relative path.

    Args:
        folder: The folder.
        without: A subfolder to skip, for example because its files change meanwhile.
    """
    files = (path for path in sorted(folder.rglob("*")) if not without or folder / without not in path.parents)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files if path.is_file()}
