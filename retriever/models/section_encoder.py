"""Step 3's sentence encoder: vectors of questions and of sections, by a base model with our LoRA matrices."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers import BertModel

from retriever.base_models import bases, find_base
from retriever.files import read_object, sha256_of
from retriever.models.bert import load_bert, merge_lora
from retriever.models.padding import known_padding
from retriever.models.weights import WEIGHTS_NAME
from retriever.texts import split_passage
from retriever.transfer import to_device
from retriever.types import FloatArray

WINDOW, STEP = 64, 48
"""Tokens of a section's text in a window, and from the start of one window to the next."""
MAX_HEADING, MAX_QUESTION = 32, 128
"""Most tokens of a section's heading, which begins every window, and of a question."""
BATCH = 16
"""Texts per forward pass; of similar lengths, because padding is computed, too."""


class SectionEncoder:
    """Encodes texts by the mean of a BERT's last layer (implements `retriever.protocols.SectionEncoder`).

    A section is encoded in overlapping windows of its text, each after the section's heading. The article's title is
    left out, as it does not tell its sections apart.

    Args:
        model: The encoder.
        tokenizer: Its tokenizer.
        fingerprint: Hash of its weights.
    """

    def __init__(self, model: BertModel, tokenizer: Tokenizer, fingerprint: str) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.dimension: int = model.config.hidden_size
        self.fingerprint = hashlib.sha256(
            json.dumps([fingerprint, WINDOW, STEP, MAX_HEADING, MAX_QUESTION]).encode()
        ).hexdigest()[:16]
        self._first, self._last = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))

    @classmethod
    def load(cls, model: str | Path, device: str = "cpu", dtype: torch.dtype = torch.float32) -> SectionEncoder:
        """Loads a base model by its name, or a folder with LoRA matrices and the `base_model` in its config.json.

        Raises:
            ValueError: The base model is unknown or not available, or a file is missing or does not match.
        """
        if str(model) in bases():
            return cls(*load_bert(str(model), device, dtype), weights_fingerprint(model))
        folder = Path(model)
        bert, tokenizer = load_bert(base_of(folder), device, torch.float32)
        merge_lora(bert, folder / WEIGHTS_NAME)
        torch.nn.Module.to(bert, dtype=dtype)  # after the sum, so that nothing small is lost
        return cls(bert, tokenizer, weights_fingerprint(folder))

    def encode_questions(self, questions: Sequence[str]) -> FloatArray:
        """Encodes to L2-normalized vectors, float32 [N, dimension]."""
        encoded = self.tokenizer.encode_batch(list(questions), add_special_tokens=False)
        return self._encode([one.ids[:MAX_QUESTION] for one in encoded])

    def encode_passages(self, passages: Sequence[str]) -> list[NDArray[np.int8]]:
        """Encodes passages as `section_passage` formats them, or other texts.

        Returns the vectors of each passage's windows, int8 [windows, dimension], scaled so that the largest value of a
        vector is 127: only their directions count.
        """
        parts = [split_passage(passage) for passage in passages]
        headings = self.tokenizer.encode_batch([f"{heading}\n" for heading, _ in parts], add_special_tokens=False)
        texts = self.tokenizer.encode_batch([text for _, text in parts], add_special_tokens=False)
        windows = [
            [heading.ids[:MAX_HEADING] + text.ids[start : start + WINDOW] for start in window_starts(len(text.ids))]
            for heading, text in zip(headings, texts, strict=True)
        ]
        vectors = self._encode([window for own in windows for window in own])
        largest = np.abs(vectors).max(axis=1, keepdims=True, initial=1e-12)
        rows = np.round(vectors * (127 / largest)).astype(np.int8)
        return np.split(rows, np.cumsum([len(own) for own in windows])[:-1]) if passages else []

    @torch.inference_mode()
    def _encode(self, texts: Sequence[Sequence[int]]) -> FloatArray:
        vectors = np.empty((len(texts), self.dimension), np.float32)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            lengths = torch.tensor([len(texts[i]) + 2 for i in rows])
            ids = torch.zeros(len(rows), int(lengths[-1]), dtype=torch.long)
            for row, i in enumerate(rows):
                ids[row, : lengths[row]] = torch.tensor([self._first, *texts[i], self._last])
            mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
            device = self.model.device
            with known_padding(bool(lengths[0] < lengths[-1])):
                hidden = self.model(to_device(ids, device), to_device(mask, device)).last_hidden_state
            weights = to_device(mask, device)[..., None].float()
            pooled = (hidden.float() * weights).sum(1) / weights.sum(1)
            vectors[rows] = torch.nn.functional.normalize(pooled, dim=1).cpu().numpy()
        return vectors


def window_starts(tokens: int) -> range:
    """Returns where the windows of a text begin; at least one, and none that the one before it covers.

    Example:
        >>> list(window_starts(0)), list(window_starts(WINDOW)), list(window_starts(WINDOW + 1))
        ([0], [0], [0, 48])
    """
    return range(0, max(1, tokens - WINDOW + STEP), STEP)


def base_of(folder: Path) -> str:
    """Returns the base model that the weights in a folder build on.

    Raises:
        ValueError: The folder has no config.json, or it names no base model.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(
            f"{folder}: has no config.json; name a folder that `omgm train-sections` wrote, or a base model"
        )
    return find_base(str(read_object(path).get("base_model"))).name


def weights_fingerprint(model: str | Path) -> str:
    """Returns a hash of all weights of a model: its base model's, and the matrices in its folder."""
    own = "" if str(model) in bases() else sha256_of(Path(model) / WEIGHTS_NAME)
    base = find_base(str(model) if not own else base_of(Path(model)))
    return hashlib.sha256(f"{base.files[WEIGHTS_NAME].sha256} {own}".encode()).hexdigest()
