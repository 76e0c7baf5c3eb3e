"""Names and sizes of token codecs, which store the tokens of a section. Without PyTorch, so that settings load fast."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, Self, cast, get_args

CodecKind = Literal["float16", "int8", "int4", "bit1"]
"""How a value is stored; `bit1` keeps only its sign."""

_NAME = re.compile(r"(?:pool([1-9]\d{0,3})\+)?(\w+)")
_VALUES_PER_BYTE: dict[CodecKind, int] = {"int8": 1, "int4": 2, "bit1": 8}
_SCALE_BYTES = 2


@dataclass(frozen=True, slots=True)
class TokenCodec:
    """How section tokens are stored; `retriever.codecs` encodes and decodes them.

    Attributes:
        kind: How a value is stored. `int8` and `int4` have a float16 scale per token.
        pooled: The number of tokens to which a section's tokens are merged first; `None` keeps all.
    """

    kind: CodecKind
    pooled: int | None = None

    @classmethod
    def parse(cls, name: str) -> Self:
        """Parses a name: `float16`, `int8`, `int4` or `bit1`, with `poolN+` in front to merge tokens to N.

        Example:
            >>> TokenCodec.parse("pool8+int4")
            TokenCodec(kind='int4', pooled=8)

        Raises:
            ValueError: There is no such codec.
        """
        match = _NAME.fullmatch(name)
        if match is None or match[2] not in get_args(CodecKind):
            kinds = ", ".join(get_args(CodecKind))
            raise ValueError(f"token codec {name!r} is unknown: use one of {kinds}, or poolN+ before it (pool8+int4)")
        return cls(cast(CodecKind, match[2]), int(match[1]) if match[1] else None)

    @property
    def name(self) -> str:
        """The name that `parse` reads."""
        return self.kind if self.pooled is None else f"pool{self.pooled}+{self.kind}"

    @property
    def dtype(self) -> str:
        """The dtype of the stored values; values smaller than a byte are packed into uint8."""
        return "uint8" if self.packed else self.kind

    @property
    def packed(self) -> bool:
        """Whether a byte holds more than one value."""
        return self.kind in ("int4", "bit1")

    @property
    def scaled(self) -> bool:
        """Whether each token has a scale."""
        return self.kind in ("int8", "int4")

    def stored_shape(self, token_shape: tuple[int, int]) -> tuple[int, int]:
        """Returns the shape of a section's stored values for tokens of shape (M, H); (0, 0) stays (0, 0).

        Raises:
            ValueError: H cannot be packed into whole bytes.
        """
        tokens, length = token_shape
        packed = _VALUES_PER_BYTE.get(self.kind, 1)
        if length % packed:
            raise ValueError(
                f"token codec {self.name}: the length of a token must be a multiple of {packed}, got {length}; use int8"
            )
        return tokens if self.pooled is None else min(self.pooled, tokens), length // packed

    def bytes_per_section(self, token_shape: tuple[int, int]) -> int:
        """Returns the size in bytes of a section's stored tokens for shape (M, H), scales included.

        Example:
            >>> TokenCodec.parse("pool4+int4").bytes_per_section((32, 128))
            264
        """
        tokens, width = self.stored_shape(token_shape)
        return tokens * (width * (2 if self.kind == "float16" else 1) + (_SCALE_BYTES if self.scaled else 0))
