"""Checks whether a profile can run: this machine, its disks, packages and models, chat servers and an index."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from huggingface_hub import constants

from omgm.downloads.hub import base_models, hub_model, local_folder, named_models
from omgm.downloads.weights import free_bytes
from omgm.local_servers import PORTS, local_server_findings
from omgm.machine import (
    Device,
    Finding,
    Status,
    devices,
    disk_findings,
    extra_findings,
    extras,
    faiss_finding,
    installed,
    memory,
    memory_finding,
    nvidia_driver,
    package_findings,
    python_finding,
    torch_findings,
    torchvision_finding,
)
from omgm.profile import CONFIGS, device_of, is_folder, load_profile
from omgm.settings import Profile
from retriever.base_models import bases
from retriever.wording import counted, gigabytes

PUBLISHED = {
    "BAAI/EVA-CLIP-8B": (32.9, 8.2),
    "BAAI/bge-reranker-base": (1.1, 0.28),
    "BAAI/bge-reranker-v2-m3": (2.3, 0.57),
    "Qwen/Qwen3-Embedding-0.6B": (1.2, 0.6),
    "Qwen/Qwen3-Reranker-0.6B": (1.2, 0.6),
    "Qwen/Qwen3-Reranker-4B": (8.0, 4.02),
    "Qwen/Qwen3-VL-Embedding-2B": (4.3, 2.13),
    "Salesforce/blip2-itm-vit-g": (4.7, 1.17),
    "facebook/dinov2-base": (0.35, 0.09),
    "google/siglip-so400m-patch14-384": (3.5, 0.88),
    "google/siglip2-base-patch16-224": (1.5, 0.38),
    "imageomics/bioclip-2": (1.7, 0.43),
    "openai/clip-vit-large-patch14": (1.7, 0.43),
    "timm/eva02_large_patch14_clip_224.merged2b_s4b_b131k": (0.9, 0.43),
}
"""Download size in GB and parameters in billions, as listed on the hub, for models that are not downloaded yet."""

_WIDTH = {"float32": 4, "bfloat16": 2, "float16": 2}


def examine(
    profile: Profile, shown: str = "", index: Path | None = None, ports: Mapping[int, str] = PORTS
) -> list[Finding]:
    """Checks this machine and everything that a profile needs.

    Args:
        profile: The profile to run here.
        shown: The name or file by which the user referred to it; by default its name.
        index: The folder of an index to check too.
        ports: Loopback ports to search for chat servers (`omgm.local_servers`).
    """
    gpus = devices()
    needed = needed_extras(profile)
    cache = Path(constants.HF_HUB_CACHE)
    findings = [python_finding(), *torch_findings(gpus, nvidia_driver()), memory_finding()]
    findings += disk_findings({"working folder": Path.cwd(), "model cache": cache})
    findings += [faiss_finding("faiss-gpu" if "faiss-gpu" in needed else "cpu"), *_search_findings(profile, gpus)]
    findings += [torchvision_finding(), *extra_findings(needed), *package_findings()]
    for path in sorted(CONFIGS.glob("*.toml")):
        findings.append(_config_finding(path.stem, gpus))
    findings.append(_fit_finding(profile, gpus))
    findings += weight_findings(profile, shown or profile.name)
    findings += base_findings(profile)
    findings += [server_finding(profile, "summarizer"), server_finding(profile, "generator")]
    findings += local_server_findings(ports)
    if index is not None:
        findings += index_findings(profile, index)
    return findings


def needed_extras(profile: Profile) -> dict[str, str]:
    """Returns the extras that a profile requires, each with the setting that requires it."""
    needed = {}
    if profile.sections.kind == "flag":
        needed["flag"] = 'sections.kind = "flag"'
    if profile.search.kind in ("milvus", "lancedb"):
        lite = "-lite" if profile.search.kind == "milvus" and profile.search.uri.endswith(".db") else ""
        needed[profile.search.kind + lite] = f'search.kind = "{profile.search.kind}"'
    if profile.search.gpu == "faiss":
        needed["faiss-gpu"] = 'search.gpu = "faiss"'
    model = profile.encoder.model
    folder = _here(model)
    if (folder / "open_clip_config.json").is_file() if folder else model.startswith(("timm/", "imageomics/")):
        needed["openclip"] = f"encoder.model {model}"
    return needed


def _config_finding(name: str, gpus: Sequence[Device]) -> Finding:
    """Checks whether a profile of `configs/` can run here, and if not, reports why."""
    try:
        problems = obstacles(load_profile(name), gpus)
    except ValueError as error:
        return Finding(f"profile {name}", "fail", str(error), "correct the file")
    if not problems:
        return Finding(f"profile {name}", "ok", "can run here")
    return Finding(
        f"profile {name}", "warn", "cannot run here yet: " + "; ".join(problems), f"omgm doctor --profile {name}"
    )


def obstacles(profile: Profile, gpus: Sequence[Device]) -> list[str]:
    """Lists the obstacles to running a profile on this machine: device, memory, packages, weights or disk space."""
    checked = [_fit_finding(profile, gpus), *_search_findings(profile, gpus)]
    problems = [finding.found for finding in checked if finding.status == "fail"]
    requirements = extras()
    for extra, why in needed_extras(profile).items():
        missing = [one.name for one in requirements[extra] if installed(one.name) is None]
        problems += [f"{why} needs {', '.join(missing)}"] if missing else []
    absent = [(model, weights) for _, model, weights in named_models(profile) if _here(model, weights) is None]
    if absent:
        problems.append(f"missing: {', '.join(dict.fromkeys(model.partition('@')[0] for model, _ in absent))}")
    if gone := [base.name for base in base_models(profile) if not (base.folder.is_dir() or base.carrier)]:
        problems.append(f"missing: {', '.join(gone)}")
    size = sum(_published(model)[0] for model, weights in absent if weights) * 1e9
    free = free_bytes(Path(constants.HF_HUB_CACHE))
    if size > free:
        problems.append(f"{gigabytes(size)} to download, but only {gigabytes(free)} of disk free")
    return problems


def weight_findings(profile: Profile, shown: str) -> list[Finding]:
    """Checks that a profile's models are on this machine."""
    findings = []
    for key, model, weights in named_models(profile):
        try:
            folder = local_folder(model, weights=weights)
        except ValueError as error:
            found = str(error).split("; ")[0]
            size = _published(model)[0] if weights else 0
            found += f" ({size} GB to download)" if size else ""
            fix = f"train it, or set {key}" if is_folder(model) else f"omgm download --profile {shown}"
            findings.append(Finding(key, "fail", found, fix))
        else:
            bytes_ = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
            findings.append(Finding(key, "ok", f"{folder}: {gigabytes(bytes_)}"))
    return findings


