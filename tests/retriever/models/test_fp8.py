from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from omgm.parts import build_encoder
from omgm.profile import load_profile
from retriever.models.encoder_folder import load_parts
from retriever.models.eva_weights import load_eva_clip
from retriever.models.fp8 import FP8Linear, check_fp8, use_fp8
from tests.retriever.models.test_eva_clip import golden, write


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_gives_what_pytorchs_product_gives(bias: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(64, 48, bias=bias, dtype=dtype)
    x = torch.randn(2, 5, 64, dtype=dtype)
    layer = FP8Linear(linear, "cpu")
    found = layer(x)
    assert found.shape == (2, 5, 48) and found.dtype == dtype
    largest = x.float().abs().amax(dim=-1, keepdim=True)
    values = (x.float() * (448 / largest)).to(torch.float8_e4m3fn).view(10, 64)
    rounded = None if layer.bias is None else layer.bias.bfloat16()
    product = torch._scaled_mm(
        values,
        layer.weight.t(),
        scale_a=(largest / 448).view(10, 1),
        scale_b=layer.scales,
        bias=rounded,
        out_dtype=torch.bfloat16,
    )
    torch.testing.assert_close(found.view(10, 48).bfloat16(), product, rtol=2**-6, atol=2**-6)
    exact = linear(x)
    error = (found - exact).norm() / exact.norm()
    assert 0.01 < error < 0.05  # both factors lose up to 2^-4, 0.026 in the mean square


def test_products_are_what_the_gpu_takes() -> None:
    layer = FP8Linear(nn.Linear(32, 16), "cpu")
    assert layer.weight.dtype == torch.float8_e4m3fn and layer.weight.is_contiguous()
    assert layer.scales.shape == (1, 16) and layer.scales.is_contiguous() and layer.scales.dtype == torch.float32
    assert layer.weight.t().stride() == (1, 32)  # by columns
    assert layer(torch.zeros(0, 32)).shape == (0, 16)


def test_every_linear_layer_inside_is_replaced() -> None:
    module = nn.Sequential(nn.Linear(16, 32), nn.ModuleDict({"deep": nn.Sequential(nn.GELU(), nn.Linear(32, 16))}))
    use_fp8(module, "cpu")
    assert not any(isinstance(part, nn.Linear) for part in module.modules())
    assert sum(isinstance(part, FP8Linear) for part in module.modules()) == 2


def test_sizes_that_matrix_units_do_not_take_are_named() -> None:
    with pytest.raises(ValueError, match="proj: FP8 needs sizes that are multiples of 16, got 32 to 10"):
        use_fp8(nn.ModuleDict({"proj": nn.Linear(32, 10)}), "cpu")


@pytest.mark.parametrize(("capability", "works"), [((8, 0), False), ((8, 6), False), ((8, 9), True), ((10, 0), True)])
def test_the_gpu_must_have_fp8(capability: tuple[int, int], works: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "A card")
    if works:
        check_fp8("cuda", torch.bfloat16)
        with pytest.raises(ValueError, match='give bfloat16 on a GPU, not float16; set dtype = "bfloat16"'):
            check_fp8("cuda", torch.float16)
    else:
        with pytest.raises(ValueError, match=r"compute capability 8\.9 or higher, but A card has 8\.[06]"):
            check_fp8("cuda", torch.bfloat16)
    check_fp8("cpu", torch.float32)


@pytest.mark.parametrize("case", ["8b", "18b"])
def test_published_layouts_load_in_fp8(tmp_path: Path, case: str) -> None:
    settings, state, found = golden(case)
    folder = write(tmp_path, settings, state)
    exact = load_eva_clip(folder)
    rounded = load_eva_clip(folder)
    use_fp8(rounded.vision.blocks, "cpu")
    layers = [part for part in rounded.vision.modules() if isinstance(part, FP8Linear)]
    assert len(layers) == 4 * len(exact.vision.blocks)
    assert not any(isinstance(part, FP8Linear) for part in rounded.text.modules())
    with torch.inference_mode():
        images = rounded.get_image_features(found["pixels"].float())
        assert torch.equal(rounded.get_text_features(found["ids"].long()), exact.get_text_features(found["ids"].long()))
    cosines = torch.nn.functional.cosine_similarity(images, found["image"].float(), dim=-1)
    assert (cosines > 0.98).all() and not torch.equal(images, found["image"])


def test_weights_take_half_the_memory_of_bfloat16() -> None:
    linear = nn.Linear(1024, 512, bias=False, dtype=torch.bfloat16)
    layer = FP8Linear(linear, "cpu")
    taken = sum(tensor.nbytes for tensor in layer.buffers())
    assert taken == linear.weight.nbytes // 2 + 512 * 4
    assert not list(layer.parameters())


def test_the_setting_says_which_models_have_it() -> None:
    profile = load_profile("embedded", ["encoder.fp8=true"])
    with pytest.raises(ValueError, match=r"only EVA-CLIP can use FP8; set encoder\.fp8 = false"):
        build_encoder(profile)


def test_a_device_without_fp8_is_refused_before_weights_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "An older card")
    settings, _, _ = golden("hub")
    folder = write(tmp_path, settings, {"nothing": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"An older card has 8\.0, or set encoder\.fp8 = false"):
        load_parts(folder, "cuda", torch.bfloat16, fused=True, fp8=True)
