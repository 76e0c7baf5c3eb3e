"""Finds a profile's models by name: on the Hugging Face hub, and their files on this machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from generators.reader import BASE as READER_BASE
from omgm.profile import MODELS, is_folder
from omgm.settings import Profile
from retriever.base_models import TEXT_READER, Base, bases
from retriever.files import read_object
from retriever.hub import SETTINGS, UNWANTED, WEIGHTS, split_name


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model on the hub.

    Attributes:
        key: The setting of the profile that names it.
        repo: `org/name`.
        revision: A commit, a branch or a tag; `None` is the newest.
        weights: False if only its tokenizer is needed.
    """

    key: str
    repo: str
    revision: str | None = None
    weights: bool = True

    @property
    def name(self) -> str:
        """The name as written in a profile."""
        return f"{self.repo}@{self.revision}" if self.revision else self.repo

    @property
    def patterns(self) -> list[str]:
        """Patterns of the files that are needed."""
        return [*SETTINGS, *WEIGHTS] if self.weights else SETTINGS


def hub_model(model: str, key: str = "model", *, weights: bool = True) -> HubModel:
    """Parses `org/name` or `org/name@revision`.

    Raises:
        ValueError: The name has another form.
    """
    try:
        return HubModel(key, *split_name(model), weights)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def named_models(profile: Profile) -> list[tuple[str, str, bool]]:
    """Returns the models of a profile as (setting, folder or name, whether weights are needed)."""
    on_server = {"encoder.model": profile.encoder.base_url, "sections.model": profile.sections.base_url}
    named = [(key, attrgetter(key)(profile)) for key in MODELS if not on_server.get(key)]
    return [(key, model, not key.endswith("tokenizer")) for key, model in named if model and model not in bases()]


def base_models(profile: Profile) -> list[Base]:
    """Returns the base models that a profile builds on.

    They are named by a setting, by the `config.json` in its folder, or needed for extractive answers or text in images.
    """
    models = [getattr(profile, section).model for section in ("encoder", "fusion", "sections", "regions")]
    configs = [Path(model).expanduser() / "config.json" for model in models if is_folder(model)]
    names = {*models, *(read_object(path).get("base_model") for path in configs if path.is_file())}
    if profile.generator.kind == "extractive":
        names.add(READER_BASE)
    if profile.search.words:
        names.add(TEXT_READER)
    return [base for name, base in bases().items() if name in names]


def local_folder(model: str, *, weights: bool = True, options: str = "") -> Path:
    """Returns the folder with a model's files. Never uses the network.

    Args:
        model: A folder, or `org/name` or `org/name@revision` on the hub.
        weights: False if its tokenizer is enough.
        options: The options for `omgm download` to fetch it, for the error message.

    Raises:
        ValueError: The folder does not exist, or files of the model are missing; the message says how to get them.
    """
    if is_folder(model):
        folder = Path(model).expanduser()
        if not folder.is_dir():
            raise ValueError(f"{folder} does not exist; train the model, or name another folder")
        return folder
    wanted = hub_model(model, weights=weights)
    advice = f"run: omgm download {options}" if options else "run `omgm download` with a profile that names it"
    if (cached := _snapshot(wanted)) is None:
        if others := _complete_revisions(wanted):
            advice = f"revision {others[0]} is, so name it {wanted.repo}@{others[0]}; or {advice}"
        if Path(model).is_dir():
            advice = f"if the folder here is meant, name it ./{model}; or {advice}"
        raise ValueError(f"{model}: not on this machine, or not all of it; {advice}")
    if weights and (missing := missing_weights(cached)):
        raise ValueError(f"{model}: {cached} lacks {', '.join(missing)}; {advice}")
    return cached


def _snapshot(model: HubModel) -> Path | None:
    """Returns the cached folder of a model's revision if all its files are there."""
    from huggingface_hub import snapshot_download  # only here, because models in folders do without its HTTP client
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            model.repo,
            revision=model.revision,
            local_files_only=True,
            allow_patterns=model.patterns,
            ignore_patterns=UNWANTED,
        )
    except LocalEntryNotFoundError:
        return None
    return Path(folder)


def _complete_revisions(model: HubModel) -> list[str]:
    """Returns the cached commits of a model that are complete."""
    from huggingface_hub import constants

    snapshots = Path(constants.HF_HUB_CACHE) / f"models--{model.repo.replace('/', '--')}" / "snapshots"
    commits = sorted(path.name for path in snapshots.iterdir()) if snapshots.is_dir() else []
    folders = {commit: _snapshot(replace(model, revision=commit)) for commit in commits}
    return [commit for commit, folder in folders.items() if folder and not (model.weights and missing_weights(folder))]


def missing_weights(folder: Path) -> list[str]:
    """Returns the safetensors files that a model folder lacks: shards that its index lists, or all of them."""
    indexes = map(read_object, folder.glob("*.safetensors.index.json"))
    missing = {name for index in indexes for name in index["weight_map"].values() if not (folder / name).is_file()}
    if not missing and not any(folder.glob("*.safetensors")):
        missing = {"*.safetensors"}
    return sorted(missing)
