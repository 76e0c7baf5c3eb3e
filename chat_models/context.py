"""Cuts texts to a chat model's context: with its own tokenizer, or by characters if that is not available."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from math import ceil
from pathlib import Path

from tokenizers import Tokenizer

Cut = Callable[[str, int], tuple[str, bool]]
"""A function from a text and a limit in tokens to the longest prefix that fits and whether anything was cut."""

CHARACTERS_PER_TOKEN = 4
"""Assumed length of a token of English text when the tokenizer is unknown."""
_LONGEST_WORD = 40
"""Characters of a word that is not cut in two; what is longer is a text without spaces, such as a Chinese one."""


def estimated_tokens(text: str) -> float:
    """Estimates the tokens of a text: one for four ASCII characters, and one for any other, such as a Chinese one."""
    ascii_ = len(text.encode("ascii", "ignore"))
    return len(text) - ascii_ + ascii_ / CHARACTERS_PER_TOKEN


def cut_characters(text: str, max_tokens: int) -> tuple[str, bool]:
    """Cuts `text` at the end of a word if it has more than `max_tokens` estimated tokens.

    Returns:
        The beginning that is left, and whether anything was cut.
    """
    if estimated_tokens(text) <= max_tokens:
        return text, False
    limit = bisect_right(range(1, len(text)), max_tokens, key=lambda end: ceil(estimated_tokens(text[:end])))
    prefix = text[:limit]
    inside_a_word = not (text[limit].isspace() or prefix[-1:].isspace())
    if inside_a_word and len(prefix.split()) > 1:
        kept, word = prefix.rsplit(None, 1)
        prefix = kept if len(word) <= _LONGEST_WORD else prefix
    return prefix.rstrip(), True


def token_cut(folder: Path) -> Cut:
    """Loads the tokenizer in `folder` and returns a `Cut` that counts tokens like the model on the server.

    Args:
        folder: A model's or tokenizer's folder; only its `tokenizer.json` is read.

    Raises:
        ValueError: The file is missing or not a tokenizer.
    """
    path = folder / "tokenizer.json"
    fix = "set tokenizer to a model with a tokenizer.json, or leave it unset to cut by characters"
    if not path.is_file():
        raise ValueError(f"tokenizer: {path} does not exist; {fix}")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(f"tokenizer: {path} cannot be read ({error}); {fix}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def cut(text: str, max_tokens: int) -> tuple[str, bool]:
        offsets = tokenizer.encode(text, add_special_tokens=False).offsets
        keep = max_tokens
        if len(offsets) <= keep:
            return text, False
        while keep > 0:
            prefix = text[: offsets[keep][0]].rstrip()
            # A prefix may tokenize differently on its own than within the text.
            over = len(tokenizer.encode(prefix, add_special_tokens=False).ids) - max_tokens
            if over <= 0:
                return prefix, True
            keep -= over
        return "", True

    return cut
