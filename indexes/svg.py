"""Reads the images of a knowledge base: the formats of `retriever.images`, and SVG, which resvg renders.

Images of a knowledge base may be SVG, also those of articles that are sent to a service, but not those of questions: an
SVG of a few hundred bytes can keep a core busy up to the renderer's limit.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import signal
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, fromstring

from PIL import Image

from indexes.extras import optional
from indexes.svg_renderer import declared_size
from retriever.images import ImageError, load_image, open_image

ImageFile = bytes | str | os.PathLike[str]  # the content of a file, or its path

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_DECLARATION = re.compile(r"\s*<\?xml\b[^<>]*\?>")
_LARGEST = 32 << 20
_HEAD = 4096
_RENDERER = Path(__file__).with_name("svg_renderer.py")
_SECONDS = 60  # longest time that rendering may take, however busy the machine is
_CPU_SECONDS = 10  # most CPU time of rendering; also ends it if this process is killed meanwhile
_REASON = 200  # most characters of the reason why an SVG cannot be rendered, which may quote the SVG


def is_pointer(path: Path) -> bool:
    """Returns whether a file is a Git LFS pointer to a file that was not fetched."""
    with path.open("rb") as file:
        return file.read(len(_LFS_POINTER)) == _LFS_POINTER


def load_any(
    file: ImageFile, name: str = "", *, max_pixels: int | None = None, max_side: int | None = None
) -> Image.Image:
    """Reads an image as `load_image` does; SVG is rendered on white, with a longest side of 512 pixels.

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
        width, height = declared_size(_parse(data, name))
        return round(width), round(height)


def _draw(data: bytes, name: str) -> bytes:
    """Renders an SVG as PNG."""
    try:
        packages = Path(optional("resvg_py", "svg").__file__).parents[1]
    except ValueError as error:
        reason = "SVG, which needs resvg: pip install 'omgm[svg]'"
        raise ImageError("unknown_format", reason, name) from error
    try:
        return _render(data, packages)
    except RuntimeError as error:
        raise ImageError("damaged", f"SVG that cannot be rendered: {error}", name) from error


def _render(svg: bytes, packages: Path) -> bytes:
    """Renders an SVG as PNG, in a process of its own, because it may crash the process or take very long.

    Raises:
        RuntimeError: It cannot be rendered.
    """
    command = [sys.executable, "-I", "-S", str(_RENDERER), str(packages), str(_CPU_SECONDS)]
    try:
        done = subprocess.run(command, input=svg, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"it takes longer than {_SECONDS} s") from error
    if sys.platform != "win32" and done.returncode == -signal.SIGXCPU:
        raise RuntimeError(f"it takes longer than {_CPU_SECONDS} s of CPU time")
    if done.returncode < 0:
        raise RuntimeError("it crashes the renderer or fills its memory")
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:_REASON])
    return done.stdout


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
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        with suppress(UnicodeDecodeError):
            data = _DECLARATION.sub("", data.decode("utf-16"), count=1).encode()  # it would name another encoding
    start = data[:_HEAD].lstrip(b"\xef\xbb\xbf \t\r\n")
    return data if start.startswith(b"<") and b"<svg" in data[: 16 * _HEAD] and len(data) < _LARGEST else None