def base_findings(profile: Profile) -> list[Finding]:
    """Checks the base models (`retriever.base_models`): whether each is on this machine, and unchanged."""
    findings, needed = [], base_models(profile)
    for base in bases().values():
        status: Status = "ok"
        facts, fix = f"{gigabytes(base.bytes)}, {base.license}", ""
        if base.folder.is_dir():
            found = f"{base.folder}: {facts}"
            try:
                base.check(base.folder)
            except ValueError as error:
                status, (found, _, fix) = "fail", str(error).partition("; ")
        elif base.carrier:
            found = f"in the package {base.package} ({facts}); the first command that needs it reads it from there"
        elif base in needed:
            status, found, fix = "fail", f"not on this machine ({facts})", base.ways
        else:
            found = f"not on this machine ({facts}), nor needed by this profile"
        findings.append(Finding(f"base model {base.name}", status, found, fix))
    return findings


def server_finding(profile: Profile, section: Literal["summarizer", "generator"]) -> Finding:
    """Checks that a profile's chat server responds and offers the model."""
    settings = getattr(profile, section)
    if settings.kind != "openai":
        return Finding(section, "ok", f"{settings.kind}, needs no server")
    for key in ("base_url", "model"):
        if not getattr(settings, key):
            return Finding(section, "fail", f"{section}.{key} is not set", f"--set {section}.{key}=...")
    from chat_models.chat import ChatClient
    from chat_models.errors import ChatError

    async def check() -> str:
        async with ChatClient(settings.base_url, settings.model, os.environ.get("OPENAI_API_KEY")) as client:
            return await client.check()

    try:
        return Finding(section, "ok", asyncio.run(check()))
    except (ChatError, ValueError) as error:
        fix = f"start a server with {settings.model}, or set {section}.base_url and {section}.model to a running one"
        return Finding(section, "fail", str(error), fix)


