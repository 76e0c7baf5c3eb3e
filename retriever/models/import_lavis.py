"""Converts a `.pth` file of LAVIS, OMGM or EchoSight into the folder of a Q-Former encoder, with a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from retriever.models.checkpoints import read_checkpoint
from retriever.models.lavis import FROM_BASE, from_lavis, is_ignored, lavis_settings, lavis_sources
from retriever.models.pixels import PixelPreparation
from retriever.models.qformer import QFormerFusion
from retriever.models.qformer_folder import read_layout, write_folder
from retriever.models.tensor_names import check_weights, some
from retriever.models.weights import read_weights, without_memory

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Kind = Literal["lavis", "omgm", "echosight"]

TARGET_RATIO = 1.25
VISION_NORM_EPS = 1e-5
"""LAVIS's value; transformers' copies of BLIP-2 have 1e-6."""

TOWER_BLOCKS = 39
"""BLIP-2 leaves out the 40th and last block of EVA's ViT-g."""

NOTES: dict[Kind, str] = {
    "lavis": "BLIP-2 before any training for this task; a starting point for train-reranker",
    "omgm": "OMGM's scores need fusion.score_mode = compat, fusion.alpha = 0.9 and sections.beta = 0.2",
    "echosight": (
        "EchoSight scores projected tokens against a section's first token, which no score mode here does; "
        "use it as a starting point for train-reranker"
    ),
}
"""How to use the weights of each kind."""

_WORDS = "Qformer.bert.embeddings.word_embeddings.weight"


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of an import.

    Attributes:
        kind: The project that the file comes from.
        mapped: Number of tensors taken from the file, by part of the model.
        from_base: Number of tensors taken from the base, by part.
        ignored: Names in the file that are not needed, or that the caller asked to ignore.
        note: How to use the weights.
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
    ignore: Sequence[str] = (),
) -> ImportReport:
    """Converts `file` into the folder of a Q-Former encoder; weights keep their precision.

    Args:
        file: A PyTorch checkpoint; only tensors and plain values are unpickled.
        out: The folder to write.
        kind: The project that the file comes from; `auto` recognizes LAVIS files by their structure.
        base: Source of the tensors that the file lacks: the folder of a complete model (ours or
            `Salesforce/blip2-itm-vit-g`), or LAVIS's `eva_vit_g.pth` for the image tower, which its
            `blip2_pretrained.pth` does not contain.
        tokenizer: Folder of BERT's tokenizer; by default the base's.
        ignore: Patterns of tensor names in the file to ignore (`text_decoder.*`).

    Returns:
        What was taken from where, and what was ignored.

    Raises:
        ValueError: The file is not such a checkpoint, or a tensor is missing, unexpected or has the wrong shape.
    """
    state, wrappers = read_checkpoint(file)
    found = _tell_kind(file, state, wrappers) if kind == "auto" else kind
    layout = read_layout(base) if base is not None and base.is_dir() else None
    tower = _read_tower(base) if base is not None and layout is None else {}
    words = _tokenizer(tokenizer or (None if layout is None else base))
    try:
        settings = dict(lavis_settings({**tower, **state}) if layout is None else layout.settings)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    settings["vision_norm_eps"] = VISION_NORM_EPS
    if _WORDS in state:  # a base may have one more added word, and so one more row, than the file
        settings["qformer"] = {**settings["qformer"], "vocab_size": len(state[_WORDS])}
    pixels = _pixels(settings, found)
    empty = _empty_model(settings, words, pixels)
    _check_words(words, len(empty["embeddings.word_embeddings.weight"]))

    own = _mapped(empty, state)
    used = {part for name in own for part in lavis_sources(name)}
    unused = set(state) - used
    ignored = sorted(name for name in unused if is_ignored(name) or any(fnmatchcase(name, one) for one in ignore))
    if unexpected := unused - set(ignored):
        first = min(unexpected)
        raise ValueError(
            f"{file}: unexpected: {some(unexpected)}; if this is a BLIP-2 with ViT-g and a Q-Former that does not need "
            f"them, pass --ignore with each name or a pattern, such as --ignore '{first.partition('.')[0]}*'"
        )
    _check_shapes(file, own, empty)
    rest = {name: tensor for name, tensor in empty.items() if name not in own}
    if base is None or layout is None:
        added = _mapped(rest, tower)
        _check_shapes(base or file, added, empty)
    else:
        added = read_weights(base, rest, layout.stored_name, ignored=lambda name: True)  # the file has the others
    if missing := rest.keys() - added.keys():
        absent = {part for name in missing for part in lavis_sources(name)}
        raise ValueError(f"{file}: missing: {some(absent)}; {FROM_BASE}")
    write_folder(out, settings, own | added, words, pixels)
    return ImportReport(found, _parts(own), _parts(added), ignored, NOTES[found])


