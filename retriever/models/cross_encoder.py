"""Step 3's cross-encoders: a transformer reads question and passage together and scores how well they match."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from retriever.gpu import to_device
from retriever.models.packed_roberta import packed
from retriever.models.padding import known_padding
from retriever.models.pretrained import check_whole, check_words, load_pretrained
from retriever.types import FloatArray, IntArray

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

MAX_TOKENS = 1024
"""Default limit for a pair, in tokens, special tokens included."""
BATCH_TOKENS = 32768
"""Default limit for a forward pass, in tokens, padding included."""
_FORWARD_COST = {"cpu": 16, "cuda": 2048}
"""Overhead of a forward pass in tokens, estimated from the FLOPs and kernel launches of 24 layers of width 1024."""
_TOKENIZED = 128
"""Pairs to tokenize before a GPU computes their scores; it computes while the next ones are tokenized."""


class CrossEncoderReranker:
    """Scores with a transformers sequence classifier with one label (implements `retriever.protocols.TextReranker`).

    Scores equal those of sentence-transformers' `CrossEncoder` with a sigmoid, the convention of bge rerankers. If a
    pair is too long, the end of the passage is cut, and the question only if it takes up more than half of the limit.
    On a GPU, all forward passes are launched before the host waits for the scores, once; a RoBERTa in half precision,
    such as bge-reranker-v2-m3, computes without padding (`retriever.models.packed_roberta`).

    Args:
        model: A model with `logits` [B, 1].
        tokenizer: The model's tokenizer.
        max_tokens: Longest pair in tokens, special tokens included, at least 16; lowered to the model's own limit.
        batch_tokens: Most tokens in a forward pass, padding included; a single row may be longer.

    Raises:
        ValueError: `max_tokens` is too low.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        max_tokens: int = MAX_TOKENS,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_tokens = longest(model, tokenizer, max_tokens)
        self.batch_tokens = batch_tokens
        self._packed = packed(model)
        self._tokenizing = threading.Lock()  # a call sets truncation on the shared tokenizer

    @classmethod
    def load(
        cls,
        folder: Path,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        max_tokens: int = MAX_TOKENS,
        batch_tokens: int = BATCH_TOKENS,
    ) -> CrossEncoderReranker:
        """Loads the reranker in `folder` (config, safetensors, tokenizer).

        Raises:
            ValueError: The folder or one of its files is missing, its model is not a classifier with one label, some of
                its weights are missing, or `max_tokens` is too low.
        """
        from transformers import AutoModelForSequenceClassification, AutoTokenizer  # only for profiles that name one

        _check(folder)
        model = load_pretrained(AutoModelForSequenceClassification, folder, dtype)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        check_words(folder, tokenizer, model.config.vocab_size)
        return cls(model.to(device), tokenizer, max_tokens, batch_tokens)

    def score(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Scores each question's passages in [0, 1]; returns float32 [len(passages[i])] per question.

        Raises:
            ValueError: The numbers of questions and of lists of passages differ.
        """
        return by_question(self._score_pairs, questions, passages)

    def use_cuda_graphs(self) -> None:
        """Captures CUDA graphs for forward passes without padding, if there are any; calls must then not overlap."""
        if self._packed is not None:
            self._packed.use_cuda_graphs(self.max_tokens)

    @torch.inference_mode()
    def _score_pairs(self, questions: list[str], passages: list[str]) -> FloatArray:
        if self._packed is not None:
            logits = []
            for start in range(0, len(questions), _TOKENIZED):
                part = slice(start, start + _TOKENIZED)
                ids = self._tokens(questions[part], passages[part])["input_ids"]
                logits += [self._packed(texts) for texts in _within(ids, self.batch_tokens)]
            return _sigmoid(logits)
        encoded = self._tokens(questions, passages)
        lengths = np.array([len(ids) for ids in encoded["input_ids"]])
        device = self.model.device
        batches = pack(lengths, self.batch_tokens, _FORWARD_COST.get(device.type, 0))
        logits = []
        for rows in batches:
            batch = self.tokenizer.pad({key: [values[i] for i in rows] for key, values in encoded.items()}, True)
            inputs = {key: to_device(torch.from_numpy(np.array(values)), device) for key, values in batch.items()}
            with known_padding(bool(lengths[rows[-1]] < lengths[rows[0]])):
                logits.append(self.model(**inputs).logits[:, 0])
        scores = np.empty(len(lengths), np.float32)
        scores[np.concatenate(batches)] = _sigmoid(logits)
        return scores

    def _tokens(self, questions: list[str], passages: list[str]) -> Any:
        with self._tokenizing:
            return self.tokenizer(questions, passages, truncation="longest_first", max_length=self.max_tokens)


class FlagReranker:
    """Computes the same scores with FlagEmbedding, BAAI's own library for bge rerankers (extra `flag`).

    On a GPU, it is slower than `CrossEncoderReranker`: FlagEmbedding computes its first batch twice, and waits for the
    scores of each batch.

    Args:
        model: A `FlagEmbedding.FlagReranker`, which does its own batching.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self._scoring = threading.Lock()  # FlagEmbedding sets up its tokenizer in every call

    @classmethod
    def load(
        cls, folder: Path, device: str = "cpu", dtype: torch.dtype = torch.float32, max_tokens: int = MAX_TOKENS
    ) -> FlagReranker:
        """Loads the reranker in `folder` (config, safetensors, tokenizer).

        Raises:
            ValueError: FlagEmbedding cannot be imported, the folder or one of its files is missing, its model is not a
                classifier with one label, or `max_tokens` is too low.
        """
        _check(folder)
        try:
            library = import_module("FlagEmbedding")
        except ModuleNotFoundError as error:
            raise ValueError(
                f'sections.kind = "flag" needs FlagEmbedding ({error}): install the extra `flag`, or set '
                '"cross_encoder", which gives the same scores'
            ) from error
        from transformers import AutoModelForSequenceClassification

        checked = load_pretrained(AutoModelForSequenceClassification, folder, dtype)  # the library would draw weights
        model = library.FlagReranker(str(folder), devices=[device], normalize=True)
        model.model = checked
        check_words(folder, model.tokenizer, checked.config.vocab_size)
        model.max_length = longest(model.model, model.tokenizer, max_tokens)
        return cls(model)

    def score(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Scores each question's passages in [0, 1]; returns float32 [len(passages[i])] per question.

        Raises:
            ValueError: The numbers of questions and of lists of passages differ.
        """
        return by_question(self._score_pairs, questions, passages)

    def _score_pairs(self, questions: list[str], passages: list[str]) -> FloatArray:
        pairs = list(zip(questions, passages, strict=True))
        with self._scoring, known_padding(True):
            return np.asarray(self.model.compute_score(pairs), np.float32)


def pack(lengths: IntArray, batch_tokens: int, forward_cost: int) -> list[IntArray]:
    """Groups rows into batches, longest first, at the lowest total cost.

    Args:
        lengths: Tokens of each row, int64 [N].
        batch_tokens: Most tokens, padding included, in a batch with more than one row.
        forward_cost: Overhead of a batch, in tokens, on top of its tokens with padding.

    Returns:
        The positions in `lengths` of each batch's rows.
    """
    order = np.argsort(-lengths, kind="stable")
    longest = lengths[order]
    cost, begins = np.zeros(len(order) + 1), [0]
    for end in range(1, len(order) + 1):  # the cheapest batches of the first `end` rows, by the start of the last batch
        sizes = np.arange(end, 0, -1) * longest[:end]
        costs = np.where(sizes <= batch_tokens, cost[:end] + sizes + forward_cost, np.inf)
        costs[-1] = cost[end - 1] + sizes[-1] + forward_cost
        begins.append(int(costs.argmin()))
        cost[end] = costs[begins[end]]
    batches: list[IntArray] = []
    end = len(order)
    while end:
        batches.append(order[begins[end] : end])
        end = begins[end]
    return batches[::-1]


def _within(texts: Sequence[Sequence[int]], tokens: int) -> Iterator[list[Sequence[int]]]:
    """Yields consecutive texts with at most so many tokens together; a longer text comes alone."""
    group: list[Sequence[int]] = []
    total = 0
    for text in texts:
        if group and total + len(text) > tokens:
            yield group
            group, total = [], 0
        group.append(text)
        total += len(text)
    yield group


def _sigmoid(logits: Sequence[Tensor]) -> FloatArray:
    """Returns logits as scores in [0, 1]; waits for a GPU."""
    scores: FloatArray = torch.cat(list(logits)).float().sigmoid().cpu().numpy()
    return scores


def by_question(
    score_pairs: Callable[[list[str], list[str]], FloatArray],
    questions: Sequence[str],
    passages: Sequence[Sequence[str]],
) -> list[FloatArray]:
    """Scores all pairs together and splits the scores by question."""
    if len(questions) != len(passages):
        raise ValueError(f"passages: must have one list per question, {len(questions)}, got {len(passages)}")
    flat = [text for texts in passages for text in texts]
    repeated = [question for question, texts in zip(questions, passages, strict=True) for _ in texts]
    scores = score_pairs(repeated, flat) if flat else np.empty(0, np.float32)
    ends = np.cumsum([len(texts) for texts in passages])
    return [scores[end - len(texts) : end] for end, texts in zip(ends, passages, strict=True)]


def _check(folder: Path) -> None:
    """Raises ValueError unless `folder` has a sequence classifier with one label."""
    check_whole(folder)
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder}: has no config.json; sections.model must be a folder with a cross-encoder")
    if not any(folder.glob("*.safetensors")):
        raise ValueError(f"{folder}: has no .safetensors file; other weight formats are not supported")
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    architecture = (config.architectures or ["no model"])[0]
    if not architecture.endswith("ForSequenceClassification") or config.num_labels != 1:
        raise ValueError(
            f"{folder}: config.json: must be a sequence classifier with 1 label, got {architecture} with "
            f"{config.num_labels}; set sections.model to a reranker such as BAAI/bge-reranker-v2-m3"
        )


def longest(model: nn.Module, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> int:
    """Returns `max_tokens`, lowered to the limits of tokenizer and position embeddings.

    Raises:
        ValueError: It is too low.
    """
    if max_tokens < 16:
        raise ValueError(f"max_tokens: must be at least 16, got {max_tokens}")
    longest = min(max_tokens, tokenizer.model_max_length)
    for name, table in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(table, nn.Embedding):
            # RoBERTa and its relatives start counting positions after the padding's.
            unused = 0 if table.padding_idx is None else table.padding_idx + 1
            longest = min(longest, table.num_embeddings - unused)
    if longest < max_tokens:
        logger.info("pairs are cut at %d tokens, not %d: the model's limit", longest, max_tokens)
    return longest
