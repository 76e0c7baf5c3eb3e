"""Step 3's rerankers that are language models, as Qwen3-Reranker: is the next token "yes" or "no"?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from retriever.files import read_object
from retriever.gpu import to_device
from retriever.models.cross_encoder import BATCH_TOKENS, MAX_TOKENS, CrossEncoderReranker, by_question, longest
from retriever.models.padding import known_padding
from retriever.models.pretrained import check_whole, check_words, load_pretrained
from retriever.models.text_tokenizer import padded
from retriever.protocols import TextReranker
from retriever.texts import by_length
from retriever.types import FloatArray

ARCHITECTURE = "Qwen3ForCausalLM"
"""What the `config.json` of Qwen3-Reranker names; its prompt is known here."""
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


class YesNoReranker:
    """Scores with Qwen3-Reranker, as its publisher does (implements `retriever.protocols.TextReranker`).

    A score is the probability of "yes" among "yes" and "no". Only these rows of the head are computed, for the last
    token. The end of a pair that is too long is cut.

    Args:
        model: A `Qwen3ForCausalLM`.
        tokenizer: Its tokenizer.
        max_tokens: Longest pair in tokens, with the prompt; lowered to the model's own limit.
        batch_tokens: Most tokens in a forward pass, padding included; a single pair may be longer.

    Raises:
        ValueError: `max_tokens` leaves no room beside the prompt, or the tokenizer lacks a token of it.
    """

    def __init__(
        self, model: Any, tokenizer: Any, max_tokens: int = MAX_TOKENS, batch_tokens: int = BATCH_TOKENS
    ) -> None:
        self.model, self.tokenizer, self.batch_tokens = model.eval(), tokenizer, batch_tokens
        self._before, self._after = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (BEFORE, AFTER))
        self._room = longest(model, tokenizer, max_tokens) - len(self._before) - len(self._after)
        if self._room < 16:
            raise ValueError(
                f"max_tokens: must be at least {16 + len(self._before) + len(self._after)}, since the model's prompt "
                f"has {len(self._before) + len(self._after)} tokens; got {max_tokens}"
            )
        known = tokenizer.get_vocab()
        if missing := {"yes", "no", "<|im_start|>", "<|im_end|>"} - known.keys():
            raise ValueError(f"tokenizer: has no token {min(missing)!r}; copy the one that was saved with the weights")
        self._answers = [known["yes"], known["no"]]

    @classmethod
    def load(
        cls, folder: Path, device: str = "cpu", dtype: torch.dtype = torch.float32, max_tokens: int = MAX_TOKENS
    ) -> YesNoReranker:
        """Loads the reranker in `folder` (config, safetensors, tokenizer).

        Raises:
            ValueError: A file is missing, some weights are missing, or `max_tokens` is too low.
        """
        from transformers import AutoModelForCausalLM, AutoTokenizer  # only for profiles that name one

        check_whole(folder)
        model = load_pretrained(AutoModelForCausalLM, folder, dtype)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        check_words(folder, tokenizer, model.config.vocab_size)
        return cls(model.to(device), tokenizer, max_tokens)

    def score(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Scores each question's passages in [0, 1]; returns float32 [len(passages[i])] per question.

        Raises:
            ValueError: The numbers of questions and of lists of passages differ.
        """
        return by_question(self._score_pairs, questions, passages)

    @torch.inference_mode()
    def _score_pairs(self, questions: list[str], passages: list[str]) -> FloatArray:
        pairs = zip(questions, passages, strict=True)
        texts = [f"<Instruct>: {INSTRUCTION}\n<Query>: {asked}\n<Document>: {text}" for asked, text in pairs]
        cut = self.tokenizer(texts, add_special_tokens=False, truncation=True, max_length=self._room)["input_ids"]
        rows = [[*self._before, *ids, *self._after] for ids in cut]
        yes, no = self.model.get_output_embeddings().weight[self._answers].float()
        scores = np.empty(len(rows), np.float32)
        for batch in by_length([len(ids) for ids in rows], self.batch_tokens):
            ids, mask = padded([rows[row] for row in batch], self.tokenizer.pad_token_id)
            ids, mask = (to_device(one, self.model.device) for one in (ids, mask))
            with known_padding(len(rows[batch[0]]) < len(rows[batch[-1]])):
                hidden = self.model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state
            last = hidden[torch.arange(len(batch), device=hidden.device), mask.sum(1) - 1].float()
            scores[batch] = (last @ (yes - no)).sigmoid().cpu().numpy()
        return scores


def load_reranker(folder: Path, device: str, dtype: torch.dtype, max_tokens: int) -> TextReranker:
    """Loads the reranker in `folder`, whose `config.json` names its kind; raises as the kinds do."""
    config = read_object(folder / "config.json") if (folder / "config.json").is_file() else {}
    if config.get("architectures") == [ARCHITECTURE]:
        return YesNoReranker.load(folder, device, dtype, max_tokens)
    return CrossEncoderReranker.load(folder, device, dtype, max_tokens)