def _read_tower(file: Path) -> dict[str, Tensor]:
    """Reads the tensors of EVA's ViT-g, without those that BLIP-2 leaves out, under LAVIS's names.

    Raises:
        ValueError: The file is not such a checkpoint.
    """
    state, _ = read_checkpoint(file)
    if "pos_embed" not in state:
        raise ValueError(f"{file}: has no pos_embed; --base must be eva_vit_g.pth or the folder of a complete model")
    unused = (f"blocks.{TOWER_BLOCKS}.", "norm.", "fc_norm.", "head.")
    return {f"visual_encoder.{name}": tensor for name, tensor in state.items() if not name.startswith(unused)}


def _tell_kind(file: Path, state: Mapping[str, Tensor], wrappers: Sequence[str]) -> Kind:
    """Recognizes LAVIS's files by their structure: only LAVIS wraps the tensors in `{"model": ...}`.

    Raises:
        ValueError: The file is not from LAVIS; OMGM's and EchoSight's cannot be told apart.
    """
    if "model" in wrappers and "prompt_tokens" not in state:
        return "lavis"
    raise ValueError(f"{file}: OMGM's and EchoSight's files look alike; pass --kind omgm or --kind echosight")


def _tokenizer(folder: Path | None) -> PreTrainedTokenizerBase:
    if folder is None:
        raise ValueError("--tokenizer: pass the folder of bert-base-uncased's tokenizer; a checkpoint has none")
    from transformers import AutoTokenizer  # only here, because other commands do without

    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    if tokenizer.bos_token is None:
        tokenizer.add_special_tokens({"bos_token": "[DEC]"})  # BLIP-2 adds this token, so the weights have a row for it
    return tokenizer


def _check_words(tokenizer: PreTrainedTokenizerBase, rows: int) -> None:
    """Checks that every row of the word embeddings has a word; added words without a row are read as unknown.

    Raises:
        ValueError: A row has no word, or a word of the original vocabulary has no row.
    """
    added = set(tokenizer.get_added_vocab().values())
    ids = set(tokenizer.get_vocab().values())
    if not set(range(rows)) <= ids or {one for one in ids - added if one >= rows}:
        raise ValueError(f"tokenizer: has {len(tokenizer)} words, the model {rows}; is it bert-base-uncased?")


def _pixels(settings: Mapping[str, Any], kind: Kind) -> PixelPreparation:
    """Returns the image preparation used in training: LAVIS squashes images, OMGM and EchoSight pad and crop."""
    size = settings["vision"]["config"].get("image_size", 224)
    if kind == "lavis":
        return PixelPreparation(size, exact=True)
    return PixelPreparation(size, crop=True, target_ratio=TARGET_RATIO)


def _empty_model(
    settings: dict[str, Any], tokenizer: PreTrainedTokenizerBase, pixels: PixelPreparation
) -> dict[str, Tensor]:
    """Returns the model's tensors by name, on the meta device: shapes without memory."""
    if settings["vision"]["kind"] != "blip2":
        raise ValueError("--base: its image tower is not BLIP-2's ViT-g, which the checkpoint needs")
    with without_memory():
        return dict(QFormerFusion(settings, tokenizer, pixels).state_dict())


def _mapped(names: Iterable[str], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Builds those of our tensors `names` whose sources are in a LAVIS checkpoint."""
    sources = {name: lavis_sources(name) for name in names}
    return {name: from_lavis(parts, state) for name, parts in sources.items() if all(part in state for part in parts)}


def _check_shapes(file: Path, tensors: Mapping[str, Tensor], empty: Mapping[str, Tensor]) -> None:
    """Raises ValueError if a tensor has not the shape that the model asks for."""
    expected = {name: empty[name].shape for name in tensors}
    check_weights(file, expected, {name: tensor.shape for name, tensor in tensors.items()})


def _parts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(name.partition(".")[0] for name in names).items()))
