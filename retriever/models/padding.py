"""Tells transformers what it would otherwise read from a padding mask, for which the host would wait for a GPU.

Where nothing is padded, transformers leaves out the attention mask. To find out, it reads the padding mask in every
forward pass, though whoever padded the batch knows.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import Tensor

_padded: ContextVar[bool | None] = ContextVar("padded", default=None)


@contextmanager
def known_padding(padded: bool) -> Iterator[None]:
    """Keeps the models of transformers from reading padding masks in this context.

    Results are the same, with attention implementation "sdpa" or "eager" and for models that attend to all tokens, to
    earlier ones or to near ones.

    Args:
        padded: Whether a forward pass in this context may have padding; if false, padding masks are ignored.
    """
    if "transformers.masking_utils" in sys.modules:  # a model of transformers exists, whoever made it
        prepare_transformers()
    token = _padded.set(padded)
    try:
        yield
    finally:
        _padded.reset(token)


def _unread(build: Callable[..., Tensor | None]) -> Callable[..., Tensor | None]:
    """Wraps a function that builds attention masks; outside of `known_padding`, it remains as it is."""

    @functools.wraps(build)
    def mask(*args: Any, **settings: Any) -> Tensor | None:
        padded = _padded.get()
        if padded is False:
            settings["attention_mask"] = None
        elif padded and settings.get("attention_mask") is not None:
            settings |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        return build(*args, **settings)

    return mask


@functools.cache
def prepare_transformers() -> None:
    """Lets the models of transformers know what `known_padding` says, and hides its progress bars.

    Whoever loads one of its models calls this first, for the bar; everything else does without the seconds that the
    import takes.
    """
    from transformers.masking_utils import AttentionMaskInterface, eager_mask, sdpa_mask
    from transformers.utils import logging

    AttentionMaskInterface.register("sdpa", _unread(sdpa_mask))
    AttentionMaskInterface.register("eager", _unread(eager_mask))
    logging.disable_progress_bar()  # small models load faster than the bar is drawn
