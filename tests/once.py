"""Files that several test processes need and only one of them writes."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def written_once(temporary: pytest.TempPathFactory, name: str, write: Callable[[Path], None]) -> Path:
    """Returns a folder of this process's own with files that the first process to need them has written.

    Args:
        temporary: Where the folders are.
        name: The folder's name.
        write: Writes the files into an existing folder; the files must not depend on where it is.
    """
    folder = temporary.mktemp(name)
    if "PYTEST_XDIST_WORKER" not in os.environ:  # this is the only process
        write(folder)
        return folder
    common = temporary.getbasetemp().parent / f"{name}-of-all"
    with common.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not common.exists():
            write(folder)
            shutil.copytree(folder, partial := common.with_suffix(".partial"))
            partial.rename(common)
            return folder
    shutil.copytree(common, folder, dirs_exist_ok=True)
    return folder
