"""A checkpoint in EVA's published format becomes a folder that step 1 loads, with the published code's vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from omgm.__main__ import main
from retriever.models.encoder import ClipEncoder
from retriever.models.pixels import PixelPreparation
from tests.retriever.models.test_encoder import clip_tokenizer
from tests.retriever.models.test_eva_clip import assert_same, golden


def published(folder: Path, settings: dict[str, Any], state: dict[str, Tensor]) -> tuple[Path, Path]:
    """Writes checkpoint and configuration as in EVA's repository."""
    folder.mkdir()
    torch.save({"module": state}, folder / "EVA_CLIP.pt")
    (folder / "EVA-CLIP.json").write_text(json.dumps(settings))
    return folder / "EVA_CLIP.pt", folder / "EVA-CLIP.json"


def imported(folder: Path, file: Path, config: Path, *options: object) -> int:
    return main(["import", "encoder", str(file), "--config", str(config), "--out", str(folder), *map(str, options)])


def with_tokenizer(settings: dict[str, Any], state: dict[str, Tensor]) -> int:
    """Resizes the model's vocabulary to that of the tests' tokenizer; returns its size."""
    count = len(clip_tokenizer())
    words = state["text.token_embedding.weight"]
    state["text.token_embedding.weight"] = words.repeat(-(-count // len(words)), 1)[:count].contiguous()
    settings["text_cfg"]["vocab_size"] = count
    return count


@pytest.mark.parametrize("case", ["8b", "18b"])
def test_the_folder_gives_the_published_vectors(tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    settings, state, found = golden(case)
    with_tokenizer(settings, state)
    assert imported(tmp_path / "out", *published(tmp_path / "eva", settings, state), "--json") == 0
    said = json.loads(capsys.readouterr().out)
    # It has query and value biases but no key bias, which is zero in ours.
    assert said["parameters"] >= sum(t.numel() for name, t in state.items() if name != "logit_scale")
    words = clip_tokenizer()
    words.save_pretrained(tmp_path / "out")  # by hand, as the command says
    encoder = ClipEncoder.load(tmp_path / "out")
    assert_same(encoder.model, found)
    assert encoder.pixels == PixelPreparation(settings["vision_cfg"]["image_size"], crop=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["eva", "out"]


def test_the_tokenizer_is_taken_along(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, state, _ = golden("8b")
    with_tokenizer(settings, state)
    clip_tokenizer().save_pretrained(tmp_path / "words")
    file, config = published(tmp_path / "eva", settings, state)
    assert imported(tmp_path / "out", file, config, "--tokenizer", tmp_path / "words") == 0
    assert f"--set encoder.model={tmp_path / 'out'}" in capsys.readouterr().out
    encoder = ClipEncoder.load(tmp_path / "out")
    texts = ["the red flag", "a"]
    assert encoder.tokenizer(texts)["input_ids"] == clip_tokenizer()(texts)["input_ids"]
    assert encoder.encode_texts(texts).shape == (2, settings["embed_dim"])


def test_what_does_not_fit_is_refused_and_nothing_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, state, _ = golden("8b")
    file, config = published(tmp_path / "eva", settings, state)
    clip_tokenizer().save_pretrained(tmp_path / "words")
    assert imported(tmp_path / "out", file, config, "--tokenizer", tmp_path / "words") == 2
    assert "is it CLIP's tokenizer?" in capsys.readouterr().err

    lacking = {name: tensor for name, tensor in state.items() if name != "visual.norm.weight"}
    assert imported(tmp_path / "out", *published(tmp_path / "lacking", settings, lacking)) == 2
    assert "missing: visual.norm.weight" in capsys.readouterr().err

    wrong = state | {"visual.pos_embed": torch.zeros(1, 17, 16)}
    assert imported(tmp_path / "out", *published(tmp_path / "wrong", settings, wrong)) == 2
    assert "visual.pos_embed: expected" in capsys.readouterr().err

    (tmp_path / "hub.json").write_text(json.dumps({"vision_config": {}, "text_config": {}}))
    assert imported(tmp_path / "out", file, tmp_path / "hub.json") == 2
    assert "hub.json: not a configuration of EVA's repository: KeyError('vision_cfg')" in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))

    (tmp_path / "out").mkdir()
    assert imported(tmp_path / "out", file, config) == 2
    assert "--out: " in capsys.readouterr().err
