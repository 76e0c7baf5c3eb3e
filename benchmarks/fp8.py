"""Measures what FP8 changes in step 1's vectors, by computing FP8's numbers on a CPU (`retriever.models.fp8`).

    python benchmarks/fp8.py eva [--layers 32] [--images 2]    EVA-CLIP-8B's image tower at its true width
    python benchmarks/fp8.py embedded                          this project's encoder with its trained weights

`eva` makes up weights, because the published ones take 16 GB: from a Laplace distribution, at the scale that keeps the
variance. Like trained transformers, some channels have outliers: in one of 200, a norm's gain is 10 to 60 times that of
others, and the weights behind it are smaller by the same factor. One block is in memory at a time. It reports, for each
kind of layer, the relative error of its output in every eighth block, and for the whole tower the cosine of vectors to
those of float32, for FP8 and for bfloat16. The images are of the demo, half of them photographs.

`embedded` rounds the inputs and weights of all linear layers, and then those of convolutions too, of the image tower.
It reports the cosine of vectors and Recall@1 of photographs of flags among drawings of flags.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.json_lines import Record, recorder
from benchmarks.machine import commit
from demo.draw import draw
from demo.facts import countries
from demo.flags import load_flags
from demo.photo import photograph
from indexes.progress import progress_bar
from retriever.files import write_json
from retriever.kernels.fp8 import rounded
from retriever.models.encoder import ClipEncoder
from retriever.models.eva_clip import EVA_CLIP_8B, Block, EvaCLIPConfig, VisionTower
from retriever.models.fp8 import FP8Linear, use_fp8
from retriever.models.pixels import PixelPreparation

WEIGHTS = Path(__file__).resolve().parents[1] / "weights/embedded/encoder"
OUTLIERS, FACTORS, COMPARED = 200, (10.0, 60.0), 8
_SILENT = recorder(None)


def flags(count: int) -> tuple[list[Image.Image], list[Image.Image]]:
    """Returns drawings of flags and one photograph of each."""
    drawings = [draw(load_flags()[code]) for code in islice(countries(), count)]
    return drawings, [photograph(drawing, random.Random(number)) for number, drawing in enumerate(drawings)]


def make_up(block: Block, seed: int) -> None:
    """Fills a block with made-up weights; see above."""
    generator = torch.Generator().manual_seed(seed)
    for layer in (block.qkv, block.out, block.fc1, block.fc2):
        one, other = (torch.empty_like(layer.weight).exponential_(generator=generator) for _ in range(2))
        layer.weight.data = (one - other) * (2 * layer.in_features) ** -0.5  # Laplace's, of variance 2
        if layer.bias is not None:
            layer.bias.data.normal_(std=0.02, generator=generator)
    for norm, layer in ((block.norm1, block.qkv), (block.norm2, block.fc1)):
        assert isinstance(norm, nn.RMSNorm)
        gains = torch.empty_like(norm.weight.data).normal_(generator=generator).mul_(0.2).add_(1)
        large = torch.randperm(len(gains), generator=generator)[: max(1, len(gains) // OUTLIERS)]
        factors = torch.empty(len(large)).uniform_(*FACTORS, generator=generator)
        gains[large] *= factors
        norm.weight.data = gains
        layer.weight.data[:, large] /= factors


def relative(found: Tensor, exact: Tensor) -> float:
    """Returns the norm of an error relative to that of the exact values."""
    return float((found.float() - exact).norm() / exact.norm())


def layer_errors(block: Block, x: Tensor) -> dict[str, dict[str, float]]:
    """Returns each linear layer's relative error in FP8 and in bfloat16, for the inputs that it gets in float32."""
    errors: dict[str, dict[str, float]] = {}
    handles = []
    for name, layer in block.named_children():
        if isinstance(layer, nn.Linear):

            def compare(layer: nn.Module, given: tuple[Tensor], exact: Tensor, name: str = name) -> None:
                assert isinstance(layer, nn.Linear)
                bias = None if layer.bias is None else layer.bias.bfloat16()
                errors[name] = {
                    "fp8": relative(FP8Linear(layer, "cpu")(given[0]), exact),
                    "bfloat16": relative(functional.linear(given[0].bfloat16(), layer.weight.bfloat16(), bias), exact),
                }

            handles.append(layer.register_forward_hook(compare))
    block(x, causal=False)
    for handle in handles:
        handle.remove()
    return errors


