"""Texts cut to what a chat model may read: by its own tokenizer, or by characters where that is not at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tokenizers import Tokenizer

Cut = Callable[[str, int], tuple[str, bool]]
"""Takes a text and a number of tokens; returns the longest beginning that fits, and whether anything was cut."""

CHARACTERS_PER_TOKEN = 4
"""What a token of English text is taken for where its tokenizer is not known."""


def cut_characters(text: str, max_tokens: int) -> tuple[str, bool]:
    """Returns a beginning of `text` that ends at a word, and whether it was cut; a token counts as four characters."""
    limit = CHARACTERS_PER_TOKEN * max_tokens
    if len(text) <= limit:
        return text, False
    beginning = text[:limit]
    inside_a_word = not (text[limit].isspace() or beginning[-1].isspace())
    if inside_a_word and len(beginning.split()) > 1:
        beginning = beginning.rsplit(None, 1)[0]
    return beginning.rstrip(), True


def token_cut(folder: Path) -> Cut:
    """Returns what cuts texts by the tokenizer in `folder`, as the model behind a chat server counts.

    Args:
        folder: A model's or tokenizer's folder with its `tokenizer.json`; nothing else is read.

    Raises:
        ValueError: The file is missing or is no tokenizer.
    """
    path = folder / "tokenizer.json"
    mend = "name a model with a tokenizer.json, or leave tokenizer unset to cut by characters"
    if not path.is_file():
        raise ValueError(f"tokenizer: {path} does not exist; {mend}")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(f"tokenizer: {path} cannot be read ({error}); {mend}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def cut(text: str, max_tokens: int) -> tuple[str, bool]:
        offsets = tokenizer.encode(text, add_special_tokens=False).offsets
        keep = max_tokens
        if len(offsets) <= keep:
            return text, False
        while keep > 0:
            beginning = text[: offsets[keep][0]].rstrip()
            # A beginning alone may split into other tokens than it did within the text.
            over = len(tokenizer.encode(beginning, add_special_tokens=False).ids) - max_tokens
            if over <= 0:
                return beginning, True
            keep -= over
        return "", True

    return cut
