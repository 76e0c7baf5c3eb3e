"""Results on disk as soon as they exist: JSON lines that several processes append to one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Record = Callable[[Mapping[str, Any]], None]


def recorder(path: Path | None, **always: Any) -> Record:
    """Returns a function that appends a result to a file of JSON lines at once, so that it outlives this process.

    Args:
        path: The file; without one, the function does nothing.
        **always: What every line says first, such as `benchmark="gpu"`.
    """

    def record(result: Mapping[str, Any]) -> None:
        if path is not None:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**always, **result}, ensure_ascii=False) + "\n")

    return record
