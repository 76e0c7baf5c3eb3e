"""Models on the Hugging Face hub: load by name, save with a card, and publish."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import torch

from retriever.card import CARD_NAME, card_bytes, is_generated, write_card
from retriever.files import replacing
from retriever.hub import SETTINGS, UNWANTED, WEIGHTS, local_or_fetched, push_files
from retriever.models.folder import is_published, kind_of, published_files, same_weights, stored_dtype
from retriever.models.model_card import model_card
from retriever.models.pixels import PixelPreparation


class Published(ABC):
    """A model that can be published. Subclasses implement `load` and `save` for a folder; this class handles the hub.

    Attributes:
        folder: Where the model was loaded from, or `None`.
        fingerprint: Hash of that folder.
    """

    folder: Path | None = None
    fingerprint: str

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, *args: Any, **kwargs: Any) -> Self:
        """Loads the model in `folder`."""

    @abstractmethod
    def save(self, folder: Path, dtype: torch.dtype = torch.float32) -> None:
        """Writes the folder that `load` reads, with weights of `dtype`."""

    @classmethod
    def from_pretrained(
        cls, name: str | Path, *, revision: str | None = None, token: str | None = None, **options: Any
    ) -> Self:
        """Loads a model from a folder or from the hub, fetching missing files.

        Args:
            name: A folder, `org/name` or `org/name@revision`.
            revision: A commit, a branch or a tag.
            token: A hub token; by default the one saved by `hf auth login`.
            **options: Passed to `load`.

        Raises:
            ValueError: The files are not available, or are not those of such a model; the message says what to do.
        """
        return cls.load(
            local_or_fetched(name, revision, token, allow=[*SETTINGS, *WEIGHTS], ignore=UNWANTED), **options
        )

    def save_pretrained(
        self, folder: str | Path, *, dtype: torch.dtype | None = None, license: str | None = None
    ) -> None:
        """Writes the model's folder with its card; replaces other model files there, but not a handwritten card.

        If the weights have not changed since loading, the folder is copied byte for byte, including the training record
        (`training.json`), so that an index built with one opens with the other.

        Args:
            folder: The folder to write.
            dtype: Type of the weights; by default as in the folder that the model was loaded from, else float32.
            license: For the card, a license identifier of the hub such as `apache-2.0`.

        Raises:
            ValueError: This kind of model cannot be saved.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        loaded = self.folder if self.folder is not None and self.folder.is_dir() else None
        if dtype is None:
            dtype = torch.float32 if loaded is None else stored_dtype(loaded)
        with TemporaryDirectory(dir=folder, prefix=".saving-") as temporary:
            source = Path(temporary)
            self.save(source, dtype)
            # Tokenizers are left out of the comparison: their saved file also records how they were last used.
            if loaded is not None and _is_same_model(source, loaded):
                source = loaded
            if source.resolve() != folder.resolve():
                _replace_model(folder, source, shutil.copyfile if source == loaded else os.replace)
        write_card(folder, model_card(folder, license=license))

    def push_to_hub(
        self,
        repo: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        message: str | None = None,
        dtype: torch.dtype | None = None,
        license: str | None = None,
    ) -> str:
        """Publishes the model, as `save_pretrained` writes it, in one commit; returns `org/name@commit`.

        Args:
            repo: `org/name`, created if it does not exist.
            private: Whether to create it as private; by default the organization's setting.
            token: A hub token with write access; by default the one saved by `hf auth login`.
            message: The commit message.
            dtype: As in `save_pretrained`.
            license: As in `save_pretrained`.

        Raises:
            ValueError: This kind of model cannot be saved, or the hub refuses it; the message says what to do.
        """
        with TemporaryDirectory(prefix="omgm-") as temporary:
            self.save_pretrained(temporary, dtype=dtype)
            return push_model(Path(temporary), repo, private=private, token=token, message=message, license=license)


def push_model(
    folder: Path,
    repo: str,
    *,
    private: bool | None = None,
    token: str | None = None,
    message: str | None = None,
    license: str | None = None,
) -> str:
    """Publishes a model folder byte for byte, with its card, in one commit; returns `org/name@commit`.

    Raises:
        ValueError: The folder is not a model folder, contains other files, or the hub refuses the upload.
    """
    files = published_files(folder)
    card = card_bytes(folder, model_card(folder, repo, license))

    def named() -> Iterator[tuple[str, Path | bytes]]:
        yield CARD_NAME, card
        for path in files:
            yield path.name, path

    return push_files(
        repo, named(), ours=is_published, message=message or f"Upload {kind_of(folder)}", private=private, token=token
    )


def _is_same_model(saved: Path, loaded: Path) -> bool:
    """Tells whether a folder just saved has the same weights and image preparation as the loaded one."""
    return same_weights(saved, loaded) and PixelPreparation.load(saved) == PixelPreparation.load(loaded)


def _replace_model(target: Path, source: Path, put: Callable[[Path, Path], object]) -> None:
    """Replaces a model's files, the weights last: an incomplete folder has none, so it is not mistaken for a model.

    Args:
        target: The folder to change.
        source: The folder of the new model; its card is copied if it is handwritten and `target` has none.
        put: Copies or moves a file.
    """
    files = sorted(published_files(source), key=lambda path: path.suffix == ".safetensors")
    for path in sorted(target.iterdir(), key=lambda path: path.suffix != ".safetensors"):
        if path.is_file() and is_published(path.name):
            path.unlink()
    for path in files:
        with replacing(target / path.name) as partial:
            put(path, partial)
    card = source / CARD_NAME
    if card.is_file() and not is_generated(card.read_text(encoding="utf-8")) and not (target / CARD_NAME).exists():
        shutil.copyfile(card, target / CARD_NAME)
