"""Checks of this machine: Python, PyTorch, GPUs, memory, disks, packages. Works even if packages cannot be imported."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from omgm.downloads.weights import free_bytes
from omgm.pytorch import INDEX
from retriever.entry_points import every
from retriever.wording import gigabytes

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
INSTALL = 'pip install -c constraints.txt "{}"'
DRIVERS = {"12": 525, "13": 580}
"""The oldest NVIDIA driver for each major version of CUDA."""
LITTLE_DISK = 5_000_000_000
"""Free bytes below which a disk gets a warning: room to build an index of a few thousand entities."""

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: what was found, and how to fix it or which settings use it."""

    name: str
    status: Status
    found: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, memory in bytes."""

    name: str
    capability: str
    total: int
    free: int


def python_finding() -> Finding:
    """Reports the version of Python and the system."""
    return Finding("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def devices() -> list[Device]:
    """Returns the GPUs that PyTorch can use; none if it is missing or built for the CPU."""
    try:
        import torch
    except (ImportError, OSError):
        return []
    found = []
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        properties = torch.cuda.get_device_properties(number)
        free, total = torch.cuda.mem_get_info(number)
        capability = f"{properties.major}.{properties.minor}"
        found.append(Device(properties.name, capability, total, free))
    return found


def torch_findings(gpus: Iterable[Device], driver: str | None) -> list[Finding]:
    """Reports PyTorch and the GPUs; `driver` comes from `nvidia_driver`."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return [Finding("torch", "fail", f"cannot be imported: {error}", INSTALL.format("torch"))]
    build = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built for the CPU"
    findings = [Finding("torch", "ok", f"{torch.__version__}, {build}")]
    for number, gpu in enumerate(gpus):
        found = (
            f"{gpu.name}, compute capability {gpu.capability}, {gigabytes(gpu.total)} of memory, "
            f"{gigabytes(gpu.free)} free, driver {driver or 'unknown'}"
        )
        findings.append(Finding(f"gpu {number}", "ok", found))
    if len(findings) > 1:
        return findings
    if driver and not torch.version.cuda:
        fix = "install a CUDA build of torch in the version that constraints.txt pins"
        return [*findings, Finding("gpu", "warn", f"NVIDIA driver {driver}, but torch is built for the CPU", fix)]
    if driver:
        cuda = str(torch.version.cuda)
        oldest, own = DRIVERS.get(cuda.partition(".")[0], 0), driver.partition(".")[0]
        if own.isdigit() and int(own) < oldest:
            fix = f"update the driver: CUDA {cuda} needs version {oldest} or newer"
        else:
            fix = "compare the driver's CUDA version (nvidia-smi) with torch's, and CUDA_VISIBLE_DEVICES"
        return [*findings, Finding("gpu", "warn", f"NVIDIA driver {driver}, but torch sees no device", fix)]
    findings.append(Finding("gpu", "ok", "none; models run on the CPU"))
    if torch.version.cuda:
        found = f"{findings[0].found}, but no NVIDIA driver is here: about 4 GB on disk that nothing uses"
        fix = (
            f"pip install --force-reinstall --no-deps --index-url {INDEX} torch=={torch.__version__.partition('+')[0]}"
        )
        findings[0] = Finding("torch", "warn", found, fix)
    return findings


