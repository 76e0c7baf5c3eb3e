"""Writes tests/golden/eva_clip.safetensors: outputs of the published EVA-CLIP implementations with tiny random weights.

Run it next to their code (tests/oracles/README.md says how to get it), with this repository on PYTHONPATH:

    python tests/oracles/eva_clip.py EVA/EVA-CLIP-18B/shinji InternVL/.../multimodal_encoder

Each case is stored as `<case>/config` (JSON as bytes), `<case>/state/<name>`, `<case>/pixels`, `<case>/ids`,
`<case>/image` and `<case>/text`. Weights are stored in float16 and rounded to it before anything is computed.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

import retriever.models  # noqa: F401  lets timm and torchvision be imported beside a CPU build of PyTorch
from tests.paths import GOLDEN_FILES

GOLDEN = GOLDEN_FILES / "eva_clip.safetensors"
VOCABULARY, CONTEXT, SIDE = 40, 12, 21
TEXT = {"context_length": CONTEXT, "vocab_size": VOCABULARY, "width": 12, "heads": 3, "layers": 2}
VISION = {"image_size": SIDE, "patch_size": 7, "width": 16, "head_width": 8, "layers": 2, "eva_model_name": "tiny"}
EVA_CASES: dict[str, dict[str, Any]] = {
    # As EVA-CLIP-8B: norms before, divided by the root mean square; no bias in the attention's projections.
    "8b": {"mlp_ratio": 5, "qkv_bias": False, "postnorm": False, "use_rms_norm": True},
    # As EVA-CLIP-18B: the same with norms behind.
    "18b": {"mlp_ratio": 5, "qkv_bias": False, "postnorm": True, "use_rms_norm": True},
    # As EVA02-CLIP-bigE-14-plus: layer norms behind, biases of query and value.
    "bige": {"mlp_ratio": 2.5, "qkv_bias": True, "postnorm": True, "use_rms_norm": False},
}


def imported(folder: str, name: str) -> Any:
    """Returns a module of the package in `folder`; both publications call theirs as this file is called."""
    for known in [known for known in sys.modules if known.split(".")[0] == "eva_clip"]:
        del sys.modules[known]
    own = str(Path(__file__).resolve().parent)
    before, sys.path[:] = list(sys.path), [folder, *(path for path in sys.path if path != own)]
    module = importlib.import_module(name)
    sys.path[:] = before
    return module


def randomize(model: torch.nn.Module) -> None:
    """Gives every weight a random value that float16 holds exactly, norms and biases included."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            is_norm = weight.ndim == 1 and name.endswith("weight")
            scale = weight.shape[-1] ** -0.5 if weight.ndim > 1 else 0.2
            weight.copy_((noise * scale + is_norm).half())


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns pixels [3, 3, SIDE, SIDE] and ids [4, CONTEXT]: the last is the end of text and the padding is 0."""
    generator = torch.Generator().manual_seed(8)
    pixels = torch.randn(3, 3, SIDE, SIDE, generator=generator).half().float()
    ids = torch.zeros(4, CONTEXT, dtype=torch.int64)
    for row, length in enumerate((2, 5, 9, CONTEXT)):
        ids[row, :length] = torch.randint(1, VOCABULARY - 1, (length,), generator=generator)
        ids[row, length - 1] = VOCABULARY - 1
    return pixels, ids


def record(case: str, config: dict[str, Any], model: Any, encode: tuple[Any, Any]) -> dict[str, torch.Tensor]:
    """Returns everything about one case under the names of the module's docstring."""
    pixels, ids = inputs()
    with torch.no_grad():
        image, text = encode[0](pixels), encode[1](ids)
    state = {f"{case}/state/{name}": tensor.half().contiguous() for name, tensor in model.state_dict().items()}
    stored = {"config": torch.frombuffer(bytearray(json.dumps(config).encode()), dtype=torch.uint8)}
    stored |= {"pixels": pixels.half(), "ids": ids.to(torch.int32), "image": image, "text": text}
    return state | {f"{case}/{name}": tensor.contiguous() for name, tensor in stored.items()}


def eva_cases(folder: str) -> dict[str, torch.Tensor]:
    """Returns the cases that EVA's own repository computes."""
    module = imported(folder, "eva_clip.model")
    found: dict[str, torch.Tensor] = {}
    for case, settings in EVA_CASES.items():
        vision = VISION | settings
        config = {"embed_dim": 10, "vision_cfg": vision, "text_cfg": TEXT}
        model = module.CustomCLIP(10, vision | {"drop_path_rate": 0}, TEXT).eval()
        randomize(model)
        found |= record(case, config, model, (model.encode_image, model.encode_text))
    return found


def hub_case(folder: str) -> dict[str, torch.Tensor]:
    """Returns the case that the hub's modeling file computes (a public copy of it, without RMS norms)."""
    module = imported(folder, "eva_clip.modeling_evaclip")
    shared = {"num_hidden_layers": 2, "hidden_act": "gelu", "projection_dim": 10}
    vision: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 40, "num_attention_heads": 2}
    vision |= {"image_size": SIDE, "patch_size": 7}
    vision |= {"q_bias": True, "k_bias": False, "v_bias": True, "post_layernorm": True, "layer_norm_eps": 1e-6}
    text: dict[str, Any] = {"hidden_size": 12, "intermediate_size": 48, "num_attention_heads": 3}
    text |= {"vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT, "layer_norm_eps": 1e-5}
    config = {"model_type": "clip", "architectures": ["EvaCLIPModel"], "projection_dim": 10}
    config |= {"vision_config": vision | shared, "text_config": text | shared}
    settings = module.EvaCLIPConfig(config["text_config"], config["vision_config"], 10)
    for part in (settings, settings.text_config, settings.vision_config):
        part.output_attentions = part.output_hidden_states = False
        part.return_dict = True
    model = module.EvaCLIPModel(settings).eval()
    randomize(model)
    return record("hub", config, model, (model.get_image_features, model.get_text_features))


if __name__ == "__main__":
    temporary = GOLDEN.with_suffix(".tmp")
    save_file(eva_cases(sys.argv[1]) | hub_case(sys.argv[2]), temporary)
    temporary.replace(GOLDEN)
    print(f"{GOLDEN}: {GOLDEN.stat().st_size} bytes")
