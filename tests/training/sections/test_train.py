from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from evaluation.datasets import Question
from retriever.models.bert import Bert, BertConfig
from retriever.models.lora import merge_lora
from retriever.models.section_encoder import SectionEncoder, with_own_layers
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index
from training.config import TrainingConfig
from training.sections import train as module
from training.sections.lora import LoraLinear, add_lora, lora_tensors, stacked
from training.sections.train import train_sections

WORDS = [f"{kind}{number}" for kind in "ab" for number in range(12)]


def tiny() -> SectionEncoder:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, "[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=len(words)
    )
    model = Bert(config)
    for name, tensor in model.named_parameters():
        if "LayerNorm" not in name:
            torch.nn.init.normal_(tensor, std=0.02 if tensor.dim() > 1 else 0.0)  # as transformers begins
    return SectionEncoder(model.eval(), tokenizer, "tiny")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve articles, whose sections have a word each; questions ask for it by another one (b3 for a3)."""
    folder = tmp_path_factory.mktemp("sections")
    rows = [
        {"id": f"e{row}", "title": "T", "sections": [{"title": "", "text": f"a{(row + i) % 12}"} for i in range(5)]}
        for row in range(12)
    ]
    (folder / "kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "images").mkdir()
    options: dict[str, Any] = {"summarizer": FakeSummarizer(), "encoder": FakeEncoder(), "fusion": FakeFusion()}
    build_index(folder / "kb.jsonl", folder / "images", folder / "index", sections=tiny(), **options)
    return folder / "index"


def questions() -> list[Question | ValueError]:
    return [
        Question(f"{row} {i}", f"b{(row + i) % 12}", "image", ("",), (f"e{row}",), section_index=i)
        for row in range(12)
        for i in range(5)
    ]


@pytest.fixture
def run(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    monkeypatch.setattr(SectionEncoder, "load", lambda model, device: tiny())
    monkeypatch.setattr(module, "base_and_matrices", lambda model: ("tiny", {}))

    def trained(out: str = "out", asked: list[Question | ValueError] | None = None, **settings: Any) -> Path:
        config = TrainingConfig(
            **{"steps": 60, "learning_rate": 0.02, "validate_every": 20, "validation_share": 0.2} | settings
        )
        found = train_sections("tiny", index, asked or questions(), tmp_path / out, config, weight=1)
        return found.folder

    return trained


def test_questions_learn_to_find_their_sections(run: Callable[..., Path]) -> None:
    folder = run()
    record = json.loads((folder / "training.json").read_text())
    metrics, data = record["metrics"], record["data"]
    assert data["articles trained on"] + data["articles validated on"] == 12
    assert metrics["recall@1"] > metrics["start_recall@1"] + 0.3 and record["remarks"] == []
    assert json.loads((folder / "config.json").read_text()) == {"base_model": "tiny"}
    assert "| base model | tiny |" in (folder / "README.md").read_text()
    encoder = tiny()
    encoder.asking = with_own_layers(encoder.model)
    merge_lora(encoder.asking, folder / "model.safetensors")
    texts = [f"a{i}" for i in range(12)]
    sections = np.concatenate(encoder.encode_passages(texts)).astype(np.float32)
    cosines = encoder.encode_questions([f"b{i}" for i in range(12)]) @ sections.T
    assert (cosines.argmax(1) == np.arange(12)).mean() > 0.5


@pytest.mark.slow
def test_a_killed_training_resumes_with_the_same_result(
    run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, loss_of, calls = run("whole"), module.section_loss, iter(range(45))
    with monkeypatch.context() as patch:
        patch.setattr(module, "section_loss", lambda *given: (next(calls), loss_of(*given))[1])
        with pytest.raises((RuntimeError, StopIteration)):
            run("resumed")
    resumed = run("resumed")
    assert (whole / "model.safetensors").read_bytes() == (resumed / "model.safetensors").read_bytes()
    with pytest.raises(ValueError, match=r"questions: 1 of 12 articles has other questions"):
        run("resumed", questions()[:-1])


def test_a_training_that_finds_nothing_better_says_so(
    run: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    folder = run(steps=1, learning_rate=1e-20)  # too small for any digit to change
    assert "no better than it began on held-out articles" in caplog.text
    [remark] = json.loads((folder / "training.json").read_text())["remarks"]
    assert remark in (folder / "README.md").read_text().replace("\\_", "_")


def test_questions_that_cannot_be_used_are_listed(run: Callable[..., Path], tmp_path: Path) -> None:
    bad = [Question("x", "b1", "image", ("",), ("nowhere",), 0), Question("y", "b1", "image", ("",), ("e1",), 9)]
    run(steps=1, asked=[*questions(), *bad, Question("z", "b1", "image", ("",), ("e1",))])
    listed = [json.loads(line) for line in (tmp_path / "out" / "left_out.jsonl").read_text().splitlines()]
    assert [(row["id"], row["bad"]) for row in listed] == [("x", True), ("y", True), ("z", False)]
    with pytest.raises(ValueError, match="2 of 2 questions are bad"):
        run("other", asked=list(bad))


def test_matrices_of_two_trainings_add_up() -> None:
    torch.manual_seed(1)
    first, second = ({"dense.lora_down": torch.randn(2, 4), "dense.lora_up": torch.randn(3, 2)} for _ in range(2))
    both = stacked(first, second)
    expected = sum(one["dense.lora_up"] @ one["dense.lora_down"] for one in (first, second))
    assert torch.allclose(both["dense.lora_up"] @ both["dense.lora_down"], torch.as_tensor(expected), atol=1e-6)


def test_low_rank_matrices_begin_without_effect() -> None:
    model = tiny().model
    ids = torch.tensor([[2, 5, 6, 3]])
    before = model(ids)
    add_lora(model, 4, seed=0)
    assert torch.equal(model(ids), before)
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    layers = sum(isinstance(layer, LoraLinear) for layer in model.modules())
    assert layers == 2 * 6 and len(trained) == 2 * layers == len(lora_tensors(model))
