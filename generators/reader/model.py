"""The reader's trained model and its input: windows of tokens; an encoder, and a head that scores starts and ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import linear

from generators.reader import BASE
from retriever.models.base_bert import load_bert
from retriever.models.bert import Bert
from retriever.models.fused_bert import FusedBert
from retriever.models.precision import fastest_dtype, int8_is_fast
from retriever.models.tensor_names import check_weights
from retriever.types import FloatArray

LENGTH = 256
"""Maximum number of tokens in a window."""
OVERLAP = 40
"""Tokens of a section that two neighboring windows share: longer than almost all answers."""
QUESTION, TITLE, LINE = 64, 24, 128
"""Maximum number of tokens of a question, of the titles before a section's text, and of a line that is compared."""


class Window(NamedTuple):
    """A window: "[CLS] question [SEP] titles : text [SEP]".

    Attributes:
        ids: Token ids, [T].
        types: 0 for the question and 1 for what follows, [T].
        begin: Position of the first token of the text.
        places: Start and end, in characters of the section, of each token from `begin` on, without the last [SEP].
    """

    ids: list[int]
    types: list[int]
    begin: int
    places: list[tuple[int, int]]


def windows(tokenizer: Tokenizer, question: str, title: str, text: str, length: int = LENGTH) -> list[Window]:
    """Returns the windows of a section, of which neighbors share `OVERLAP` tokens; none if its text has no tokens.

    Args:
        tokenizer: BERT's tokenizer.
        question: The question.
        title: Titles of the article and the section, which help to judge the text but are no answers.
        text: The section.
        length: Maximum number of tokens in a window.
    """
    classify, separate = ends_of(tokenizer)
    ids, places = _tokens(tokenizer, text)
    head = [classify, *_tokens(tokenizer, question)[0][:QUESTION], separate]
    types = [0] * len(head)
    head += _tokens(tokenizer, f"{title}:")[0][-TITLE:]
    size, starts = _cut(len(ids), length - len(head) - 1, OVERLAP)
    return [
        Window(
            [*head, *ids[start : start + size], separate],
            types + [1] * (len(head) - len(types) + len(ids[start : start + size]) + 1),
            len(head),
            places[start : start + size],
        )
        for start in starts
    ]


