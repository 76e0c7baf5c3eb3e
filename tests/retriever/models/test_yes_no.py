from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from retriever.models.cross_encoder import CrossEncoderReranker
from retriever.models.yes_no import YesNoReranker, load_reranker
from tests.fakes.published_models import write_qwen3_reranker
from tests.retriever.models.test_cross_encoder import xlm_roberta

QUESTIONS = ["what is red", "three bands"]
PASSAGES = [["a red flag", "three bands of blue, white and red " * 30, ""], ["yes no"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_qwen3_reranker(tmp_path_factory.mktemp("qwen3-reranker"))


def published(folder: Path, pairs: list[tuple[str, str]], max_length: int = 8192) -> list[float]:
    """Returns the scores as the model's documentation computes them: padded on the left, of all words' logits."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    system = (
        "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
        'Note that the answer can only be "yes" or "no".'
    )
    prefix = f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n"
    suffix = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    task = "Given a web search query, retrieve relevant passages that answer the query"
    texts = [f"<Instruct>: {task}\n<Query>: {query}\n<Document>: {text}" for query, text in pairs]
    before, after = (tokenizer.encode(text, add_special_tokens=False) for text in (prefix, suffix))
    cut = tokenizer(texts, truncation="longest_first", max_length=max_length - len(before) - len(after))
    inputs = tokenizer.pad({"input_ids": [before + ids + after for ids in cut["input_ids"]]}, return_tensors="pt")
    with torch.no_grad():
        logits = model(**inputs).logits[:, -1]
    both = torch.stack([logits[:, tokenizer.convert_tokens_to_ids(word)] for word in ("no", "yes")], dim=1)
    scores: list[float] = torch.log_softmax(both, dim=1)[:, 1].exp().tolist()
    return scores


def test_the_scores_are_the_published_ones(folder: Path) -> None:
    pairs = [(question, text) for question, found in zip(QUESTIONS, PASSAGES, strict=True) for text in found]
    expected = published(folder, pairs)
    assert np.ptp(expected) > 0.05
    reranker = YesNoReranker.load(folder)
    np.testing.assert_allclose(np.concatenate(reranker.score(QUESTIONS, PASSAGES)), expected, atol=1e-5)
    reranker.batch_tokens = 1  # each pair alone
    np.testing.assert_allclose(np.concatenate(reranker.score(QUESTIONS, PASSAGES)), expected, atol=1e-5)
    assert [len(one) for one in reranker.score(["what"], [[]])] == [0]


def test_long_passages_are_cut_as_published(folder: Path) -> None:
    room = 340
    expected = published(folder, [(QUESTIONS[0], text) for text in PASSAGES[0]], room)
    [scores] = YesNoReranker.load(folder, max_tokens=room).score(QUESTIONS[:1], PASSAGES[:1])
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert abs(scores[1] - YesNoReranker.load(folder).score(QUESTIONS[:1], PASSAGES[:1])[0][1]) > 1e-4
    with pytest.raises(ValueError, match=r"max_tokens: must be at least \d+, since the model's prompt has \d+ tokens"):
        YesNoReranker.load(folder, max_tokens=64)


def test_a_folder_says_which_kind_of_reranker_it_has(folder: Path, tmp_path: Path) -> None:
    assert isinstance(load_reranker(folder, "cpu", torch.float32, 1024), YesNoReranker)
    assert isinstance(load_reranker(xlm_roberta(tmp_path), "cpu", torch.float32, 1024), CrossEncoderReranker)
    with pytest.raises(ValueError, match=r"has no config\.json"):
        load_reranker(tmp_path / "other", "cpu", torch.float32, 1024)