def index_findings(profile: Profile, folder: Path) -> list[Finding]:
    """Checks that an index is complete and was built with the profile's models and settings. Loads no model."""
    from indexes.store.columns import column_files
    from indexes.store.generations import current_files
    from indexes.store.manifest import check_files, read_manifest
    from omgm.kinds.encoders import encoder_identity
    from retriever.models.folder import folder_fingerprint

    rebuild = "omgm build-index --overwrite, or use the profile that the index was built with"
    try:
        folder = current_files(folder)
        manifest = read_manifest(folder)
        check_files(folder, manifest, column_files(manifest), verify=False)
    except ValueError as error:
        return [Finding("index", "fail", str(error), rebuild)]
    inputs, counts = manifest.inputs, manifest.counts
    vectors = sum(manifest.files[name].bytes for name in ("entities.faiss", "vectors.npy") if name in manifest.files)
    tokens = manifest.files["tokens.npy"].bytes
    entities, sections = counted(counts.entities, "entity"), counted(counts.token_sections, "section")
    found = f"{manifest.name}: {entities}, {sections} with tokens; "
    findings = [Finding("index", "ok", f"{found}vectors {gigabytes(vectors)}, tokens {gigabytes(tokens)}")]
    if profile.sections.kind == "hybrid":
        findings.append(_sections_finding(profile, inputs.columns.get("sections")))
    compared: list[tuple[str, object, object]] = [
        ("search.candidates", inputs.candidates, profile.search.candidates),
        ("fusion.tokens", inputs.tokens, profile.fusion.tokens),
    ]
    named = {key: _here(model) for key, model, _ in named_models(profile) if key.startswith(("encoder.", "fusion."))}
    encoder, is_whole = named.get("encoder.model"), named.get("encoder.image_model", Path()) is not None
    if encoder and is_whole and (fingerprint := encoder_identity(profile.encoder, encoder)):
        compared.append(("encoder.model", inputs.encoder, fingerprint))
    if fusion := named.get("fusion.model"):
        compared.append(("fusion.model", inputs.fusion, folder_fingerprint(fusion)))
        compared.append(("token shape", manifest.token_shape, token_shape(fusion)))
    for key, built_with, now in compared:
        name = f"index, {key}"
        if built_with == now:
            findings.append(Finding(name, "ok", "same as in the profile"))
        else:
            # An index with another token type still works; it just differs from the profile.
            status: Status = "warn" if key == "fusion.tokens" else "fail"
            findings.append(Finding(name, status, f"built with {built_with}, but the profile has {now}", rebuild))
    for key, model in named.items():
        if model is None:
            findings.append(Finding(f"index, {key}", "warn", "cannot be compared until the model is downloaded"))
    return findings


def _sections_finding(profile: Profile, built_with: str | None) -> Finding:
    """Compares the encoder that made an index's vectors of sections, if it has any, with that of the profile."""
    from retriever.models.section_encoder import sections_fingerprint
    from retriever.models.text_embedding import MODULES, embedding_fingerprint

    again = "omgm build-index --overwrite, which makes only the vectors of sections again"
    if built_with is None:
        found = "has no vectors of sections, so step 3 compares words only"
        return Finding("index, sections.model", "warn", found, again)
    model = profile.sections.model
    try:
        if (folder := _here(model)) and (folder / MODULES).is_file():
            now = embedding_fingerprint(folder, profile.sections.max_tokens)
        else:
            now = sections_fingerprint(Path(model).expanduser() if is_folder(model) else model)
    except ValueError as error:
        return Finding("index, sections.model", "fail", str(error), "set sections.model to a base model")
    if built_with != now:
        found = f"vectors of sections made by {built_with}, but the profile has {now}"
        return Finding("index, sections.model", "fail", found, f"{again}, or use the profile that it was built with")
    return Finding("index, sections.model", "ok", "same as in the profile")


