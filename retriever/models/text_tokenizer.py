"""Tokenizers of our own models, by the tokenizers library: importing transformers takes longer than PyTorch."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from tokenizers import Tokenizer
from torch import Tensor

from retriever.files import read_object

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

AnyTokenizer: TypeAlias = "TextTokenizer | PreTrainedTokenizerBase"

FILE_NAME, CONFIG_NAME = "tokenizer.json", "tokenizer_config.json"
CLASS = "TokenizersBackend"
"""The `tokenizer_class` of a `tokenizer.json` to which transformers adds nothing."""
_CLASSES = {CLASS, "PreTrainedTokenizerFast"}  # its name until transformers 5


class TextTokenizer:
    """Tokenizes texts; called, and saved, like a tokenizer of transformers.

    Args:
        backend: The tokenizer.
        settings: The `tokenizer_config.json`: `pad_token`, `unk_token`, `truncation_side`.

    Raises:
        ValueError: There is no padding token, or it or the unknown token has no id.
    """

    def __init__(self, backend: Tokenizer, settings: Mapping[str, Any]) -> None:
        backend.no_padding()
        self.backend, self.settings = backend, dict(settings)
        self.pad_token_id, self.unk_token_id = self._id("pad_token"), self._id("unk_token")
        self._truncating = threading.Lock()  # a call sets truncation on the shared tokenizer

    def _id(self, name: str) -> int:
        token = self.settings.get(name)
        text = token["content"] if isinstance(token, dict) else token
        number = None if text is None else self.backend.token_to_id(text)
        if number is None:
            raise ValueError(f"{CONFIG_NAME}: {name}: must be a token of {FILE_NAME}, got {text!r}")
        return number

    def __len__(self) -> int:
        """Returns the number of tokens, added ones included."""
        return self.backend.get_vocab_size()

    def get_vocab(self) -> dict[str, int]:
        """Returns the id of each token."""
        return self.backend.get_vocab()

    def get_added_vocab(self) -> dict[str, int]:
        """Returns the id of each token that was added to the vocabulary, special tokens included."""
        return {token.content: number for number, token in self.backend.get_added_tokens_decoder().items()}

    def __call__(
        self,
        texts: str | Sequence[str],
        add_special_tokens: bool = True,
        truncation: bool = False,
        max_length: int | None = None,
        verbose: bool = True,
    ) -> dict[str, Any]:
        """Returns the `input_ids` of a text, a list, or of each text, a list of lists; cut at `max_length` if asked.

        `verbose` is taken as transformers' tokenizers take it; nothing is logged.
        """
        with self._truncating:
            if truncation and max_length is not None:
                self.backend.enable_truncation(max_length, direction=self.settings.get("truncation_side", "right"))
            else:
                self.backend.no_truncation()
            encoded = self.backend.encode_batch(
                [texts] if isinstance(texts, str) else list(texts), add_special_tokens=add_special_tokens
            )
        ids = [one.ids for one in encoded]
        return {"input_ids": ids[0] if isinstance(texts, str) else ids}

    def save_pretrained(self, folder: str | Path) -> None:
        """Writes the files that `load_tokenizer` and transformers read."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        with self._truncating:
            self.backend.no_truncation()
            self.backend.save(str(Path(folder) / FILE_NAME))
        (Path(folder) / CONFIG_NAME).write_text(json.dumps(self.settings, indent=2) + "\n", encoding="utf-8")


def load_tokenizer(folder: Path) -> AnyTokenizer:
    """Loads the tokenizer of one of our models, or by transformers that of a class of its own, such as BERT's.

    Raises:
        ValueError: One of our tokenizers has no padding token or no unknown token.
    """
    file, config = folder / FILE_NAME, folder / CONFIG_NAME
    settings = read_object(config) if config.is_file() else {}
    if file.is_file() and settings.get("tokenizer_class") in _CLASSES:
        try:
            return TextTokenizer(Tokenizer.from_file(str(file)), settings)
        except ValueError as error:
            raise ValueError(f"{folder}: {error}") from error
    from transformers import AutoTokenizer  # only here, because our own models do without

    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    return loaded


def padded(rows: Sequence[Sequence[int]], padding: int, length: int | None = None) -> tuple[Tensor, Tensor]:
    """Returns token ids and their mask, int64 [N, T], padded on the right to `length`, by default to the longest."""
    lengths = torch.tensor([len(row) for row in rows]).view(-1, 1)
    if length is None:
        length = max(map(len, rows), default=0)
    ids = torch.tensor([[*row, *[padding] * (length - len(row))] for row in rows], dtype=torch.int64)
    return ids.view(len(rows), length), (torch.arange(length) < lengths).to(torch.int64)
