"""Tools for a closer look at an image or at its text, and the arguments for naming an image or a part of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from PIL import Image, ImageFilter
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema

from retriever.wording import counted
from search_agents.parsing import json_object
from search_agents.records import IMAGE, Observation
from search_agents.regions import Box, box_in, place_of
from search_agents.state import AgentRun, Tool

if TYPE_CHECKING:
    from retriever.models.ocr import OCR

SHARP_SIDE = 1024
"""Maximum longer side in pixels to which a sharpened image is enlarged."""

ImageName = Annotated[
    str,
    BeforeValidator(lambda value: IMAGE if value in (None, "") else value),
    Field(
        default=IMAGE,
        validation_alias=AliasChoices("image", "image_name"),
        description=f'Name of the image; "{IMAGE}" is the one the question is about',
    ),
]
RegionNumber = Annotated[
    int | None,
    BeforeValidator(lambda value: None if value == "" else value),
    Field(
        default=None,
        validation_alias=AliasChoices("region", "bbox_index"),
        description=f'Number of a region drawn on the overlay of "{IMAGE}"',
    ),
]


_CORNERS = (("x1", "y1", "x2", "y2"), ("left", "top", "right", "bottom"), ("xmin", "ymin", "xmax", "ymax"))
_SIDES = (("x", "y", "width", "height"), ("x", "y", "w", "h"), ("left", "top", "width", "height"))


def _corners(value: object) -> object:
    """Returns corners as one list, also if given as two points, as names with numbers, or as a text."""
    if isinstance(value, str):
        value = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", value)]
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        [value] = value
    if isinstance(value, list) and len(value) == 2 and all(isinstance(point, list) for point in value):
        return [*value[0], *value[1]]
    if isinstance(value, dict):
        named = {str(name).lower().replace("_", ""): number for name, number in value.items()}
        for names in _CORNERS:
            if named.keys() >= {*names}:
                return [named[name] for name in names]
        for names in _SIDES:
            if named.keys() >= {*names} and all(isinstance(named[name], int | float) for name in names):
                x, y, width, height = (named[name] for name in names)
                return [x, y, x + width, y + height]
    return None if value in ("", []) else value


Corners = Annotated[
    list[float] | None,
    BeforeValidator(_corners),
    Field(
        default=None,
        validation_alias=AliasChoices("box", "bbox", "bbox_2d", "bounding_box"),
        description="Instead of a region: x1, y1, x2, y2, as said with the image",
    ),
]
RowsFirst = Annotated[
    list[float] | None,
    BeforeValidator(_corners),
    Field(default=None, description="The same as y1, x1, y2, x2 from 0 to 1000"),
]


class PartArguments(BaseModel):
    """An image or a part of it."""

    image: ImageName
    region: RegionNumber
    box: Corners
    box_2d: SkipJsonSchema[RowsFirst]  # Gemini's form, which it writes whatever it is told


class RotateArguments(BaseModel):
    """An image and an angle."""

    image: ImageName
    degrees: Literal[90, 180, 270] = Field(description="Clockwise")


def box_of(arguments: PartArguments, run: AgentRun) -> Box | None:
    """Returns the part of the image that arguments name, or `None` for the whole image.

    Raises:
        ValueError: There is no such image or region, or the box contains no pixel of the image.
    """
    image = run.image(arguments.image)
    if arguments.region is not None:
        if not 1 <= arguments.region <= len(run.boxes):
            there = f"1 to {len(run.boxes)}" if run.boxes else "none; give a box"
            raise ValueError(f"there is no region {arguments.region}; there are {there}")
        if arguments.image != IMAGE:
            raise ValueError(f'regions are parts of "{IMAGE}", not of {arguments.image!r}')
        return run.boxes[arguments.region - 1]
    if arguments.box_2d is not None and len(arguments.box_2d) == 4:
        top, left, bottom, right = arguments.box_2d
        return box_in([left, top, right, bottom], image.size, "thousandths", confirmed=True)
    if arguments.box is None:
        return None
    return box_in(arguments.box, image.size, run.boxes_are, _is_confirmed(arguments, run))


def _is_confirmed(arguments: PartArguments, run: AgentRun) -> bool:
    """Returns whether a call in an earlier round had the same box."""
    earlier = (record.call.arguments for done in run.rounds[:-1] for record in done.calls)
    numbers = [float(number) for number in arguments.box or ()]
    return any(numbers == _written(one) for one in earlier)


def _written(arguments: Mapping[str, Any] | str) -> list[float] | None:
    """Returns the box in a call as it was written."""
    values = json_object(arguments) if isinstance(arguments, str) else arguments
    try:
        return None if values is None else PartArguments.model_validate(dict(values)).box
    except ValidationError:
        return None


def part_of(arguments: PartArguments, run: AgentRun) -> Image.Image:
    """Returns the image that arguments name, cropped to its part; errors as for `box_of`."""
    box, image = box_of(arguments, run), run.image(arguments.image)
    return image if box is None else box.crop(image)


def part_digest(arguments: PartArguments, run: AgentRun) -> str:
    """Returns a hash of the image and the part that arguments name; errors as for `box_of`."""
    box = box_of(arguments, run)
    whole = run.digest(arguments.image)
    return whole if box is None else f"{whole} {box.left} {box.top} {box.right} {box.bottom}"


def zoom_in() -> Tool:
    """Returns the tool that crops a part of an image."""
    return Tool("zoom_in", "Shows a region of an image larger, as a new image.", PartArguments, _zoom)


def rotate() -> Tool:
    """Returns the tool that rotates an image."""
    return Tool("rotate", "Rotates an image, as a new image.", RotateArguments, _rotate)


def sharpen() -> Tool:
    """Returns the tool that sharpens an image or a part of it."""
    return Tool(
        "sharpen", "Sharpens an image or a region that is blurred, as a new, larger image.", PartArguments, _sharpen
    )


async def _zoom(arguments: PartArguments, run: AgentRun) -> Observation:
    box = box_of(arguments, run)
    if box is None:
        raise ValueError("zoom_in needs a region or a box")
    name = f"{arguments.image}_crop_{box.left}_{box.top}_{box.right}_{box.bottom}"
    image = run.image(arguments.image)
    part = box.crop(image)
    where = f'{name}: {part.width} x {part.height} pixels, {place_of(box, image.size)} of "{arguments.image}"'
    return Observation(text=where, images={name: part})


async def _rotate(arguments: RotateArguments, run: AgentRun) -> Observation:
    turned = run.image(arguments.image).rotate(-arguments.degrees, expand=True)
    return Observation(images={f"{arguments.image}_rotated_{arguments.degrees}": turned})


async def _sharpen(arguments: PartArguments, run: AgentRun) -> Observation:
    box = box_of(arguments, run)
    part = "" if box is None else f"_{box.left}_{box.top}_{box.right}_{box.bottom}"
    image = await asyncio.to_thread(sharpened, part_of(arguments, run))
    return Observation(images={f"{arguments.image}_sharp{part}": image})


def sharpened(image: Image.Image) -> Image.Image:
    """Sharpens an image; a small one is first enlarged up to four times, so that details become visible."""
    factor = max(1, min(4, SHARP_SIDE // max(image.size)))
    image = image.convert("RGB").resize((image.width * factor, image.height * factor), Image.Resampling.LANCZOS)
    return image.filter(ImageFilter.UnsharpMask(radius=2 * factor, percent=150, threshold=2))


LINES = 100
"""Maximum number of lines returned, from the top."""
_SIDE = 2000  # pixels at which lines are searched: small print on a whole page


def ocr() -> Tool:
    """Returns the tool."""
    return Tool("ocr", "Reads the text in an image or in a region of it.", PartArguments, _read, part_digest)


def read_lines(image: Image.Image) -> list[str]:
    """Returns the lines of text in an image, from top to bottom; the model is loaded at the first call.

    Raises:
        ValueError: The model is not on this machine.
    """
    [lines] = _reader().read([image])
    return [line.text for line in lines]


async def _read(arguments: PartArguments, run: AgentRun) -> Observation:
    lines = await asyncio.to_thread(read_lines, part_of(arguments, run))
    more = [f"({counted(len(lines) - LINES, 'more line')})"] if len(lines) > LINES else []
    return Observation(text="\n".join([*lines[:LINES], *more]) or "there is no text")


@lru_cache
def _reader() -> OCR:
    from retriever.models.ocr import OCR

    return OCR.load(side=_SIDE)
