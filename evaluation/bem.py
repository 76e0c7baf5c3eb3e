"""BEM, the learned judge of E-VQA: does an answer say the same as a reference, given the question?

The published model is a TensorFlow Hub module; docs/metrics.md says how to export it to a folder that `load_bem` takes.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import retriever.models  # noqa: F401  before transformers

Ids = NDArray[np.int64]
Logits = Callable[[Ids, Ids, Ids], NDArray[np.float32]]

THRESHOLD = 0.5
LONGEST = 512
_BATCH_TOKENS = 8192
_IDS = ("input_ids", "input_word_ids")
_TYPES = ("segment_ids", "token_type_ids", "input_type_ids")
_MASKS = ("attention_mask", "input_mask")


class Bem:
    """Scores (candidate, reference, question) as `[CLS] candidate [SEP] reference [SEP] question [SEP]`.

    What is longer than `longest` tokens is cut, the longest of the three first; the published code fails on it.

    Args:
        tokenize: Returns the token ids of each text, nothing added.
        logits: Returns the logits [B, 2] of ids, segments and mask [B, L].
        marks: Ids of `[CLS]` and `[SEP]`.
        segments: What candidate, reference and question are told apart by.
        longest: Tokens at most, the marks included.
        width: Pad every row to so many tokens; `None` pads to the longest of its batch.
    """

    def __init__(
        self,
        tokenize: Callable[[list[str]], list[list[int]]],
        logits: Logits,
        marks: tuple[int, int],
        segments: tuple[int, int, int] = (0, 1, 2),
        longest: int = LONGEST,
        width: int | None = None,
    ) -> None:
        self.tokenize, self.logits, self.marks, self.segments = tokenize, logits, marks, segments
        self.longest, self.width = longest, width

    def score(self, triples: Sequence[tuple[str, str, str]]) -> NDArray[np.float32]:
        """Returns the probability [N] that candidate and reference of (candidate, reference, question) are equivalent.

        Rows of similar length share a batch; what stands beside a row does not change its score.
        """
        texts = list(dict.fromkeys(text for triple in triples for text in triple))
        ids = dict(zip(texts, self.tokenize(texts), strict=True)) if texts else {}
        rows = [self._row(cut([ids[text] for text in triple], self.longest - 4)) for triple in triples]
        scores = np.zeros(len(rows), dtype=np.float32)
        for batch in self._batches([len(row[0]) for row in rows]):
            scores[batch] = _second_of_softmax(self.logits(*self._padded([rows[place] for place in batch])))
        return scores

    def equivalent(self, triples: Sequence[tuple[str, str, str]]) -> list[bool]:
        """Returns for each triple whether its score reaches `THRESHOLD`, as E-VQA's evaluation asks."""
        return [bool(score >= THRESHOLD) for score in self.score(triples)]

    def _row(self, parts: Sequence[list[int]]) -> tuple[list[int], list[int]]:
        start, end = self.marks
        ids, kinds = [start], [self.segments[0]]
        for part, segment in zip(parts, self.segments, strict=True):
            ids += [*part, end]
            kinds += [segment] * (len(part) + 1)
        return ids, kinds

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        batch: list[int] = []
        for place in sorted(range(len(lengths)), key=lengths.__getitem__):
            if batch and (len(batch) + 1) * (self.width or lengths[place]) > _BATCH_TOKENS:
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch

    def _padded(self, rows: Sequence[tuple[list[int], list[int]]]) -> tuple[Ids, Ids, Ids]:
        width = self.width or max(len(ids) for ids, _ in rows)
        padded = np.zeros((3, len(rows), width), dtype=np.int64)
        for place, (ids, kinds) in enumerate(rows):
            padded[:, place, : len(ids)] = ids, kinds, [1] * len(ids)
        return padded[0], padded[1], padded[2]


def cut(parts: Sequence[list[int]], budget: int) -> list[list[int]]:
    """Returns the parts with no more than `budget` tokens in all: the longest loses its end until they fit.

    Example:
        >>> cut([[1, 2, 3, 4], [5], [6, 7, 8]], 6)
        [[1, 2], [5], [6, 7, 8]]
    """
    lengths = [len(part) for part in parts]
    while sum(lengths) > budget:
        lengths[lengths.index(max(lengths))] -= 1
    return [part[:length] for part, length in zip(parts, lengths, strict=True)]


