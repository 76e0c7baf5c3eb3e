from __future__ import annotations

import sys
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
    XLMRobertaModel,
    XLMRobertaTokenizer,
)

from pretraining.tokenizer import train_tokenizer
from retriever.models import cross_encoder
from retriever.models.cross_encoder import CrossEncoderReranker, FlagReranker, pack
from tests.fakes.unread_device import DEVICE, UnreadDevice

SENTENCE = "what color has the flag of Japan ? a red disc on white ground it was drawn in stripes green blue"
WORDS = SENTENCE.split()
SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
QUESTIONS = ["what color has the disc ?", "what was drawn ?", "has it stripes ?"]


def texts(seed: int, lengths: list[int]) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, n)) for n in lengths]


PASSAGES = [texts(0, [3, 90, 1, 17, 40]), texts(1, [25]), texts(2, [60, 60, 2, 0])]
PAIRS = [(question, text) for question, found in zip(QUESTIONS, PASSAGES, strict=True) for text in found]


def tokenizer() -> XLMRobertaTokenizer:
    """Returns a tokenizer in XLM-R's own format: words in WORDS are single tokens, others are spelled out."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    letters = [chr(c) for c in range(97, 123)]
    pieces = [(p, 0.0) for p in special] + [("▁" + w, -2.0) for w in WORDS] + [(c, -9.0) for c in ["▁", *letters]]
    return XLMRobertaTokenizer(vocab=[*dict(pieces).items(), ("<mask>", 0.0)], model_max_length=8192)


def xlm_roberta(
    folder: Path, *, labels: int = 1, positions: int = 258, kind: type = XLMRobertaForSequenceClassification
) -> Path:
    words = tokenizer()
    config = XLMRobertaConfig(
        **SIZES,
        vocab_size=len(words),
        max_position_embeddings=positions,
        num_labels=labels,  # type: ignore[call-arg]
        type_vocab_size=1,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
    )
    return saved(kind(config), words, folder)


def saved(model: PreTrainedModel, words: PreTrainedTokenizerBase, folder: Path) -> Path:
    torch.manual_seed(0)
    for weights in model.parameters():
        if weights.dim() > 1:  # larger than the usual initialization: nearly equal scores would hide mistakes
            torch.nn.init.normal_(weights, std=0.5)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return xlm_roberta(tmp_path_factory.mktemp("xlm-roberta"))


def flat(scores: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(scores)


def test_scores_are_those_of_sentence_transformers(folder: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    scores = CrossEncoderReranker.load(folder).score(QUESTIONS, PASSAGES)
    assert [len(s) for s in scores] == [5, 1, 4]
    assert all(s.dtype == np.float32 for s in scores)
    expected = library.CrossEncoder(str(folder), device="cpu").predict(PAIRS, show_progress_bar=False)
    np.testing.assert_allclose(flat(scores), expected, atol=1e-5)
    assert expected.std() > 0.1  # they do differ


def test_scores_are_those_of_flag_embedding(folder: Path) -> None:
    if find_spec("FlagEmbedding") is None:  # one that is installed but cannot be imported is a failure
        pytest.skip("needs the extra flag")
    flag, ours = FlagReranker.load(folder), CrossEncoderReranker.load(folder)
    # FlagEmbedding omits the separators before an empty passage; ours scores it like sentence-transformers.
    passages = [[text for text in found if text] for found in PASSAGES]
    for one, other in zip(flag.score(QUESTIONS, passages), ours.score(QUESTIONS, passages), strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert flag.score([], []) == []
    assert [len(s) for s in flag.score(QUESTIONS[:2], [[], ["red"]])] == [0, 1]
    flag, ours = FlagReranker.load(folder, max_tokens=24), CrossEncoderReranker.load(folder, max_tokens=24)
    cut = flat(flag.score(QUESTIONS, passages))
    np.testing.assert_allclose(cut, flat(ours.score(QUESTIONS, passages)), atol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_other_architectures_score_as_in_sentence_transformers(kind: str, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    train_tokenizer([*QUESTIONS, *WORDS] * 3, 300, 128).save_pretrained(tmp_path)
    words = AutoTokenizer.from_pretrained(tmp_path)
    ids: dict[str, Any] = {f"{name}_token_id": getattr(words, f"{name}_token_id") for name in ("pad", "cls", "sep")}
    sizes: dict[str, Any] = {**SIZES, "vocab_size": len(words), "max_position_embeddings": 128, "num_labels": 1}
    model: PreTrainedModel
    if kind == "bert":
        model = BertForSequenceClassification(BertConfig(**sizes))
    else:
        ids |= {"bos_token_id": None, "eos_token_id": None}
        model = ModernBertForSequenceClassification(ModernBertConfig(**sizes, **ids, local_attention=16))
    saved(model, words, tmp_path)
    reference = library.CrossEncoder(str(tmp_path), device="cpu")
    expected = reference.predict(PAIRS, show_progress_bar=False)
    np.testing.assert_allclose(
        flat(CrossEncoderReranker.load(tmp_path).score(QUESTIONS, PASSAGES)), expected, atol=1e-5
    )
    assert expected.std() > 0.05
    reference.save_pretrained(str(tmp_path / "again"))  # the folder as written by that library
    again = CrossEncoderReranker.load(tmp_path / "again").score(QUESTIONS, PASSAGES)
    np.testing.assert_allclose(flat(again), expected, atol=1e-5)


@pytest.mark.parametrize("batch_tokens", [1, 100, 100_000])
def test_batched_is_single(folder: Path, batch_tokens: int) -> None:
    together = CrossEncoderReranker.load(folder, batch_tokens=batch_tokens).score(QUESTIONS, PASSAGES)
    alone = CrossEncoderReranker.load(folder)
    expected = [alone.score([question], [[text]])[0][0] for question, text in PAIRS]
    np.testing.assert_allclose(flat(together), expected, atol=1e-5)


@pytest.mark.parametrize(("cost", "passes"), [(0, 9), (2048, 3)])  # of rows without padding, and with it
def test_a_device_is_waited_for_once_however_many_passes(
    folder: Path, cost: int, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cross_encoder._FORWARD_COST, DEVICE.type, cost)
    reranker = CrossEncoderReranker.load(folder, batch_tokens=200)
    calls: list[object] = []
    reranker.model.to(DEVICE).register_forward_hook(lambda *call: calls.append(call))
    with UnreadDevice() as device:
        scores = reranker.score(QUESTIONS, PASSAGES)
    assert [len(s) for s in scores] == [5, 1, 4]
    assert len(calls) == passes
    assert device.reads == 1


def test_empty_lists_are_ordinary(folder: Path) -> None:
    reranker = CrossEncoderReranker.load(folder)
    assert reranker.score([], []) == []
    assert [s.shape for s in reranker.score(QUESTIONS[:2], [[], []])] == [(0,), (0,)]
    first, second, third = reranker.score(QUESTIONS, [[], ["red disc"], []])
    assert len(first) == len(third) == 0
    np.testing.assert_allclose(second, reranker.score(QUESTIONS[1:2], [["red disc"]])[0], atol=1e-5)
    with pytest.raises(ValueError, match="must have one list per question, 2, got 1"):
        reranker.score(QUESTIONS[:2], [["red"]])


def test_the_passage_is_cut_not_the_question(folder: Path) -> None:
    reranker = CrossEncoderReranker.load(folder, max_tokens=16)
    words = texts(5, [40])[0].split()
    # 16 tokens less <s>, </s></s>, </s> and the question's six leave six for the passage.
    long, fits, shorter = (" ".join(words[:n]) for n in (40, 6, 5))
    whole, cut, less = reranker.score([QUESTIONS[0]], [[long, fits, shorter]])[0]
    assert whole == pytest.approx(cut, abs=1e-6)
    assert abs(whole - less) > 1e-4
    other = reranker.score(["what color has the disc in"], [[long]])[0][0]
    assert abs(whole - other) > 1e-4  # its last word was read
    # Twelve tokens are shared when both are too long: six each.
    both = reranker.score([long], [[long]])[0][0]
    assert both == pytest.approx(reranker.score([fits], [[fits]])[0][0], abs=1e-6)


def test_long_pairs_are_cut_as_in_sentence_transformers(folder: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    expected = library.CrossEncoder(str(folder), device="cpu", max_length=20).predict(PAIRS, show_progress_bar=False)
    scores = CrossEncoderReranker.load(folder, max_tokens=20).score(QUESTIONS, PASSAGES)
    np.testing.assert_allclose(flat(scores), expected, atol=1e-5)


def test_max_tokens_never_exceeds_the_position_table(tmp_path: Path) -> None:
    # XLM-R's positions start after the padding index, 1: of 34 rows, 32 are used.
    reranker = CrossEncoderReranker.load(xlm_roberta(tmp_path, positions=34))
    assert reranker.max_tokens == 32
    assert np.isfinite(reranker.score(QUESTIONS, PASSAGES)[0]).all()
    with pytest.raises(ValueError, match="max_tokens: must be at least 16, got 15"):
        CrossEncoderReranker.load(tmp_path, max_tokens=15)


def test_half_precision_is_close(folder: Path) -> None:
    exact = CrossEncoderReranker.load(folder).score(QUESTIONS, PASSAGES)
    half = CrossEncoderReranker.load(folder, dtype=torch.bfloat16)
    assert half.model.dtype == torch.bfloat16
    scores = half.score(QUESTIONS, PASSAGES)
    assert scores[0].dtype == np.float32
    np.testing.assert_allclose(flat(scores), flat(exact), atol=0.05)


def test_pack_by_hand() -> None:
    lengths = np.array([1, 10, 1, 9, 1])

    def packed(batch_tokens: int, cost: int) -> list[list[int]]:
        return [rows.tolist() for rows in pack(lengths, batch_tokens, cost)]

    assert packed(20, 100) == [[1, 3], [0, 2, 4]]  # as few as the budget allows: 2 x 10 and 3 x 1 tokens
    assert packed(1000, 0) == [[1], [3], [0, 2, 4]]  # no padding at all
    assert packed(1000, 5) == [[1, 3], [0, 2, 4]]  # one token of padding rather than one more batch
    assert packed(1000, 100) == [[1, 3, 0, 2, 4]]
    assert packed(5, 0) == [[1], [3], [0, 2, 4]]  # longer than the budget, yet scored
    assert pack(np.array([], np.int64), 20, 0) == []


def test_pack_is_cheapest_of_all() -> None:
    lengths = np.random.default_rng(3).integers(1, 50, 9)
    ordered = sorted(lengths.tolist(), reverse=True)

    def cost(batches: list[list[int]]) -> int:
        return sum(len(batch) * max(batch) + 20 for batch in batches)

    possible = []
    for count in range(len(ordered)):
        for cuts in combinations(range(1, len(ordered)), count):
            batches = [ordered[a:b] for a, b in zip((0, *cuts), (*cuts, len(ordered)), strict=True)]
            if all(len(batch) == 1 or len(batch) * max(batch) <= 120 for batch in batches):
                possible.append(cost(batches))
    assert cost([lengths[rows].tolist() for rows in pack(lengths, 120, 20)]) == min(possible)


def test_what_is_no_cross_encoder_is_named(tmp_path: Path) -> None:
    for load in (CrossEncoderReranker.load, FlagReranker.load):
        with pytest.raises(ValueError, match=r"nowhere: has no config\.json; sections\.model must be"):
            load(tmp_path / "nowhere")
        with pytest.raises(ValueError, match="with 1 label, got XLMRobertaForSequenceClassification with 3"):
            load(xlm_roberta(tmp_path / "three", labels=3))
        with pytest.raises(ValueError, match="with 1 label, got XLMRobertaModel with 1"):
            load(xlm_roberta(tmp_path / "base", kind=XLMRobertaModel))
    (tmp_path / "three" / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"three: has no \.safetensors file"):
        CrossEncoderReranker.load(tmp_path / "three")


def test_without_the_extra_the_message_names_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "FlagEmbedding", None)
    with pytest.raises(ValueError, match="install the extra `flag`"):
        FlagReranker.load(folder)
