"""Step 1's dual encoder: any CLIP or SigLIP of transformers, EVA-CLIP, or any open_clip model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from retriever.files import apply_umask
from retriever.gpu import to_device
from retriever.image_cache import ImageCache
from retriever.models.encoder_folder import load_parts, read_config
from retriever.models.feature_map import feature_map, part_encoder
from retriever.models.folder import RECORD_NAME, folder_fingerprint
from retriever.models.graphs import Forward, graphed
from retriever.models.image_alignment import aligner
from retriever.models.image_tower import ImageTower
from retriever.models.padding import known_padding
from retriever.models.photo_tower import PhotoTower
from retriever.models.pixels import PixelPreparation
from retriever.models.published import Published
from retriever.models.small_clip import SmallCLIP, SmallCLIPConfig
from retriever.models.text_tokenizer import padded
from retriever.protocols import Align, EncodeParts, FeatureMap

LongTexts = Literal["cut", "windows"]
"""How to read a text longer than the model's limit: only its beginning, or all of it in windows."""


def encoder_fingerprint(folder: Path, long_texts: LongTexts = "cut", key_sizes: Sequence[int] = ()) -> str:
    """Returns `folder_fingerprint` with a suffix for settings that change the vectors of texts or keys.

    Raises:
        ValueError: The folder has no safetensors file.
    """
    used = key_sizes if read_config(folder).get("model_type") == SmallCLIPConfig.model_type else ()
    sizes = f"-keys{'+'.join(map(str, used))}" if used else ""
    return folder_fingerprint(folder) + ("" if long_texts == "cut" else f"-{long_texts}") + sizes


