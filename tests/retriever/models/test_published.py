"""Models on the loopback hub: saving, publishing, loading by name, and their cards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from PIL import Image

from omgm.downloads.hub import hub_model, local_folder
from omgm.downloads.weights import fetch, make_plan
from retriever.card import MARKER
from retriever.models.encoder import ClipEncoder
from retriever.models.folder import RECORD_NAME, folder_fingerprint, kind_of, stored_dtype
from retriever.models.published import Published, push_model
from retriever.models.qformer import QFormerFusion
from tests.examples import python_blocks
from tests.fakes.hub import UPLOADS_WARN, FakeHub, logged_in_hub
from tests.fakes.training_world import write_training_world
from tests.paths import ROOT

pytestmark = pytest.mark.filterwarnings(UPLOADS_WARN)

EMBEDDED = ROOT / "weights" / "embedded"
IMAGES = [Image.new("RGB", (40, 30), "red"), Image.new("RGB", (30, 40), "blue")]
TEXTS = ["what is the capital?", "the river of it"]
RECORD: dict[str, Any] = {
    "kind": "encoder",
    "base": "openai/clip-vit-large-patch14@0123abc",
    "recipe": "clip",
    "data": {"knowledge base": "kb|wiki <b>.json", "questions": 191000, "datasets": ["org/e-vqa", "not an id"]},
    "settings": {"learning rate": 1e-05, "freeze": True, "steps": 20000},
    "metrics": {"recall@1": 0.93125, "recall@20": 1},
    "commit": "6c1e69f",
    "surprise": {"nested": [1]},
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with logged_in_hub(tmp_path / "cache", monkeypatch) as hub:
        yield hub


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two small untrained models, `clip` and `fusion`."""
    return write_training_world(tmp_path_factory.mktemp("world")).folder


def outputs(model: Published) -> list[torch.Tensor]:
    if isinstance(model, ClipEncoder):
        return [model.encode_images(IMAGES), model.encode_texts(TEXTS)]
    assert isinstance(model, QFormerFusion)
    return [model.encode(IMAGES, TEXTS)]


def front_matter(card: str) -> dict[str, Any]:
    data: Any = ModelCard(card).data
    return dict(data.to_dict())


@pytest.mark.parametrize(("kind", "name"), [(ClipEncoder, "clip"), (QFormerFusion, "fusion")])
def test_push_and_load(kind: type[Published], name: str, models: Path, hub: FakeHub) -> None:
    model = kind.load(models / name)
    expected = outputs(model)  # first, because using a tokenizer changes how it is saved
    pinned = model.push_to_hub("org/model")
    repo, _, commit = pinned.partition("@")
    assert repo == "org/model" and list(hub.commits["org/model"]) == [commit]
    assert [path for method, path, _ in hub.log if method == "PUT"] == [f"/lfs/{sha}" for sha in hub.objects]
    assert {*hub.repos["org/model"]} == {
        *(".gitattributes", "README.md", "config.json", "preprocessor_config.json"),
        *("tokenizer.json", "tokenizer_config.json", "model.safetensors"),
    }
    loaded = kind.from_pretrained("org/model")
    assert loaded.fingerprint == model.fingerprint
    assert all(torch.equal(a, b) for a, b in zip(outputs(loaded), expected, strict=True))
    # The same files by the other ways to them, the second one offline.
    assert kind.from_pretrained(pinned).folder == loaded.folder == fetch(make_plan(hub_model(pinned)))
    assert local_folder(pinned) == loaded.folder


def test_embedded_weights_keep_their_fingerprint(tmp_path: Path) -> None:
    """Loaded as float32, stored as float16: an index built with the original must accept the saved model."""
    for kind, name in ((ClipEncoder, "encoder"), (QFormerFusion, "fusion")):
        shutil.copytree(EMBEDDED / name, tmp_path / name)
        (tmp_path / name / RECORD_NAME).write_text(json.dumps(RECORD))
        assert folder_fingerprint(tmp_path / name) == folder_fingerprint(EMBEDDED / name)
        model: Published = kind.load(tmp_path / name)
        model.save_pretrained(tmp_path / "saved" / name)
        saved = tmp_path / "saved" / name
        assert stored_dtype(saved) == torch.float16
        assert folder_fingerprint(saved) == model.fingerprint == folder_fingerprint(EMBEDDED / name)
        assert "| recall@1 | 0.9313 |" in (saved / "README.md").read_text()


