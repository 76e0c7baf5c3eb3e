"""Writes rows to files, in any format that questions and articles may have."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_csv(path: Path, *rows: Mapping[str, object]) -> Path:
    """Writes a table with the columns of the first row."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_jsonl(path: Path, *rows: Mapping[str, Any]) -> Path:
    """Writes JSON lines."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path
