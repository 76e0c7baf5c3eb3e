"""Where a model's files lie: a folder, or the local copy of a repository of the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError


def local_folder(model: str) -> Path:
    """Returns the folder of a model; the network is never asked.

    Args:
        model: A folder (it begins with ".", "/" or "~"), or `org/name` or `org/name@revision` on the hub.

    Raises:
        ValueError: The folder does not exist, or the repository was not downloaded.
    """
    if model.startswith((".", "/", "~")):
        folder = Path(model).expanduser()
        if not folder.is_dir():
            raise ValueError(f"{folder} does not exist")
        return folder
    name, _, revision = model.partition("@")
    try:
        return Path(snapshot_download(name, revision=revision or None, local_files_only=True))
    except LocalEntryNotFoundError as error:
        raise ValueError(f"{model} is not here; run `omgm download` with this profile") from error
