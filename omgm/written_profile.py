"""Writes profiles, which tunings and trainings leave beside what they found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omgm.profile import CONFIGS, is_path, nested, resolve, toml
from retriever.files import write_whole


def write_profile(folder: Path, extends: str, values: Mapping[str, Any]) -> Path:
    """Writes `folder/profile.toml`, which extends a profile with some settings, and returns its path.

    Paths inside the folder become relative, so that the folder can be moved.

    Args:
        folder: The folder to write to.
        extends: A name from `configs/` or a file.
        values: Settings by their dotted names.
    """
    base = resolve(extends)
    lines = [f"extends = {json.dumps(base.stem if base.parent == CONFIGS else str(base), ensure_ascii=False)}"]
    sections = nested({"name": folder.resolve().name, **values})
    lines += [f"{key} = {toml(value)}" for key, value in sections.items() if not isinstance(value, dict)]
    for section, settings in sections.items():
        if isinstance(settings, dict):
            lines += ["", f"[{section}]"]
            for key, value in settings.items():
                if is_path(f"{section}.{key}", value) and Path(value).resolve().is_relative_to(folder.resolve()):
                    value = f"./{Path(value).resolve().relative_to(folder.resolve()).as_posix()}"
                lines.append(f"{key} = {toml(value)}")
    path = folder / "profile.toml"
    write_whole(path, ("\n".join(lines) + "\n").encode())
    return path
