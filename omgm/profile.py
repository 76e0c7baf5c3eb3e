"""Reads profiles from TOML files and overrides, checks every key, and chooses their device."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from omgm.settings import Profile

_PACKAGE = Path(__file__).resolve().parent
CONFIGS = next(folder for folder in (_PACKAGE / "configs", _PACKAGE.parent / "configs") if folder.is_dir())
"""The folder of named profiles: inside the package in an installed wheel, else at the top of the repository."""
MODELS = (
    "encoder.model", "encoder.image_model", "fusion.model", "sections.model", "regions.model", "summarizer.tokenizer",
    "generator.tokenizer",
)  # fmt: skip
"""Settings that name a model: a folder if they start with ".", "/" or "~", else a name on the Hugging Face hub."""
PATHS = {*MODELS, "serving.examples_dir", "summarizer.cache", "agents.publish_dir", "agents.web_corpus"}
"""Settings that can be paths, relative to the profile's file or, after `--set`, to the working folder."""
_WORDS = ("auto", "none")
"""Values of `summarizer.cache` that are not paths."""

Values = dict[str, Any]
"""Settings by their dotted names: `{"search.k": 20}`."""


def load_profile(name_or_path: str, overrides: Sequence[str] | Mapping[str, Any] = ()) -> Profile:
    """Loads a profile with the profiles that it extends, and applies overrides.

    Args:
        name_or_path: A name from `configs/` or a file.
        overrides: Strings `section.key=value`, with the value as in TOML or a bare word; or a mapping of `section.key`
            to values.

    Raises:
        ValueError: The profile does not exist, or a key or value is invalid; the message names the file and the key.
    """
    path = resolve(name_or_path)
    values, origins = _read(path, ())
    given, origin = _given(overrides)
    values |= given
    origins |= dict.fromkeys(given, origin)
    try:
        profile = Profile.model_validate(nested(values))
    except ValidationError as error:
        problems = []
        for problem in error.errors():
            key = ".".join(str(part) for part in problem["loc"][:2])
            place = ".".join(map(str, problem["loc"])) or "profile"
            told = 'missing; set it, or extend a profile that does: extends = "embedded"'
            if problem["type"] != "missing":
                told = problem["msg"].removeprefix("Value error, ")
            problems.append(f"{origins.get(key, path)}: {place}: {told}")
        raise ValueError("; ".join(problems)) from error
    settings = [f"{key}={toml(value)}" for key, value in given.items()] if isinstance(overrides, Mapping) else overrides
    profile._options = shlex.join(["--profile", name_or_path, *(word for one in settings for word in ("--set", one))])
    return profile


def resolve(name_or_path: str, beside: Path | None = None) -> Path:
    """Finds the file of a profile.

    Args:
        name_or_path: A name from `configs/` or a file.
        beside: The folder that relative paths are relative to; by default the working folder.

    Raises:
        ValueError: Neither exists.
    """
    named = CONFIGS / f"{name_or_path}.toml"
    if "/" not in name_or_path and named.is_file():
        return named
    path = (beside or Path()) / name_or_path
    if path.is_file():
        return path.resolve()
    known = ", ".join(sorted(file.stem for file in CONFIGS.glob("*.toml")))
    raise ValueError(f"profile: {name_or_path!r} is neither a file nor one of configs/ ({known})")


def parse_overrides(overrides: Sequence[str]) -> Values:
    """Parses settings of the form `section.key=value`; makes paths absolute.

    Raises:
        ValueError: A setting does not have this form, or its key is unknown.
    """
    values: Values = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        key = key.strip()
        if not equals:
            raise ValueError(f"--set: expected section.key=value, got {override!r}")
        _check_key(key, "--set")
        try:
            value: Any = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        values[key] = str(Path(str(value)).expanduser().resolve()) if is_path(key, value) else value
    return values


