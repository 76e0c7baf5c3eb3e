"""Qwen3-VL-Embedding, step 1's encoder, and Qwen3-VL-Reranker: what a multimodal language model's last token says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from retriever.files import read_object
from retriever.gpu import to_device
from retriever.image_cache import ImageCache
from retriever.images import prepare_image
from retriever.models.folder import folder_fingerprint
from retriever.models.padding import known_padding
from retriever.models.pixels import CONFIG_NAME
from retriever.models.pretrained import check_whole, check_words, load_pretrained
from retriever.models.text_tokenizer import padded
from retriever.texts import by_length
from retriever.types import FloatArray

INSTRUCTION = "Represent the user's input."
BEFORE = f"<|im_start|>system\n{INSTRUCTION}<|im_end|>\n<|im_start|>user\n"
AFTER = "<|im_end|>\n<|im_start|>assistant\n"
JUDGED = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
    "<Instruct>: Given a search query, retrieve relevant candidates that answer the query."
)
MAX_TOKENS = 8192
"""Longest text in tokens, with what is before and after it; the rest is cut."""
MIN_PIXELS, MAX_PIXELS = 4 * 32 * 32, 1800 * 32 * 32
MAX_RATIO = 200
"""Highest aspect ratio that is kept; for higher ones, the publisher's class encodes the word NULL."""
BATCH_TOKENS = 8192
"""Most tokens in a forward pass, padding included."""


@dataclass(frozen=True, slots=True)
class Patches:
    """Turns images into patches of a Qwen3-VL.

    Attributes:
        size: Height and width of a patch in pixels.
        merged: How many patches in each direction become one token.
        frames: How often each patch is repeated, as if an image were a video.
        mean: Per-channel mean to subtract, of values in 0..1.
        std: Per-channel standard deviation to divide by.
    """

    size: int
    merged: int
    frames: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @classmethod
    def load(cls, folder: Path) -> Patches:
        """Reads `preprocessor_config.json`.

        Raises:
            ValueError: The file or one of its fields is missing.
        """
        path = folder / CONFIG_NAME
        if not path.is_file():
            raise ValueError(f"{path}: not found; a model folder needs its {CONFIG_NAME}")
        config = read_object(path)
        try:
            size, merged, frames = (int(config[name]) for name in ("patch_size", "merge_size", "temporal_patch_size"))
            return cls(size, merged, frames, tuple(config["image_mean"]), tuple(config["image_std"]))
        except KeyError as error:
            raise ValueError(f"{path}: has no {error}; is it the file of a Qwen3-VL?") from error

    def grid(self, width: int, height: int) -> tuple[int, int]:
        """Returns the rows and columns of patches of an image: about its own size, within the budget of pixels."""
        cell = self.size * self.merged
        width, height = min(width, MAX_RATIO * height), min(height, MAX_RATIO * width)
        sides = [max(cell, round(side / cell) * cell) for side in (height, width)]
        for budget, rounded, is_outside in (
            (MAX_PIXELS, math.floor, math.prod(sides) > MAX_PIXELS),
            (MIN_PIXELS, math.ceil, math.prod(sides) < MIN_PIXELS),
        ):
            if is_outside:
                scale = math.sqrt(height * width / budget)
                sides = [max(cell, rounded(side / scale / cell) * cell) for side in (height, width)]
                break
        return sides[0] // self.size, sides[1] // self.size

    def __call__(self, image: Image.Image, device: torch.device) -> tuple[Tensor, tuple[int, int]]:
        """Returns patches, float32 [rows * columns, 3 * frames * size * size], and their rows and columns."""
        image = prepare_image(image)
        rows, columns = self.grid(*image.size)
        resized = image.resize((columns * self.size, rows * self.size), Image.Resampling.BICUBIC)
        pixels = to_device(torch.from_numpy(np.array(resized)), device).float() / 255
        mean, std = (torch.tensor(values, device=device) for values in (self.mean, self.std))
        blocks = ((pixels - mean) / std).view(
            rows // self.merged, self.merged, self.size, columns // self.merged, self.merged, self.size, 3
        )
        ordered = blocks.permute(0, 3, 1, 4, 6, 2, 5)[:, :, :, :, :, None]
        return ordered.expand(-1, -1, -1, -1, -1, self.frames, -1, -1).reshape(rows * columns, -1), (rows, columns)


