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
from numpy.typing import NDArray

_PARSING = Lock()


def map_array(path: Path, mode: Literal["r", "r+"] = "r") -> NDArray[Any]:
    """Maps an array in a `.npy` file into memory, with `r+` as a `memmap`; raises a ValueError if it is damaged."""
    with _PARSING:
        array: NDArray[Any] = np.lib.format.open_memmap(path, mode=mode)
    return array if mode == "r+" else np.asarray(array)


def parse_literal(source: str | ast.expr) -> Any:
    """Parses a Python literal; raises the errors of `ast.literal_eval`."""
    with _PARSING:
        return ast.literal_eval(source)
