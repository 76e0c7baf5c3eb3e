from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from retriever.codecs import EncodedTokens, decode_tokens, encode_tokens, pool_tokens, unpack_tokens
from retriever.maxsim import max_sim_spans
from retriever.token_codec import TokenCodec
from retriever.types import StoredTokens
from tests.fakes.unread_device import DEVICE, UnreadDevice

NAMES = ["float16", "int8", "int4", "bit1", "pool3+float16", "pool3+int8", "pool3+int4", "pool3+bit1"]


def unit(*shape: int, seed: int = 2) -> torch.Tensor:
    return functional.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def encode(tokens: torch.Tensor, name: str) -> EncodedTokens:
    return encode_tokens(tokens, TokenCodec.parse(name))


def test_int8_by_hand() -> None:
    # the largest, 127 / 64, is 127 steps of 1 / 64; 0.5 is 32 of them, -1 is 64; 0.03 is 1.92
    found = encode(torch.tensor([[[127 / 64, 0.5, -1.0, 0.0], [0.0, -127 / 64, 0.03, 1 / 64]]]), "int8")
    assert found.values.dtype == torch.int8 and found.values.tolist() == [[[127, 32, -64, 0], [0, -127, 2, 1]]]
    assert found.scales is not None and found.scales.dtype == torch.float16
    assert found.scales.tolist() == [[1 / 64, 1 / 64]]
    assert decode_tokens(found, TokenCodec("int8"))[0, 0].tolist() == [127 / 64, 0.5, -1.0, 0.0]


def test_int4_by_hand() -> None:
    # the largest, -7 / 8, is 7 steps of 1 / 8; 0.3 is 2.4 of them; a byte has the first value plus 8 in its high half
    found = encode(torch.tensor([[[-7 / 8, 0.3, 0.0, 0.25]]]), "int4")
    assert found.values.dtype == torch.uint8 and found.values.tolist() == [[[(1 << 4) + 10, (8 << 4) + 10]]]
    assert found.scales is not None and found.scales.tolist() == [[1 / 8]]
    assert unpack_tokens(found, TokenCodec("int4")).values.tolist() == [[[-7, 2, 0, 2]]]
    assert decode_tokens(found, TokenCodec("int4")).tolist() == [[[-7 / 8, 0.25, 0.0, 0.25]]]


def test_int4_holds_every_value() -> None:
    values = torch.arange(-7, 8).repeat(2)[None, None].float()
    found = encode(values, "int4")
    assert decode_tokens(found, TokenCodec("int4")).tolist() == values.tolist()


def test_bits_equal_those_of_numpy() -> None:
    tokens = unit(5, 4, 64)
    tokens[0, 0, 0] = 0.0  # counts as positive
    found = encode(tokens, "bit1")
    assert found.scales is None
    np.testing.assert_array_equal(found.values.numpy(), np.packbits(tokens.numpy() >= 0, axis=-1))
    signs = np.unpackbits(found.values.numpy(), axis=-1).astype(np.float32) * 2 - 1
    np.testing.assert_array_equal(decode_tokens(found, TokenCodec("bit1")).numpy(), signs / 8)


@pytest.mark.parametrize(("name", "levels"), [("int8", 127), ("int4", 7)])
@pytest.mark.parametrize("size", [1e4, 1.0, 1e-2, 1e-4, 3e-6, 1e-7, 1e-9, 0.0])
def test_every_element_is_within_half_a_scale(size: float, name: str, levels: int) -> None:
    # down to 1e-3 * levels scales are float16's normal numbers, below that its smallest ones, then less than those
    tokens = torch.randn(5, 32, 48, generator=torch.Generator().manual_seed(2)) * size
    found = encode(tokens, name)
    assert found.scales is not None and found.scales.shape == (5, 32) and torch.isfinite(found.scales).all()
    scales = found.scales.double().numpy()[..., None]
    largest = np.abs(tokens.double().numpy()).max(-1, keepdims=True)
    assert (scales <= largest / levels * 1.001 + 2.0**-24).all()  # no coarser than necessary
    error = np.abs(decode_tokens(found, TokenCodec.parse(name)).double().numpy() - tokens.double().numpy())
    assert (error <= scales * (0.5 + 1e-4)).all()


def test_a_scale_that_rounds_down_is_raised() -> None:
    # 127 * 2^-24 * 1.4: the scale would round to 2^-24, whose 127 steps end at 0.71 of the value
    found = encode(torch.tensor([[[127 * 2.0**-24 * 1.4, 0.0]]]), "int8")
    assert found.scales is not None and found.scales.tolist() == [[2.0**-23]]
    assert found.values.tolist() == [[[round(127 * 1.4 / 2), 0]]]


@pytest.mark.parametrize("name", NAMES)
def test_shapes_types_and_bytes_are_those_that_the_codec_says(name: str) -> None:
    codec = TokenCodec.parse(name)
    for tokens in (unit(5, 6, 16), unit(5, 6, 16).double(), unit(0, 6, 16)):
        found = encode(tokens, name)
        assert tuple(found.values.shape) == (len(tokens), *codec.stored_shape((6, 16)))
        assert found.values.dtype == getattr(torch, codec.dtype)
        assert (found.scales is not None) == codec.scaled
        stored = found.values.nbytes + (0 if found.scales is None else found.scales.nbytes)
        assert stored == len(tokens) * codec.bytes_per_section((6, 16))
        assert decode_tokens(found, codec).shape == (len(tokens), 6 if codec.pooled is None else 3, 16)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_equals_its_sections_one_by_one(name: str) -> None:
    tokens = unit(7, 12, 24)
    whole = encode(tokens, name)
    for row in range(len(tokens)):
        alone = encode(tokens[row : row + 1], name)
        assert torch.equal(whole.values[row : row + 1], alone.values)
        assert (whole.scales is None) == (alone.scales is None)
        if whole.scales is not None and alone.scales is not None:
            assert torch.equal(whole.scales[row : row + 1], alone.scales)


