"""The models that profiles and docs/models.md name: what is published fits the classes that load it, to the byte.

A safetensors file begins with a table of its tensors' names, types, shapes and places. Made from a model's
configuration, the table and the tensors have the size of the published file only if all names and shapes are the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from omgm.doctor import PUBLISHED
from omgm.downloads.hub import base_models, models_of
from omgm.profile import load_profile
from retriever.models.padding import prepare_transformers
from tests.fakes.published_models import published_dinov2

SIGLIP2 = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
QWEN3 = {"num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
QWEN3_TEXT = {**QWEN3, "vocab_size": 151669, "hidden_size": 1024, "intermediate_size": 3072}
QWEN3_VL_TEXT = {**QWEN3, "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144}
QWEN3_VL_VISION = {
    "depth": 24, "hidden_size": 1024, "num_heads": 16, "intermediate_size": 4096, "out_hidden_size": 2048,
    "num_position_embeddings": 2304, "deepstack_visual_indexes": [5, 11, 17],
}  # fmt: skip
VIT_L14 = {"image_size": 224, "layers": 24, "width": 1024, "patch_size": 14}
CLIP_TEXT = {"context_length": 77, "vocab_size": 49408, "width": 768, "heads": 12, "layers": 12}


@contextmanager
def transformers() -> Iterator[Any]:
    prepare_transformers()
    import transformers as library

    with torch.device("meta"):
        yield library


def siglip2() -> Any:
    with transformers() as library:
        text = {**SIGLIP2, "vocab_size": 256000, "max_position_embeddings": 64}
        return library.SiglipModel(library.SiglipConfig(text_config=text, vision_config=SIGLIP2))


def bioclip2() -> Any:
    open_clip = pytest.importorskip("open_clip")
    with torch.device("meta"):
        return open_clip.CLIP(768, VIT_L14, CLIP_TEXT)


def dinov2() -> Any:
    with transformers() as library:
        return library.Dinov2Model(library.Dinov2Config(image_size=518, patch_size=14))


def qwen3() -> Any:
    with transformers() as library:
        return library.Qwen3Model(library.Qwen3Config(**QWEN3_TEXT))


def qwen3_vl() -> Any:
    with transformers() as library:
        config = library.Qwen3VLConfig(text_config=QWEN3_VL_TEXT, vision_config=QWEN3_VL_VISION)
        return library.Qwen3VLModel(config)


Rename = Callable[[str], str]
MODELS: dict[str, tuple[Callable[[], Any], str, Rename, int]] = {
    "google/siglip2-base-patch16-224": (siglip2, "F32", str, 1_500_800_904),
    "imageomics/bioclip-2": (bioclip2, "F32", str, 1_710_517_724),
    "facebook/dinov2-base": (dinov2, "F32", published_dinov2, 346_345_912),
    "Qwen/Qwen3-Embedding-0.6B": (qwen3, "BF16", str, 1_191_586_416),
    "Qwen/Qwen3-Reranker-0.6B": (qwen3, "BF16", "model.{}".format, 1_191_588_280),
    "Qwen/Qwen3-VL-Embedding-2B": (qwen3_vl, "BF16", "model.{}".format, 4_255_140_312),
}
"""The class that loads a model, the type of its tensors, their published names, and the size of the published file."""


@pytest.mark.parametrize("name", MODELS)
def test_a_published_file_has_the_tensors_that_are_loaded(name: str) -> None:
    make, dtype, rename, published = MODELS[name]
    shapes = {rename(one): list(tensor.shape) for one, tensor in make().state_dict().items()}
    table: dict[str, Any] = {} if name == "imageomics/bioclip-2" else {"__metadata__": {"format": "pt"}}
    end = 0
    for one in sorted(shapes):
        start, end = end, end + {"F32": 4, "BF16": 2}[dtype] * math.prod(shapes[one])
        table[one] = {"dtype": dtype, "shape": shapes[one], "data_offsets": [start, end]}
    size = len(json.dumps(table, separators=(",", ":")))
    assert 8 + math.ceil(size / 8) * 8 + end == published
    gigabytes, billions = PUBLISHED[name]
    assert gigabytes == pytest.approx(published / 1e9, rel=0.05)
    assert billions == pytest.approx(sum(map(math.prod, shapes.values())) / 1e9, rel=0.05)


def test_the_laptop_profile_has_three_gigabytes_at_most() -> None:
    profile = load_profile("laptop")
    assert [model.repo for model in models_of(profile)] == ["google/siglip2-base-patch16-224"]
    weights = MODELS["google/siglip2-base-patch16-224"][3] + sum(
        file.bytes for base in base_models(profile) for file in base.files.values()
    )
    assert weights < 1.7e9 and profile.device != "cuda"


def test_an_image_takes_the_laptop_profile_less_than_five_seconds() -> None:
    width, layers, tokens, hidden = 768, 12, (224 // 16) ** 2, 3072
    per_layer = 2 * tokens * (4 * width**2 + 2 * width * hidden) + 4 * tokens**2 * width
    operations = layers * per_layer + 2 * tokens * 3 * 16**2 * width
    assert operations == pytest.approx(34.9e9, rel=0.01)
    # 28 billion operations per second and core were measured on a busy EPYC with AVX2; borders may be searched twice.
    assert 2 * operations / (4 * 28e9) < 0.7


def test_the_modern_profile_fits_beside_a_chat_model_in_24_gigabytes() -> None:
    profile = load_profile("modern")
    repos = {model.repo for model in models_of(profile) if model.weights}
    assert repos == {"Qwen/Qwen3-VL-Embedding-2B", "Salesforce/blip2-itm-vit-g", "Qwen/Qwen3-Reranker-0.6B"}
    assert profile.dtype == "bfloat16" and profile.sections.dtype == "auto"
    assert sum(2 * PUBLISHED[repo][1] for repo in repos) < 8 < 24 / 2
