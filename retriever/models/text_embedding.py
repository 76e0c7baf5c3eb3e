"""Text-embedding models in the folders of sentence-transformers, such as Qwen3-Embedding, for a hybrid step 3."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from retriever.files import read_object
from retriever.gpu import to_device
from retriever.models.cross_encoder import longest
from retriever.models.encoder import frame
from retriever.models.folder import folder_fingerprint
from retriever.models.padding import known_padding
from retriever.models.pretrained import check_words, load_pretrained
from retriever.models.section_encoder import as_int8
from retriever.models.text_tokenizer import padded
from retriever.texts import by_length, split_passage
from retriever.types import FloatArray

logger = logging.getLogger(__name__)

MODULES = "modules.json"
"""The file that makes a folder one of sentence-transformers: what the model consists of."""
_ASKS = "config_sentence_transformers.json"
BATCH_TOKENS = 8192
"""Most tokens in a forward pass, padding included."""

Pooling = Literal["lasttoken", "cls", "mean"]
_OLD_NAMES = {
    "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
}


class EmbeddingSettings(NamedTuple):
    """How a folder asks for its texts to be encoded.

    Attributes:
        pooling: Whose vectors of a text's tokens count: the last one's, the first one's, or the mean of all.
        question: What precedes a question.
        passage: What precedes a passage.
        lowercase: Whether the tokenizer gets texts in lower case.
    """

    pooling: Pooling
    question: str
    passage: str
    lowercase: bool = False


class TextEmbedding:
    """Encodes questions and sections (implements `retriever.protocols.SectionEncoder`).

    A text is a section's title and its text; one that is too long for the model is encoded in consecutive windows, each
    after the title. Questions have the instruction that the folder names.

    Args:
        model: A model of transformers with a `last_hidden_state`.
        tokenizer: Its tokenizer.
        settings: How its folder asks for texts to be encoded.
        fingerprint: Hash of its folder.
        max_tokens: Longest text in tokens, special tokens included; lowered to the model's own limit.
    """

    def __init__(self, model: Any, tokenizer: Any, settings: EmbeddingSettings, fingerprint: str, max_tokens: int):
        self.model, self.tokenizer, self.settings = model.eval(), tokenizer, settings
        self.max_tokens = longest(model, tokenizer, max_tokens)
        self.dimension: int = model.config.hidden_size
        self.fingerprint = _fingerprint(fingerprint, settings, max_tokens)

    @classmethod
    def load(
        cls, folder: Path, device: str = "cpu", dtype: torch.dtype = torch.float32, max_tokens: int = 1024
    ) -> TextEmbedding:
        """Loads the model in a folder of sentence-transformers.

        Raises:
            ValueError: A file is missing, the weights do not match, or the model consists of parts other than a
                transformer, a known pooling and a normalization.
        """
        from transformers import AutoModel, AutoTokenizer  # only for profiles that name one

        settings = read_settings(folder)
        asked = read_object(folder / _ASKS) if (folder / _ASKS).is_file() else {}
        compared = asked.get("similarity_fn_name") or "cosine"
        if compared != "cosine" and "Normalize" not in (folder / MODULES).read_text(encoding="utf-8"):
            logger.warning("%s: similarity_fn_name is %r, but vectors are compared by cosine", folder / _ASKS, compared)
        model = load_pretrained(AutoModel, folder, dtype)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        check_words(folder, tokenizer, model.config.vocab_size)
        return cls(model.to(device), tokenizer, settings, folder_fingerprint(folder), _longest(folder, max_tokens))

    def encode_questions(self, questions: Sequence[str]) -> FloatArray:
        """Encodes to L2-normalized vectors, float32 [N, dimension]; long questions are cut."""
        texts = [self._cased(self.settings.question + question) for question in questions]
        ids = self.tokenizer(texts, truncation=True, max_length=self.max_tokens)["input_ids"] if texts else []
        return self._encode(ids)

    def encode_passages(self, passages: Sequence[str]) -> list[NDArray[np.int8]]:
        """Encodes passages as `section_passage` formats them, or other texts.

        Returns the vectors of each passage's windows, int8 [windows, dimension]; only their directions count.
        """
        windows = [self._windows(*split_passage(passage)) for passage in passages]
        rows = as_int8(self._encode([ids for own in windows for ids in own]))
        return np.split(rows, np.cumsum([len(own) for own in windows])[:-1]) if passages else []

    def _windows(self, title: str, text: str) -> list[list[int]]:
        """Returns the token ids of a section, in as many windows as it takes."""
        before = self._cased(f"{self.settings.passage}{title}\n" if title else self.settings.passage)
        text = self._cased(text)
        whole: list[int] = self.tokenizer(before + text, verbose=False)["input_ids"]
        if len(whole) <= self.max_tokens:
            return [whole]
        own, inner = self.tokenizer([before, text], add_special_tokens=False, verbose=False)["input_ids"]
        first, last = frame(self.tokenizer)
        first = first + own[: self.max_tokens // 2]
        room = self.max_tokens - len(first) - len(last)
        return [first + inner[at : at + room] + last for at in range(0, len(inner), room)]

    def _cased(self, text: str) -> str:
        return text.lower() if self.settings.lowercase else text

    @torch.inference_mode()
    def _encode(self, texts: Sequence[Sequence[int]]) -> FloatArray:
        """Encodes token ids to L2-normalized vectors, float32 [N, dimension]."""
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for rows in by_length([len(text) for text in texts], BATCH_TOKENS):
            ids, mask = padded([texts[row] for row in rows], self.tokenizer.pad_token_id)
            ids, mask = (to_device(one, self.model.device) for one in (ids, mask))
            with known_padding(len(texts[rows[0]]) < len(texts[rows[-1]])):
                hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            vectors[rows] = functional.normalize(self._pooled(hidden, mask).float(), dim=-1).cpu().numpy()
        return vectors

    def _pooled(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Returns a vector per text, [N, D], of its tokens' [N, T, D]; texts are padded on the right."""
        if self.settings.pooling == "lasttoken":
            return hidden[torch.arange(len(hidden), device=hidden.device), mask.sum(1) - 1]
        if self.settings.pooling == "cls":
            return hidden[:, 0]
        weights = mask[..., None].float()
        return (hidden.float() * weights).sum(1) / weights.sum(1)


