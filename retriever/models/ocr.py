"""Reads text in images with PP-OCR's published networks: one finds lines of text, the other reads a line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from retriever.base_models import TEXT_READER, base_model, find_base
from retriever.images import prepare_image
from retriever.models.text_boxes import CERTAINTY, GROWTH, SMALLEST, THRESHOLD, TextBox, reading_order, text_boxes
from retriever.types import Crop, FloatArray, TextLine

SIDE = 640
"""The longest side, in pixels, of the image in which lines are searched."""
LEAST_CONFIDENCE = 0.5
"""A line that is read less surely is left out."""
_SURE = 0.9  # a line that is read so surely is not read in the other direction
_ENLARGED = 2.0  # at most, so that small print in small images is found
_MULTIPLE = 32  # of pixels: the detector halves an image five times
_HEIGHT = 48  # of a line, as the recognizer was trained
_WIDEST = 2400  # a line that is 50 times as wide as high
_OUTSIDE = "ground"  # as `_cut` colors what a line has outside the image, for the fingerprint: black looks like an "l"
_GLANCED = 80  # heights of a line that the largest have together, at a smaller side: a page would take six seconds
_UPRIGHT = 1.5  # a box that is so many times as high as wide has a line that runs up or down


class OCR:
    """Reads lines of text in images, with networks that the first image loads; threads may share one.

    Networks read one image and one line at a time: on a CPU, batches are not faster, and padding changes results.

    Args:
        detector: The network that finds lines, as an ONNX file.
        recognizer: The network that reads a line, as an ONNX file with the characters that it knows.
        side: The longest side in pixels at which lines are searched: more finds smaller print, in more time.
        threads: Number of threads per image.
        fingerprint: A hash of the networks and the settings: readers with the same fingerprint read the same.

    Raises:
        ValueError: `side` is too small.
    """

    def __init__(
        self, detector: Path, recognizer: Path, side: int = SIDE, threads: int = 1, fingerprint: str = ""
    ) -> None:
        if side < _MULTIPLE:
            raise ValueError(f"side must be at least {_MULTIPLE}, got {side}")
        self._files, self._threads, self._side = (detector, recognizer), threads, side
        self.fingerprint = fingerprint

    @cached_property
    def _detector(self) -> _Network:  # a service may never read: 95 MB and a quarter of a second
        return _Network(self._files[0], self._threads, self._side)

    @cached_property
    def _recognizer(self) -> _Network:
        return _Network(self._files[1], self._threads, self._side)

    @cached_property
    def _characters(self) -> list[str]:
        """The characters by class; the first class separates two equal ones."""
        return ["", *self._recognizer.facts["character"].split("\n"), " "]

    @classmethod
    def load(cls, name: str = TEXT_READER, side: int = SIDE, threads: int = 1) -> OCR:
        """Loads a base model.

        Raises:
            ValueError: There is no such base model, it does not read text, it is not on this machine, or `side` is too
                small.
        """
        files = sorted(find_base(name).files.items())
        if len(files) != 2 or not all(file.endswith(".onnx") for file, _ in files):
            raise ValueError(f"base model {name!r} does not read text in images: use {TEXT_READER}")
        sizes = (side, LEAST_CONFIDENCE, _SURE, _ENLARGED, _UPRIGHT, THRESHOLD, CERTAINTY, GROWTH, SMALLEST)
        networks = [network.sha256 for _, network in files]
        fingerprint = hashlib.sha256(" ".join(map(str, [*networks, *sizes, _OUTSIDE])).encode()).hexdigest()
        folder = base_model(name)
        return cls(folder / files[0][0], folder / files[1][0], side, threads, fingerprint)

    def read(self, images: Sequence[Image.Image], side: int | None = None) -> list[list[TextLine]]:
        """Returns the lines of text in each image in the order of reading: `retriever.protocols.TextReader`."""
        return [self._read(prepare_image(image), side) for image in images]

    def _read(self, image: Image.Image, side: int | None) -> list[TextLine]:
        boxes = self._boxes(image, min(side or self._side, self._side))
        if side is not None:
            boxes = _largest(boxes)
        extents = [_shares(box, image) for box in boxes]
        lines = []
        for index in reading_order(extents):
            text, confidence = self._best(_lines(image, boxes[index]))
            if text and confidence >= LEAST_CONFIDENCE:
                lines.append(TextLine(text, confidence, extents[index]))
        return lines

    def _boxes(self, image: Image.Image, side: int) -> list[TextBox]:
        scale = min(side / max(image.size), _ENLARGED)
        width, height = (max(1, round(side * scale / _MULTIPLE)) * _MULTIPLE for side in image.size)
        resized = image.resize((width, height), Image.Resampling.BILINEAR)
        [[probabilities]] = self._detector(resized)
        return [box.scaled(image.width / width, image.height / height) for box in text_boxes(probabilities)]

    def _best(self, lines: Iterator[Image.Image]) -> tuple[str, float]:
        best = ("", 0.0)
        for line in lines:
            best = max(best, self._text(line), key=itemgetter(1))
            if best[1] >= _SURE:
                break
        return best

    def _text(self, line: Image.Image) -> tuple[str, float]:
        """Returns the text of a line, and the mean confidence of its characters, 0 to 1."""
        [probabilities] = self._recognizer(line)
        classes, sure = probabilities.argmax(1), probabilities.max(1)
        read = (classes > 0) & np.insert(classes[1:] != classes[:-1], 0, True)
        text = "".join(self._characters[index] for index in classes[read].tolist())
        return text.strip(), float(sure[read].mean()) if text else 0.0


class _Network:
    """An ONNX file, run on the CPU; `facts` are its metadata."""

    def __init__(self, path: Path, threads: int, side: int) -> None:
        import onnxruntime  # here, because it takes a quarter of a second

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3  # errors
        options.enable_mem_pattern = False  # kept for every size of input: 37 MB more after 1,600 inputs
        options.enable_cpu_mem_arena = side <= SIDE  # saves a seventh of the time, and keeps 0.7 GB for 2000 pixels
        with _tiny_is_zero():  # threads that this starts inherit it
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.facts: Mapping[str, str] = self._session.get_modelmeta().custom_metadata_map

    def __call__(self, image: Image.Image) -> FloatArray:
        pixels = np.asarray(image, np.float32)[None, :, :, ::-1].transpose(0, 3, 1, 2)  # blue comes first
        inputs = {"x": np.ascontiguousarray(pixels / 127.5 - 1)}
        with _tiny_is_zero():
            return np.asarray(self._session.run(None, inputs)[0])


@contextmanager
def _tiny_is_zero() -> Iterator[None]:
    """Lets this thread compute with zeros for denormal numbers, for which processors need a hundred times as long.

    Three of the detector's weights are such numbers, and took three quarters of its time.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _largest(boxes: Sequence[TextBox]) -> list[TextBox]:
    """Returns the largest boxes, as many as have lines of at most `_GLANCED` together, but at least one."""
    largest = sorted(boxes, key=lambda box: -box.width * box.height)
    lengths = accumulate(max(box.width / box.height, box.height / box.width) for box in largest)
    return largest[: max(1, sum(length <= _GLANCED for length in lengths))]