def token_shape(folder: Path) -> tuple[int, int] | None:
    """Reads the shape (tokens, dimension) of a fusion model's output from its config; `None` without a config."""
    path = folder / "config.json"
    if not path.is_file():
        return None
    config = json.loads(path.read_text(encoding="utf-8"))
    if "queries" in config:  # this project's own folders
        return int(config["queries"]), int(config["qformer"]["hidden_size"])
    # transformers leaves out values that equal its defaults
    return int(config.get("num_query_tokens", 32)), int(config.get("qformer_config", {}).get("hidden_size", 768))


def as_text(findings: Sequence[Finding], *, color: bool = False) -> str:
    """Formats findings as aligned lines, each with its fix below it."""
    paint = {"ok": "32", "warn": "33", "fail": "31"} if color else {}
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        status = f"{finding.status:4}"
        if finding.status in paint:
            status = f"\033[{paint[finding.status]}m{status}\033[0m"
        lines.append(f"{status}  {finding.name:{width}}  {' '.join(finding.found.split())}")
        if finding.fix:
            lines.append(f"{'':{6 + width}}  -> {finding.fix}")
    return "\n".join(lines)


def _search_findings(profile: Profile, gpus: Sequence[Device]) -> list[Finding]:
    """Reports why FAISS cannot search on a GPU, apart from a missing package, if it should."""
    found, fix = 'search.gpu = "faiss"', "--set search.gpu=torch"
    if profile.search.gpu == "faiss" and device_of(profile, lambda: bool(gpus)) == "cpu":
        return [Finding("search.gpu", "fail", f"{found} needs a GPU, but the models run on the CPU", fix)]
    if profile.search.gpu == "faiss" and profile.search.uri:
        kind = f'search.kind = "{profile.search.kind}"'
        return [Finding("search.gpu", "fail", f"{found} does not search a database ({kind})", fix)]
    return []


def _fit_finding(profile: Profile, gpus: Sequence[Device]) -> Finding:
    name = "device"
    on_gpu = device_of(profile, lambda: bool(gpus)) == "cuda"
    dtype: str = profile.dtype
    if dtype == "auto":
        from retriever.models.precision import fastest_dtype

        dtype = str(fastest_dtype("cuda" if on_gpu else "cpu")).removeprefix("torch.")
    counts = [_parameters(model) for _, model, weights in named_models(profile) if weights]
    size = sum(count for count in counts if count is not None) * _WIDTH[dtype]
    found = f"{gigabytes(size)} of weights as {dtype}" + (" and models of unknown size" if None in counts else "")
    if on_gpu and not gpus:
        fix = "run on a machine with an NVIDIA GPU, or pass --set device=cpu --set dtype=float32"
        return Finding(name, "fail", f"{found}: torch sees no GPU", fix)
    if on_gpu:
        gpu = gpus[0]
        has, total, free = f"{gpu.name} with {gigabytes(gpu.total)}, {gigabytes(gpu.free)} free", gpu.total, gpu.free
    else:
        total, free = memory()
        has = f"the CPU with {gigabytes(total)} of memory, {gigabytes(free)} available"
    found = f"{found} on {has}"
    if total and size > total:
        return Finding(
            name, "fail", f"{found}: too little memory", "use a smaller profile, or a device with more memory"
        )
    if total and size > free:
        return Finding(name, "warn", f"{found}: too little is free", "stop other programs that hold the memory")
    return Finding(name, "ok", found)


def _here(model: str, weights: bool = True) -> Path | None:
    try:
        return local_folder(model, weights=weights)
    except ValueError:
        return None


def _published(model: str) -> tuple[float, float]:
    return (0.0, 0.0) if is_folder(model) else PUBLISHED.get(hub_model(model).repo, (0.0, 0.0))


def _parameters(model: str) -> float | None:
    """Returns the number of parameters of a model, or `None` if neither its files nor `PUBLISHED` have it."""
    from retriever.models.folder import count_parameters

    try:
        return count_parameters(local_folder(model))
    except ValueError:  # not downloaded, or without readable weights
        return _published(model)[1] * 1e9 or None
