"""Computes LAVIS's own outputs at a tiny size; runs in LAVIS's own environment, see README.md beside this file."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor, nn

import retriever.models  # noqa: F401  lets torchvision be imported beside a CPU build of PyTorch

# isort: split
from lavis.models.blip2_models.blip2 import LayerNorm
from lavis.models.blip2_models.Qformer import BertLMHeadModel
from lavis.models.eva_vit import VisionTransformer
from lavis.processors.blip_processors import BlipCaptionProcessor, BlipImageEvalProcessor
from safetensors.torch import save_file
from torchvision import transforms
from torchvision.transforms import functional
from transformers import BertConfig, BertTokenizerFast

from tests.lavis.oracle_inputs import sample_image

QUERIES, IMAGE, PATCH, POSITIONS = 32, 16, 4, 40
VISION = {"width": 32, "layers": 2, "heads": 2, "mlp_ratio": 2.1}
TEXT = {"width": 24, "layers": 3, "heads": 2, "intermediate": 32}
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] a an the is it what how tall tree flag ##s red blue old 0 5 m ? , ' - wiki"
TEXTS = (
    "What is it?",
    "A 0.5 m Tree (old)!",
    "# Wiki Article: Flags\n## Section Title: What\nIt's  a   red-blue flag;\n\n\nthe old\tone...\n",
    "tree " * 60,
    "  [DEC] *how* tall~is:it  \n",
    "",
)
SIZES = ((40, 30), (100, 30), (31, 97), (16, 16), (57, 45), (300, 17))
"""Widths and heights of the images: within the ratio of 1.25, beyond it, and sizes with an odd number to crop."""


class Reference(nn.Module):
    """The parts of LAVIS's BLIP-2 that OMGM uses, under the names used in its checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.visual_encoder = VisionTransformer(
            img_size=IMAGE,
            patch_size=PATCH,
            embed_dim=VISION["width"],
            depth=VISION["layers"],
            num_heads=VISION["heads"],
            mlp_ratio=VISION["mlp_ratio"],
            qkv_bias=True,
            use_mean_pooling=False,
            norm_layer=partial(nn.LayerNorm, eps=1e-6),
        )
        self.ln_vision = LayerNorm(VISION["width"])
        config = BertConfig(
            vocab_size=len(WORDS.split()) + 1,
            hidden_size=TEXT["width"],
            num_hidden_layers=TEXT["layers"],
            num_attention_heads=TEXT["heads"],
            intermediate_size=TEXT["intermediate"],
            max_position_embeddings=POSITIONS,
        )
        config.encoder_width = VISION["width"]
        config.add_cross_attention = True
        config.cross_attention_freq = 2
        config.query_length = QUERIES
        self.Qformer = BertLMHeadModel(config)
        self.query_tokens = nn.Parameter(torch.zeros(1, QUERIES, TEXT["width"]))
        self.vision_proj = nn.Linear(TEXT["width"], 4)
        self.text_proj = nn.Linear(TEXT["width"], 4)
        self.itm_head = nn.Linear(TEXT["width"], 2)
        self.temp = nn.Parameter(torch.tensor(0.07))

    def tokens(self, pixels: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Returns the query tokens of image and text together, [B, 32, H]."""
        image = self.ln_vision(self.visual_encoder(pixels))
        queries = self.query_tokens.expand(len(ids), -1, -1)
        output = self.Qformer.bert(
            ids,
            query_embeds=queries,
            attention_mask=torch.cat([torch.ones(queries.shape[:2], dtype=torch.long), mask], dim=1),
            encoder_hidden_states=image,
            encoder_attention_mask=torch.ones(image.shape[:2], dtype=torch.long),
            return_dict=True,
        )
        return output.last_hidden_state[:, :QUERIES]


def target_pad(image: Image.Image, ratio: float = 1.25) -> Image.Image:
    """Returns the image padded with black along its shorter side, as OMGM and EchoSight define TargetPad."""
    width, height = image.size
    if max(width, height) / min(width, height) < ratio:
        return image
    least = max(width, height) / ratio
    across, down = (max(int((least - side) / 2), 0) for side in (width, height))
    return functional.pad(image, [across, down, across, down], 0, "constant")


def prepared(size: int) -> tuple[Tensor, Tensor]:
    """Returns the images of `SIZES` as LAVIS squashes them and as OMGM pads and crops them, [N, 3, size, size]."""
    squash = BlipImageEvalProcessor(image_size=size)
    cut = transforms.Compose(
        [
            target_pad,
            transforms.Resize(size, interpolation=transforms.InterpolationMode.BICUBIC),
            transforms.CenterCrop(size),
            transforms.ToTensor(),
            squash.normalize,
        ]
    )
    images = [sample_image(*side) for side in SIZES]
    return torch.stack([squash(p) for p in images]), torch.stack([cut(p) for p in images])


@torch.no_grad()
def main() -> None:
    """Writes `qformer.safetensors`, and `theirs.safetensors` if there is an `ours.pth`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    words = folder / "vocab.txt"
    words.write_text("\n".join(WORDS.split()) + "\n")
    tokenizer = BertTokenizerFast(vocab_file=str(words))
    tokenizer.add_special_tokens({"bos_token": "[DEC]"})
    processor = BlipCaptionProcessor(max_words=512)
    captions = [processor(text) for text in TEXTS]
    texts = tokenizer(captions, padding="max_length", truncation=True, max_length=POSITIONS, return_tensors="pt")
    squashed, cut = prepared(IMAGE)

    torch.manual_seed(0)
    model = Reference().eval()
    for parameter in model.parameters():
        # Every parameter must matter, including biases and norms, which LAVIS initializes to zero and one.
        parameter.add_(torch.randn_like(parameter) * 0.1)
    inputs = {"input.pixels": cut, "input.ids": texts.input_ids, "input.mask": texts.attention_mask}
    features = model.visual_encoder(cut)
    tensors = {
        **{f"state.{name}": tensor for name, tensor in model.state_dict().items()},
        **inputs,
        "input.squashed": squashed,
        "output.features": features,
        "output.tokens": model.tokens(*inputs.values()),
    }
    facts = {"words": WORDS.split(), "texts": TEXTS, "captions": captions, "sizes": SIZES, **VISION}
    metadata = {key: json.dumps(value) for key, value in facts.items()}
    save_file({name: t.contiguous().clone() for name, t in tensors.items()}, folder / "qformer.safetensors", metadata)
    torch.save({"model": model.state_dict()}, folder / "lavis.pth")

    if (folder / "ours.pth").is_file():
        ours = Reference().eval()
        left = ours.load_state_dict(torch.load(folder / "ours.pth", weights_only=True)["model"], strict=False)
        save_file({"tokens": ours.tokens(*inputs.values()).contiguous()}, folder / "theirs.safetensors")
        names = {"missing": left.missing_keys, "unexpected": left.unexpected_keys}
        (folder / "theirs.json").write_text(json.dumps(names, indent=2) + "\n")


if __name__ == "__main__":
    main()
