from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest

from omgm.__main__ import main
from omgm.downloads.hub import HubModel, hub_model, local_folder, missing_weights, named_models
from omgm.profile import load_profile
from tests.fakes.hub import COMMIT, FakeHub, be_the_only_hub, git_sha, serve_hub
from tests.fakes.processes import run_python
from tests.paths import ROOT

WEIGHTS = bytes(range(256)) * 4096  # 1 MiB
CONFIG = b'{"model_type": "clip"}\n'
CLIP = {
    "config.json": CONFIG,
    "vocab.txt": b"a\nb\n",
    "spiece.model": b"sentence pieces",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"pickled",
    "pytorch_model.bin.index.json": b"{}",
    "onnx/config.json": b"{}",
    "README.md": b"# model",
}
NEEDED = ["config.json", "model.safetensors", "spiece.model", "vocab.txt"]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """The only hub that this process's client uses, with an empty cache."""
    with serve_hub(FakeHub({"org/clip": dict(CLIP), "org/text": {"tokenizer.json": b"{}", **CLIP}})) as hub:
        be_the_only_hub(hub, tmp_path / "cache", monkeypatch)
        yield hub


def profile(folder: Path, encoder: str, tokenizer: str = "") -> Path:
    fusion = ROOT / "weights" / "embedded" / "fusion"
    path = folder / "profile.toml"
    path.write_text(
        f'extends = "embedded"\n[encoder]\nmodel = "{encoder}"\n[fusion]\nmodel = "{fusion}"\n'
        f'[generator]\ntokenizer = "{tokenizer}"\n'
    )
    return path