@pytest.mark.parametrize("name", NAMES)
def test_max_sim_of_what_is_unpacked_is_that_of_what_is_decoded(name: str) -> None:
    codec, queries = TokenCodec.parse(name), unit(1, 5, 24, seed=3)
    found = encode(unit(6, 12, 24), name)
    unpacked, decoded = unpack_tokens(found, codec), decode_tokens(found, codec)
    [scores] = max_sim_spans(queries, StoredTokens(unpacked.values, unpacked.scales, np.array([0])), [0], [range(6)])
    expected = np.einsum("nh,rmh->rnm", queries[0].double().numpy(), decoded.double().numpy()).max(-1).mean(-1)
    assert scores == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 127 * 65600.0])
def test_what_no_scale_fits_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="tokens have values that are"):
        encode(torch.tensor([[[1.0, wrong]]]), "int8")


def test_nothing_that_is_not_finite_gets_a_sign() -> None:
    with pytest.raises(ValueError, match="not finite"):
        encode(torch.full((1, 1, 8), math.nan), "bit1")


@pytest.mark.parametrize("name", ["float16", "int8", "int4", "bit1", "pool2+int8", "pool2+bit1", "pool2+float16"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_no_codec_stores_what_is_not_finite(name: str, wrong: float) -> None:
    tokens = torch.nn.functional.normalize(torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(0)), dim=-1)
    encode(tokens, name)
    tokens[1, 2, 3] = wrong
    with pytest.raises(ValueError, match="tokens have values that are not finite; check the fusion encoder's weights"):
        encode(tokens, name)


@pytest.mark.parametrize(("name", "largest"), [("float16", 65504), ("int8", 127 * 65504), ("int4", 7 * 65504)])
def test_what_is_too_large_for_float16_is_refused(name: str, largest: float) -> None:
    found = encode(torch.tensor([[[1.0, largest]]]), name)
    assert torch.isfinite(found.values if found.scales is None else found.scales).all()
    with pytest.raises(ValueError, match="too large for float16; normalize them"):
        encode(torch.tensor([[[1.0, largest * 1.001]]]), name)


def test_pooling_does_not_wait_for_a_device() -> None:
    with UnreadDevice() as device:
        assert pool_tokens(torch.zeros(3, 8, 16, device=DEVICE), 3).shape == (3, 3, 16)
    assert device.reads == 0


def at(*degrees: float) -> torch.Tensor:
    angles = torch.tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack([angles.cos(), angles.sin()], dim=-1)[None].float()


def degrees(tokens: torch.Tensor) -> list[float]:
    return [math.degrees(math.atan2(y, x)) for x, y in tokens[0].tolist()]


def test_by_hand() -> None:
    # 0 and 4 degrees merge first, then 90 and 100; the sum of the four has the direction halfway between the pairs
    tokens = at(90, 0, 100, 4, -120)
    assert degrees(pool_tokens(tokens, 4)) == pytest.approx([90, 2, 100, -120], abs=1e-3)
    assert degrees(pool_tokens(tokens, 3)) == pytest.approx([95, 2, -120], abs=1e-3)
    # two nearby tokens weigh twice as much as one: 2 cos(5°) at 95 and 2 cos(2°) at 2 degrees
    x = 2 * math.cos(math.radians(5)) * np.exp(1j * math.radians(95)) + 2 * math.cos(math.radians(2)) * np.exp(
        1j * math.radians(2)
    )
    assert degrees(pool_tokens(tokens, 2)) == pytest.approx([math.degrees(np.angle(x)), -120], abs=1e-3)


def greedy(tokens: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """The same algorithm with lists of members and every cosine recomputed."""
    groups = [[token] for token in tokens]
    while len(groups) > count:
        sums = [sum(group) for group in groups]
        cosines = {
            (a, b): float(np.dot(sums[a], sums[b]) / np.linalg.norm(sums[a]) / np.linalg.norm(sums[b]))
            for a in range(len(groups))
            for b in range(a + 1, len(groups))
        }
        first, second = max(cosines, key=lambda pair: cosines[pair])
        groups[first] += groups.pop(second)
    return np.stack([sum(group) / np.linalg.norm(sum(group)) for group in groups])


@pytest.mark.parametrize("count", [1, 2, 5, 11])
def test_equals_merging_with_lists(count: int) -> None:
    tokens = functional.normalize(torch.randn(6, 12, 16, generator=torch.Generator().manual_seed(0)) + 0.5, dim=-1)
    pooled = pool_tokens(tokens, count)
    for found, section in zip(pooled, tokens.double().numpy(), strict=True):
        np.testing.assert_allclose(found, greedy(section, count), atol=1e-6)


def test_as_many_tokens_as_there_are_stay_as_they_are() -> None:
    tokens = at(10, 20, 30)
    assert torch.equal(pool_tokens(tokens, 3), tokens) and torch.equal(pool_tokens(tokens, 9), tokens)
    assert pool_tokens(tokens[:0], 2).shape == (0, 2, 2)


def test_equal_and_opposite_tokens() -> None:
    assert degrees(pool_tokens(at(30, 30, 30, 30), 2)) == pytest.approx([30, 30], abs=1e-3)
    assert torch.isfinite(pool_tokens(at(0, 180, 0, 180), 1)).all()
