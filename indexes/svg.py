"""Reads the images of a knowledge base: the formats of `retriever.images`, and SVG, which resvg renders.

Only images of a knowledge base may be SVG, not those sent to a service: an SVG of a few kilobytes can take very long.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, fromstring, tostring

from PIL import Image

from indexes.extras import optional
from retriever.files import is_pointer
from retriever.images import MAX_ASPECT, ImageError, load_image, open_image

ImageFile = bytes | str | os.PathLike[str]
"""The content of a file, or its path."""

SIDE = 512
"""Longest side of a rendered SVG, in pixels."""
_LARGEST = 32 << 20
_HEAD = 4096
_RENDERER = Path(__file__).with_name("svg_renderer.py")
_SECONDS = 60
"""Longest time that rendering may take."""
_NUMBER = re.compile(r"\s*([\d.]+(?:e[+-]?\d+)?)\s*(?:px)?\s*", re.IGNORECASE)


def load_any(
    file: ImageFile, name: str = "", *, max_pixels: int | None = None, max_side: int | None = None
) -> Image.Image:
    """Reads an image as `load_image` does; SVG is rendered on white, with a longest side of `SIDE` pixels.

    Raises:
        ImageError: As for `load_image`, or the image is SVG and resvg is not installed or cannot render it.
    """
    try:
        return load_image(file, name, max_pixels=max_pixels, max_side=max_side)
    except ImageError as error:
        if error.problem != "unknown_format":
            raise
        if not isinstance(file, bytes) and is_pointer(Path(file)):
            raise ImageError("unknown_format", "a Git LFS pointer; run git lfs pull", error.name) from error
        if (data := _svg_in(file)) is None:
            raise
        name = error.name
    return load_image(_draw(data, name), name, max_side=max_side)


def size_of(file: ImageFile, name: str = "") -> tuple[int, int]:
    """Returns the width and height of an image from its header; for SVG, those it declares.

    Raises:
        ImageError: The image cannot be read.
    """
    try:
        with open_image(file, name) as image:
            return image.size
    except ImageError as error:
        if error.problem != "unknown_format" or (data := _svg_in(file)) is None:
            raise
        width, height = _size(_parse(data, name))
        return round(width), round(height)


def _draw(data: bytes, name: str) -> bytes:
    """Renders an SVG as PNG."""
    root = _parse(data, name)
    for element in root.iter():  # must not include local files
        for key, value in list(element.attrib.items()):
            if key.rpartition("}")[2] == "href" and not value.strip().startswith(("#", "data:")):
                del element.attrib[key]
    width, height = _size(root)
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise ImageError("too_thin", f"{width:g} x {height:g}: too thin", name)
    scale = SIDE / max(width, height)
    root.set("viewBox", root.get("viewBox") or f"0 0 {width:g} {height:g}")
    root.set("width", f"{width * scale:g}")  # resvg rejects some SVGs that declare only one of the two
    root.set("height", f"{height * scale:g}")
    text = any(element.tag.rpartition("}")[2] == "text" for element in root.iter() if isinstance(element.tag, str))
    try:
        packages = Path(optional("resvg_py", "svg").__file__).parents[1]
    except ValueError as error:
        reason = "SVG, which needs resvg: pip install 'omgm[svg]'"
        raise ImageError("unknown_format", reason, name) from error
    try:
        return _render(tostring(root, "unicode"), packages, ["--fonts"] if text else [])
    except RecursionError as error:
        raise ImageError("damaged", "SVG that cannot be rendered: too many levels of elements", name) from error
    except RuntimeError as error:
        raise ImageError("damaged", f"SVG that cannot be rendered: {error}", name) from error


def _render(svg: str, packages: Path, options: Sequence[str]) -> bytes:
    """Renders an SVG as PNG, in a process of its own, because it may crash the process or take very long.

    Raises:
        RuntimeError: It cannot be rendered.
    """
    command = [sys.executable, "-I", "-S", str(_RENDERER), str(packages), *options]
    try:
        done = subprocess.run(command, input=svg.encode(), capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"it takes longer than {_SECONDS} s") from error
    if done.returncode < 0:
        raise RuntimeError("it crashes the renderer")
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    return done.stdout


def _size(root: Element) -> tuple[float, float]:
    """Returns the width and height that an SVG declares; `SIDE` if it declares none."""
    sides = [_NUMBER.fullmatch(root.get(key, "")) for key in ("width", "height")]
    if sides[0] and sides[1]:
        found = float(sides[0][1]), float(sides[1][1])
    else:
        try:
            box = [float(number) for number in re.split(r"[\s,]+", root.get("viewBox", "").strip())]
        except ValueError:
            box = []
        found = (box[2], box[3]) if len(box) == 4 else (SIDE, SIDE)
    return found if min(found) > 0 else (SIDE, SIDE)


def _parse(data: bytes, name: str) -> Element:
    try:
        return fromstring(data)
    except (ParseError, ValueError, LookupError) as error:
        raise ImageError("damaged", f"SVG that cannot be read: {error}", name) from error


def _svg_in(file: ImageFile) -> bytes | None:
    """Returns the decompressed content of an SVG, or `None` for anything else."""
    if isinstance(file, bytes):
        data = file
    else:
        with open(file, "rb") as stream:
            data = stream.read(_LARGEST)
    if data[:2] == b"\x1f\x8b":
        try:
            with gzip.open(io.BytesIO(data)) as packed:
                data = packed.read(_LARGEST)
        except (OSError, EOFError, zlib.error):
            return None
    start = data[:_HEAD].lstrip(b"\xef\xbb\xbf \t\r\n")
    return data if start.startswith(b"<") and b"<svg" in data[: 16 * _HEAD] and len(data) < _LARGEST else None
