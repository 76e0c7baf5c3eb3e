"""Where the tests find what is in the repository and beside it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""
GOLDEN_FILES = ROOT / "tests" / "golden"
"""Outputs of published code, kept so that ordinary tests can compare with them."""
SHARED = ROOT.parent / "shared"
"""Test data beside the repository; tests that read it are skipped where it is missing."""


def contents(folder: Path) -> dict[str, bytes]:
    """Returns every file under `folder` by its relative path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