def test_facts_stay_behind_if_the_weights_change(models: Path, tmp_path: Path) -> None:
    shutil.copytree(models / "clip", tmp_path / "clip")
    (tmp_path / "clip" / RECORD_NAME).write_text(json.dumps(RECORD))
    (tmp_path / "clip" / "README.md").write_text("# By hand\n")
    model = ClipEncoder.from_pretrained(str(tmp_path / "clip"), long_texts="windows")
    model.save_pretrained(tmp_path / "same")
    assert json.loads((tmp_path / "same" / RECORD_NAME).read_text()) == RECORD
    assert (tmp_path / "same" / "README.md").read_text() == "# By hand\n"
    with torch.no_grad():
        next(model.model.parameters()).add_(1)
    shutil.copytree(tmp_path / "clip", tmp_path / "other")  # nothing of it but the card may remain
    (tmp_path / "other" / "README.md").unlink()
    shutil.copyfile(models / "clip" / "model.safetensors", tmp_path / "other" / "model-00001-of-00002.safetensors")
    model.save_pretrained(tmp_path / "other")
    assert len(list((tmp_path / "other").iterdir())) == 6
    changed = ClipEncoder.load(tmp_path / "other")
    assert torch.equal(next(changed.model.parameters()), next(model.model.parameters()))
    changed.save_pretrained(tmp_path / "other")  # over itself
    assert folder_fingerprint(tmp_path / "other") == changed.fingerprint
    assert not (tmp_path / "other" / RECORD_NAME).exists()
    card = (tmp_path / "other" / "README.md").read_text()
    assert card.count("\nNot recorded.\n") == 4 and front_matter(card)["license"] == "unknown"


def test_a_card_tells_what_was_recorded(models: Path, tmp_path: Path, hub: FakeHub) -> None:
    folder = Path(shutil.copytree(models / "clip", tmp_path / "clip"))
    (folder / RECORD_NAME).write_text(json.dumps(RECORD))
    push_model(folder, "org/clip", license="mit")
    text = hub.repos["org/clip"]["README.md"].decode()
    assert front_matter(text) == {
        "license": "mit",
        "library_name": "omgm",
        "pipeline_tag": "feature-extraction",
        "tags": ["omgm", "knowledge-based-vqa", "multimodal-retrieval", "dual-encoder"],
        "base_model": "openai/clip-vit-large-patch14",
        "datasets": ["org/e-vqa"],
    }
    parameters = sum(tensor.numel() for tensor in ClipEncoder.load(folder).model.state_dict().values())
    for line in (
        "# org/clip",
        "| trained from | openai/clip-vit-large-patch14@0123abc |",
        f"| parameters | {parameters:,} |",
        "| stored as | float32 |",
        f"| fingerprint | {folder_fingerprint(folder)} |",
        r"| knowledge base | kb\|wiki \<b\>.json |",
        "| questions | 191,000 |",
        "| recipe | clip |",
        "| learning rate | 1e-05 |",
        "| freeze | true |",
        "| recall@1 | 0.9313 |",
        "| recall@20 | 1 |",
        "6c1e69f",
    ):
        assert line in text.splitlines(), line
    assert not (folder / "README.md").exists()
    # A local path must not appear as the base model.
    (folder / RECORD_NAME).write_text(json.dumps({"base": "/home/someone/encoder", "data": "flags", "metrics": {}}))
    push_model(folder, "org/clip")
    text = hub.repos["org/clip"]["README.md"].decode()
    assert "| trained from | encoder |" in text and "someone" not in text and "\nflags\n" in text
    assert "base_model" not in front_matter(text) and front_matter(text)["license"] == "unknown"


