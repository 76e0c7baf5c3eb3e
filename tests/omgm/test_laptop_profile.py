"""The laptop profile on a machine without a network, with carried files: a download is copied, and all else runs there.

A loopback hub serves a tiny SigLIP 2 in the true format; the other models are the real ones.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from omgm.__main__ import main
from tests.fakes.hub import COMMIT, FakeHub, be_the_only_hub, serve_hub
from tests.fakes.images import image_bytes
from tests.fakes.knowledge_base import write_kb
from tests.fakes.published_models import write_dinov2, write_siglip2
from tests.paths import ROOT

ALONE = ["unshare", "--net", "--map-root-user"]
COMMANDS = """
import json, sys
from omgm.__main__ import main
for command in json.loads(sys.argv[1]):
    assert main(command) == 0
    print(end="\\0", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("unshare") or subprocess.run([*ALONE, "true"]).returncode != 0,
    reason="needs Linux, unshare, and the right to create network namespaces",
)
def test_from_carried_files_to_an_answer_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repositories = {}
    for name, write in (("org/siglip2", write_siglip2), ("org/dinov2", write_dinov2)):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        repositories[name] = {path.name: path.read_bytes() for path in write(folder).iterdir()}
    profile = tmp_path / "small-laptop.toml"
    profile.write_text(
        f'extends = "{ROOT / "configs" / "laptop.toml"}"\n[encoder]\nmodel = "org/siglip2@{COMMIT}"\n'
        f'image_model = "org/dinov2@{COMMIT}"\nimage_share = 0.25\n'
    )
    kb, images = write_kb(tmp_path)
    given = ["--profile", str(profile)]
    with serve_hub(FakeHub(repositories)) as hub:
        be_the_only_hub(hub, tmp_path / "cache", monkeypatch)
        assert main(["download", *given]) == 0
    shutil.move(tmp_path / "cache", tmp_path / "carried")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
    environment |= {"HF_HUB_CACHE": str(tmp_path / "carried"), "OMP_NUM_THREADS": "1"}
    flag, index = tmp_path / "flag.png", str(tmp_path / "index")
    flag.write_bytes(image_bytes("red"))
    commands = [
        ["build-index", *given, "--kb", str(kb), "--images", str(images), "--out", index, "--json"],
        ["ask", *given, "--index", index, str(flag), "How large is the area it covers?", "--json"],
        ["doctor", *given, "--index", index, "--json"],
    ]
    command = [*ALONE, sys.executable, "-c", COMMANDS, json.dumps(commands)]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    built, answer, examined = map(json.loads, ran.stdout.split("\0")[:-1])
    assert built["inputs"]["encoder"].endswith("*0.25")  # joined with the second network
    assert len(answer["candidates"]) > 1 and {"step1", "step2", "step3"} <= set(answer["timings_ms"])
    found = {one["name"]: one["status"] for one in examined["findings"]}
    assert found["index, encoder.model"] == "ok"
