"""Regions of an image: boxes in its pixels, the overlay that numbers them, and boxes as chat models write them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

from PIL import Image, ImageDraw, ImageFont

from chat_models.messages import sent_size
from retriever.images import ORIGINAL

_COLORS = ("#e6194b", "#0050c8", "#2e8b22", "#b000b5", "#b85c00", "#00757a")


class Box(NamedTuple):
    """A region in pixels; `right` and `bottom` are exclusive, as in Pillow."""

    left: int
    top: int
    right: int
    bottom: int

    @classmethod
    def of(cls, corners: Sequence[float], size: tuple[int, int]) -> Box:
        """Creates a box from two corners (x1, y1, x2, y2) in an image of a given size (width, height).

        Swapped corners are reordered, and the box is clipped to the image.

        Raises:
            ValueError: There are not four finite numbers, or the box contains no pixel of the image.

        Example:
            >>> Box.of([90, 10, 20, 400], (100, 200))
            Box(left=20, top=10, right=90, bottom=200)
        """
        if len(corners) != 4 or not all(math.isfinite(value) for value in corners):
            raise ValueError(f"a box needs four finite numbers, x1 y1 x2 y2; got {list(corners)}")
        (left, right), (top, bottom) = sorted(corners[0::2]), sorted(corners[1::2])
        width, height = size
        box = cls(
            max(0, math.floor(left)), max(0, math.floor(top)),
            min(width, math.ceil(right)), min(height, math.ceil(bottom)),
        )  # fmt: skip
        if box.left >= box.right or box.top >= box.bottom:
            raise ValueError(f"the box {list(corners)} has no pixel of the image, which is {width} x {height}")
        return box

    def scaled(self, size: tuple[int, int], to: tuple[int, int]) -> Box:
        """Returns the same region in an image of another size (width, height), at least one pixel large.

        Example:
            >>> Box(20, 10, 90, 101).scaled((200, 200), (100, 100))
            Box(left=10, top=5, right=45, bottom=51)
        """
        left, right = _scaled(self.left, self.right, size[0], to[0])
        top, bottom = _scaled(self.top, self.bottom, size[1], to[1])
        return Box(left, top, right, bottom)

    def crop(self, image: Image.Image) -> Image.Image:
        """Returns the part of an image inside the box."""
        return image.crop(self)


def boxes_of(corners: Sequence[Sequence[float]], image: Image.Image) -> list[Box]:
    """Returns boxes in pixels of `image`, from corners in pixels of the original, before it was shrunk on loading.

    Raises:
        ValueError: See `Box.of`.
    """
    size = original_size(image)
    return [Box.of(one, size).scaled(size, image.size) for one in corners]


def original_size(image: Image.Image) -> tuple[int, int]:
    """Returns the width and height that an image had, upright, before `load_image` shrank it."""
    width, height = image.info.get(ORIGINAL, image.size)
    return width, height


def _scaled(start: int, end: int, size: int, to: int) -> tuple[int, int]:
    first = min(start * to // size, to - 1)
    return first, max(first + 1, -(-end * to // size))


ProposeRegions = Callable[[Image.Image], Sequence[Box]]
"""Proposes regions of an image, the most conspicuous first."""


def overlay(image: Image.Image, boxes: Sequence[Box]) -> Image.Image:
    """Returns a copy of an image with each box outlined, not filled, and numbered from 1."""
    copy = image.convert("RGB")
    draw = ImageDraw.Draw(copy)
    line = max(1, round(min(image.size) / 200))
    font = ImageFont.load_default(max(10, round(min(image.size) / 25)))
    for number, box in enumerate(boxes, start=1):
        color = _COLORS[(number - 1) % len(_COLORS)]
        draw.rectangle((box.left, box.top, box.right - 1, box.bottom - 1), outline=color, width=line)
        at = (box.left + line + 1, box.top + line)
        draw.text(at, str(number), fill=color, font=font, stroke_width=max(1, line), stroke_fill="white")
    return copy


Convention = Literal["pixels", "thousandths", "percent", "unit"]
"""What coordinates count: pixels of the image as sent, or parts of its width and height, 0 to 1000, 100 or 1."""
BoxSetting = Literal["auto", "pixels", "thousandths", "percent", "unit"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)

_PARTS = {"thousandths": 1000, "percent": 100, "unit": 1}
_FAMILIES: tuple[tuple[str, Convention], ...] = (
    (r"qwen-?2-?vl", "thousandths"),
    (r"qwen-?2\.5-?vl|qvq", "pixels"),
    (
        r"qwen|gemini|gemma-?3|internvl|glm-?4|cogvlm|cogagent|seed|doubao|minicpm|ovis|step|ernie|paligemma",
        "thousandths",
    ),
    (r"molmo", "percent"),
    (r"kimi|llava|florence|deepseek-?vl|moondream|phi|ferret", "unit"),
)
"""Families by their models' names, the first that matches; other models get pixels."""
_SMALL = 0.01
"""A box with less of the image that might be in percent is confirmed."""
_BEYOND = 1.03
"""How far beyond the image a box may reach, relative to its size."""


