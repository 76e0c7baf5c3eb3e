"""Modules that come with an extra of this package."""

from __future__ import annotations

import importlib
from typing import Any


def optional(module: str, extra: str, user: str = "this") -> Any:
    """Imports a module that an extra installs; `user` is what needs it, for the error.

    Raises:
        ValueError: The module is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"{user} needs {error.name or module}: pip install 'omgm[{extra}]'") from error
