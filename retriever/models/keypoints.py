"""Keypoints of images: what of a thing looks the same from another place, turned, and larger or smaller.

These are SIFT's (Lowe, 2004, https://doi.org/10.1023/B:VISI.0000029664.99615.94), found without doubling the image
first, and described by the square roots of its histograms (RootSIFT, Arandjelović and Zisserman, 2012).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from retriever.types import FloatArray

VERSION = "sift-384-300-3"
"""Changes whenever the same image gets other keypoints."""
SIDE = 384
"""Pixels of the longer side, to which larger images are reduced."""
MOST = 300
"""Keypoints per image at most, those that stand out most; a few more, since one may have two orientations."""
DIMENSION = 128

_OCTAVES, _SCALES = 4, 3  # halvings of the size, and scales within each
_SIGMA, _OF_CAMERA = 1.6, 0.5  # blur of an octave's first level, and the blur that images have
_CONTRAST = 0.0033  # least difference of Gaussians, of 1; half of what Lowe keeps, because things may be dim
_EDGE = 10.0  # how much stronger a curvature may be than the one across it
_MARGIN = 8  # pixels at the frame without keypoints
_TILE = 16  # pixels in a row that one product of matrices blurs, which is several times as fast as a convolution
_BINS, _SECOND = 36, 0.8  # of orientations, and what share of the highest another peak must have
_CELLS, _DIRECTIONS, _ACROSS = 4, 8, 16  # of a descriptor, and samples in both directions
_CLIPPED = 0.2  # largest share of a direction, so that glare does not outweigh the rest


class Keypoints(NamedTuple):
    """The keypoints of an image.

    Attributes:
        places: Left and top of each, its scale, and its orientation clockwise from the right in radians, float32
            [N, 4]; all but the last as shares of the longer side.
        descriptors: What is around each, L2-normalized, float32 [N, 128].
    """

    places: FloatArray
    descriptors: FloatArray


@torch.inference_mode()
def find_keypoints(image: Image.Image) -> Keypoints:
    """Returns the keypoints of an image; none if it is plain or tiny."""
    gray = image.convert("L")
    gray.thumbnail((SIDE, SIDE), Image.Resampling.BICUBIC, reducing_gap=2.0)
    octaves = list(_octaves(torch.from_numpy(np.asarray(gray, np.float32) / 255)))
    extrema = [_extrema(levels) for levels in octaves]
    least = torch.cat([found[:, 3] for found in extrema]).topk(MOST).values[-1] if sum(map(len, extrema)) > MOST else 0
    places, descriptors = [torch.empty(0, 4)], [torch.empty(0, DIMENSION)]
    for octave, (levels, every) in enumerate(zip(octaves, extrema, strict=True)):
        strong = every[every[:, 3] >= least]
        if len(strong):
            found, described = _described(levels, strong)
            found[:, :3] *= 2**octave / max(gray.size)
            places.append(found)
            descriptors.append(described)
    return Keypoints(torch.cat(places).numpy(), torch.cat(descriptors).numpy())


def _octaves(gray: Tensor) -> Iterator[Tensor]:
    """Yields the levels of each octave, more and more blurred, [`_SCALES` + 3, H, W]."""
    [first] = _blurred(gray, (math.sqrt(_SIGMA**2 - _OF_CAMERA**2),))
    further = tuple(_SIGMA * math.sqrt(4 ** (level / _SCALES) - 1) for level in range(1, _SCALES + 3))
    for _ in range(_OCTAVES):
        if min(first.shape) <= 3 * _MARGIN:
            return
        yield torch.cat([first[None], levels := _blurred(first, further)])
        first = levels[_SCALES - 1, ::2, ::2]


def _blurred(image: Tensor, sigmas: tuple[float, ...]) -> Tensor:
    """Blurs an image [H, W] by each of `sigmas`, [len(`sigmas`), H, W]."""
    bands = _bands(sigmas)
    across = torch.einsum("hnk,lkt->lhnt", _windows(image, len(bands[0])), bands).flatten(2)[..., : image.shape[1]]
    windows = _windows(across.transpose(1, 2), len(bands[0]))
    down = torch.einsum("lwnk,lkt->lwnt", windows, bands).flatten(2)[..., : image.shape[0]]
    return down.transpose(1, 2)


def _windows(lines: Tensor, width: int) -> Tensor:
    """Cuts lines into overlapping windows, from which `_TILE` values each are computed, [..., N, `width`]."""
    reach, rest = (width - _TILE) // 2, -lines.shape[-1] % _TILE
    first, last = lines[..., :1], lines[..., -1:]
    shape = lines.shape[:-1]
    padded = torch.cat([first.expand(*shape, reach), lines, last.expand(*shape, reach + rest)], -1)
    return padded.unfold(-1, width, _TILE)


@cache
def _bands(sigmas: tuple[float, ...]) -> Tensor:
    """Returns the weight of each value of a window in each of the tile's, [len(`sigmas`), width, `_TILE`]."""
    reach = math.ceil(3 * max(sigmas))
    apart = torch.arange(-reach, reach + _TILE)[:, None] - torch.arange(_TILE)
    weights = torch.exp(-(apart**2) / (2 * torch.tensor(sigmas)[:, None, None] ** 2)) * (apart.abs() <= reach)
    return weights / weights.sum(1, keepdim=True)