def embedding_fingerprint(folder: Path, max_tokens: int) -> str:
    """Returns the fingerprint of what `TextEmbedding.load` loads, without loading it; raises as it does."""
    return _fingerprint(folder_fingerprint(folder), read_settings(folder), _longest(folder, max_tokens))


def _longest(folder: Path, max_tokens: int) -> int:
    """Returns `max_tokens`, or the longest text in tokens that the folder was trained with, if that is less."""
    return min(max_tokens, _text_settings(folder).get("max_seq_length") or max_tokens)


def _text_settings(folder: Path) -> dict[str, Any]:
    path = folder / "sentence_bert_config.json"
    return read_object(path) if path.is_file() else {}


def _fingerprint(weights: str, settings: EmbeddingSettings, max_tokens: int) -> str:
    # `lowercase` is only in the fingerprints of models that have it: indexes of the others stay valid.
    pooling, question, passage, lowercase = settings
    parts = [weights, pooling, question, passage, max_tokens, *(["lowercase"] if lowercase else [])]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def read_settings(folder: Path) -> EmbeddingSettings:
    """Reads how a folder of sentence-transformers asks for its texts to be encoded.

    Raises:
        ValueError: A file is missing, or asks for what is not supported.
    """
    path = folder / MODULES
    modules = json.loads(path.read_text(encoding="utf-8"))
    kinds = {str(module["type"]).rpartition(".")[2]: str(module["path"]) for module in modules}
    if [*kinds] not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]) or kinds["Transformer"]:
        raise ValueError(
            f"{path}: must list a Transformer in this folder, a Pooling and perhaps a Normalize, got {', '.join(kinds)}"
        )
    path = folder / kinds["Pooling"] / "config.json"
    if not path.is_file():
        raise ValueError(f"{path}: not found, but {MODULES} names it; download the model again")
    config = read_object(path)
    modes = [name for key, name in _OLD_NAMES.items() if config.get(key)] or [str(config.get("pooling_mode"))]
    others = [
        key for key, value in config.items() if key.startswith("pooling_mode_") and value and key not in _OLD_NAMES
    ]
    if len(modes) != 1 or others or modes[0] not in get_args(Pooling) or not config.get("include_prompt", True):
        raise ValueError(f"{path}: must pool one of {', '.join(get_args(Pooling))}, instructions included")
    path = folder / _ASKS
    prompts = dict(read_object(path).get("prompts") or {}) if path.is_file() else {}
    passage = next((prompts[name] for name in ("document", "passage", "corpus") if name in prompts), "")
    lowercase = bool(_text_settings(folder).get("do_lower_case"))
    return EmbeddingSettings(cast(Pooling, modes[0]), prompts.get("query", ""), passage, lowercase)
