"""Step 3's sentence encoder: vectors of questions and of sections, by a base model with our LoRA matrices."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from retriever.base_models import bases, find_base
from retriever.files import read_object
from retriever.gpu import to_device
from retriever.models.base_bert import load_bert
from retriever.models.bert import Bert
from retriever.models.fused_bert import FusedBert
from retriever.models.lora import merge_lora
from retriever.models.weights import WEIGHTS_NAME
from retriever.texts import split_passage
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
    left out, as it does not tell its sections apart. Questions may have an encoder of their own, an adapted one, whose
    vectors are compared with the same vectors of sections: an index stays as it is.

    Args:
        model: The encoder.
        tokenizer: Its tokenizer.
        fingerprint: Hash of its weights.
        asking: The encoder of questions, if it is another one.
    """

    def __init__(self, model: Bert, tokenizer: Tokenizer, fingerprint: str, asking: Bert | None = None) -> None:
        self.model, self.tokenizer, self.asking = model, tokenizer, asking or model
        self.dimension: int = model.config.hidden_size
        self._fused = cache(FusedBert)
        self.fingerprint = _fingerprint(fingerprint)
        ends: list[Any] = [tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]")]
        self._first, self._last = ends

    @classmethod
    def load(cls, model: str | Path, device: str = "cpu", dtype: torch.dtype = torch.float32) -> SectionEncoder:
        """Loads a base model by its name, or a folder with LoRA matrices and the `base_model` in its config.json.

        The matrices of a folder change the encoder of questions only.

        Raises:
            ValueError: The base model is unknown or not available, or a file is missing or does not match.
        """
        if str(model) in bases():
            return cls(*load_bert(str(model), device, dtype), weights_fingerprint(str(model)))
        folder = Path(model)
        base = base_of(folder)
        bert, tokenizer = load_bert(base, device, torch.float32)
        asking = with_own_layers(bert)
        merge_lora(asking, folder / WEIGHTS_NAME)
        for one in (bert, asking):
            one.to(dtype=dtype)  # after the sum, so that nothing small is lost
        return cls(bert, tokenizer, weights_fingerprint(base), asking)

    def encode_questions(self, questions: Sequence[str]) -> FloatArray:
        """Encodes to L2-normalized vectors, float32 [N, dimension]."""
        return self._encode(self.asking, self.question_ids(questions))

    def encode_passages(self, passages: Sequence[str]) -> list[NDArray[np.int8]]:
        """Encodes passages as `section_passage` formats them, or other texts.

        Returns the vectors of each passage's windows, int8 [windows, dimension]: only their directions count.
        """
        windows = self._window_ids(passages)
        vectors = self._encode(self.model, [window for own in windows for window in own])
        rows = as_int8(vectors)
        return np.split(rows, np.cumsum([len(own) for own in windows])[:-1]) if passages else []

    def question_ids(self, questions: Sequence[str]) -> list[list[int]]:
        """Returns the token ids of questions."""
        encoded = self.tokenizer.encode_batch(list(questions), add_special_tokens=False)
        return [one.ids[:MAX_QUESTION] for one in encoded]

    def _window_ids(self, passages: Sequence[str]) -> list[list[list[int]]]:
        """Returns the token ids of each passage's windows."""
        parts = [split_passage(passage) for passage in passages]
        headings = self.tokenizer.encode_batch([f"{heading}\n" for heading, _ in parts], add_special_tokens=False)
        texts = self.tokenizer.encode_batch([text for _, text in parts], add_special_tokens=False)
        return [
            [heading.ids[:MAX_HEADING] + text.ids[start : start + WINDOW] for start in window_starts(len(text.ids))]
            for heading, text in zip(headings, texts, strict=True)
        ]

    def _encode(self, model: Bert, texts: Sequence[Sequence[int]]) -> FloatArray:
        """Encodes token ids; on a CPU with the weights that the model had when it was first used."""
        if model.device.type == "cpu":
            return self._fused(model).vectors([[self._first, *text, self._last] for text in texts]).numpy()
        with torch.inference_mode():
            return self.vectors(model, texts).cpu().numpy()

    def vectors(self, model: Bert, texts: Sequence[Sequence[int]]) -> Tensor:
        """Encodes token ids with a model to L2-normalized vectors, float32 [N, dimension], with gradients if on."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found = [self._batch(model, [texts[i] for i in order[at : at + BATCH]]) for at in range(0, len(order), BATCH)]
        if not found:
            return torch.empty(0, self.dimension)
        places = torch.empty(len(order), dtype=torch.long)
        places[order] = torch.arange(len(order))
        return torch.cat(found)[to_device(places, model.device)]

    def _batch(self, model: Bert, texts: Sequence[Sequence[int]]) -> Tensor:
        """Encodes texts in order of their lengths in one forward pass."""
        lengths = torch.tensor([len(text) + 2 for text in texts])
        ids = torch.zeros(len(texts), int(lengths[-1]), dtype=torch.long)
        for row, text in enumerate(texts):
            ids[row, : lengths[row]] = torch.tensor([self._first, *text, self._last])
        kept = torch.arange(ids.shape[1]) < lengths[:, None]
        device = model.device
        mask = to_device(kept, device)
        hidden = model(to_device(ids, device), mask if lengths[0] < lengths[-1] else None)
        weights = mask[..., None].float()
        pooled = (hidden.float() * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(pooled, dim=1)


def as_int8(vectors: FloatArray) -> NDArray[np.int8]:
    """Rounds vectors [N, D] to int8, each scaled so that its largest value is 127."""
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=1e-12)
    rows: NDArray[np.int8] = np.round(vectors * (127 / largest)).astype(np.int8)
    return rows


def window_starts(tokens: int) -> range:
    """Returns where the windows of a text begin; at least one, and none that the one before it covers.

    Example:
        >>> list(window_starts(0)), list(window_starts(WINDOW)), list(window_starts(WINDOW + 1))
        ([0], [0], [0, 48])
    """
    return range(0, max(1, tokens - WINDOW + STEP), STEP)


def with_own_layers(model: Bert) -> Bert:
    """Returns a copy of a model that shares its embeddings, half of its memory."""
    return copy.deepcopy(model, {id(one): one for one in model.embeddings.parameters()})


def base_of(folder: Path) -> str:
    """Returns the base model that the weights in a folder build on.

    Raises:
        ValueError: The folder has no config.json, or it names no base model.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(
            f"{folder}: has no config.json; name a folder that `omgm train-encoder --sections` wrote, or a base model"
        )
    base = read_object(path).get("base_model")
    if base is None:
        raise ValueError(
            f"{path}: names no base_model, as folders that `omgm train-encoder --sections` wrote do; one of "
            "sentence-transformers has a modules.json (SentenceTransformer.save_pretrained), and is not trained here"
        )
    return find_base(str(base)).name


def weights_fingerprint(base: str) -> str:
    """Returns a hash of all weights of a base model."""
    return hashlib.sha256(f"{find_base(base).files[WEIGHTS_NAME].sha256} ".encode()).hexdigest()


def sections_fingerprint(model: str | Path) -> str:
    """Returns the fingerprint of what `SectionEncoder.load` loads, without loading it; raises as it does."""
    return _fingerprint(weights_fingerprint(str(model) if str(model) in bases() else base_of(Path(model))))


def _fingerprint(weights: str) -> str:
    settings = [weights, WINDOW, STEP, MAX_HEADING, MAX_QUESTION]
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]
