"""Arrays in `.npy` files and Python literals, parsed one at a time.

Early releases of CPython 3.11 and 3.12 count how deeply the literals of all threads are nested together, and so now and
then raise a SystemError (python/cpython#106905); the header of a `.npy` file is a literal.
"""

from __future__ import annotations

import ast
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np

_PARSING = Lock()


def map_array(path: Path, mode: Literal["r", "r+"] = "r") -> np.memmap[Any, Any]:
    """Maps the array in a `.npy` file into memory."""
    with _PARSING:
        array = np.lib.format.open_memmap(path, mode=mode)
    assert isinstance(array, np.memmap)
    return array


def parse_literal(source: str | ast.expr) -> Any:
    """Parses a Python literal; raises what `ast.literal_eval` does."""
    with _PARSING:
        return ast.literal_eval(source)
