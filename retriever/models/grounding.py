"""Grounding DINO: detects objects described by words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import torch
from PIL import Image
from torch import Tensor

from retriever.gpu import to_device
from retriever.models.pretrained import check_words, load_pretrained


def load_grounding(
    folder: Path,
    labels: Sequence[str],
    *,
    box_threshold: float = 0.4,
    text_threshold: float = 0.3,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Callable[[Image.Image], list[list[float]]]:
    """Loads the model; returns a function from an image to boxes in pixels, best first: x1, y1, x2, y2.

    Args:
        folder: The model's folder, as published for transformers.
        labels: Kinds of objects, such as "flag".
        box_threshold: Lowest score of a box.
        text_threshold: Lowest score of a word of its label.
        device: The device to run on.
        dtype: Type of the weights.

    Raises:
        ValueError: The folder has no such model.
    """
    from transformers import AutoModelForZeroShotObjectDetection, AutoProcessor

    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder}: has no config.json; use the folder of a Grounding DINO model for transformers")
    model = load_pretrained(AutoModelForZeroShotObjectDetection, folder, dtype).to(device)
    processor = AutoProcessor.from_pretrained(folder, trust_remote_code=False)
    check_words(folder, processor.tokenizer, model.config.text_config.vocab_size)
    text = " ".join(f"{label.strip().lower().rstrip('.')}." for label in labels)

    def detect(image: Image.Image) -> list[list[float]]:
        given = processor(images=image.convert("RGB"), text=text, return_tensors="pt")
        inputs = {name: to_device(tensor, model.device) for name, tensor in given.items()}
        with torch.inference_mode():
            found = model(**inputs | {"pixel_values": inputs["pixel_values"].to(dtype)})
            # On the CPU, since what follows reads the scores of each box.
            logits, boxes = _on_cpu(found.logits, found.pred_boxes)
        [result] = processor.post_process_grounded_object_detection(
            SimpleNamespace(logits=logits, pred_boxes=boxes),
            given["input_ids"],
            threshold=box_threshold,
            text_threshold=text_threshold,
            target_sizes=[(image.height, image.width)],
        )
        order = torch.argsort(result["scores"], descending=True, stable=True)
        corners: list[list[float]] = result["boxes"][order].tolist()
        return corners

    return detect


def _on_cpu(*tensors: Tensor) -> Sequence[Tensor]:
    """Copies tensors [..., any length] to the CPU as float32 in a single transfer."""
    joined = torch.cat([tensor.float() for tensor in tensors], dim=-1).cpu()
    return torch.split(joined, [tensor.shape[-1] for tensor in tensors], dim=-1)