def _extrema(levels: Tensor) -> Tensor:
    """Returns the local extrema in place and scale: x, y, level and response, [N, 4]."""
    between = levels[1:] - levels[:-1]
    inner = between[1:-1, 1:-1, 1:-1]
    is_extreme = (inner == _highest(between)) & (inner > _CONTRAST)
    is_extreme |= (inner == -_highest(-between)) & (inner < -_CONTRAST)
    is_extreme[:, :_MARGIN] = is_extreme[:, -_MARGIN:] = False
    is_extreme[..., :_MARGIN] = is_extreme[..., -_MARGIN:] = False
    center = is_extreme.nonzero() + 1

    def value(*offset: int) -> Tensor:
        level, y, x = (center + torch.tensor(offset)).unbind(1)
        return between[level, y, x]

    axes = torch.eye(3, dtype=torch.int64)
    middle = value(0, 0, 0)
    slope = torch.stack([(value(*axis) - value(*(-axis))) / 2 for axis in axes], 1)
    curvature = torch.empty(len(center), 3, 3)
    for one in range(3):
        curvature[:, one, one] = value(*axes[one]) + value(*(-axes[one])) - 2 * middle
        for two in range(one):
            same = value(*(axes[one] + axes[two])) + value(*(-axes[one] - axes[two]))
            opposite = value(*(axes[one] - axes[two])) + value(*(axes[two] - axes[one]))
            curvature[:, one, two] = curvature[:, two, one] = (same - opposite) / 4
    offset = -torch.linalg.solve_ex(curvature, slope[..., None]).result[..., 0]
    offset = offset.nan_to_num(0.0).clamp(-0.6, 0.6)  # what is farther from its pixel is found from the next one
    response = (middle + (slope * offset).sum(1) / 2).abs()
    trace = curvature[:, 1, 1] + curvature[:, 2, 2]
    determinant = curvature[:, 1, 1] * curvature[:, 2, 2] - curvature[:, 1, 2] ** 2
    is_corner = (trace**2 * _EDGE < (_EDGE + 1) ** 2 * determinant) & (response > _CONTRAST)
    return torch.cat([(center + offset).flip(1), response[:, None]], 1)[is_corner]


def _highest(values: Tensor) -> Tensor:
    """Returns the highest value of each 3 x 3 x 3 neighborhood: several times as fast as `max_pool3d`."""
    for dim in range(3):
        size = values.shape[dim] - 2
        parts = [values.narrow(dim, start, size) for start in range(3)]
        values = torch.maximum(torch.maximum(parts[0], parts[1]), parts[2])
    return values


