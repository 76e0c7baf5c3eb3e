from __future__ import annotations

import pytest

from retriever.token_codec import TokenCodec

# Tokens of the embedded profile, 32 x 128, and of the paper's, 32 x 768. A scale is 2 bytes.
SIZES = [
    ("float16", 32 * 128 * 2, 32 * 768 * 2),
    ("int8", 32 * (128 + 2), 32 * (768 + 2)),
    ("int4", 32 * (64 + 2), 32 * (384 + 2)),
    ("bit1", 512, 3072),
    ("pool16+int8", 16 * 130, 16 * 770),
    ("pool16+bit1", 256, 1536),
    ("pool4+int4", 264, 1544),
    ("pool40+float16", 32 * 128 * 2, 32 * 768 * 2),
]


@pytest.mark.parametrize(("name", "embedded", "paper"), SIZES)
def test_names_and_sizes(name: str, embedded: int, paper: int) -> None:
    codec = TokenCodec.parse(name)
    assert codec.name == name
    assert codec.bytes_per_section((32, 128)) == embedded
    assert codec.bytes_per_section((32, 768)) == paper
    assert codec.bytes_per_section((0, 0)) == 0


def test_shapes() -> None:
    assert TokenCodec.parse("pool8+bit1").stored_shape((32, 128)) == (8, 16)
    assert TokenCodec.parse("int4").stored_shape((32, 128)) == (32, 64)
    assert TokenCodec.parse("pool8+int8").stored_shape((4, 7)) == (4, 7)
    assert [TokenCodec.parse(name).dtype for name, *_ in SIZES[:4]] == ["float16", "int8", "uint8", "uint8"]


@pytest.mark.parametrize(
    "name", ["", "int2", "float32", "pool0+int8", "pool+int8", "pool8", "pool8+", "int8+pool8", "pool8+pool4+int8"]
)
def test_unknown_names(name: str) -> None:
    with pytest.raises(
        ValueError, match=rf"token codec '{name.replace('+', '.')}' is unknown: use one of float16, int8"
    ):
        TokenCodec.parse(name)


def test_lengths_that_do_not_fill_bytes() -> None:
    with pytest.raises(ValueError, match=r"token codec bit1: .* multiple of 8, got 12; use int8"):
        TokenCodec.parse("bit1").stored_shape((32, 12))
    with pytest.raises(ValueError, match=r"token codec pool4\+int4: .* multiple of 2, got 7"):
        TokenCodec.parse("pool4+int4").bytes_per_section((32, 7))
