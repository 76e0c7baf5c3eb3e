"""LAVIS and our code compute the same tokens from the same weights, images and texts, in both directions.

The stored run of `oracle.py` is compared, or a new one if LAVIS_RUN names its folder (`make test-lavis`).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from retriever.models.import_lavis import import_reranker
from retriever.models.pixels import PixelPreparation
from retriever.models.qformer import QFormerFusion
from retriever.texts import blip_caption
from tests.lavis.oracle_inputs import sample_image
from tests.lavis.ours import export_lavis, tiny_model, tiny_tokenizer
from tests.paths import GOLDEN_FILES

RUN = Path(os.environ["LAVIS_RUN"]) if "LAVIS_RUN" in os.environ else None
GOLDEN = GOLDEN_FILES / "qformer.safetensors" if RUN is None else RUN / "qformer.safetensors"
TENSORS = load_file(GOLDEN)
with safe_open(GOLDEN, "pt") as _file:
    FACTS = {key: json.loads(value) for key, value in _file.metadata().items()}
HEADS = ("Qformer.cls.", "vision_proj.", "text_proj.", "itm_head.", "temp")
STATE = {name.removeprefix("state."): t for name, t in TENSORS.items() if name.startswith("state.")}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> QFormerFusion:
    folder = tmp_path_factory.mktemp("lavis")
    tokenizer = tiny_tokenizer(FACTS["words"], folder / "words")
    tiny_model(tokenizer).save(folder / "base")  # for the number of heads; all its weights are replaced
    torch.save({"model": STATE}, folder / "lavis.pth")
    report = import_reranker(folder / "lavis.pth", folder / "out", "omgm", folder / "base")
    assert report.from_base == {}
    return QFormerFusion.load(folder / "out", batch_size=4)


def tokens(model: QFormerFusion, ids: Tensor, mask: Tensor) -> Tensor:
    with torch.inference_mode():
        return model.fuse_tokens(model.vision_features(TENSORS["input.pixels"]), ids, mask)


def test_the_image_tower_gives_the_same(imported: QFormerFusion) -> None:
    with torch.inference_mode():
        features = imported.vision_features(TENSORS["input.pixels"])
    torch.testing.assert_close(features, TENSORS["output.features"], atol=1e-5, rtol=1e-5)


def test_imported_weights_give_the_same_tokens(imported: QFormerFusion) -> None:
    found = tokens(imported, TENSORS["input.ids"], TENSORS["input.mask"])
    assert found.shape == (len(FACTS["texts"]), 32, 24)
    torch.testing.assert_close(found, TENSORS["output.tokens"], atol=1e-4, rtol=0)


def test_padding_to_the_longest_instead_of_the_limit_changes_nothing(imported: QFormerFusion) -> None:
    rows = [0, 1, 4]
    ids, mask = TENSORS["input.ids"][rows], TENSORS["input.mask"][rows]
    longest = int(mask.sum(1).max())
    assert longest < ids.shape[1]
    with torch.inference_mode():
        features = imported.vision_features(TENSORS["input.pixels"][rows])
        found = imported.fuse_tokens(features, ids[:, :longest], mask[:, :longest])
    torch.testing.assert_close(found, TENSORS["output.tokens"][rows], atol=1e-4, rtol=0)


def test_images_and_texts_go_the_whole_way(imported: QFormerFusion) -> None:
    images = [sample_image(*size) for size in FACTS["sizes"]]
    found = imported.encode(images, [blip_caption(text) for text in FACTS["texts"]])
    torch.testing.assert_close(found, TENSORS["output.tokens"], atol=1e-4, rtol=0)


def test_captions_are_cleaned_as_by_lavis() -> None:
    assert [blip_caption(text) for text in FACTS["texts"]] == FACTS["captions"]


def test_texts_are_cut_into_the_same_tokens(imported: QFormerFusion) -> None:
    ids, mask = imported.tokenize(FACTS["captions"])
    assert torch.equal(ids, TENSORS["input.ids"])
    assert torch.equal(mask, TENSORS["input.mask"])


def test_images_are_prepared_as_by_lavis_and_omgm() -> None:
    images = [sample_image(*size) for size in FACTS["sizes"]]
    squashed = PixelPreparation(16, exact=True)(images)
    padded = PixelPreparation(16, crop=True, target_ratio=1.25)(images)
    torch.testing.assert_close(squashed, TENSORS["input.squashed"], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(padded, TENSORS["input.pixels"], atol=1e-6, rtol=1e-6)


def test_exported_again_is_what_was_imported(imported: QFormerFusion) -> None:
    exported = export_lavis(imported)
    expected = {name: tensor for name, tensor in STATE.items() if not name.startswith(HEADS)}
    assert exported.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(exported[name], tensor), name


@pytest.mark.skipif(RUN is None, reason="LAVIS has to run what we export: make test-lavis")
def test_lavis_gives_our_tokens_with_weights_that_we_exported(tmp_path: Path) -> None:
    assert RUN is not None
    theirs = load_file(RUN / "theirs.safetensors")["tokens"]
    names = json.loads((RUN / "theirs.json").read_text())
    assert names["unexpected"] == []
    assert all(name.startswith(HEADS) for name in names["missing"])
    model = tiny_model(tiny_tokenizer(FACTS["words"], tmp_path))
    found = tokens(model, TENSORS["input.ids"], TENSORS["input.mask"])
    torch.testing.assert_close(found, theirs, atol=1e-4, rtol=0)