def _described(levels: Tensor, extrema: Tensor) -> tuple[Tensor, Tensor]:
    """Returns place, scale and orientation of keypoints in an octave, [N, 4], and their descriptors [N, 128]."""
    nearest = extrema[:, 2].round().long()
    places = torch.cat([extrema[:, :2], _SIGMA * 2 ** (extrema[:, 2:3] / _SCALES), torch.zeros(len(extrema), 1)], 1)
    places, rows = _oriented(levels, places, nearest)
    length, angle = _sampled(levels, places, nearest[rows], 3 / _CELLS)
    turn = (angle - places[:, 3:]) / (2 * math.pi) * _DIRECTIONS % _DIRECTIONS
    apart = (turn[:, None] - torch.arange(_DIRECTIONS)[:, None]).abs()
    near = (1 - torch.minimum(apart, _DIRECTIONS - apart)).clamp(min=0)  # shares of a sample in two directions
    soft = near * (length * _window(_ACROSS / 2))[:, None]
    histograms = functional.normalize(torch.einsum("nds,sc->ncd", soft, _cells()).flatten(1)).clamp(max=_CLIPPED)
    return places, functional.normalize(histograms, p=1).sqrt()


def _oriented(levels: Tensor, places: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Returns places with their orientations, and which row each is of: a place has one or two."""
    length, angle = _sampled(levels, places, numbers, 9 / _ACROSS)
    bins = (angle / (2 * math.pi) * _BINS).round().long() % _BINS
    histograms = torch.zeros(len(places), _BINS).scatter_add_(1, bins, length * _window(_ACROSS / 6))
    for _ in range(2):
        histograms = (histograms.roll(1, 1) + histograms + histograms.roll(-1, 1)) / 3
    before, after = histograms.roll(1, 1), histograms.roll(-1, 1)
    peaks = histograms * ((histograms > before) & (histograms >= after))
    highest, bins = peaks.topk(2)
    rows, order = (highest > _SECOND * highest[:, :1]).logical_or(torch.tensor([True, False])).nonzero().unbind(1)
    peak = bins[rows, order]
    left, middle, right = before[rows, peak], histograms[rows, peak], after[rows, peak]
    exact = peak + (left - right) / (2 * (left - 2 * middle + right)).clamp(max=-1e-9)
    return torch.cat([places[rows, :3], exact[:, None] * (2 * math.pi / _BINS)], 1), rows


def _sampled(levels: Tensor, places: Tensor, numbers: Tensor, step: float) -> tuple[Tensor, Tensor]:
    """Returns lengths and angles of the gradients around places, both [N, `_ACROSS` ** 2], 0 beyond the frame.

    Args:
        levels: The levels of an octave, [L, H, W].
        places: Places, scales and orientations, by which what is sampled is turned.
        numbers: The level of each place.
        step: How far samples are apart, in scales.
    """
    height, width = levels.shape[1:]
    cos, sin = places[:, 3:].cos(), places[:, 3:].sin()
    across, down = (axis[None] * step * places[:, 2:3] for axis in _grid().unbind(1))
    x = (places[:, :1] + across * cos - down * sin).round().long()
    y = (places[:, 1:2] + across * sin + down * cos).round().long()
    is_inside = (x > 0) & (x < width - 1) & (y > 0) & (y < height - 1)
    values = levels.flatten()
    middle = ((numbers[:, None] * height + y) * width + x).where(is_inside, width + 1)
    right = (values[middle + 1] - values[middle - 1]) * is_inside
    below = (values[middle + width] - values[middle - width]) * is_inside
    return torch.hypot(right, below), torch.atan2(below, right)


@cache
def _grid() -> Tensor:
    """Returns x and y of samples around a place, [`_ACROSS` ** 2, 2]."""
    axis = torch.arange(_ACROSS) - (_ACROSS - 1) / 2
    return torch.stack(torch.meshgrid(axis, axis, indexing="xy"), -1).view(-1, 2)


@cache
def _window(sigma: float) -> Tensor:
    """Returns the weights of samples, which those far from the place have less of, [`_ACROSS` ** 2]."""
    return torch.exp(-_grid().square().sum(1) / (2 * sigma**2))


@cache
def _cells() -> Tensor:
    """Returns the share of each sample in each cell of a descriptor, [`_ACROSS` ** 2, `_CELLS` ** 2]."""
    side = _ACROSS / _CELLS
    middles = (torch.arange(_CELLS) - (_CELLS - 1) / 2) * side
    x, y = ((1 - (axis[:, None] - middles).abs() / side).clamp(min=0) for axis in _grid().unbind(1))
    return (y[:, :, None] * x[:, None, :]).flatten(1)
