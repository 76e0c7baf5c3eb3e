"""Fetches models from the Hugging Face hub: selects the files, checks the disk space, and verifies the download."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import HfApi, constants, snapshot_download, try_to_load_from_cache

# The error of whichever HTTP library this release of the client is built on.
from huggingface_hub.errors import HTTPError as TransportError  # type: ignore[attr-defined]
from tqdm import tqdm

from indexes.progress import progress_bar
from omgm.downloads.hub import HubModel, hub_model, named_models
from omgm.profile import is_folder
from omgm.settings import Profile
from retriever.hub import UNWANTED, explain
from retriever.wording import gigabytes

MARGIN = 1 << 30
"""Bytes of disk space that a download must leave free."""

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")
_CHUNK = 1 << 24


class ModelUnavailable(ValueError):
    """A model is not available to this account: gated, private, misspelled, or without safetensors weights."""


def models_of(profile: Profile) -> list[HubModel]:
    """Returns the models that a profile needs from the hub, without those in folders.

    Raises:
        ValueError: A setting is neither a folder nor a model's name.
    """
    return [
        hub_model(model, key, weights=weights) for key, model, weights in named_models(profile) if not is_folder(model)
    ]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file as listed on the hub; `sha256` is of the content (large files only), `git_sha` is Git's blob hash."""

    name: str
    bytes: int
    sha256: str | None
    git_sha: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The files of one commit of a model to fetch, and which of them are already here."""

    model: HubModel
    commit: str
    files: tuple[RemoteFile, ...]
    here: frozenset[str]

    @property
    def pinned(self) -> str:
        """The model's name with its commit, for pinning it in a profile."""
        return f"{self.model.repo}@{self.commit}"

    @property
    def bytes(self) -> int:
        """Total size of the files."""
        return sum(file.bytes for file in self.files)

    @property
    def bytes_to_fetch(self) -> int:
        """Total size of the files that are not here."""
        return sum(file.bytes for file in self.files if file.name not in self.here)


def make_plan(model: HubModel) -> Plan:
    """Asks the hub which files of a model to fetch; fetches nothing.

    Raises:
        ModelUnavailable: The model does not exist, is not available to this account, or has no safetensors weights.
        ValueError: The hub cannot be reached.
    """
    with _explained(model):
        info = HfApi().model_info(model.repo, revision=model.revision, files_metadata=True)
        if info.gated:
            HfApi().auth_check(model.repo)
    files = {
        sibling.rfilename: RemoteFile(
            sibling.rfilename, sibling.size or 0, sibling.lfs.sha256 if sibling.lfs else None, sibling.blob_id
        )
        for sibling in info.siblings or []
    }
    if model.weights and not any(name.endswith(".safetensors") and "/" not in name for name in files):
        raise ModelUnavailable(_without_safetensors(model, sorted(files)))
    chosen = [file for name, file in sorted(files.items()) if _wanted(name, model)]
    commit = str(info.sha)
    here = {file.name for file in chosen if _cached_size(model.repo, commit, file.name) == file.bytes}
    return Plan(model, commit, tuple(chosen), frozenset(here))


def check_disk(plans: Sequence[Plan]) -> int:
    """Checks that the files to fetch fit on the disk with the model cache, and returns its free bytes.

    Raises:
        ValueError: They do not fit.
    """
    free = free_bytes(Path(constants.HF_HUB_CACHE))
    needed = sum(plan.bytes_to_fetch for plan in plans)
    if needed and needed + MARGIN > free:
        raise ValueError(
            f"{constants.HF_HUB_CACHE}: {gigabytes(needed)} to download and {gigabytes(free)} free; make room, or set "
            "HF_HOME to a folder on a larger disk"
        )
    return free