class ClipEncoder(Published):
    """A CLIP-type model that encodes images and texts (implements `retriever.protocols.DualEncoder`).

    Args:
        model: Has `get_image_features(pixel_values)`, `get_text_features(input_ids, attention_mask)`, `device`,
            `dtype` and `config`.
        tokenizer: The model's tokenizer: a transformers tokenizer, or a callable like one with a `windows` method.
        pixels: Prepares images.
        max_tokens: Longest text, in tokens.
        fingerprint: Hash of the model folder.
        batch_size: Images or texts per forward pass.
        long_texts: "cut" drops tokens beyond `max_tokens`; "windows" splits a text into pieces of that length and
            averages their vectors, weighted by their number of tokens.
        fixed_length: Pads every text to `max_tokens` and passes no mask, as SigLIP requires.
        folder: Where the model was loaded from.
        key_sizes: Image sizes in pixels at which keys are encoded; their vectors are averaged. By default the model's
            own size. `load` ignores this except for the embedded model, because other models read images of one size.

    Attributes:
        cache: Caches the vectors of images, if set.
        photos: The part of the embedded model that knows photographs, if it has one.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        pixels: PixelPreparation,
        max_tokens: int,
        fingerprint: str,
        batch_size: int = 64,
        long_texts: LongTexts = "cut",
        fixed_length: bool = False,
        folder: Path | None = None,
        key_sizes: Sequence[int] = (),
    ):
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.pixels = pixels
        self.max_tokens = max_tokens
        self.fingerprint = fingerprint
        self.batch_size = batch_size
        self.long_texts = long_texts
        self.fixed_length = fixed_length
        self.folder = folder
        self.key_pixels = [replace(pixels, size=size) for size in key_sizes]
        self.cache: ImageCache | None = None
        self.photos: PhotoTower | ImageTower | None = None
        self._image_vectors: Forward = lambda pixels: _unit(self.model.get_image_features(pixels))

    @classmethod
    def load(
        cls,
        folder: Path,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        batch_size: int = 64,
        long_texts: LongTexts = "cut",
        key_sizes: Sequence[int] = (),
        fused: bool = False,
        fp8: bool = False,
    ) -> Self:
        """Loads the encoder in `folder`; its files determine the kind of model.

        Args:
            folder: The model folder.
            device: The device to run on.
            dtype: Type of the weights.
            batch_size: See the class.
            long_texts: See the class.
            key_sizes: See the class.
            fused: Whether to fuse the embedded model for fast inference; it can then not be trained. See
                `SmallVision.fuse`.
            fp8: Whether to round the linear layers of EVA-CLIP's image tower to FP8; see `retriever.models.fp8`.

        Raises:
            ValueError: The folder or one of its files is missing, the kind of model is unknown, or it or the device
                cannot use FP8.
        """
        fingerprint = encoder_fingerprint(folder, long_texts, key_sizes)
        parts = load_parts(folder, device, dtype, fused, fp8)
        encoder = cls(
            parts.model,
            parts.tokenizer,
            parts.pixels,
            parts.max_tokens,
            fingerprint,
            batch_size,
            long_texts,
            parts.fixed_length,
            folder,
            key_sizes if isinstance(parts.model, SmallCLIP) else (),
        )
        if isinstance(parts.model, SmallCLIP) and parts.model.config.base_model is not None:
            encoder.photos = PhotoTower(parts.model, device, dtype)
        return encoder

    def save(self, folder: Path, dtype: torch.dtype = torch.float32) -> None:
        """Writes the folder that `load` reads, with weights of `dtype`.

        Raises:
            ValueError: The model is not a transformers model.
        """
        if not hasattr(self.model, "save_pretrained"):
            raise ValueError(
                f"{folder}: only transformers models can be saved, not {type(self.model).__name__}; copy its "
                "folder, or publish it with `omgm index push`"
            )
        state = self.model.state_dict()
        weights = {key: (v.to(dtype) if v.is_floating_point() else v).contiguous() for key, v in state.items()}
        self.model.save_pretrained(folder, state_dict=weights)
        for file in folder.glob("*.safetensors"):
            apply_umask(file)
        self.tokenizer.save_pretrained(folder)
        self.pixels.save(folder)

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        config = self.model.config
        own = int(getattr(config, "projection_dim", None) or config.text_config.projection_size)
        return own + self.appended

    @property
    def feature_map(self) -> FeatureMap | None:
        """Computes the feature map of an image; `None` without a tower like those of transformers."""
        return feature_map(self.model, self.pixels)

    @property
    def encode_parts(self) -> EncodeParts | None:
        """Encodes parts of an image about as if each were an image; only the embedded model can."""
        if not isinstance(self.model, SmallCLIP) or isinstance(self.photos, ImageTower):
            return None
        return part_encoder(self.model, self.pixels, self.photos)

    @property
    def align(self) -> Align | None:
        """Lays images on others; only the embedded model can."""
        return aligner(self.model, self.pixels) if isinstance(self.model, SmallCLIP) else None

    @property
    def is_unadapted(self) -> bool:
        """Whether it is the small embedded model, and `train-encoder` did not adapt it."""
        is_small = isinstance(self.model.config, SmallCLIPConfig)
        return is_small and (self.folder is None or not (self.folder / RECORD_NAME).is_file())

    @property
    def appended(self) -> int:
        """How many values at the end of a vector are those of `photos`; 0 without it."""
        return self.photos.dimension if self.photos else 0

    def tokenize(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """Tokenizes texts to `input_ids` and `attention_mask`, int64 [N, T], cut at `max_tokens`."""
        return self._padded(self._pieces(texts, "cut")[0])

    @torch.inference_mode()
    def encode_images(self, images: Sequence[Image.Image]) -> Tensor:
        """Encodes images as L2-normalized vectors, float32 [N, dimension], on the model's device."""
        parts = [torch.empty(0, self.dimension, device=self.model.device)]
        for start in range(0, len(images), self.batch_size):
            # The CPU prepares the next batch while the GPU is still working on this one.
            part = images[start : start + self.batch_size]
            parts.append(self.cache.rows("step1", part, self._encoded) if self.cache else self._encoded(part))
        return torch.cat(parts)

    @torch.inference_mode()
    def encode_keys(self, images: Sequence[Image.Image]) -> Tensor:
        """Encodes images of entities, to which query images are compared, as vectors like those of `encode_images`."""
        if not self.key_pixels:
            return self.encode_images(images)
        parts = [torch.empty(0, self.dimension, device=self.model.device)]
        for start in range(0, len(images), self.batch_size):
            part = images[start : start + self.batch_size]
            shown = (pixels.to_device(part, self.model.device, self.model.dtype) for pixels in self.key_pixels)
            own = _unit(torch.stack([_unit(self.model.get_image_features(one)) for one in shown]).mean(dim=0))
            parts.append(self.photos.with_images(own, part) if self.photos else own)
        return torch.cat(parts)

    def _encoded(self, images: Sequence[Image.Image]) -> Tensor:
        own = self._image_vectors(self.pixels.to_device(images, self.model.device, self.model.dtype))
        return self.photos.with_images(own, images) if self.photos else own

    def use_cuda_graphs(self) -> None:
        """Runs the image towers as CUDA graphs, captured at the first batch of each size."""
        self._image_vectors = graphed(self._image_vectors)
        if self.photos:
            self.photos.use_cuda_graphs()

    @torch.inference_mode()
    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Encodes texts as L2-normalized vectors, float32 [N, dimension], on the model's device."""
        pieces, counts = self._pieces(texts, self.long_texts)
        parts = [torch.empty(0, self.dimension, device=self.model.device)]
        # Texts of similar length share a batch, which saves padding.
        order = sorted(range(len(pieces)), key=lambda i: len(pieces[i]))
        for start in range(0, len(order), self.batch_size):
            rows = [pieces[i] for i in order[start : start + self.batch_size]]
            with known_padding(self.fixed_length or len(rows[0]) < len(rows[-1])):
                own = _unit(self.model.get_text_features(**self._padded(rows)))
                parts.append(self.photos.without_images(own) if self.photos else own)
        vectors = torch.cat(parts)[self._sent(torch.tensor(order, dtype=torch.int64).argsort())]
        if len(pieces) == len(texts):
            return vectors
        weights = self._sent(torch.tensor([[len(piece)] for piece in pieces], dtype=vectors.dtype))
        return _unit(torch.stack([of_text.sum(0) for of_text in (vectors * weights).split(counts)]))

    def _pieces(self, texts: Sequence[str], long_texts: LongTexts) -> tuple[list[list[int]], list[int]]:
        """Returns the token ids of all pieces, at most `max_tokens` each, and the number of pieces per text."""
        if not texts:
            return [], []
        if long_texts == "windows":
            windows = _windows(self.tokenizer, texts, self.max_tokens)
            return [piece for pieces in windows for piece in pieces], [len(pieces) for pieces in windows]
        encoded = self.tokenizer(list(texts), truncation=True, max_length=self.max_tokens)
        return encoded["input_ids"], [1] * len(texts)

    def _padded(self, rows: list[list[int]]) -> dict[str, Tensor]:
        ids, mask = padded(rows, self.tokenizer.pad_token_id, self.max_tokens if self.fixed_length else None)
        shown = {"input_ids": self._sent(ids)}
        return shown if self.fixed_length else shown | {"attention_mask": self._sent(mask)}

    def _sent(self, tensor: Tensor) -> Tensor:
        return to_device(tensor, self.model.device)


def _unit(features: Any) -> Tensor:
    # transformers 5 wraps the vectors of its own CLIP models in an output object.
    return functional.normalize(getattr(features, "pooler_output", features).float(), dim=-1)


def _windows(tokenizer: Any, texts: Sequence[str], max_tokens: int) -> list[list[list[int]]]:
    """Returns, per text, the token ids of its pieces, each with the special tokens of a complete text."""
    if hasattr(tokenizer, "windows"):
        return [tokenizer.windows(text, max_tokens) for text in texts]
    before, after = frame(tokenizer)
    room = max_tokens - len(before) - len(after)
    # Not by the tokenizer's `return_overflowing_tokens`, whose memory grows with the square of a text's length.
    return [
        [before + ids[start : start + room] + after for start in range(0, max(len(ids), 1), room)]
        for ids in tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    ]


def frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Returns the special tokens that a tokenizer puts before and after a text."""
    inner: list[int] = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole: list[int] = tokenizer("a")["input_ids"]
    at = next(start for start in range(len(whole)) if whole[start : start + len(inner)] == inner)
    return whole[:at], whole[at + len(inner) :]
