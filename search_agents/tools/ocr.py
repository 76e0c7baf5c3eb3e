"""The tool that reads the text in an image with RapidOCR, whose package includes its models."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

from retriever.wording import counted
from search_agents.records import Observation
from search_agents.state import AgentRun, Tool
from search_agents.tools.images import PartArguments, part_digest, part_of

LINES = 100
"""Maximum number of lines returned, from the top."""
_READING = threading.Lock()


def has_ocr() -> bool:
    """Returns whether the extra `ocr` is installed."""
    return all(importlib.util.find_spec(name) for name in ("rapidocr", "onnxruntime"))


def ocr() -> Tool:
    """Returns the tool."""
    return Tool("ocr", "Reads the text in an image or in a region of it.", PartArguments, _read, part_digest)


def read_lines(image: Image.Image) -> list[str]:
    """Returns the lines of text in an image, from top to bottom; the model is loaded at the first call.

    Raises:
        ValueError: The extra `ocr` is not installed.
    """
    if not has_ocr():
        raise ValueError("reading text needs the extra ocr: pip install 'omgm[ocr]'")
    colors = np.asarray(image.convert("RGB"))[:, :, ::-1]  # OpenCV's order
    with _READING:  # one at a time, because it uses all cores anyway
        found = _reader()(colors)
    return [str(line) for line in (found.txts or ())]


async def _read(arguments: PartArguments, run: AgentRun) -> Observation:
    lines = await asyncio.to_thread(read_lines, part_of(arguments, run))
    more = [f"({counted(len(lines) - LINES, 'more line')})"] if len(lines) > LINES else []
    return Observation(text="\n".join([*lines[:LINES], *more]) or "there is no text")


@lru_cache
def _reader() -> Any:
    from rapidocr import RapidOCR

    # By default, small images are enlarged to 736 pixels, which takes ten times as long and splits words.
    sizes = {"Det.limit_type": "max", "Det.limit_side_len": 2000}
    return RapidOCR(params={"Global.log_level": "error", **sizes})
