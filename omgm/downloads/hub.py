"""Models by name: what a profile needs from the Hugging Face hub, and where its files lie on this machine."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

from omgm.profile import Profile, is_folder

SETTINGS = ["*.json", "*.txt", "*.model", "*.jinja"]
"""Configuration, tokenizer and preprocessor; `*.model` is sentencepiece's."""
WEIGHTS = ["*.safetensors"]
UNWANTED = ["*/*", "*.bin.index.json", "*.msgpack.index.json", "*.h5.index.json"]
"""Folders (other formats, originals) and lists of pickled shards are never fetched."""

_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model on the hub.

    Attributes:
        key: The profile's setting that names it.
        repo: `org/name`.
        revision: A commit, a branch or a tag; `None` is the newest.
        weights: False where only its tokenizer is needed.
    """

    key: str
    repo: str
    revision: str | None = None
    weights: bool = True

    @property
    def name(self) -> str:
        """What the profile says."""
        return f"{self.repo}@{self.revision}" if self.revision else self.repo

    @property
    def patterns(self) -> list[str]:
        """Which of its files are needed."""
        return [*SETTINGS, *WEIGHTS] if self.weights else SETTINGS


def hub_model(model: str, key: str = "model", *, weights: bool = True) -> HubModel:
    """Returns what `org/name` or `org/name@revision` names.

    Raises:
        ValueError: It is of another form.
    """
    found = _NAME.fullmatch(model)
    if found is None:
        raise ValueError(
            f'{key}: {model!r} is neither a folder (begins with ".", "/" or "~") nor org/name or org/name@revision'
        )
    return HubModel(key, found["repo"], found["revision"], weights)


def named_models(profile: Profile) -> list[tuple[str, str, bool]]:
    """Returns the models of a profile as (setting, folder or name, whether its weights are needed)."""
    named = [
        ("encoder.model", profile.encoder.model, True),
        ("fusion.model", profile.fusion.model, True),
        ("sections.model", profile.sections.model, True),
        ("summarizer.tokenizer", profile.summarizer.tokenizer, False),
        ("generator.tokenizer", profile.generator.tokenizer, False),
    ]
    return [row for row in named if row[1]]


def models_of(profile: Profile) -> list[HubModel]:
    """Returns the models that a profile needs from the hub; folders are left out.

    Raises:
        ValueError: A setting is neither a folder nor a model's name.
    """
    return [
        hub_model(model, key, weights=weights) for key, model, weights in named_models(profile) if not is_folder(model)
    ]


def local_folder(model: str, *, weights: bool = True) -> Path:
    """Returns the folder with a model's files. Never touches the network.

    Args:
        model: A folder, or `org/name` or `org/name@revision` on the hub.
        weights: False where its tokenizer is enough.

    Raises:
        ValueError: The folder does not exist, or files of the model are missing; the message says how to get them.
    """
    if is_folder(model):
        folder = Path(model).expanduser()
        if not folder.is_dir():
            raise ValueError(f"{folder} does not exist; train the model, or name another folder")
        return folder
    wanted = hub_model(model, weights=weights)
    try:
        found = snapshot_download(
            wanted.repo,
            revision=wanted.revision,
            local_files_only=True,
            allow_patterns=wanted.patterns,
            ignore_patterns=UNWANTED,
        )
    except LocalEntryNotFoundError as error:
        raise ValueError(f"{model}: not on this machine, or not all of it; run: omgm download --profile P") from error
    folder = Path(found)
    if weights and (missing := missing_weights(folder)):
        raise ValueError(f"{model}: {folder} lacks {', '.join(missing)}; run: omgm download --profile P")
    return folder


def missing_weights(folder: Path) -> list[str]:
    """Returns which safetensors files a model's folder lacks: any at all, or the shards that its index lists."""
    missing = set()
    for index in folder.glob("*.safetensors.index.json"):
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        missing |= {name for name in shards if not (folder / name).is_file()}
    if not missing and not any(folder.glob("*.safetensors")):
        missing = {"*.safetensors"}
    return sorted(missing)
