"""The model to fine-tune: frozen published weights, and a LoRA adapter on the language model's linear layers."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedModel

from retriever.models.pretrained import load_pretrained
from retriever.models.tensor_names import check_weights
from retriever.models.weights import stored_tensors
from training.generator.config import GeneratorTrainingConfig
from training.generator.rendering import reads_images

if TYPE_CHECKING:
    from peft import LoraConfig, PeftModel


def require_peft() -> None:
    """Checks that the packages that the training needs beyond the base install are installed.

    Raises:
        ValueError: A package is missing; the message says how to install it.
    """
    missing = [name for name in ("peft", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"fine-tuning a generator needs {' and '.join(missing)}: pip install 'omgm[peft]'")


def load_base(folder: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Loads a transformers chat model, text-only or multimodal, from safetensors; no code in its folder is run.

    Raises:
        ValueError: As `load_pretrained`.
    """
    kind = AutoModelForImageTextToText if reads_images(AutoConfig.from_pretrained(folder)) else AutoModelForCausalLM
    model: PreTrainedModel = load_pretrained(kind, folder, dtype)
    model.config.use_cache = False  # only useful for generation
    return model


def language_linears(model: PreTrainedModel) -> list[str]:
    """Returns the names of all linear layers of the language model.

    The output layer and the image tower are excluded, as in LLaVA-1.5's LoRA training, and so is the projector, which
    that training trains in full, at the same learning rate of 2e-5: vLLM serves no adapter with whole layers in it.

    Raises:
        ValueError: The language model has no linear layers.
    """
    inside = set(model.get_decoder().modules())
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear) and module in inside]
    if not names:
        raise ValueError(f"{model.name_or_path}: {type(model).__name__} has no linear layers for LoRA")
    return names


def add_adapter(model: PreTrainedModel, config: GeneratorTrainingConfig) -> PeftModel:
    """Freezes a model and adds a new adapter with float32 weights."""
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(
        r=config.rank,
        lora_alpha=config.lora_alpha,
        lora_dropout=config.dropout,
        target_modules=language_linears(model),
        bias="none",
        task_type="CAUSAL_LM",
    )
    if config.checkpointing:
        # Reentrant checkpointing would lose all gradients, since no input requires one.
        enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})
    torch.manual_seed(config.seed)
    with warnings.catch_warnings():
        # peft 0.21 uses the name that a property had before transformers 5.23.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        return cast("PeftModel", get_peft_model(model, settings))


def check_adapter(model: PeftModel, folder: Path) -> None:
    """Checks that a checkpoint has the whole adapter; the Trainer would leave what is missing untrained.

    Raises:
        ValueError: A tensor is missing, unexpected or has another shape; the message names it.
    """
    from peft import get_peft_model_state_dict

    adapter = get_peft_model_state_dict(model, save_embedding_layers=False)
    stored = stored_tensors(folder / "adapter_model.safetensors")
    shapes = ({name: tensor.shape for name, tensor in tensors.items()} for tensors in (adapter, stored))
    check_weights(folder, *shapes, fix="delete this folder to resume from an earlier step")


def save_adapter(model: PeftModel, folder: Path, base: str, revision: str | None) -> None:
    """Writes `adapter_model.safetensors` and `adapter_config.json`, which PEFT and vLLM read.

    Args:
        model: The trained model.
        folder: The folder to write to.
        base: The folder or hub name of the base model, to be recorded in the configuration.
        revision: The base's revision on the hub.
    """
    settings = cast("LoraConfig", model.peft_config["default"])
    settings.base_model_name_or_path, settings.revision = base, revision
    settings.target_modules = sorted(settings.target_modules or ())  # a set's order would change from run to run
    # The embeddings are as published, so PEFT need not check the hub for a changed vocabulary.
    model.save_pretrained(str(folder), save_embedding_layers=False)
    (folder / "README.md").unlink()  # an empty model card template