def fetch(plan: Plan) -> Path:
    """Fetches the files of a plan with a progress bar, verifies them, and returns their folder.

    Files that are complete are not fetched again, and an interrupted file resumes.

    Raises:
        ModelUnavailable: The model is no longer available to this account.
        ValueError: The download failed, or a file differs from the hub's list; that file is removed.
    """
    model = plan.model
    with _explained(model):
        # Use the profile's revision rather than the commit, so that a branch can be found offline by its name.
        folder = Path(
            snapshot_download(
                model.repo, revision=model.revision, allow_patterns=model.patterns, ignore_patterns=UNWANTED
            )
        )
    if folder.name != plan.commit:
        raise ValueError(f"{model.name}: moved from {plan.commit} to {folder.name} meanwhile; run the command again")
    verify(folder, plan)
    return folder


def verify(folder: Path, plan: Plan) -> None:
    """Compares every file of a plan with the hub's list, by size and hash.

    Raises:
        ValueError: A file differs; it is removed, and the next download fetches it again.
    """
    with progress_bar(total=plan.bytes, desc=f"verifying {plan.model.repo}", unit="B", unit_scale=True) as bar:
        for file in plan.files:
            path = folder / file.name
            problem = _difference(path, file, bar)
            if problem:
                _remove(path)
                raise ValueError(
                    f"{plan.pinned}: {file.name}: {problem}; the file was removed, run the command again (if this "
                    f"repeats, {constants.ENDPOINT} serves other content than it lists)"
                )


def free_bytes(folder: Path) -> int:
    """Returns the free bytes of the disk that a folder is on, or would be created on."""
    folder = folder.expanduser().absolute()
    return shutil.disk_usage(next(one for one in (folder, *folder.parents) if one.exists())).free


def _wanted(name: str, model: HubModel) -> bool:
    """Returns whether `snapshot_download` fetches a file, given the same patterns."""
    unwanted = any(fnmatch(name, pattern) for pattern in UNWANTED)
    return not unwanted and any(fnmatch(name, pattern) for pattern in model.patterns)


def _cached_size(repo: str, commit: str, name: str) -> int | None:
    path = try_to_load_from_cache(repo, name, revision=commit)
    return Path(path).stat().st_size if isinstance(path, str) and Path(path).is_file() else None


def _difference(path: Path, file: RemoteFile, bar: tqdm[None]) -> str | None:
    size = path.stat().st_size
    if size != file.bytes:
        return f"{size} bytes, but the hub lists {file.bytes}"
    # Git hashes a header before the content.
    digest = hashlib.sha256() if file.sha256 else hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    expected = file.sha256 or file.git_sha
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            bar.update(len(chunk))
    found = digest.hexdigest()
    return None if found == expected else f"{digest.name} {found}, but the hub lists {expected}"


def _remove(path: Path) -> None:
    """Removes a file of the cache and the blob that it links to."""
    while path.is_symlink():
        target = path.parent / path.readlink()
        path.unlink()
        path = target
    path.unlink(missing_ok=True)


def _without_safetensors(model: HubModel, names: Sequence[str]) -> str:
    pickled = [name for name in names if name.endswith(_PICKLED)]
    if model.key == "fusion.model":
        advice = "import a .pth file with `omgm import reranker` and set fusion.model to the folder it writes"
    else:
        advice = (
            "name a revision that has them (conversions are often open pull requests: "
            f"{model.repo}@refs/pr/1), or set {model.key} to a folder with converted weights"
        )
    shown = ", ".join(pickled[:3]) + (" ..." if len(pickled) > 3 else "")
    only = f", only {shown}" if pickled else ""
    return f"{model.key}: {model.name} has no .safetensors weights{only}; {advice}"


@contextmanager
def _explained(model: HubModel) -> Iterator[None]:
    """Converts the hub client's errors to one that names the setting and says what to do."""
    try:
        yield
    except (OSError, TransportError) as error:
        reason, refused = explain(error, model.repo, model.revision)
        if not refused:
            raise ValueError(f"{model.key}: {model.name}: {reason}") from error
        without = "" if model.weights else '; or set it to "" to cut long contexts by characters instead of tokens'
        raise ModelUnavailable(f"{model.key}: {model.name}: {reason}{without}") from error
