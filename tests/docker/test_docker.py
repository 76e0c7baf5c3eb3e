"""The files in docker/ are consistent: variables, volumes, versions, and commands that the command line accepts."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric

from omgm.__main__ import parser
from omgm.demo import ARCHIVE
from omgm.profile import load_profile
from retriever.image_cache import ImageCache
from retriever.types import Generation
from serving.admission import Admission
from serving.metrics import Metrics
from serving.settings import ServingSettings
from tests.paths import ROOT

yaml = pytest.importorskip("yaml")
DOCKER = ROOT / "docker"
COMPOSE = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
PARTS = (DOCKER / "compose.parts.yaml").read_text(encoding="utf-8")
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?P<default>:-[^}]*)?\}")


def example() -> dict[str, str]:
    lines = (DOCKER / ".env.example").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def compose(settings: dict[str, str]) -> dict[str, Any]:
    """Returns the file as compose reads it: variables substituted (empty ones by their default), then parsed."""
    text = VARIABLE.sub(lambda found: settings.get(found["name"]) or (found["default"] or ":-")[2:], COMPOSE)
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def test_every_variable_is_in_the_example() -> None:
    used = {found["name"]: found["default"] for found in VARIABLE.finditer(COMPOSE)}
    assert set(used) == set(example())
    told = {name: value for name, value in example().items() if not name.endswith("_TOKENIZER")}
    assert told == {name: (used[name] or ":-")[2:] for name in told}  # the example lists the defaults


@pytest.mark.parametrize("settings", [{}, example(), {"INDEX": "/data/index", "SERVICE_ARGS": "--set search.k=10"}])
def test_services(settings: dict[str, str]) -> None:
    loaded = compose(settings)
    services = loaded["services"]
    monitoring = {name for name, service in services.items() if service.get("profiles") == ["monitoring"]}
    assert monitoring == {"prometheus", "grafana"}
    assert set(services) == {"generator", "service", "summarizer", "build-index"} | monitoring
    assert {name for name, service in services.items() if "profiles" not in service} == {"generator", "service"}
    for name, service in services.items():
        if name not in monitoring:
            [device] = service["deploy"]["resources"]["reservations"]["devices"]
            assert device == {"driver": "nvidia", "capabilities": ["gpu"], "device_ids": ["0"]}, name
        for needed in service.get("depends_on", {}):
            assert "healthcheck" in services[needed]
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in loaded["volumes"] or source.startswith(("/", ".")), volume
            assert not source.startswith("./") or (DOCKER / source).is_file(), volume
    assert services["service"]["ports"] == ["127.0.0.1:8000:8000"]
    assert services["service"]["volumes"][1].endswith(":/index:ro")


@pytest.mark.parametrize("settings", [{}, example(), {"SERVICE_ARGS": "--set generator.multimodal=true"}])
def test_our_commands_are_taken(settings: dict[str, str]) -> None:
    services = compose(settings)["services"]
    for name in ("service", "build-index"):
        program, *arguments = shlex.split(services[name]["command"])
        assert program == "omgm"
        args = parser().parse_args(arguments)
        profile = load_profile(args.profile, args.overrides)
        part, server = (profile.generator, "generator") if name == "service" else (profile.summarizer, "summarizer")
        assert (part.kind, part.base_url) == ("openai", f"http://{server}:8000")
        assert part.model == shlex.split(services[server]["command"])[0]


def test_an_index_in_parts() -> None:
    """Every part has its own folder, and the front asks each of them."""
    loaded = yaml.safe_load(VARIABLE.sub(lambda match: (match["default"] or ":-")[2:], PARTS))
    front = shlex.split(loaded["services"].pop("front")["command"])
    milvus = loaded["services"].pop("milvus")
    assert milvus["profiles"] == ["keys"] and milvus["volumes"][0].split(":")[0] in loaded["volumes"]
    [port] = {service["environment"]["MILVUS_URI"].rpartition(":")[2] for service in loaded["services"].values()}
    assert milvus["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert {name: service["volumes"] for name, service in loaded["services"].items()} == {
        f"part-{number}": [f"../artifacts/parts/{number}-of-2:/part"] for number in (1, 2)
    }
    assert front[front.index("--index") + 1].split(",") == [f"http://{name}:8000" for name in loaded["services"]]
    for command in (front, *(shlex.split(service["command"]) for service in loaded["services"].values())):
        assert parser().parse_args(command[1:]).host == "0.0.0.0"


def test_versions() -> None:
    image = compose({})["services"]["generator"]["image"]
    version = image.removeprefix("vllm/vllm-openai:v")
    assert f"pip install 'vllm=={version}'" in (ROOT / "docs" / "generators.md").read_text(encoding="utf-8")
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.M) == ["python:3.12.12-slim-bookworm", "base", "base"]


def test_the_dashboard_shows_what_the_service_counts() -> None:
    """Prometheus scrapes the port that the service listens on, and Grafana queries Prometheus by its service name."""
    services = compose({})["services"]
    asked = yaml.safe_load((DOCKER / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"][0]["targets"]
    assert asked == ["service:8000"] and services["service"]["ports"][0].endswith(":8000")
    [source] = yaml.safe_load((DOCKER / "grafana" / "datasource.yml").read_text())["datasources"]
    dashboard = json.loads((DOCKER / "grafana" / "omgm.json").read_text())
    provider = yaml.safe_load((DOCKER / "grafana" / "dashboards.yml").read_text())["providers"][0]
    mounted = [volume.split(":")[1] for volume in services["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/omgm.json" in mounted
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    assert {target["datasource"]["uid"] for target in targets} == {source["uid"]}
    cache = ImageCache(0)
    cache.counts["decode", "miss"] += 1
    metrics = Metrics(Admission(ServingSettings()), cache)
    known = {name for family in metrics.registry.collect() for name in sample_names(family)}
    used = {name for target in targets for name in re.findall(r"(?:omgm|process)_\w+", target["expr"])}
    assert used - known == set()
    for target in targets:
        groups = {name for names in re.findall(r"by \(([\w, ]+)\)", target["expr"]) for name in names.split(", ")}
        assert groups - {"le"} == set(re.findall(r"{{(\w+)}}", target["legendFormat"])), target
        [name, *_] = re.findall(r"(?:omgm|process)_\w+", target["expr"])
        assert groups | set(re.findall(r"{(\w+)=", target["expr"])) <= labels_of(metrics)[name], target


def labels_of(metrics: Metrics) -> dict[str, set[str]]:
    """Returns the labels of every sample, after one request, one answer and one of everything else."""
    metrics.request({"type": "http"}, 200, 1)
    metrics.stage("decode", 1)
    metrics.answer(Generation(""), False, 1)
    for counter in (metrics.errors, metrics.generator_errors, metrics.refusals):
        counter.labels("code")
    return {sample.name: set(sample.labels) for family in metrics.registry.collect() for sample in family.samples}


def sample_names(family: Metric) -> list[str]:
    ends = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
    return [family.name + end for end in ends]


def test_the_images_hold_what_they_need() -> None:
    rules = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {rule[1:] for rule in rules if rule.startswith("!")}
    assert "*" in rules and all((ROOT / name).exists() for name in kept)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    others = {
        "configs",
        "weights",
        "pyproject.toml",
        "hatch_build.py",
        "constraints.txt",
        "requirements.lock",
        "requirements-models.lock",
        "README.md",
        "LICENSE",
        "NOTICE",
    }
    of_tests = {name for name in kept if name.startswith("tests/")}
    assert packages | others | {"benchmarks", "conftest.py"} == kept - of_tests
    tests = {path for name in of_tests for path in files_of(ROOT / name)}
    assert {path.parent.name for path in tests} == {"tests", "gpu", "fakes", "models"}
    using = tests | set(files_of(ROOT / "benchmarks"))
    assert {path.name: name for path in using for name in imported(path) if ROOT / name not in tests} == {}


def files_of(path: Path) -> list[Path]:
    return [path] if path.suffix == ".py" else sorted(path.glob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Yields the modules of tests that a file imports, wherever it does, as paths from the repository."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"tests.{one.name}" for one in node.names] if node.module == "tests" else [node.module]
        yield from (f"{name.replace('.', '/')}.py" for name in names if name.startswith("tests."))


def test_the_images_have_the_versions_of_the_tests() -> None:
    installs = re.findall(r"pip install (.*)", DOCKERFILE.replace("\\\n", " "))
    assert len(installs) == 2 and all("--constraint requirements.lock" in line for line in installs)
    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    assert {line.partition("==")[0] for line in locked} >= {"pytest", "torch", "faiss-cpu", "open_clip_torch"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    wanted = re.findall(r"EXTRAS=([\w,-]+)", DOCKERFILE)
    assert wanted == ["faiss-gpu,openclip", "cpu,openclip"] and {*wanted[0].split(","), "cpu"} <= set(extras)


def test_trainings_have_shared_memory() -> None:
    services = compose({})["services"]
    assert {name: service.get("shm_size") for name, service in services.items() if "omgm" in service["image"]} == {
        "service": "8gb",
        "build-index": "8gb",
    }


def test_the_demo_image_serves() -> None:
    stage = DOCKERFILE.split("AS demo")[1].split("FROM")[0]
    command = [str(part) for part in yaml.safe_load(stage.split("CMD ")[1].replace("\\\n", ""))]
    args = parser().parse_args(command[1:])
    assert (command[0], args.host, args.profile) == ("omgm", "0.0.0.0", "embedded")
    assert str(args.index) == "artifacts/demo/index" and args.overrides == ["serving.examples_dir=artifacts/demo"]
    [data, build] = re.findall(r"^RUN (python .*) && (omgm .*)", stage.replace("\\\n", ""), re.M)[0]
    assert data.split() == ["python", "-m", "zipfile", "--extract", "omgm/demo.zip", "artifacts/demo"]
    assert ARCHIVE == ROOT / "omgm/demo.zip"
    built = parser().parse_args(shlex.split(build)[1:])
    assert (built.profile, built.out, str(built.kb)) == ("embedded", args.index, "artifacts/demo/kb_wiki.json")