class LastTokens:
    """Computes the last hidden state of conversations with images.

    Args:
        model: A `Qwen3VLModel`.
        tokenizer: Its tokenizer.
        patches: Prepares images.
    """

    def __init__(self, model: Any, tokenizer: Any, patches: Patches) -> None:
        self.model, self._tokenizer, self._patches = model.eval(), tokenizer, patches

    def shown(self, image: Image.Image) -> str:
        """Returns an image's placeholder in a conversation: a token per `merged` x `merged` patches."""
        rows, columns = self._patches.grid(*prepare_image(image).size)
        return f"<|vision_start|>{'<|image_pad|>' * (rows * columns // self._patches.merged**2)}<|vision_end|>"

    @torch.inference_mode()
    def states(self, conversations: Sequence[str], images: Sequence[Sequence[Image.Image]] = ()) -> Tensor:
        """Returns the last states, float32 [N, width], on the model's device.

        Args:
            conversations: Texts with all tokens of the chat template; those without images are cut to `MAX_TOKENS`.
            images: The images that are `shown` in each, in order; by default none.
        """
        cut: dict[str, Any] = {} if images else {"truncation": True, "max_length": MAX_TOKENS}
        texts = (
            self._tokenizer(list(conversations), add_special_tokens=False, **cut)["input_ids"] if conversations else []
        )
        device, config = self.model.device, self.model.config
        states = torch.empty(len(texts), config.text_config.hidden_size, device=device)
        for rows in by_length([len(text) for text in texts], BATCH_TOKENS):
            ids, mask = padded([texts[row] for row in rows], self._tokenizer.pad_token_id)
            given = {"input_ids": ids, "attention_mask": mask}
            if own := [self._patches(image, device) for row in rows if images for image in images[row]]:
                given["pixel_values"] = torch.cat([patches for patches, _ in own]).to(self.model.dtype)
                given["image_grid_thw"] = torch.tensor([(1, *grid) for _, grid in own])
                given["mm_token_type_ids"] = (ids == config.image_token_id).int()
            given = {name: to_device(tensor, device) for name, tensor in given.items()}
            with known_padding(len(texts[rows[0]]) < len(texts[rows[-1]])):
                hidden = self.model(**given, use_cache=False).last_hidden_state
            last = hidden[torch.arange(len(rows), device=device), given["attention_mask"].sum(1) - 1]
            states[torch.tensor(rows, device=device)] = last.float()
        return states


