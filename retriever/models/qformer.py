"""Step 2's encoder: BLIP-2's Q-Former fuses an image and a text into 32 token vectors (equation 3)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from retriever.gpu import to_device
from retriever.image_cache import ImageCache
from retriever.models.folder import folder_fingerprint
from retriever.models.fused_qformer import FusedLayers
from retriever.models.graphs import SIZES, Forward, graphed
from retriever.models.pixels import PixelPreparation
from retriever.models.published import Published
from retriever.models.qformer_folder import read_layout, vision_tower, write_folder
from retriever.models.qformer_layers import QFormer, QFormerConfig
from retriever.models.small_clip import SmallVision
from retriever.models.text_tokenizer import AnyTokenizer, load_tokenizer, padded
from retriever.models.weights import read_weights, without_memory
from retriever.texts import by_length

UNSAVED = "unsaved"
TOKENS_PER_PAIR = 128
"""Tokens per forward pass over sections, divided by `batch_size`: query tokens, text tokens and padding."""
TEXT_TOKENS = 64
"""Tokens to which CUDA graphs pad texts; with longer ones, which few questions are, a batch runs without a graph."""
PAIRS = tuple(2 * size for size in SIZES)
"""Pairs to capture: step 2 fuses each image twice, with its question and alone."""


class QFormerFusion(Published, nn.Module):
    """Fuses images and texts into tokens (implements `retriever.protocols.FusionEncoder`).

    Args:
        settings: The sizes of its parts, see `retriever.models.qformer_folder.Layout`.
        tokenizer: Tokenizes texts.
        pixels: Prepares images.
        vision: The image tower, whose output has `last_hidden_state` [B, cells, width]; by default a new one.
        fingerprint: Hash of the model folder.
        batch_size: Images, or pairs of an image and a text, per forward pass. Sections, which differ much in length,
            are counted by their tokens, see `TOKENS_PER_PAIR`.

    Attributes:
        cache: Caches the output of the image tower, if set.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        tokenizer: AnyTokenizer,
        pixels: PixelPreparation,
        vision: nn.Module | None = None,
        fingerprint: str = UNSAVED,
        batch_size: int = 64,
    ):
        super().__init__()
        self.vision = vision_tower(settings["vision"]) if vision is None else vision
        self.vision_settings = settings["vision"]
        self.config = config = QFormerConfig.read(settings["qformer"])
        self.tokenizer = tokenizer
        self.pixels = pixels
        self.max_text_tokens = settings["max_text_tokens"]
        self.fingerprint = fingerprint
        self.batch_size = batch_size
        self.cache: ImageCache | None = None
        self._graphed_features: Forward | None = None
        self._graphed_tokens: Forward | None = None
        self._fused: FusedLayers | None = None
        self._tokenizing = threading.Lock()  # a call sets padding and truncation on the shared tokenizer
        self.vision_norm = nn.LayerNorm(config.encoder_hidden_size, settings.get("vision_norm_eps", 1e-5))
        tokens = (1, settings["queries"], config.hidden_size)
        self.query_tokens = nn.Parameter(nn.init.normal_(torch.empty(tokens), std=config.initializer_range))
        self.token_mean = nn.Buffer(torch.zeros(tokens)) if settings.get("centered") else None
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id),
                "position_embeddings": nn.Embedding(config.max_position_embeddings, config.hidden_size),
            }
        )
        for table in self.embeddings.parameters():
            nn.init.normal_(table, std=config.initializer_range)
        self.qformer = QFormer(config)
        self.eval()

    @classmethod
    def load(
        cls,
        folder: Path,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        batch_size: int = 64,
        fused: bool = False,
    ) -> Self:
        """Loads the encoder in `folder`: one of ours, or a BLIP-2 of transformers for image-text retrieval.

        Weights are read directly to `device`, those of a BLIP-2 also to `dtype`, so memory never holds two copies.

        Args:
            folder: The model folder.
            device: The device to run on.
            dtype: Type of the weights.
            batch_size: See the class.
            fused: Whether to fuse one of our models for fast inference; it can then not be trained. See `FusedLayers`
                and `SmallVision.fuse`.

        Raises:
            ValueError: A file is missing, a weight is missing, unexpected or has the wrong shape, or the tokenizer is
                another model's.
        """
        fingerprint = folder_fingerprint(folder)
        layout = read_layout(folder)
        pixels, tokenizer = PixelPreparation.load(folder), load_tokenizer(folder)
        with without_memory():
            model = cls(layout.settings, tokenizer, pixels, fingerprint=fingerprint, batch_size=batch_size)
        added = tokenizer.get_added_vocab()  # those without a row are read as unknown
        last, rows = max(i for token, i in tokenizer.get_vocab().items() if token not in added), model.config.vocab_size
        if last >= rows:
            raise ValueError(
                f"{folder}: its tokenizer has a token {last}, but its embedding ends at {rows - 1}; copy the tokenizer "
                "that was saved with the weights"
            )
        small = isinstance(model.vision, SmallVision)
        as_stored = (layout.stored_name, device, torch.float32 if small else dtype, layout.ignored)
        model.load_state_dict(read_weights(folder, model.state_dict(), *as_stored), assign=True)
        if isinstance(model.vision, SmallVision) and fused:
            model.vision.fuse(device, dtype)
        model.to(dtype)
        if small and fused:
            model._fused = FusedLayers(model.qformer)
        # Otherwise convolutions copy their weights in each call.
        model.vision.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing from torch's types
        model.folder = folder
        return model

    def save(self, folder: Path, dtype: torch.dtype = torch.float32) -> None:
        """Writes the folder that `load` reads, with matrices of `dtype` and vectors as they are."""
        tensors = {
            # Variances of batch norm may be below float16's range.
            name: tensor.detach().to("cpu", dtype if tensor.ndim > 1 else tensor.dtype)
            for name, tensor in self.state_dict().items()
        }
        settings = {
            "qformer": asdict(self.config),
            "vision": self.vision_settings,
            "queries": self.query_tokens.shape[1],
            "max_text_tokens": self.max_text_tokens,
            "vision_norm_eps": self.vision_norm.eps,
            "centered": self.token_mean is not None,
        }
        write_folder(folder, settings, tensors, self.tokenizer, self.pixels)

    @property
    def token_shape(self) -> tuple[int, int]:
        """The number of fused tokens and their length, (32, H)."""
        return self.query_tokens.shape[1], self.query_tokens.shape[2]

    def tokenize(self, texts: Sequence[str], max_tokens: int | None = None) -> tuple[Tensor, Tensor]:
        """Tokenizes texts to ids and their mask, int64 [N, T], padded to the longest and cut at `max_tokens`."""
        ids, mask = self._tokenized(texts, max_tokens)
        return self._sent(ids), self._sent(mask)

    def _tokenized(self, texts: Sequence[str], max_tokens: int | None = None) -> tuple[Tensor, Tensor]:
        """Tokenizes like `tokenize`, but returns ids and mask on the CPU."""
        limit = min(max_tokens or self.max_text_tokens, self.max_text_tokens)
        with self._tokenizing:
            encoded = self.tokenizer(list(texts), truncation=True, max_length=limit)
        ids, mask = padded(encoded["input_ids"], self.tokenizer.pad_token_id)
        if len(self.tokenizer) > self.config.vocab_size:  # an added word such as <image> may have no row of weights
            ids = ids.masked_fill(ids >= self.config.vocab_size, self.tokenizer.unk_token_id)
        return ids, mask

    def vision_features(self, pixels: Tensor) -> Tensor:
        """Runs the image tower on pixel values [B, 3, H, W]; returns [B, cells, width] in the model's dtype."""
        features: Tensor = self.vision(pixels.to(self.query_tokens.dtype)).last_hidden_state
        return features

    def fuse_tokens(self, features: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Fuses `vision_features` with texts (ids and mask [B, T]) into tokens [B, 32, H].

        Text positions start at 0; query tokens have none. Padding is masked, so its amount does not affect the result.
        """
        hidden = self.qformer.layernorm(self.embedded(input_ids))
        layers = self.qformer if self._fused is None or self.training else self._fused
        tokens: Tensor = layers(hidden, self.token_shape[0], attention_mask, self.vision_norm(features))
        return tokens if self.token_mean is None else tokens - self.token_mean

    def embedded(self, input_ids: Tensor) -> Tensor:
        """Returns the embeddings of the queries and of texts, [B, 32 + T, H]."""
        tables: Any = self.embeddings
        positions = tables["position_embeddings"].weight[: input_ids.shape[1]]
        queries = self.query_tokens.expand(len(input_ids), -1, -1)
        return torch.cat([queries, tables["word_embeddings"](input_ids) + positions], dim=1)

    @torch.inference_mode()
    def encode(self, images: Sequence[Image.Image], texts: Sequence[str]) -> Tensor:
        """Fuses images[i] with texts[i] into tokens, float32 [N, 32, H] on the model's device, not normalized.

        Raises:
            ValueError: The numbers of images and texts differ.
        """
        _check_numbers(images, texts)
        order = list(range(len(texts)))
        if len(order) > self.batch_size:
            order.sort(key=lambda i: len(texts[i]))
        return self._fuse(
            [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)],
            lambda part: self._features([images[i] for i in part]),
            lambda part: self._tokenized([texts[i] for i in part]),
        )

    @torch.inference_mode()
    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> Tensor:
        """Fuses images[i] with each text of texts[i] into tokens, float32 [N, 32, H] on the model's device, in order.

        Each image is encoded once, and texts of similar length share a forward pass, even if their images differ.

        Raises:
            ValueError: The numbers of images and of lists of texts differ.
        """
        _check_numbers(images, texts)
        shown = [image for image, own in zip(images, texts, strict=True) if own]
        if not shown:
            return self.encode([], [])
        parts = [shown[start : start + self.batch_size] for start in range(0, len(shown), self.batch_size)]
        features = torch.cat([self._features(part) for part in parts])  # first, see `_fuse`
        owners = torch.tensor([place for place, own in enumerate(filter(None, texts)) for _ in own])
        ids, mask = self._tokenized([text for own in texts for text in own])

        def tokens_of(part: list[int]) -> tuple[Tensor, Tensor]:
            used = mask[part].any(dim=0)  # drops padding that only longer texts need
            return ids[part][:, used], mask[part][:, used]

        lengths = [self.token_shape[0] + length for length in mask.sum(dim=1).tolist()]
        return self._fuse(
            by_length(lengths, self.batch_size * TOKENS_PER_PAIR),
            lambda part: features[self._sent(owners[part])],
            tokens_of,
        )

    def _features(self, images: Sequence[Image.Image]) -> Tensor:
        return (
            self.cache.rows("step2", images, self._computed_features) if self.cache else self._computed_features(images)
        )

    def _computed_features(self, images: Sequence[Image.Image]) -> Tensor:
        queries = self.query_tokens
        forward = self._graphed_features or self.vision_features
        return forward(self.pixels.to_device(images, queries.device, queries.dtype))

    def use_cuda_graphs(self) -> None:
        """Runs the image tower, and the Q-Former on short texts, as CUDA graphs captured at the first of each size."""
        self._graphed_features = graphed(self.vision_features)
        if self.query_tokens.is_cuda and self.max_text_tokens >= TEXT_TOKENS:
            self._graphed_tokens = graphed(self.fuse_tokens, PAIRS)

    def _fuse(
        self,
        parts: Sequence[list[int]],
        features_of: Callable[[list[int]], Tensor],
        tokens_of: Callable[[list[int]], tuple[Tensor, Tensor]],
    ) -> Tensor:
        """Fuses pairs, one part per forward pass; returns their tokens in the order of the pairs' numbers."""
        fused = [torch.empty(0, *self.token_shape, device=self.query_tokens.device)]
        for part in parts:
            features = features_of(part)  # first, so that a GPU works on it while the CPU tokenizes
            forward, (ids, mask) = self.fuse_tokens, tokens_of(part)
            if self._graphed_tokens and len(part) <= PAIRS[-1] and (more := TEXT_TOKENS - ids.shape[1]) >= 0:
                forward, ids, mask = self._graphed_tokens, *(functional.pad(one, (0, more)) for one in (ids, mask))
            fused.append(forward(features, self._sent(ids), self._sent(mask)).float())
        tokens = torch.cat(fused)
        order = [number for part in parts for number in part]
        if order != sorted(order):
            tokens = tokens[self._sent(torch.tensor(order).argsort())]
        return tokens

    def _sent(self, tensor: Tensor) -> Tensor:
        return to_device(tensor, self.query_tokens.device)


def _check_numbers(images: Sequence[Image.Image], texts: Sequence[object]) -> None:
    if len(images) != len(texts):
        raise ValueError(f"images and texts: their numbers must be equal, got {len(images)} and {len(texts)}")