def omgm(hub: FakeHub, cache: Path, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
    environment |= {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(cache), "HF_HUB_DISABLE_PROGRESS_BARS": "1", **more}
    return run_python("-m", "omgm", *arguments, environment=environment)


def download(name: str, weights: bool = True) -> Path:
    from omgm.downloads.weights import fetch, make_plan

    return fetch(make_plan(hub_model(name, "encoder.model", weights=weights)))


def test_a_name_may_have_a_revision() -> None:
    assert hub_model("org/name.v2-m3") == HubModel("model", "org/name.v2-m3")
    assert hub_model("org/name@refs/pr/1", "encoder.model") == HubModel("encoder.model", "org/name", "refs/pr/1")
    for wrong in ("", "name", "org/name@", "org/a/b", "org/na me"):
        with pytest.raises(ValueError, match="neither a folder"):
            hub_model(wrong)


def test_models_of_a_profile(tmp_path: Path) -> None:
    from omgm.downloads.weights import models_of

    given = load_profile(str(profile(tmp_path, f"org/clip@{COMMIT}", "org/text")))
    assert models_of(given) == [
        HubModel("encoder.model", "org/clip", COMMIT),
        HubModel("generator.tokenizer", "org/text", None, weights=False),
    ]
    assert [key for key, _, _ in named_models(given)] == ["encoder.model", "fusion.model", "generator.tokenizer"]
    assert models_of(load_profile("embedded")) == []


def test_a_folder_stays(tmp_path: Path) -> None:
    assert local_folder(str(tmp_path)) == tmp_path
    with pytest.raises(ValueError, match="nowhere does not exist"):
        local_folder(str(tmp_path / "nowhere"))


@pytest.mark.slow
def test_download_and_work_offline(hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run, the download in a process that only its environment leads to the hub, again, and without a network."""
    path, cache = profile(tmp_path, "org/clip", "org/text"), tmp_path / "cache"
    assert main(["download", "--profile", str(path), "--dry-run"]) == 0
    assert f"encoder.model: org/clip@{COMMIT}: 4 files, 1.0 MB, here 0.0 MB" in capsys.readouterr().out
    assert hub.contents_asked() == []

    done = omgm(hub, cache, "download", "--profile", path, "--json")
    assert done.returncode == 0, done.stderr
    assert f'[encoder] model = "org/clip@{COMMIT}"' in done.stderr
    clip, text = json.loads(done.stdout)["models"]
    assert clip["files"] == NEEDED and clip["verified"] and clip["pinned"] == f"org/clip@{COMMIT}"
    assert text["files"] == ["config.json", "spiece.model", "tokenizer.json", "vocab.txt"]
    assert sorted(file.name for file in Path(clip["folder"]).iterdir()) == NEEDED
    assert (Path(clip["folder"]) / "model.safetensors").read_bytes() == WEIGHTS

    asked = len(hub.contents_asked())
    assert main(["download", "--profile", str(path)]) == 0
    assert "to download: 0.0 MB of 1.0 MB" in capsys.readouterr().out
    assert len(hub.contents_asked()) == asked
    code = "from omgm.downloads.hub import local_folder as at; print(at('org/clip')); print(at('org/clip@%s'))"
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache)}
    offline = run_python("-c", code % COMMIT, environment=environment, check=True)
    assert offline.stdout.split() == [clip["folder"]] * 2


def test_a_branch_is_found_under_its_name(hub: FakeHub) -> None:
    folder = download("org/clip@refs/pr/1")
    assert folder.name == COMMIT
    assert local_folder("org/clip@refs/pr/1") == folder
    with pytest.raises(ValueError, match="not on this machine"):
        local_folder("org/clip@main")


def test_what_is_not_here_says_how_to_get_it(hub: FakeHub) -> None:
    with pytest.raises(ValueError, match=r"org/clip: not on this machine.*; run `omgm download` with a profile"):
        local_folder("org/clip")
    with pytest.raises(ValueError, match=r"run: omgm download --profile mine\.toml$"):
        local_folder("org/clip", options="--profile mine.toml")
    assert hub.log == []
    folder = download("org/clip")
    (folder / "vocab.txt").unlink()
    with pytest.raises(ValueError, match="not all of it"):
        local_folder("org/clip")
    download("org/clip")
    assert local_folder("org/clip") == folder


def test_a_folder_of_the_same_name_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "folder").mkdir(parents=True)
    with pytest.raises(
        ValueError, match=r"; if the folder here is meant, name it \./org/folder; or run `omgm download`"
    ):
        local_folder("org/folder")


def test_another_revision_that_is_here_is_named(hub: FakeHub) -> None:
    download(f"org/clip@{COMMIT}")
    expected = f"org/clip: not on this machine, or not all of it; revision {COMMIT} is, so name it org/clip@{COMMIT}"
    with pytest.raises(ValueError, match=expected):
        local_folder("org/clip")
    (local_folder(f"org/clip@{COMMIT}") / "model.safetensors").unlink()
    with pytest.raises(ValueError) as error:
        local_folder("org/clip")
    assert COMMIT not in str(error.value)


def test_the_advice_repeats_the_options_of_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from omgm.parts import build_encoder, build_generator

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    path = str(profile(tmp_path, "org/clip", "org/text"))
    chat = ("generator.kind=openai", "generator.base_url=http://127.0.0.1:9", "generator.model=m")
    given = load_profile(path, ["encoder.model=org/other-one", *chat])
    options = f"--profile {path} --set encoder.model=org/other-one --set generator.kind=openai"
    for build in (build_encoder, build_generator):
        with pytest.raises(ValueError, match=f"run: omgm download {options}"):
            build(given)


def test_missing_shards_are_named(hub: FakeHub) -> None:
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    hub.repos["org/clip"] |= {"model.safetensors.index.json": json.dumps(index).encode()}
    download("org/clip")
    with pytest.raises(ValueError, match=r"lacks model-00001-of-00002.safetensors, model-00002"):
        local_folder("org/clip")


def test_a_tokenizer_needs_no_weights(hub: FakeHub) -> None:
    folder = download("org/text", weights=False)
    assert local_folder("org/text", weights=False) == folder
    assert missing_weights(folder) == ["*.safetensors"]
    with pytest.raises(ValueError, match="not all of it"):
        local_folder("org/text")


def test_a_broken_connection_is_taken_up(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1 << 16)
    hub.broken = {"model.safetensors"}
    folder = download("org/clip")
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    ranges = [range_ for method, path, range_ in hub.log if method == "GET" and path.endswith("model.safetensors")]
    assert ranges[0] is None and ranges[-1] == f"bytes={len(WEIGHTS) // 2}-"


@pytest.mark.parametrize(
    ("name", "right"),
    [("model.safetensors", hashlib.sha256(WEIGHTS).hexdigest()), ("config.json", git_sha(CONFIG))],
)
def test_changed_content_is_removed(hub: FakeHub, tmp_path: Path, name: str, right: str) -> None:
    cache = tmp_path / "cache"
    hub.corrupt = {name}
    with pytest.raises(ValueError, match=rf"{name}: sha\d+ \w+, but the hub lists {right}; the file was removed"):
        download("org/clip")
    blobs = [path.read_bytes() for path in cache.rglob("blobs/*")]
    assert CLIP["vocab.txt"] in blobs and not any(blob[1:] == CLIP[name][1:] for blob in blobs)
    hub.corrupt = set()
    assert (download("org/clip") / name).read_bytes() == CLIP[name]


def test_another_size_is_removed(hub: FakeHub) -> None:
    hub.short = {"vocab.txt"}
    with pytest.raises(ValueError, match=r"vocab.txt: 4 bytes, but the hub lists 5; the file was removed"):
        download("org/clip")
    with pytest.raises(ValueError, match="not all of it"):
        local_folder("org/clip")


def test_a_license_not_accepted(hub: FakeHub) -> None:
    hub.gated = {"org/clip"}
    with pytest.raises(ValueError, match=r"encoder.model: org/clip: its license .* HF_TOKEN"):
        download("org/clip")
    assert hub.contents_asked() == []


def test_a_gated_model_does_not_stop_the_others(
    hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The paper profile's LLaMA-3 is gated and needed only for its tokenizer, by two parts."""
    hub.repos["org/llama"], hub.gated = {"tokenizer.json": b"{}", **CLIP}, {"org/llama"}
    named = ["--profile", str(profile(tmp_path, "org/clip", "org/llama"))]
    assert main(["download", *named, "--set", "summarizer.tokenizer=org/llama", "--json"]) == 2
    out, err = capsys.readouterr()
    error = err.splitlines()[-1]
    assert "error: summarizer.tokenizer, generator.tokenizer: org/llama: its license must be accepted first" in error
    assert '; or set it to "" to cut long contexts by characters' in error
    assert error.endswith("the other models are here")
    report = json.loads(out)
    assert [(model["key"], model["verified"]) for model in report["models"]] == [("encoder.model", True)]
    assert list(report["unavailable"]) == ["summarizer.tokenizer", "generator.tokenizer"]
    assert (Path(report["models"][0]["folder"]) / "model.safetensors").read_bytes() == WEIGHTS


def test_what_the_hub_does_not_have(hub: FakeHub) -> None:
    with pytest.raises(ValueError, match="has no revision 'v9'"):
        download("org/clip@v9")
    with pytest.raises(ValueError, match="does not have it or does not show it"):
        download("org/other")


def test_pickled_weights_are_not_fetched(hub: FakeHub) -> None:
    from omgm.downloads.weights import make_plan

    del hub.repos["org/clip"]["model.safetensors"]
    with pytest.raises(ValueError, match=r"no .safetensors weights, only pytorch_model.bin; name a revision"):
        download("org/clip")
    with pytest.raises(ValueError, match="omgm import reranker"):
        make_plan(HubModel("fusion.model", "org/clip"))
    assert hub.contents_asked() == []


def test_a_full_disk(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    from omgm.downloads.weights import check_disk, make_plan

    plan = make_plan(hub_model("org/clip"))
    assert plan.bytes == plan.bytes_to_fetch == sum(len(CLIP[name]) for name in NEEDED)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2**40, 2**40 - 2**30, 2**30))
    with pytest.raises(ValueError, match=r"1.0 MB to download and 1.1 GB free; make room, or set HF_HOME"):
        check_disk([plan])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2**40, 0, 2**40))
    assert check_disk([plan]) == 2**40


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "http://nowhere.invalid"])
def test_no_connection(hub: FakeHub, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
    expected = rf"encoder.model: org/clip: no connection to {endpoint} \(\[Errno .*\); check the network .*HF_ENDPOINT"
    with pytest.raises(ValueError, match=expected):
        download("org/clip")