def _shares(box: TextBox, image: Image.Image) -> Crop:
    left, top, right, bottom = box.extent
    width, height = image.size
    return max(left / width, 0.0), max(top / height, 0.0), min(right / width, 1.0), min(bottom / height, 1.0)


def _lines(image: Image.Image, box: TextBox) -> Iterator[Image.Image]:
    """Cuts a line out along its direction; one that runs up or down, both ways, since either may be right."""
    if box.height < _UPRIGHT * box.width:
        yield _cut(image, box, box.width, box.height, box.angle)
    else:
        yield _cut(image, box, box.height, box.width, box.angle - 90)
        yield _cut(image, box, box.height, box.width, box.angle + 90)


def _cut(image: Image.Image, box: TextBox, width: float, height: float, angle: float) -> Image.Image:
    """Cuts out the rectangle around a box's center whose width stands at an angle, scaled to a line's height."""
    left, top, right, bottom = box.extent
    part = (max(0, int(left)), max(0, int(top)), min(image.width, int(right) + 1), min(image.height, int(bottom) + 1))
    factor = max(1, int(height / _HEIGHT))  # averages pixels, which `transform` would skip
    size = (min(_WIDEST, max(_HEIGHT // 2, round(_HEIGHT * width / height))), _HEIGHT)
    cosine, sine = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    a, b = cosine * width / size[0] / factor, -sine * height / size[1] / factor
    d, e = sine * width / size[0] / factor, cosine * height / size[1] / factor
    x, y = (box.x - part[0]) / factor, (box.y - part[1]) / factor
    shift = x - (a * size[0] + b * size[1]) / 2, y - (d * size[0] + e * size[1]) / 2
    inside = image.reduce(factor, part)
    ground = tuple(np.median(np.asarray(inside), axis=(0, 1)).astype(int).tolist())
    to_image = (a, b, shift[0], d, e, shift[1])
    return inside.transform(size, Image.Transform.AFFINE, to_image, Image.Resampling.BICUBIC, fillcolor=ground)
