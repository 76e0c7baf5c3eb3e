"""BEM, E-VQA's learned judge: is an answer equivalent to a reference, given the question?

The published model is a TensorFlow Hub module; docs/evaluation.md explains how to export it to a folder for `load_bem`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import retriever.models  # noqa: F401  before transformers
from indexes.labeled_values import folded
from retriever.files import sha256_of
from retriever.texts import by_length

Ids = NDArray[np.int64]
Logits = Callable[[Ids, Ids, Ids], NDArray[np.float32]]

THRESHOLD = 0.5
LONGEST = 512
_BATCH_TOKENS = 8192
_IDS = ("input_ids", "input_word_ids")
_TYPES = ("segment_ids", "token_type_ids", "input_type_ids")
_MASKS = ("attention_mask", "input_mask")
_EQUIVALENT = ("equivalent", "correct", "true", "yes", "same", "entailment", "paraphrase", "duplicate", "label1", "1")
"""Names of the class of equivalent answers, folded."""


class Bem:
    """Scores (candidate, reference, question) as `[CLS] candidate [SEP] reference [SEP] question [SEP]`.

    Input of more than `longest` tokens is truncated, longest of the three texts first; the published code fails on it.

    Args:
        tokenize: Returns the token ids of each text, without special tokens.
        logits: Returns logits [B, 2] for ids, segments and mask, each [B, L].
        marks: Ids of `[CLS]` and `[SEP]`.
        segments: Segment ids of candidate, reference and question.
        longest: Maximum number of tokens, special tokens included.
        width: Pad every row to this number of tokens; `None` pads to the longest row of the batch.
        fingerprint: Hash of model and vocabulary, for reports.
    """

    def __init__(
        self,
        tokenize: Callable[[list[str]], list[list[int]]],
        logits: Logits,
        marks: tuple[int, int],
        segments: tuple[int, int, int] = (0, 1, 2),
        longest: int = LONGEST,
        width: int | None = None,
        fingerprint: str = "",
    ) -> None:
        self.tokenize, self.logits, self.marks, self.segments = tokenize, logits, marks, segments
        self.longest, self.width, self.fingerprint = longest, width, fingerprint

    def score(self, triples: Sequence[tuple[str, str, str]]) -> NDArray[np.float32]:
        """Returns for each triple the probability that candidate and reference are equivalent, float32 [N].

        Rows of similar length share a batch, which does not change their scores.
        """
        texts = list(dict.fromkeys(text for triple in triples for text in triple))
        ids = dict(zip(texts, self.tokenize(texts), strict=True)) if texts else {}
        rows = [self._row(cut([ids[text] for text in triple], self.longest - 4)) for triple in triples]
        scores = np.zeros(len(rows), dtype=np.float32)
        for batch in by_length([self.width or len(ids) for ids, _ in rows], _BATCH_TOKENS):
            scores[batch] = _second_of_softmax(self.logits(*self._padded([rows[place] for place in batch])))
        return scores

    def equivalent(self, triples: Sequence[tuple[str, str, str]]) -> list[bool]:
        """Returns whether each triple's score reaches E-VQA's `THRESHOLD`."""
        return [bool(score >= THRESHOLD) for score in self.score(triples)]

    def _row(self, parts: Sequence[list[int]]) -> tuple[list[int], list[int]]:
        start, end = self.marks
        ids, segment_ids = [start], [self.segments[0]]
        for part, segment in zip(parts, self.segments, strict=True):
            ids += [*part, end]
            segment_ids += [segment] * (len(part) + 1)
        return ids, segment_ids

    def _padded(self, rows: Sequence[tuple[list[int], list[int]]]) -> tuple[Ids, Ids, Ids]:
        width = self.width or max(len(ids) for ids, _ in rows)
        padded = np.zeros((3, len(rows), width), dtype=np.int64)
        for place, (ids, segment_ids) in enumerate(rows):
            padded[:, place, : len(ids)] = ids, segment_ids, [1] * len(ids)
        return padded[0], padded[1], padded[2]


def cut(parts: Sequence[list[int]], budget: int) -> list[list[int]]:
    """Truncates the longest parts until all parts together have at most `budget` tokens.

    Example:
        >>> cut([[1, 2, 3, 4], [5], [6, 7, 8]], 6)
        [[1, 2], [5], [6, 7, 8]]
    """
    lengths = [len(part) for part in parts]
    while sum(lengths) > budget:
        lengths[lengths.index(max(lengths))] -= 1
    return [part[:length] for part, length in zip(parts, lengths, strict=True)]


def load_bem(folder: Path) -> Bem:
    """Loads the judge from a folder with `vocab.txt` and `model.onnx`, or `config.json` and `model.safetensors`.

    A model with three token types sees candidate, reference and question as three segments, like the published one. For
    a model with two types (a pair classifier), reference and question share the second. ONNX models are assumed to have
    three unless a `config.json` beside them says otherwise (`type_vocab_size`). The second class means "equivalent", as
    in the published model, unless `id2label` there names the first so. An ONNX model without a mask input gets rows
    padded to 512 tokens, as in the published code.

    Raises:
        ValueError: A file is missing, or the model is not a suitable classifier.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    vocabulary = folder / "vocab.txt"
    if not vocabulary.is_file():
        raise ValueError(f"{folder}: no vocab.txt; BEM needs the one of BERT base uncased (docs/evaluation.md)")
    # no special tokens: "[SEP]" in an answer is plain text, as in the published tokenizer
    tokenizer = Tokenizer(WordPiece.from_file(str(vocabulary), unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    start, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    if start is None or end is None:
        raise ValueError(f"{vocabulary}: [CLS] or [SEP] is missing; not a BERT vocabulary")

    def tokenize(texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]

    settings = folder / "config.json"
    config: dict[str, Any] = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    segments = (0, 1, 2) if config.get("type_vocab_size", 3) > 2 else (0, 1, 1)
    longest = min(LONGEST, config.get("max_position_embeddings", LONGEST))
    ordered = _second_is_equivalent(config, settings)
    if (folder / "model.onnx").is_file():
        logits, width = _onnx(folder / "model.onnx")
        longest = min(longest, width or longest)
        return Bem(tokenize, ordered(logits), (start, end), segments, longest, width, _fingerprint(folder))
    if (folder / "model.safetensors").is_file() and config:
        return Bem(
            tokenize, ordered(_bert(folder, tokenizer)), (start, end), segments, longest, None, _fingerprint(folder)
        )
    raise ValueError(f"{folder}: neither model.onnx nor config.json with model.safetensors; see docs/evaluation.md")


def _second_is_equivalent(config: dict[str, Any], path: Path) -> Callable[[Logits], Logits]:
    """Returns a function that puts the class of equivalent answers second.

    Raises:
        ValueError: `id2label` does not tell which of the classes that is.
    """
    labels = {int(number): str(label) for number, label in config.get("id2label", {1: "LABEL_1"}).items()}
    known = [number for number, label in labels.items() if folded(label) in _EQUIVALENT]
    if len(known) != 1:
        names = ", ".join(labels.values())
        raise ValueError(f'{path}: id2label must call the class of equivalent answers "equivalent", got {names}')
    return (lambda logits: logits) if known == [1] else (lambda logits: lambda *rows: logits(*rows)[:, ::-1])


def _bert(folder: Path, tokenizer: Any) -> Logits:
    import torch
    from transformers import BertForSequenceClassification

    from retriever.models.pretrained import check_words, load_pretrained

    model = load_pretrained(BertForSequenceClassification, folder)
    if model.config.num_labels != 2:
        raise ValueError(f"{folder}: must be a BERT classifier with two classes, has {model.config.num_labels}")
    check_words(folder, tokenizer, model.config.vocab_size)

    @torch.inference_mode()
    def logits(ids: Ids, segment_ids: Ids, mask: Ids) -> NDArray[np.float32]:
        tensors = [torch.from_numpy(array) for array in (ids, segment_ids, mask)]
        output = model(input_ids=tensors[0], token_type_ids=tensors[1], attention_mask=tensors[2])
        return np.asarray(output.logits.numpy())

    return logits


def _onnx(path: Path) -> tuple[Logits, int | None]:
    """Loads the model; returns it with the width that rows must be padded to, `None` if it accepts any width."""
    import onnxruntime  # takes a quarter of a second

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = {entry.name: entry for entry in session.get_inputs()}
    named = [next((name for name in inputs if name.split(":")[0] in known), None) for known in (_IDS, _TYPES, _MASKS)]
    ids, segment_ids, mask = named
    unknown = sorted(set(inputs) - set(named))
    if ids is None or segment_ids is None or unknown:
        raise ValueError(f"{path}: its inputs are {', '.join(inputs)}; BEM needs input_ids and segment_ids")
    width = inputs[ids].shape[1]
    if not isinstance(width, int):  # any width will do if there is a mask
        width = LONGEST if mask is None else None

    def logits(*arrays: Ids) -> NDArray[np.float32]:
        feed = {
            name: array.astype(np.int32 if inputs[name].type == "tensor(int32)" else np.int64)
            for name, array in zip(named, arrays, strict=True)
            if name is not None
        }
        output = np.asarray(session.run(None, feed)[0], dtype=np.float32)
        if output.shape != (len(arrays[0]), 2):
            raise ValueError(f"{path}: output of shape {output.shape} for {len(arrays[0])} rows; expected two classes")
        return output

    return logits, width


def _fingerprint(folder: Path) -> str:
    """Returns a hash of the files in a folder, including ONNX model and vocabulary (16 hex digits)."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.suffix in (".json", ".onnx", ".safetensors", ".txt")):
        digest.update(f"{path.name} {sha256_of(path)}\n".encode())
    return digest.hexdigest()[:16]


def _second_of_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers[:, 1] / powers.sum(axis=-1), dtype=np.float32)