def load_bem(folder: Path, device: str = "cpu") -> Bem:
    """Returns the judge of a folder with `vocab.txt` and either `model.onnx` or `config.json` and `model.safetensors`.

    A model with three token types tells candidate, reference and question apart, as the published one is asked; with
    two types (a pair classifier) reference and question share the second. ONNX models are taken to have three unless a
    `config.json` beside them says otherwise (`type_vocab_size`). An ONNX model without a mask as input gets rows of
    512 tokens, as the published code pads, for only then does it see what that code shows it.

    Args:
        folder: The folder.
        device: Where a safetensors model runs; ONNX runs on the CPU.

    Raises:
        ValueError: A file is missing or the model is not such a classifier, or onnxruntime is not installed.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    vocabulary = folder / "vocab.txt"
    if not vocabulary.is_file():
        raise ValueError(f"{folder}: no vocab.txt; BEM reads that of BERT base uncased (docs/metrics.md)")
    # no special tokens: what an answer spells "[SEP]" is text, as for the published tokenizer
    tokenizer = Tokenizer(WordPiece.from_file(str(vocabulary), unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    start, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    if start is None or end is None:
        raise ValueError(f"{vocabulary}: no [CLS] or no [SEP]; it is not a vocabulary of BERT")

    def tokenize(texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]

    settings = folder / "config.json"
    config: dict[str, Any] = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    segments = (0, 1, 2) if config.get("type_vocab_size", 3) > 2 else (0, 1, 1)
    longest = min(LONGEST, config.get("max_position_embeddings", LONGEST))
    if (folder / "model.onnx").is_file():
        logits, width = _onnx(folder / "model.onnx")
        return Bem(tokenize, logits, (start, end), segments, min(longest, width or longest), width)
    if (folder / "model.safetensors").is_file() and config:
        return Bem(tokenize, _bert(folder, device), (start, end), segments, longest)
    raise ValueError(f"{folder}: neither model.onnx nor config.json with model.safetensors; see docs/metrics.md")


def _bert(folder: Path, device: str) -> Logits:
    import torch
    from transformers import BertForSequenceClassification

    load: Any = BertForSequenceClassification.from_pretrained
    model, report = load(folder, dtype=torch.float32, use_safetensors=True, output_loading_info=True)
    if report["missing_keys"] or model.config.num_labels != 2:
        lacking = ", ".join(sorted(report["missing_keys"])) or "a head of two classes"
        raise ValueError(f"{folder}: not a BERT classifier of two classes, it lacks {lacking}")
    model.to(device).eval()

    @torch.inference_mode()
    def logits(ids: Ids, kinds: Ids, mask: Ids) -> NDArray[np.float32]:
        tensors = [torch.from_numpy(array).to(device) for array in (ids, kinds, mask)]
        found = model(input_ids=tensors[0], token_type_ids=tensors[1], attention_mask=tensors[2]).logits
        return np.asarray(found.float().cpu().numpy())

    return logits


def _onnx(path: Path) -> tuple[Logits, int | None]:
    """Returns the model and the width that its rows have to have, `None` where they may be as short as they are."""
    try:
        onnxruntime: Any = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise ValueError(f"{path}: needs onnxruntime: pip install 'omgm[bem]'") from error
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = {entry.name: entry for entry in session.get_inputs()}
    named = [next((name for name in inputs if name.split(":")[0] in known), None) for known in (_IDS, _TYPES, _MASKS)]
    ids, kinds, mask = named
    unknown = sorted(set(inputs) - set(named))
    if ids is None or kinds is None or unknown:
        raise ValueError(f"{path}: takes {', '.join(inputs)}; BEM takes input_ids and segment_ids")
    fixed = inputs[ids].shape[1]
    width = fixed if isinstance(fixed, int) else None if mask is not None else LONGEST

    def logits(*arrays: Ids) -> NDArray[np.float32]:
        feed = {
            name: array.astype(np.int32 if inputs[name].type == "tensor(int32)" else np.int64)
            for name, array in zip(named, arrays, strict=True)
            if name is not None
        }
        found = np.asarray(session.run(None, feed)[0], dtype=np.float32)
        if found.shape != (len(arrays[0]), 2):
            raise ValueError(f"{path}: gives {found.shape} for {len(arrays[0])} rows where two classes a row are due")
        return found

    return logits, width


def _second_of_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers[:, 1] / powers.sum(axis=-1), dtype=np.float32)
