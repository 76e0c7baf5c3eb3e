"""Step 1's dual encoder: any CLIP or SigLIP of transformers, EVA-CLIP, or any model of open_clip, by its folder."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional
from transformers import AutoModel, AutoTokenizer, CLIPTokenizer

from retriever.files import apply_umask
from retriever.models import small_clip  # noqa: F401  registers the embedded profile's model type
from retriever.models.eva_weights import load_eva_clip
from retriever.models.graphs import Forward, graphed
from retriever.models.pixels import CONFIG_NAME as PIXELS_NAME
from retriever.models.pixels import PixelPreparation

LongTexts = Literal["cut", "windows"]
"""What becomes of a text that is longer than the model reads: only its beginning counts, or all of it in pieces."""

_BLOB = re.compile("[0-9a-f]{64}")
_FIXED_LENGTH = {"siglip"}
"""Model types that were trained on texts padded to full length, the padding being read like any other token."""
_UNSUITABLE = {"siglip2": "it takes pictures of any shape in patches; take a SigLIP 2 of one fixed size"}


def folder_fingerprint(folder: Path) -> str:
    """Returns a hash of a model folder's weights, tokenizer and settings (16 hex digits).

    Raises:
        ValueError: The folder holds no safetensors file.
    """
    files = sorted(p for pattern in ("*.safetensors", "*.json") for p in folder.glob(pattern))
    if not any(p.suffix == ".safetensors" for p in files):
        raise ValueError(f"{folder}: holds no .safetensors file; is it a model folder?")
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode())
        digest.update(_sha256(path))
    return digest.hexdigest()[:16]


def encoder_fingerprint(folder: Path, long_texts: LongTexts = "cut") -> str:
    """Returns `folder_fingerprint`, marked where long texts are not cut: those vectors are others.

    Raises:
        ValueError: The folder holds no safetensors file.
    """
    return folder_fingerprint(folder) + ("" if long_texts == "cut" else f"-{long_texts}")


def _sha256(path: Path) -> bytes:
    if path.is_symlink() and _BLOB.fullmatch(path.resolve().name):
        return bytes.fromhex(path.resolve().name)  # the hub's cache names big files by their hash
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


class ClipEncoder:
    """Image and text vectors from a CLIP-type model (fulfills `retriever.protocols.DualEncoder`).

    Args:
        model: Has `get_image_features(pixel_values)`, `get_text_features(input_ids, attention_mask)`, `device`,
            `dtype` and `config`.
        tokenizer: The model's: of transformers, or called as such and with its own way to `windows`.
        pixels: How pictures are prepared.
        max_tokens: Longest text.
        fingerprint: Hash of all of it.
        batch_size: Items a forward pass.
        long_texts: "cut" drops what is beyond `max_tokens`; "windows" splits a text into pieces of that length and
            takes the mean of their vectors, each weighed by its tokens.
        fixed_length: Pad every text to `max_tokens` and tell the model nothing of the padding, as SigLIP needs it.
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
    ):
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.pixels = pixels
        self.max_tokens = max_tokens
        self.fingerprint = fingerprint
        self.batch_size = batch_size
        self.long_texts = long_texts
        self.fixed_length = fixed_length
        self._image_vectors: Forward = lambda pixels: _unit(self.model.get_image_features(pixels))

    @classmethod
    def load(
        cls,
        folder: Path,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        batch_size: int = 64,
        long_texts: LongTexts = "cut",
    ) -> ClipEncoder:
        """Returns the encoder kept in `folder`; what kind of model it is shows in the folder's files.

        Raises:
            ValueError: The folder or one of its files is missing, or its model is of no kind that is known.
        """
        path = folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        fingerprint = encoder_fingerprint(folder, long_texts)
        model: Any
        if _is_eva_clip(config):
            model = load_eva_clip(folder, device, dtype)
            # Where the published folder says nothing, its documentation names CLIP's preparation.
            given = (folder / PIXELS_NAME).is_file()
            pixels = PixelPreparation.load(folder) if given else PixelPreparation(model.config.image_size, crop=True)
            tokenizer = _tokenizer(folder, CLIPTokenizer)
            return cls(model, tokenizer, pixels, model.config.context_length, fingerprint, batch_size, long_texts)
        kind = config.get("model_type")
        if kind is None and (folder / "open_clip_config.json").is_file():
            from retriever.models.open_clip import load_open_clip

            model, tokenizer, pixels, max_tokens = load_open_clip(folder, device, dtype)
            return cls(model, tokenizer, pixels, max_tokens, fingerprint, batch_size, long_texts, fixed_length=True)
        if kind is None:
            raise ValueError(f"{folder}: has neither a config.json with a model_type nor an open_clip_config.json")
        if kind in _UNSUITABLE:
            raise ValueError(f"{path}: model_type: {kind}: {_UNSUITABLE[kind]}")
        model = AutoModel.from_pretrained(folder, dtype=dtype, use_safetensors=True, trust_remote_code=False)
        if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
            raise ValueError(f"{path}: model_type: {kind}: has no vectors of pictures and texts in one space")
        text_config = getattr(model.config, "text_config", None)
        max_tokens = getattr(text_config, "max_position_embeddings", None) or model.config.max_text_tokens
        return cls(
            model.to(device),
            _tokenizer(folder, AutoTokenizer),
            PixelPreparation.load(folder),
            max_tokens,
            fingerprint,
            batch_size,
            long_texts,
            fixed_length=kind in _FIXED_LENGTH,
        )

    def save(self, folder: Path, dtype: torch.dtype = torch.float32) -> None:
        """Writes the folder that `load` reads, with weights of `dtype`.

        Raises:
            ValueError: The model is not one of transformers'.
        """
        if not hasattr(self.model, "save_pretrained"):
            raise ValueError(f"{folder}: only models of transformers are saved, not {type(self.model).__name__}")
        state = self.model.state_dict()
        weights = {key: (v.to(dtype) if v.is_floating_point() else v).contiguous() for key, v in state.items()}
        self.model.save_pretrained(folder, state_dict=weights)
        for file in folder.glob("*.safetensors"):
            apply_umask(file)
        self.tokenizer.save_pretrained(folder)
        self.pixels.save(folder)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        config = self.model.config
        return int(getattr(config, "projection_dim", None) or config.text_config.projection_size)

    def tokenize(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """Returns `input_ids` and `attention_mask`, int64 [N, T], padded to the longest and cut at `max_tokens`."""
        return self._padded(self._pieces(texts, "cut")[0])

    @torch.inference_mode()
    def encode_images(self, images: Sequence[Image.Image]) -> Tensor:
        """Returns L2-normalized vectors, float32 [N, dimension], on the model's device."""
        parts = [torch.empty(0, self.dimension, device=self.model.device)]
        for start in range(0, len(images), self.batch_size):
            # A GPU is still busy with one batch while the next is decoded here.
            part = images[start : start + self.batch_size]
            parts.append(self._image_vectors(self.pixels.to_device(part, self.model.device, self.model.dtype)))
        return torch.cat(parts)

    def use_cuda_graphs(self) -> None:
        """Replays the image tower as CUDA graphs, captured at the first batch of each size."""
        self._image_vectors = graphed(self._image_vectors)

    @torch.inference_mode()
    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Returns L2-normalized vectors, float32 [N, dimension], on the model's device."""
        pieces, counts = self._pieces(texts, self.long_texts)
        vectors = torch.empty(len(pieces), self.dimension, device=self.model.device)
        # Texts of like length share a batch, so that little is spent on padding.
        order = sorted(range(len(pieces)), key=lambda i: len(pieces[i]))
        for start in range(0, len(order), self.batch_size):
            part = order[start : start + self.batch_size]
            vectors[part] = _unit(self.model.get_text_features(**self._padded([pieces[i] for i in part])))
        if len(pieces) == len(texts):
            return vectors
        weights = torch.tensor([[len(piece)] for piece in pieces], dtype=vectors.dtype, device=vectors.device)
        return _unit(torch.stack([of_text.sum(0) for of_text in (vectors * weights).split(counts)]))

    def _pieces(self, texts: Sequence[str], long_texts: LongTexts) -> tuple[list[list[int]], list[int]]:
        """Returns token ids, at most `max_tokens` each, and how many such pieces each text has, at least one."""
        if not texts:
            return [], []
        if long_texts == "windows":
            windows = _windows(self.tokenizer, texts, self.max_tokens)
            return [piece for pieces in windows for piece in pieces], [len(pieces) for pieces in windows]
        encoded = self.tokenizer(list(texts), truncation=True, max_length=self.max_tokens)
        return encoded["input_ids"], [1] * len(texts)

    def _padded(self, rows: list[list[int]]) -> dict[str, Tensor]:
        length = self.max_tokens if self.fixed_length else max(map(len, rows), default=0)
        padding = self.tokenizer.pad_token_id
        padded = torch.tensor([row + [padding] * (length - len(row)) for row in rows], dtype=torch.int64)
        ids = padded.view(len(rows), length).to(self.model.device)
        if self.fixed_length:
            return {"input_ids": ids}
        lengths = torch.tensor([len(row) for row in rows]).view(-1, 1)
        mask = (torch.arange(length) < lengths).to(torch.int64)
        return {"input_ids": ids, "attention_mask": mask.to(self.model.device)}


def _unit(features: Any) -> Tensor:
    # transformers 5 wraps the vectors of its own CLIP models in an output object.
    return functional.normalize(getattr(features, "pooler_output", features).float(), dim=-1)


def _windows(tokenizer: Any, texts: Sequence[str], max_tokens: int) -> list[list[list[int]]]:
    """Returns, per text, the token ids of all its pieces, each with the special tokens of a whole text."""
    if hasattr(tokenizer, "windows"):
        return [tokenizer.windows(text, max_tokens) for text in texts]
    before, after = _frame(tokenizer)
    room = max_tokens - len(before) - len(after)
    # Cut here: what tokenizers call overflow takes memory with the square of a text's length.
    return [
        [before + ids[start : start + room] + after for start in range(0, max(len(ids), 1), room)]
        for ids in tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    ]


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Returns the special tokens that stand before a text and behind it."""
    inner: list[int] = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole: list[int] = tokenizer("a")["input_ids"]
    at = next(start for start in range(len(whole)) if whole[start : start + len(inner)] == inner)
    return whole[:at], whole[at + len(inner) :]


def _is_eva_clip(config: dict[str, Any]) -> bool:
    """Returns whether a `config.json` is EVA-CLIP's: of its own repository, or of the hub, which calls it a CLIP."""
    named = [config.get("model_type"), *(config.get("architectures") or []), *(config.get("auto_map") or {}).values()]
    return "vision_cfg" in config or any("evaclip" in str(name).lower().replace("_", "") for name in named)


def _tokenizer(folder: Path, kind: Any) -> Any:
    if not any(
        (folder / name).is_file() for name in ("tokenizer.json", "vocab.json", "spiece.model", "tokenizer.model")
    ):
        raise ValueError(f"{folder}: holds no tokenizer; put the files of the model's tokenizer there (tokenizer.json)")
    try:
        return kind.from_pretrained(folder)
    except ImportError as error:
        advice = "for sentencepiece or protobuf, pip install 'omgm[sentencepiece]'"
        raise ValueError(f"{folder}: its tokenizer needs a package that is not installed; {advice}: {error}") from error
