"""Where the tests find what is in the repository and beside it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""
GOLDEN_FILES = ROOT / "tests" / "golden"
"""Outputs of published code, kept so that ordinary tests can compare with them."""
SHARED = ROOT.parent / "shared"
"""Test data beside the repository; tests that read it are skipped where it is missing."""


def contents(folder: Path, without: str = "") -> dict[str, bytes]:
    """Returns every file under `folder` by its relative path.

    Args:
        folder: The folder.
        without: A folder in it that is not read, for one in which files come and go meanwhile.
    """
    files = (path for path in sorted(folder.rglob("*")) if not without or folder / without not in path.parents)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files if path.is_file()}