@pytest.mark.parametrize("name", ["clip", "fusion"])
def test_the_example_of_a_card_runs(
    name: str, models: Path, hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    push_model(models / name, "org/model")
    IMAGES[0].save(tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    [(_, block)] = python_blocks(hub.repos["org/model"]["README.md"].decode())
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("tensor([[" if name == "clip" else "torch.Size([1, 8, 32])")


def test_a_card_written_by_hand_stays(models: Path, tmp_path: Path, hub: FakeHub) -> None:
    folder = Path(shutil.copytree(models / "clip", tmp_path / "clip"))
    push_model(folder, "org/clip")
    assert MARKER in hub.repos["org/clip"]["README.md"].decode()
    by_hand = b"---\nlicense: mit\n---\n# Edited on the hub\n"
    commit = list(hub.commits["org/clip"])[-1]
    hub.repos["org/clip"]["README.md"] = hub.commits["org/clip"][commit]["README.md"] = by_hand
    (folder / RECORD_NAME).write_text(json.dumps(RECORD))
    push_model(folder, "org/clip")
    assert hub.repos["org/clip"]["README.md"] == by_hand and RECORD_NAME in hub.repos["org/clip"]
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# In the folder\n")
    push_model(folder, "org/clip")
    assert hub.repos["org/clip"]["README.md"] == (folder / "README.md").read_bytes()


def test_revisions_and_stale_files(models: Path, tmp_path: Path, hub: FakeHub) -> None:
    folder = Path(shutil.copytree(models / "clip", tmp_path / "clip"))
    (folder / RECORD_NAME).write_text("{}")
    first = push_model(folder, "org/clip", message="First")
    (folder / RECORD_NAME).unlink()
    model = ClipEncoder.load(folder)
    with torch.no_grad():
        next(model.model.parameters()).add_(1)
    second = model.push_to_hub("org/clip")
    assert first != second and RECORD_NAME not in hub.repos["org/clip"]  # it described the first model
    assert ClipEncoder.from_pretrained(first).fingerprint == folder_fingerprint(folder)
    assert ClipEncoder.from_pretrained("org/clip", revision=first.partition("@")[2]).folder is not None
    newest = ClipEncoder.from_pretrained("org/clip", device="cpu", batch_size=2)
    assert newest.fingerprint != folder_fingerprint(folder) and newest.batch_size == 2
    puts = sum(method == "PUT" for method, _, _ in hub.log)
    assert model.push_to_hub("org/clip") == second  # nothing to do
    assert sum(method == "PUT" for method, _, _ in hub.log) == puts


def test_offline_after_a_download(models: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    push_model(models / "clip", "org/clip")
    ClipEncoder.from_pretrained("org/clip")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    hub.log.clear()
    assert ClipEncoder.from_pretrained("org/clip").fingerprint == folder_fingerprint(models / "clip")
    assert hub.log == []
    with pytest.raises(ValueError, match="org/other: HF_HUB_OFFLINE is set"):
        ClipEncoder.from_pretrained("org/other")


def test_only_a_models_files_are_published(models: Path, tmp_path: Path, hub: FakeHub) -> None:
    folder = Path(shutil.copytree(models / "clip", tmp_path / "clip"))
    for name in ("curve.png", "pytorch_model.bin", "modeling_clip.py", "optimizer.pt"):
        (folder / name).write_bytes(b"no")
    push_model(folder, "org/clip")
    assert not {"curve.png", "pytorch_model.bin", "modeling_clip.py", "optimizer.pt"} & set(hub.repos["org/clip"])
    shutil.copyfile(folder / "model.safetensors", folder / "checkpoint.safetensors")
    with pytest.raises(ValueError, match=r"clip: checkpoint\.safetensors: not part of a model"):
        push_model(folder, "org/clip")
    (folder / "checkpoint.safetensors").unlink()
    (folder / RECORD_NAME).write_text("[]")
    with pytest.raises(ValueError, match=r"training\.json: expected a JSON object, got list"):
        push_model(folder, "org/clip")
    with pytest.raises(ValueError, match=r"has no \.safetensors file"):
        push_model(tmp_path, "org/clip")
    with pytest.raises(ValueError, match=r"has no config\.json"):
        kind_of(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "xlm-roberta"}')
    with pytest.raises(ValueError, match="'xlm-roberta' is neither a dual encoder nor a Q-Former"):
        kind_of(tmp_path)


def test_what_the_hub_refuses(models: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ClipEncoder.load(models / "clip")
    with pytest.raises(ValueError, match="others/clip: this token may not change it; use one with write access"):
        model.push_to_hub("others/clip")
    with pytest.raises(ValueError, match="org/clip@main: an upload creates its own revision"):
        model.push_to_hub("org/clip@main")
    with pytest.raises(ValueError, match="'clip' is neither a folder"):
        model.push_to_hub("clip")
    model.push_to_hub("org/open")
    with pytest.raises(ValueError, match="org/open: exists and is public; make it private"):
        model.push_to_hub("org/open", private=True)
    model.push_to_hub("org/closed", private=True)
    assert hub.private == {"org/closed"}
    with pytest.raises(ValueError, match="org/open: has no revision 'v2'"):
        ClipEncoder.from_pretrained("org/open", revision="v2")
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(
        ValueError, match=r"org/new: .* no uploads without a valid token; log in with `hf auth login`, or set HF_TOK"
    ):
        model.push_to_hub("org/new")
    assert model.push_to_hub("org/new", token="secret").startswith("org/new@")
    with pytest.raises(
        ValueError, match=r"org/closed: .* does not have it or does not show it; check the name, or log in"
    ):
        ClipEncoder.from_pretrained("org/closed")
    assert ClipEncoder.from_pretrained("org/closed", token="secret").fingerprint == model.fingerprint
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ValueError, match=r"org/new: no connection to http://127\.0\.0\.1:9"):
        model.push_to_hub("org/new")
    with pytest.raises(ValueError, match=r"org/never: no connection to http://127\.0\.0\.1:9"):
        ClipEncoder.from_pretrained("org/never")


def test_what_is_no_name(models: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere does not exist; name another folder, or org/name on the hub"):
        ClipEncoder.from_pretrained(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"revision: 'main', but .*clip is a folder"):
        ClipEncoder.from_pretrained(models / "clip", revision="main")
    with pytest.raises(ValueError, match="revision: org/name@a names one already"):
        ClipEncoder.from_pretrained("org/name@a", revision="b")