def _given(overrides: Sequence[str] | Mapping[str, Any]) -> tuple[Values, str]:
    """Returns the caller's settings, and the name of their source for error messages."""
    if not isinstance(overrides, Mapping):
        return parse_overrides(overrides), "--set"
    values: Values = {}
    for key, value in overrides.items():
        _check_key(key, "settings")
        text = str(value) if isinstance(value, Path) else value
        values[key] = str(Path(text).expanduser().resolve()) if is_path(key, text) else text
    return values, "settings"


def is_folder(model: str) -> bool:
    """Returns whether the value of a model setting is a folder rather than a name on the hub."""
    return model.startswith((".", "/", "~"))


def is_path(key: str, value: object) -> bool:
    """Returns whether the value of a setting is a path."""
    if key not in PATHS or not isinstance(value, str) or (key == "summarizer.cache" and value in _WORDS):
        return False
    return key not in MODELS or is_folder(value)


def _read(path: Path, seen: tuple[Path, ...]) -> tuple[Values, dict[str, object]]:
    """Returns the settings of a file and the files that it extends, and the file that each setting comes from."""
    if path in seen:
        raise ValueError(f"{path}: extends: the profile extends itself")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not TOML: {error}") from error
    values: Values = {}
    origins: dict[str, object] = {}
    extends = table.pop("extends", None)
    if extends is not None:
        if not isinstance(extends, str):
            raise ValueError(f"{path}: extends: must be a name from configs/ or a file, got {extends!r}")
        try:
            base = resolve(extends, path.parent)
        except ValueError as error:
            raise ValueError(f"{path}: extends: {error}") from error
        values, origins = _read(base, (*seen, path))
    values["name"] = path.stem  # not the name of the profile it extends
    for key, value in _flat(table, path).items():
        if is_path(key, value):
            value = os.path.normpath(path.parent / Path(value).expanduser())
        values[key], origins[key] = value, path
    return values, origins


def _flat(table: Mapping[str, Any], where: Path) -> Values:
    values: Values = {}
    for name, value in table.items():
        pairs = {f"{name}.{key}": v for key, v in value.items()} if isinstance(value, dict) else {name: value}
        for key in pairs or {name: value}:
            _check_key(key, where)
        values |= pairs
    return values


def _check_key(key: str, where: object) -> None:
    section, dot, name = key.partition(".")
    field = Profile.model_fields.get(section)
    if field is None:
        raise ValueError(f"{where}: unknown key {key!r}; expected one of {', '.join(Profile.model_fields)}")
    part = field.annotation
    settings = part.model_fields if isinstance(part, type) and issubclass(part, BaseModel) else {}
    if dot and name not in settings:
        advice = "; keys of servers belong into the environment: OPENAI_API_KEY" if name == "api_key" else ""
        raise ValueError(f"{where}: unknown key {key!r}; {section} has {', '.join(settings) or 'no keys'}{advice}")
    if not dot and settings:
        raise ValueError(
            f"{where}: {section} is a table; set one of its keys: {', '.join(f'{section}.{k}' for k in settings)}"
        )


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings by sections."""
    nested: dict[str, Any] = {}
    for key, value in values.items():
        section, dot, name = key.partition(".")
        if dot:
            nested.setdefault(section, {})[name] = value
        else:
            nested[section] = value
    return nested


def toml(value: Any) -> str:
    """Returns a value as TOML writes it."""
    return json.dumps(value, ensure_ascii=False, default=str)


def sees_gpu() -> bool:
    """Returns whether PyTorch sees a GPU."""
    try:
        import torch
    except (ImportError, OSError):
        return False
    return torch.cuda.is_available()


def device_of(profile: Profile, gpu: Callable[[], bool] = sees_gpu) -> str:
    """Returns the device that a profile's models run on, "cpu" or "cuda"; for "auto", it is the GPU if there is one.

    Args:
        profile: The profile.
        gpu: Returns whether there is a GPU. Called only for "auto", because PyTorch initializes CUDA to answer, which
            nothing should do that runs on the CPU.
    """
    if profile.device != "auto":
        return profile.device
    return "cuda" if gpu() else "cpu"
