"""A `.pth` file of LAVIS, OMGM or EchoSight into a fusion encoder's folder, with a report of what went where."""

from __future__ import annotations

import pickle
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from retriever.models.lavis import FROM_BASE, from_lavis, is_ignored, lavis_settings, lavis_sources
from retriever.models.pixels import PixelPreparation
from retriever.models.qformer import QFormerFusion
from retriever.models.qformer_folder import Layout, read_layout, write_folder
from retriever.models.weights import check_shapes, read_weights, some, stored_names

Kind = Literal["lavis", "omgm", "echosight"]

TARGET_RATIO = 1.25
VISION_NORM_EPS = 1e-5
"""LAVIS's; transformers' copies of BLIP-2 have 1e-6."""

TOWER_BLOCKS = 39
"""BLIP-2 takes the tokens before EVA's 40th and last block."""

NOTES: dict[Kind, str] = {
    "lavis": "BLIP-2 before any training for this task; train-reranker goes on from it",
    "omgm": "OMGM's scores are those of fusion.score_mode = compat, fusion.alpha = 0.9 and sections.beta = 0.2",
    "echosight": (
        "EchoSight scores projected tokens against a section's first token, which no score mode here does; "
        "take this as a start for train-reranker"
    ),
}
"""What to know before using the weights of each kind."""


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did.

    Attributes:
        kind: Whose file it is.
        mapped: Tensors taken from the file, by part of the model.
        from_base: Tensors taken from the base, by part.
        ignored: Names in the file that are known and not needed.
        note: What to know before using it.
    """

    kind: Kind
    mapped: dict[str, int]
    from_base: dict[str, int]
    ignored: list[str]
    note: str


def import_reranker(
    file: Path,
    out: Path,
    kind: Kind | Literal["auto"] = "auto",
    base: Path | None = None,
    tokenizer: Path | None = None,
) -> ImportReport:
    """Returns the report of writing `file` as a fusion encoder's folder, weights in the precision that they have.

    Args:
        file: A checkpoint of PyTorch; nothing but tensors and plain values is unpickled.
        out: The folder to write.
        kind: Whose file it is; `auto` tells LAVIS's from the others by their form.
        base: For what the file lacks: folder of a whole model (ours or `Salesforce/blip2-itm-vit-g`), or LAVIS's
            `eva_vit_g.pth` for the image tower, which its `blip2_pretrained.pth` does not hold.
        tokenizer: Folder of BERT's tokenizer; left out, that of the base's folder.

    Raises:
        ValueError: The file is no such checkpoint, or something needed is missing, unexpected or of a wrong shape.
    """
    state, wrapped = read_checkpoint(file)
    found = tell_kind(file, state, wrapped) if kind == "auto" else kind
    layout = read_layout(base) if base is not None and base.is_dir() else None
    tower = read_tower(base) if base is not None and layout is None else {}
    words = _tokenizer(tokenizer or (None if layout is None else base))
    try:
        settings = dict(lavis_settings({**tower, **state}) if layout is None else layout.settings)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    settings["vision_norm_eps"] = VISION_NORM_EPS
    pixels = _pixels(settings, found)
    empty = _empty_model(settings, words, pixels)
    if len(words) != (rows := len(empty["embeddings.word_embeddings.weight"])):
        raise ValueError(f"tokenizer: has {len(words)} words, the model {rows}; is it bert-base-uncased?")

    own = _mapped(empty, state)
    used = {part for name in own for part in lavis_sources(name)}
    ignored = sorted(name for name in state if name not in used and is_ignored(name))
    if unexpected := set(state) - used - set(ignored):
        raise ValueError(f"{file}: unexpected: {some(unexpected)}; is it a BLIP-2 with ViT-g and a Q-Former?")
    check_shapes(file, own, empty)
    missing = set(empty) - set(own)
    added = _mapped(missing, tower) if base is None or layout is None else _from_folder(base, layout, missing)
    check_shapes(base or file, added, empty)
    if missing := missing - set(added):
        absent = {part for name in missing for part in lavis_sources(name)}
        raise ValueError(f"{file}: missing: {some(absent)}; {FROM_BASE}")
    write_folder(out, settings, own | added, words, pixels)
    return ImportReport(found, _parts(own), _parts(added), ignored, NOTES[found])


def read_checkpoint(file: Path) -> tuple[dict[str, Tensor], bool]:
    """Returns the tensors of a checkpoint by name, and whether they were wrapped in `{"model": ...}`, as LAVIS does.

    Raises:
        ValueError: It cannot be read, holds other objects than tensors and plain values, or no tensors by name.
    """
    try:
        state: Any = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{file}: cannot be read as a checkpoint of tensors alone: {reason}") from error
    wrapped = isinstance(state, dict) and isinstance(state.get("model"), dict)
    state = state["model"] if wrapped else state
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(
            f"{file}: expected names with a tensor each, maybe in 'model'; is it an optimizer's checkpoint?"
        )
    return {name.removeprefix("module."): tensor for name, tensor in state.items()}, wrapped


def read_tower(file: Path) -> dict[str, Tensor]:
    """Returns the tensors of EVA's ViT-g as LAVIS names them in a whole model; its last block is not used by BLIP-2.

    Raises:
        ValueError: The file is no such checkpoint.
    """
    state, _ = read_checkpoint(file)
    if "pos_embed" not in state:
        raise ValueError(f"{file}: holds no pos_embed; as a base, eva_vit_g.pth or the folder of a whole model is due")
    unused = (f"blocks.{TOWER_BLOCKS}.", "norm.", "fc_norm.", "head.")
    return {f"visual_encoder.{name}": tensor for name, tensor in state.items() if not name.startswith(unused)}


def tell_kind(file: Path, state: Mapping[str, Tensor], wrapped: bool) -> Kind:
    """Returns whose file it is.

    Raises:
        ValueError: That cannot be told: OMGM and EchoSight save the same names.
    """
    if wrapped and "prompt_tokens" not in state:
        return "lavis"
    raise ValueError(f"{file}: OMGM's and EchoSight's files look alike; pass --kind omgm or --kind echosight")


def _tokenizer(folder: Path | None) -> PreTrainedTokenizerBase:
    if folder is None:
        raise ValueError("--tokenizer: pass the folder of bert-base-uncased's tokenizer; checkpoints have none")
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    if tokenizer.bos_token is None:
        tokenizer.add_special_tokens({"bos_token": "[DEC]"})  # BLIP-2 adds it, so there is a row of weights for it
    return tokenizer


def _pixels(settings: Mapping[str, Any], kind: Kind) -> PixelPreparation:
    """Returns how pictures were prepared: LAVIS squashes them, OMGM and EchoSight pad to a ratio and cut."""
    size = settings["vision"]["config"].get("image_size", 224)
    if kind == "lavis":
        return PixelPreparation(size, exact=True)
    return PixelPreparation(size, crop=True, target_ratio=TARGET_RATIO)


def _empty_model(
    settings: dict[str, Any], tokenizer: PreTrainedTokenizerBase, pixels: PixelPreparation
) -> dict[str, Tensor]:
    """Returns the model's tensors by name, with shapes and without memory."""
    layout = Layout(settings)
    if settings["vision"]["kind"] != "blip2":
        raise ValueError("--base: its image tower is not BLIP-2's, so no such checkpoint fits it")
    with torch.device("meta"):
        model = QFormerFusion(
            layout.vision(),
            settings["vision"],
            layout.qformer(),
            settings["queries"],
            tokenizer,
            pixels,
            settings["max_text_tokens"],
        )
    return dict(model.state_dict())


def _mapped(names: Iterable[str], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns those of our tensors that a LAVIS checkpoint has."""
    sources = {name: lavis_sources(name) for name in names}
    return {name: from_lavis(parts, state) for name, parts in sources.items() if all(part in state for part in parts)}


def _from_folder(folder: Path, layout: Layout, names: set[str]) -> dict[str, Tensor]:
    wanted = {name: layout.stored_name(name) for name in names}
    others = set(stored_names(folder)) - set(wanted.values())
    return read_weights(folder, wanted, ignored=others.__contains__)


def _parts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(name.partition(".")[0] for name in names).items()))