@torch.inference_mode()
def eva(images: Sequence[Image.Image], config: EvaCLIPConfig, layers: int, record: Record = _SILENT) -> dict[str, Any]:
    """Measures EVA-CLIP's image tower with made-up weights, block by block; records what is known after each."""
    torch.manual_seed(0)
    ends = VisionTower(replace(config, vision=replace(config.vision, layers=0)))
    pixels = PixelPreparation(config.image_size, crop=True).to_device(images, torch.device("cpu"), torch.float32)
    cells = ends.patches(pixels).flatten(2).transpose(1, 2)
    start = torch.cat([ends.class_token.expand(len(cells), 1, -1), cells], dim=1) + ends.positions
    states = {name: start.to(torch.bfloat16 if name != "float32" else torch.float32) for name in PRECISIONS}
    by_layer: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    cosines = []
    for number in progress_bar(range(layers), desc="blocks", unit="block"):
        block = Block(config.vision)
        make_up(block, number)
        if number % COMPARED == 0:
            for layer, found in layer_errors(block, states["float32"]).items():
                for precision, error in found.items():
                    by_layer[layer][precision].append(error)
        states["float32"] = block(states["float32"], causal=False)
        block = block.bfloat16()
        states["bfloat16"] = block(states["bfloat16"], causal=False)
        use_fp8(block, "cpu")  # of the weights in bfloat16, as they are published
        states["fp8"] = block(states["fp8"], causal=False)
        vectors = {name: unit(ends.projection(ends.norm(state[:, 0].float()))) for name, state in states.items()}
        cosines.append({name: summary(vectors[name], vectors["float32"]) for name in ("fp8", "bfloat16")})
        record({"block": number, "relative_error": {name: dict(of) for name, of in by_layer.items()}, **cosines[-1]})
    return {
        "layers": layers,
        "images": len(images),
        "relative_error": {
            layer: {precision: round(mean(errors), 5) for precision, errors in found.items()}
            for layer, found in by_layer.items()
        },
        "cosine_after_block": cosines,
        "cosine": cosines[-1],
    }


PRECISIONS = ("float32", "bfloat16", "fp8")


def unit(vectors: Tensor) -> Tensor:
    """Returns vectors of length 1."""
    return functional.normalize(vectors, dim=-1)


def summary(found: Tensor, exact: Tensor) -> dict[str, float]:
    """Returns the mean and the least cosine of vectors [N, length] to others of length 1."""
    cosines = (found * exact).sum(dim=-1)
    return {"mean": round(float(cosines.mean()), 6), "least": round(float(cosines.min()), 6)}


class RoundedLayers(TorchFunctionMode):
    """Computes linear layers, and convolutions if asked for, from inputs and weights rounded to FP8."""

    def __init__(self, convolutions: bool) -> None:
        super().__init__()
        self._convolutions = convolutions

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Runs a function, with rounded operands if it is such a layer."""
        if func is functional.linear:
            return self._linear(*args, **(kwargs or {}))
        if func is torch.conv2d and self._convolutions:
            return self._convolution(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return rounded_product(x.flatten(0, -2), weight, bias).view(*x.shape[:-1], len(weight))

    def _convolution(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, *others: Any
    ) -> Tensor:
        """A convolution is a linear layer of the patches that it sees: one scale per patch and per output channel."""
        patches = functional.unfold(x, weight.shape[2:], padding=padding, stride=stride).transpose(1, 2)
        cells: Tensor = rounded_product(patches.flatten(0, 1), weight.flatten(1), bias)
        height = (x.shape[2] + 2 * padding[0] - weight.shape[2]) // stride[0] + 1
        columns = cells.view(len(x), height, -1, len(weight))
        return columns.permute(0, 3, 1, 2).contiguous()


def rounded_product(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiplies as an `FP8Linear` does on a CPU: rows [N, in] by a weight [out, in]; returns [N, out]."""
    (values, scales), (own, factors) = rounded(rows), rounded(weight)
    sums: Tensor = (values.float() @ own.float().T) * scales * factors.T
    return sums if bias is None else sums + bias


@torch.inference_mode()
def embedded(drawings: Sequence[Image.Image], photographs: Sequence[Image.Image]) -> Iterator[dict[str, Any]]:
    """Measures the embedded encoder: vectors of photographs, and what they find among drawings."""
    encoder = ClipEncoder.load(WEIGHTS)
    keys, exact = encoder.encode_images(drawings), encoder.encode_images(photographs)
    right = torch.arange(len(drawings))
    best = (exact @ keys.T).argmax(dim=1)
    yield {"rounded": "nothing (float32)", "recall@1": round(float((best == right).float().mean()), 4)}
    for convolutions in (False, True):
        with RoundedLayers(convolutions):
            found = encoder.encode_images(photographs)
            stored = encoder.encode_images(drawings)
        for what, others in (("queries", keys), ("queries and keys", stored)):
            first = (found @ others.T).argmax(dim=1)
            yield {
                "rounded": f"{what}, linear layers{' and convolutions' if convolutions else ''}",
                "cosine": summary(found, exact),
                "recall@1": round(float((first == right).float().mean()), 4),
                "other_first": int((first != best).sum()),
            }


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("eva", "embedded"))
    parser.add_argument("--layers", type=int, default=32, metavar="N", help="blocks of `eva` (%(default)s)")
    parser.add_argument("--images", type=int, metavar="N", help="images (eva: 2, embedded: 196)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write JSON")
    parser.add_argument("--lines", type=Path, metavar="FILE", help="append what `eva` knows after each block")
    args = parser.parse_args(argv)
    report: dict[str, Any] = {"what": args.what, "commit": commit()}
    if args.what == "eva":
        count = args.images or 2
        drawings, photographs = flags(-(-count // 2))
        record = recorder(args.lines, benchmark="fp8")
        report |= eva([*photographs, *drawings][:count], EVA_CLIP_8B, args.layers, record)
    else:
        report["rows"] = list(embedded(*flags(args.images or 196)))
    print(json.dumps(report, indent=2))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(args.out, report)


if __name__ == "__main__":
    main()