class Qwen3VLEncoder:
    """Encodes images and texts with the prompt of the publisher (implements `retriever.protocols.DualEncoder`).

    Args:
        model: A `Qwen3VLModel`.
        tokenizer: Its tokenizer.
        patches: Prepares images.
        fingerprint: Hash of its folder.

    Attributes:
        cache: Caches the vectors of images, if set.
    """

    def __init__(self, model: Any, tokenizer: Any, patches: Patches, fingerprint: str) -> None:
        self._tokens, self.fingerprint = LastTokens(model, tokenizer, patches), qwen3_vl_fingerprint(fingerprint)
        self.dimension: int = model.config.text_config.hidden_size
        self.cache: ImageCache | None = None

    @classmethod
    def load(cls, folder: Path, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Qwen3VLEncoder:
        """Loads the model in a folder.

        Raises:
            ValueError: A file is missing, the weights do not match, or it is another kind of model.
        """
        from transformers import AutoModel  # only for profiles that name one

        model, tokenizer, patches = _parts(folder, AutoModel, dtype)
        return cls(model.to(device), tokenizer, patches, folder_fingerprint(folder))

    def encode_images(self, images: Sequence[Image.Image]) -> Tensor:
        """Encodes images as L2-normalized vectors, float32 [N, dimension], on the model's device."""
        return self.cache.rows("step1", images, self._images) if self.cache and images else self._images(images)

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Encodes texts as L2-normalized vectors, float32 [N, dimension], on the model's device."""
        return functional.normalize(self._tokens.states([f"{BEFORE}{text}{AFTER}" for text in texts]), dim=-1)

    def _images(self, images: Sequence[Image.Image]) -> Tensor:
        shown = [f"{BEFORE}{self._tokens.shown(image)}{AFTER}" for image in images]
        return functional.normalize(self._tokens.states(shown, [[image] for image in images]), dim=-1)


class Pictured(NamedTuple):
    """A text, possibly with an image."""

    text: str
    image: Image.Image | None


class Qwen3VLReranker:
    """Scores pairs of texts with images with Qwen3-VL-Reranker, as its publisher does.

    A score is the probability of "yes" among "yes" and "no"; only these rows of the head are computed. Texts should be
    short: they are not cut.

    Args:
        model: A `Qwen3VLForConditionalGeneration`.
        tokenizer: Its tokenizer.
        patches: Prepares images.

    Raises:
        ValueError: The tokenizer lacks an answer.
    """

    def __init__(self, model: Any, tokenizer: Any, patches: Patches) -> None:
        self._tokens, known = LastTokens(model.model, tokenizer, patches), tokenizer.get_vocab()
        if missing := {"yes", "no"} - known.keys():
            raise ValueError(f"tokenizer: has no token {min(missing)!r}; copy the one that was saved with the weights")
        self._head = model.get_output_embeddings().weight[[known["yes"], known["no"]]].float()

    @classmethod
    def load(cls, folder: Path, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Qwen3VLReranker:
        """Loads the model in a folder; raises as `Qwen3VLEncoder.load`."""
        from transformers import AutoModelForImageTextToText  # only for profiles that name one

        check_whole(folder)
        model, tokenizer, patches = _parts(folder, AutoModelForImageTextToText, dtype)
        return cls(model.to(device), tokenizer, patches)

    @torch.inference_mode()
    def score(self, pairs: Sequence[tuple[Pictured, Pictured]]) -> FloatArray:
        """Returns how well the second of each pair answers the first, float32 [N] in [0, 1]."""
        asked = [
            f"{JUDGED}<Query>:{self._shown(query)}\n<Document>:{self._shown(text)}{AFTER}" for query, text in pairs
        ]
        images = [[part.image for part in pair if part.image is not None] for pair in pairs]
        yes, no = self._head
        scores: FloatArray = (self._tokens.states(asked, images) @ (yes - no)).sigmoid().cpu().numpy()
        return scores

    def _shown(self, part: Pictured) -> str:
        text = part.text.replace("<|", "< |")  # no tokens of the template
        image = "" if part.image is None else self._tokens.shown(part.image)
        return f"{image}{text}" or "NULL"


def _parts(folder: Path, kind: Any, dtype: torch.dtype) -> tuple[Any, Any, Patches]:
    """Loads model, tokenizer and patches.

    Args:
        folder: Where they are.
        kind: The class of transformers to load with.
        dtype: Type of the weights.

    Raises:
        ValueError: A file is missing, the weights do not match, or it is another kind of model.
    """
    from transformers import AutoTokenizer  # only for profiles that name one

    named = read_object(folder / "config.json").get("model_type")
    if named != "qwen3_vl":
        raise ValueError(f'{folder}: config.json: model_type: must be "qwen3_vl", got {named!r}')
    patches = Patches.load(folder)
    model = load_pretrained(kind, folder, dtype)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    check_words(folder, tokenizer, model.config.text_config.vocab_size)
    return model, tokenizer, patches


def qwen3_vl_fingerprint(folder: str) -> str:
    """Returns the fingerprint of an encoder, whose vectors depend on a prompt and a budget of pixels, too."""
    return f"{folder}-chat{MAX_PIXELS}"
