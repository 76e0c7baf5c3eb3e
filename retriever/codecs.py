"""Encodes section tokens with a `TokenCodec` and decodes them; queries always stay floating point.

MaxSim reads float16 values, int8 values with a scale per token, or, on a CPU, the packed signs of `bit1`. Everything
else (`int4`, and `bit1` on a GPU) is first unpacked to int8 by a few integer operations on the requested sections, on
the device that holds them.

A trained projection needs no codec: it belongs to the fusion encoder, whose tokens are then shorter on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from retriever.token_codec import TokenCodec

_LEVELS = {"int8": 127, "int4": 7}
_STEP = 2.0**-24
"""The spacing of float16's subnormal numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedTokens:
    """Tokens of sections, as stored or as MaxSim reads them.

    Attributes:
        values: [R, M, W].
        scales: [R, M], or `None` for a codec without scales.
    """

    values: Tensor
    scales: Tensor | None


def encode_tokens(tokens: Tensor, codec: TokenCodec) -> EncodedTokens:
    """Encodes the tokens of sections. The host waits for a GPU once, at the end, to check the values.

    Args:
        tokens: Floating point, [R, M, H], normalized over H.
        codec: The codec to encode with.

    Returns:
        Values of `codec.dtype`, [R, *codec.stored_shape((M, H))], and float16 scales, on the device of `tokens`.

    Raises:
        ValueError: A value is not finite or too large for float16, or the codec cannot pack tokens of this length.
    """
    _, size, length = tokens.shape
    codec.stored_shape((size, length))
    exact = tokens.float()
    if codec.pooled is not None:
        exact = pool_tokens(exact, codec.pooled)
    if codec.kind == "float16":
        encoded = EncodedTokens(exact.half(), None)
    elif codec.kind == "bit1":
        encoded = EncodedTokens(_pack_bits(exact >= 0), None)
    else:
        values, scales = _round(exact, _LEVELS[codec.kind])
        encoded = EncodedTokens(values if codec.kind == "int8" else _pack_halves(values), scales)
    # Whatever is not finite, before or after rounding, is so in one of these.
    checked = exact if codec.kind == "bit1" else encoded.values if encoded.scales is None else encoded.scales
    if not torch.isfinite(checked).all():
        if torch.isfinite(tokens).all():
            raise ValueError("tokens have values that are too large for float16; normalize them")
        raise ValueError("tokens have values that are not finite; check the fusion encoder's weights")
    return encoded


def unpack_tokens(stored: EncodedTokens, codec: TokenCodec) -> EncodedTokens:
    """Returns stored tokens as MaxSim reads them: float16 values, or int8 values [R, M, H] with scales [R, M]."""
    if codec.kind == "int4":
        halves = torch.stack([stored.values >> 4, stored.values & 15], dim=-1)
        return EncodedTokens(halves.flatten(-2).view(torch.int8) - 8, stored.scales)
    if codec.kind == "bit1":
        table = byte_signs(stored.values.device).view(torch.int64).flatten()
        signs = table[stored.values.int()].view(torch.int8)  # four times as fast as bit arithmetic
        scale = signs.shape[-1] ** -0.5  # a token has length 1
        return EncodedTokens(signs, torch.full(signs.shape[:2], scale, dtype=torch.float16, device=signs.device))
    return stored


def decode_tokens(stored: EncodedTokens, codec: TokenCodec) -> Tensor:
    """Returns float32 tokens [R, M, H] close to the encoded ones; for a pooled codec, M is the number of pooled tokens.

    A value of `int8` or `int4` is off by at most half of its token's scale, which is the token's largest magnitude over
    127 or 7. `bit1` keeps the signs, each worth 1 / sqrt(H), so that a token's length is 1.
    """
    unpacked = unpack_tokens(stored, codec)
    tokens = unpacked.values.float()
    if unpacked.scales is not None:
        tokens *= unpacked.scales.float()[..., None]
    return tokens


def _round(exact: Tensor, levels: int) -> tuple[Tensor, Tensor]:
    """Rounds tokens to int8 values of at most `levels` and float16 scales; a token is about `values * scale`.

    Quantization is symmetric: the largest magnitude of a token becomes `levels` or its negative. Values are rounded
    with the scale as stored, so the error of an element is at most half a scale. A token of zeros has scale 0; that of
    a token with a value that is not finite, or above `levels` * 65504, is not finite.
    """
    largest = exact.abs().amax(dim=-1)
    scales = (largest / levels).half()
    # A subnormal scale may be rounded down so far that the levels do not reach the largest value.
    scales = torch.where(scales.float() * (levels + 0.5) < largest, (scales.float() + _STEP).half(), scales)
    values = (exact / scales.float().clamp_min(_STEP)[..., None]).round().clamp(-levels, levels)
    return values.to(torch.int8), scales


def _pack_halves(values: Tensor) -> Tensor:
    """Packs values from -7 to 7, offset by 8, two to a byte; the first is in the high half."""
    halves = (values + 8).to(torch.uint8).unflatten(-1, (-1, 2))
    packed: Tensor = (halves[..., 0] << 4) | halves[..., 1]
    return packed


def _pack_bits(bits: Tensor) -> Tensor:
    """Packs booleans eight to a byte, the first in the highest bit, like `numpy.packbits`."""
    weights = 1 << torch.arange(7, -1, -1, dtype=torch.uint8, device=bits.device)
    packed: Tensor = (bits.unflatten(-1, (-1, 8)) * weights).sum(dim=-1, dtype=torch.uint8)
    return packed


@cache
def byte_signs(device: torch.device) -> Tensor:
    """Returns the signs that `bit1` packs into each byte, 1 or -1, int8 [256, 8]."""
    bits = torch.arange(256)[:, None] >> torch.arange(7, -1, -1) & 1
    return (bits * 2 - 1).to(torch.int8).to(device)


_TINY = 1e-12


def pool_tokens(tokens: Tensor, count: int) -> Tensor:
    """Merges the tokens of each section to `count` unit vectors, float32 [R, min(count, M), H].

    Starting with one group per token, the two groups whose sums have the largest cosine are merged until `count` are
    left. A group's token is its normalized sum; groups are in the order of their first members. Each section is pooled
    on its own.

    Args:
        tokens: [R, M, H], normalized over H.
        count: At least 1.
    """
    unit = tokens.float()
    sections, size, _ = unit.shape
    if size <= count:
        return unit
    each, numbers = torch.arange(sections, device=unit.device), torch.arange(size, device=unit.device)
    group = numbers.repeat(sections, 1)  # each token's group, identified by its first member
    inner = unit @ unit.mT  # inner products of the groups' sums
    open_pairs = (numbers[:, None] < numbers).repeat(sections, 1, 1)
    for _ in range(size - count):
        length = inner.diagonal(dim1=1, dim2=2).clamp_min(_TINY).sqrt()
        cosine = inner / (length[:, :, None] * length[:, None, :])
        best = cosine.masked_fill(~open_pairs, -torch.inf).flatten(1).argmax(dim=1)
        kept, merged = best // size, best % size
        # The inner product is linear, so that of a merged group is the sum of those of its parts.
        inner[each, kept] += inner[each, merged]
        inner[each, :, kept] += inner[each, :, merged]
        open_pairs[each, merged] = False
        open_pairs[each, :, merged] = False
        group = torch.where(group == merged[:, None], kept[:, None], group)
    place = (group == numbers).cumsum(dim=1) - 1
    members = (place.gather(1, group)[..., None] == numbers[:count]).to(unit)
    return functional.normalize(members.mT @ unit, dim=-1)
