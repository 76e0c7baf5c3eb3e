from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from indexes.store.published import open_published
from omgm.__main__ import main
from retriever.models.encoder import ClipEncoder
from tests.fakes.hub import UPLOADS_WARN, FakeHub, be_the_only_hub, serve_hub
from tests.fakes.knowledge_base import build_small_index
from tests.fakes.models import FakeEncoder, FakeFusion
from tests.paths import ROOT

EMBEDDED = ROOT / "weights" / "embedded"


@pytest.mark.filterwarnings(UPLOADS_WARN)
def test_the_folder_of_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = tmp_path / "trained"
    shutil.copytree(EMBEDDED / "encoder", trained / "encoder")
    (trained / "profile.toml").write_text('extends = "embedded"\n[encoder]\nmodel = "./encoder"\n')
    (trained / "checkpoint.safetensors").write_bytes(b"state of the optimizer")
    with serve_hub(FakeHub({}, tokens={"secret"})) as hub:
        be_the_only_hub(hub, tmp_path / "cache", monkeypatch)
        assert main(["index", "push", str(trained), "org/clip"]) == 2
        assert "org/clip: " in (said := capsys.readouterr().err) and "`hf auth login`, or set HF_TOKEN" in said
        monkeypatch.setenv("HF_TOKEN", "secret")
        assert main(["index", "push", str(trained), "org/clip", "--private", "--license", "apache-2.0"]) == 0
        [commit] = hub.commits["org/clip"]
        assert f"--set encoder.model=org/clip@{commit}" in capsys.readouterr().out
        assert hub.private == {"org/clip"} and b'license: "apache-2.0"' in hub.repos["org/clip"]["README.md"]
        assert "checkpoint.safetensors" not in hub.repos["org/clip"]
        given = ["--set", f"encoder.model=org/clip@{commit}", "--json"]
        assert main(["download", *given]) == 0  # a profile finds again what was pushed
        assert ClipEncoder.from_pretrained("org/clip").fingerprint == ClipEncoder.load(trained / "encoder").fingerprint
        assert main(["index", "push", str(EMBEDDED / "fusion"), "org/fusion"]) == 0
        assert "--set fusion.model=org/fusion@" in capsys.readouterr().out
    shutil.copytree(EMBEDDED / "fusion", trained / "fusion")
    assert main(["index", "push", str(trained), "org/both"]) == 2
    assert "a profile with 2 models; name the folder" in capsys.readouterr().err
    assert main(["index", "push", str(tmp_path), "org/none"]) == 2
    assert "has no .safetensors file; is it a model folder?" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.filterwarnings(UPLOADS_WARN)
def test_a_killed_upload_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = build_small_index(tmp_path)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
    environment |= {"HF_TOKEN": "secret", "HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-m", "omgm", "index", "push", str(folder), "org/index"]
    accepted: list[str] = []
    reached, released = threading.Event(), threading.Event()

    def hold_the_third(sha: str) -> None:
        if len(accepted) == 2:
            reached.set()
            released.wait(60)
        accepted.append(sha)

    with serve_hub(FakeHub({}, tokens={"secret"})) as hub:
        hub.on_put = hold_the_third
        environment["HF_ENDPOINT"] = hub.url
        with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE) as process:
            assert reached.wait(60), process.stderr and process.stderr.read()
            process.send_signal(signal.SIGKILL)
        first = set(accepted)
        hub.on_put = accepted.append
        released.set()
        assert hub.commits == {}
        be_the_only_hub(hub, tmp_path / "cache", monkeypatch)
        monkeypatch.setenv("HF_TOKEN", "secret")
        assert main(command[3:]) == 0
        assert len(first) == 2 and not first & set(accepted[3:])  # the third may arrive twice
        assert 'open_published("org/index@' in capsys.readouterr().out
        assert len(open_published("org/index", encoder=FakeEncoder(), fusion=FakeFusion())) == 7
