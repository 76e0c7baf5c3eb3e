"""Notes the inputs of a run in its folder, so that only a run with the same inputs resumes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from retriever.files import read_object, write_json


def check_note(
    path: Path,
    inputs: Mapping[str, Any],
    *,
    write: bool = True,
    adapt: Mapping[str, Callable[[], None]] = MappingProxyType({}),
) -> bool:
    """Checks that an earlier run had the same inputs; returns whether there was one.

    Args:
        path: The file that notes the inputs.
        inputs: The inputs of this run; values that are not JSON are noted as text.
        write: Whether to note them if there was no earlier run.
        adapt: Inputs that may differ, each with a function that adapts the run to the new value before it is noted.

    Raises:
        ValueError: The inputs differ, or the note is damaged; the message names the differences.
    """
    now = json.loads(json.dumps(dict(inputs), default=str))
    if not path.is_file():
        if write:
            write_json(path, now)
        return False
    fix = f"choose another --out or delete {path.parent}"
    try:
        before = read_object(path)
    except ValueError as error:
        raise ValueError(f"{path}: damaged ({error}); {fix}") from error
    different = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    if not adapt.keys() >= set(different):
        raise ValueError(f"{path}: from a run with different {', '.join(different)}; {fix}")
    for key in different:
        adapt[key]()
    if different:
        write_json(path, now)
    return True
