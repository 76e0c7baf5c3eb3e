"""Answers questions about images from an encyclopedia, with the source of every answer.

>>> from omgm import OMGM  # doctest: +SKIP
>>> OMGM.open("index").ask("photo.jpg", "Who built this?").answer  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omgm.api import OMGM
    from omgm.results import Answer, Retrieval

__version__ = "0.1.0"
__all__ = ["OMGM", "Answer", "Retrieval", "__version__"]


def __getattr__(name: str) -> Any:
    """Imports the public classes on first use, so that `omgm --help` does not have to wait for PyTorch."""
    if name == "OMGM":
        from omgm.api import OMGM

        return OMGM
    if name in ("Answer", "Retrieval"):
        from omgm import results

        return getattr(results, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