def nvidia_driver() -> str | None:
    """Returns the version of the NVIDIA driver, or `None` if there is none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(answer.stdout.split()), None)


def memory() -> tuple[int, int]:
    """Returns total and available bytes of main memory, or zeros if the system does not report them."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total = page * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0, 0
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return total, total
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return total, int(fields["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in fields else total


def memory_finding() -> Finding:
    """Reports main memory and CPU cores."""
    total, available = memory()
    found = f"{gigabytes(total)}, {gigabytes(available)} available; {os.cpu_count()} CPU cores"
    return Finding("memory", "ok", found if total else "not reported by the system")


def disk_findings(folders: Mapping[str, Path]) -> list[Finding]:
    """Reports the free space of the disk that each named folder is on."""
    findings = []
    for name, folder in folders.items():
        free = free_bytes(folder)
        little = free < LITTLE_DISK
        fix = "free some space" if little else ""
        findings.append(Finding(f"disk, {name}", "warn" if little else "ok", f"{folder}: {gigabytes(free)} free", fix))
    return findings


def extras() -> dict[str, list[Requirement]]:
    """Returns the requirements of each extra of this project."""
    if PROJECT.is_file():
        listed = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
        return {extra: [Requirement(one) for one in packages] for extra, packages in listed.items()}
    requirements = [Requirement(one) for one in metadata.requires("omgm") or []]
    names = metadata.metadata("omgm").get_all("Provides-Extra") or []
    return {
        extra: [one for one in requirements if one.marker and not one.marker.evaluate({"extra": ""}) and
                one.marker.evaluate({"extra": extra})]
        for extra in names
    }  # fmt: skip


def installed(package: str) -> str | None:
    """Returns the version of an installed package, or `None`."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def extra_findings(needed: Mapping[str, str]) -> list[Finding]:
    """Checks the packages of each extra.

    Args:
        needed: The extras that must be installed, each with the setting that requires it.
    """
    findings = []
    for extra, requirements in extras().items():
        versions = {one.name: installed(one.name) for one in requirements}
        missing = [name for name, version in versions.items() if version is None]
        wrong = [
            f"{one.name} {versions[one.name]} does not satisfy {one.specifier}"
            for one in requirements
            if versions[one.name] and not one.specifier.contains(str(versions[one.name]), prereleases=True)
        ]
        found = ", ".join(f"{name} {version}" for name, version in versions.items() if version) or "not installed"
        problem = "; ".join(
            [*wrong, *([f"without {', '.join(missing)}"] if missing and found != "not installed" else [])]
        )
        status: Status = "warn" if wrong else "ok"
        if extra in needed and missing:
            status, problem = "fail", f"{needed[extra]} needs {', '.join(missing)}"
        fix = INSTALL.format(f"omgm[{extra}]") if status != "ok" else ""
        findings.append(Finding(f"extra {extra}", status, f"{found}; {problem}" if problem else found, fix))
    return findings


def package_findings() -> list[Finding]:
    """Lists what other packages add by entry points: steps, models, readers, data sets and the like."""
    names: dict[str, list[str]] = {}
    for group in sorted(group for group in every().groups if group.startswith("omgm.")):
        for point in every().select(group=group):
            if point.dist is not None and point.dist.name != "omgm":
                names.setdefault(f"package {point.dist.name}", []).append(f"{group} {point.name}")
    return [Finding(package, "ok", f"adds {', '.join(added)}") for package, added in sorted(names.items())]


def faiss_finding(extra: Literal["cpu", "faiss-gpu"] = "cpu") -> Finding:
    """Checks that exactly one FAISS package is installed, since they all provide the same module.

    Args:
        extra: The extra whose package the profile needs; `faiss-gpu` also has all that `cpu` has.
    """
    names = sorted({str(one.metadata["Name"]).lower() for one in metadata.distributions() if one.metadata["Name"]})
    found = [f"{name} {installed(name)}" for name in names if name.startswith("faiss")]
    install = INSTALL.format(f"omgm[{extra}]")
    if len(found) > 1:
        packages = " ".join(one.split()[0] for one in found)
        fix = f"pip uninstall -y {packages}, then {install}"
        return Finding("faiss", "fail", f"{' and '.join(found)}: they install the same module", fix)
    if not found:
        return Finding("faiss", "fail", "not installed; the entity search needs it", install)
    if extra == "faiss-gpu" and found[0].startswith("faiss-cpu "):
        fix = f"pip uninstall -y faiss-cpu, then {install}; or --set search.gpu=torch"
        return Finding("faiss", "fail", f"{found[0]} cannot search on a GPU", fix)
    return _importable("faiss", "faiss", found[0], install)


def torchvision_finding() -> Finding:
    """Checks torchvision: if it is installed but broken, transformers breaks too."""
    version = installed("torchvision")
    if version is None:
        return Finding("torchvision", "ok", "not installed; only open_clip needs it")
    importlib.import_module("retriever.models")  # prepares what a CPU build of torch lacks
    fix = "pip uninstall -y torchvision, or install the version that constraints.txt pins"
    return _importable("torchvision", "torchvision", version, fix)


def _importable(name: str, module: str, found: str, fix: str) -> Finding:
    try:
        importlib.import_module(module)
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        return Finding(name, "fail", f"{found}, but cannot be imported: {' '.join(str(error).split())}", fix)
    return Finding(name, "ok", found)