def convention_of(model: str, setting: BoxSetting = "auto") -> Convention:
    """Returns the convention of a model's family, unless one is set.

    Example:
        >>> convention_of("Qwen/Qwen2.5-VL-7B-Instruct"), convention_of("gemini-2.5-flash"), convention_of("gpt-5")
        ('pixels', 'thousandths', 'pixels')
    """
    if setting != "auto":
        return setting
    return next((convention for pattern, convention in _FAMILIES if re.search(pattern, model.lower())), "pixels")


def described(convention: Convention, size: tuple[int, int]) -> str:
    """Describes boxes for a model, in an image of a size (width, height) in pixels.

    Example:
        >>> described("thousandths", (4000, 3000))
        'x1, y1, x2, y2 (left, top, right, bottom) from 0 to 1000'
    """
    limits = _limits(convention, size)
    end = (
        f"in pixels of the image as sent, {limits[0]} x {limits[1]}"
        if convention == "pixels"
        else f"from 0 to {limits[0]}"
    )
    return f"x1, y1, x2, y2 (left, top, right, bottom) {end}"


def box_in(corners: Sequence[float], size: tuple[int, int], convention: Convention, confirmed: bool = False) -> Box:
    """Returns a model's box in pixels of the image.

    Args:
        corners: The box as written.
        size: Width and height of the image in pixels.
        convention: The convention that the model was told.
        confirmed: Whether the model has repeated the box after it was asked back.

    Raises:
        ValueError: The box does not fit the convention, or might follow another one. The message is for the model.

    Example:
        >>> box_in([512, 384, 1024, 768], (4000, 3000), "pixels")
        Box(left=2000, top=1500, right=4000, bottom=3000)
        >>> box_in([500, 500, 1000, 1000], (40, 30), "thousandths")
        Box(left=20, top=15, right=40, bottom=30)
    """
    told = f"boxes are {described(convention, size)}"
    if len(corners) != 4 or not all(map(math.isfinite, corners)):
        raise ValueError(f"a box needs four finite numbers, got {list(corners)}; {told}")
    left, top, right, bottom = corners
    is_unit = max(corners) <= 1 and any(value % 1 for value in corners)
    limits = (1, 1) if is_unit else _limits(convention, size)
    if left >= right or top >= bottom:
        raise ValueError(f"the box {list(corners)} has no area, or gives its width and height; {told}")
    if min(left, top) < 0 or right > limits[0] * _BEYOND or bottom > limits[1] * _BEYOND:
        raise ValueError(f"the box {list(corners)} is not within the image; {told}")
    share = (right - left) * (bottom - top) / (limits[0] * limits[1])
    if max(corners) <= 100 and min(limits) > 200 and share < _SMALL and not confirmed:
        raise ValueError(
            f"the box {list(corners)} is only {share:.1%} of the image, as if it were in percent; {told}. "
            "Call again with the same box if you mean it"
        )
    scale = size[0] / limits[0], size[1] / limits[1]
    return Box.of([left * scale[0], top * scale[1], right * scale[0], bottom * scale[1]], size)


def place_of(box: Box, size: tuple[int, int]) -> str:
    """Returns where a box is in an image, in words for the model.

    Example:
        >>> place_of(Box(2000, 1500, 4000, 3000), (4000, 3000))
        '50% to 100% of the width, 50% to 100% of the height'
    """
    across = f"{box.left / size[0]:.0%} to {box.right / size[0]:.0%}"
    down = f"{box.top / size[1]:.0%} to {box.bottom / size[1]:.0%}"
    return f"{across} of the width, {down} of the height"


def _limits(convention: Convention, size: tuple[int, int]) -> tuple[int, int]:
    """Returns the largest coordinates."""
    if convention == "pixels":
        return sent_size(size)
    return _PARTS[convention], _PARTS[convention]