@lru_cache(maxsize=4096)
def _tokens(tokenizer: Tokenizer, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Returns the ids of a text's tokens, and where each starts and ends."""
    encoded = tokenizer.encode(text.encode("utf-8", "replace").decode(), add_special_tokens=False)  # no lone surrogates
    return encoded.ids, encoded.offsets


@lru_cache(maxsize=2)
def ends_of(tokenizer: Tokenizer) -> list[int]:
    """Returns the ids of [CLS] and [SEP], which begin and end a text."""
    return tokenizer.encode("").ids


def _cut(count: int, room: int, overlap: int) -> tuple[int, Sequence[int]]:
    """Returns size and starts of the fewest windows of about equal size over a number of tokens."""
    if count <= room:
        return count, [0] if count else []
    windows = math.ceil((count - overlap) / (room - overlap))
    size = math.ceil((count + (windows - 1) * overlap) / windows)
    return size, [min(i * (size - overlap), count - size) for i in range(windows)]


WEIGHTS_FILE = Path(__file__).with_name("weights.safetensors")
SCALE = ".scale"
"""Ends the name of the scales of a matrix's changes."""


class SpanModel:
    """Scores every token of windows as the start and the end of an answer.

    Args:
        encoder: The encoder.
        tokenizer: Its tokenizer.
        head: Weight of the head, float32 [2, hidden], and its bias, [2].
        meanings: The base model, which encodes questions and lines.
        confidence: Weights of the logistic regression that estimates whether an answer is right; the last is its bias.
        threshold: The confidence below which the reader should abstain.
    """

    def __init__(
        self,
        encoder: FusedBert,
        tokenizer: Tokenizer,
        head: tuple[Tensor, Tensor],
        meanings: FusedBert,
        confidence: Sequence[float] = (1.0, 0.0, 0.0, 0.0),
        threshold: float = 0.0,
    ) -> None:
        self.encoder, self.tokenizer, self._head, self._meanings = encoder, tokenizer, head, meanings
        self._confidence, self.threshold = tuple(confidence), threshold

    @classmethod
    def load(cls, path: Path = WEIGHTS_FILE, dtype: torch.dtype | None = None) -> SpanModel:
        """Loads the base model, and merges the trained weights into it.

        Args:
            path: The trained weights.
            dtype: bfloat16, int8 or float32; by default the fastest of them.

        Raises:
            ValueError: The base model is not available, or the weights do not fit.
        """
        fastest = fastest_dtype("cpu")
        return _load(path, dtype or (torch.int8 if fastest == torch.float32 and int8_is_fast() else fastest))

    @torch.inference_mode()
    def scores(self, windows: Sequence[Window]) -> list[FloatArray]:
        """Returns the scores of each window's tokens as starts and ends, float32 [T, 2]."""
        hidden = self.encoder([window.ids for window in windows], [window.types for window in windows])
        return [linear(rows.float(), *self._head).numpy() for rows in hidden]

    def likeness(self, question: str, lines: Sequence[str]) -> FloatArray:
        """Returns the cosines of a question's meaning with those of lines, float32 [lines]."""
        classify, separate = ends_of(self.tokenizer)
        ids = [_tokens(self.tokenizer, text)[0][:LINE] for text in (question, *lines)]
        vectors = self._meanings.vectors([[classify, *line, separate] for line in ids]).numpy()
        return np.asarray(vectors[1:] @ vectors[0])

    def confidence(self, signs: Sequence[float]) -> float:
        """Returns the probability that an answer is right, from its signs (`reader.signs_of`)."""
        total = sum(weight * sign for weight, sign in zip(self._confidence, (*signs, 1.0), strict=True))
        return 1 / (1 + math.exp(-max(min(total, 30.0), -30.0)))


@lru_cache(maxsize=2)
def _load(path: Path, dtype: torch.dtype) -> SpanModel:
    model, tokenizer = load_bert(BASE)
    meanings = FusedBert(model, dtype)
    own = load_file(path)
    _check(model, own, path)
    head = own.pop("head.weight").float(), own.pop("head.bias").float()
    confidence, threshold = own.pop("confidence").tolist(), float(own.pop("threshold"))
    _change(model, own)
    return SpanModel(FusedBert(model, dtype), tokenizer, head, meanings, confidence, threshold)


def _check(encoder: Bert, own: Mapping[str, Tensor], path: Path) -> None:
    """Raises ValueError unless there is a head, a confidence, and all of a layer that has anything."""
    layers = tuple({".".join(name.split(".")[:3]) + "." for name in own if name.startswith("encoder.")})
    parameters = {name: tensor for name, tensor in encoder.named_parameters() if name.startswith(layers)}
    expected: dict[str, Sequence[int]] = {name: tensor.shape for name, tensor in parameters.items()}
    expected |= {name + SCALE: tensor.shape[:1] for name, tensor in parameters.items() if tensor.dim() == 2}
    expected |= {"head.weight": (2, encoder.config.hidden_size), "head.bias": (2,), "confidence": (4,), "threshold": ()}
    shapes = {name: tensor.shape for name, tensor in own.items()}
    check_weights(path, expected, shapes, fix=f"train the weights again on {BASE}")


@torch.no_grad()
def _change(encoder: Bert, own: Mapping[str, Tensor]) -> None:
    """Adds the changes of matrices, int8 with a scale per row, and replaces biases and normalizations."""
    parameters = dict(encoder.named_parameters())
    for name, tensor in own.items():
        if tensor.dtype == torch.int8:
            parameters[name].add_(tensor.float() * own[name + SCALE][:, None])
        elif not name.endswith(SCALE):
            parameters[name].copy_(tensor)
