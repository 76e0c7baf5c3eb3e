"""Step 3's sentence encoder on a GPU."""

from __future__ import annotations

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from retriever.models.bert import Bert, BertConfig
from retriever.models.hybrid import HybridReranker
from retriever.models.section_encoder import SectionEncoder
from tests.gpu.conftest import CARD

pytestmark = CARD


def encoder(device: str) -> SectionEncoder:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *map(str, range(200))]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, "[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=len(words)
    )
    return SectionEncoder(Bert(config).eval().to(device), tokenizer, "tiny")


def test_vectors_are_those_of_the_cpu() -> None:
    questions = ["1 2 3", "7", " ".join(map(str, range(90)))]
    passages = [" ".join(map(str, range(start, start + 100))) for start in range(0, 60, 20)]
    on_cpu, on_gpu = encoder("cpu"), encoder("cuda")
    assert np.allclose(on_cpu.encode_questions(questions), on_gpu.encode_questions(questions), atol=1e-3)
    for expected, found in zip(on_cpu.encode_passages(passages), on_gpu.encode_passages(passages), strict=True):
        assert np.abs(expected.astype(int) - found.astype(int)).max() <= 1
    by_cpu, by_gpu = (HybridReranker(one, 0.5).score(["what is 1 2"], [passages])[0] for one in (on_cpu, on_gpu))
    assert np.allclose(by_cpu, by_gpu, atol=1e-2)
