"""What the service asks of an index that it can change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from PIL import Image


class Draft(Protocol):
    """An article that was sent, until it is put into the index."""

    @property
    def id(self) -> str:
        """The id of its entity."""

    @property
    def notes(self) -> Sequence[str]:
        """Images that stayed or were removed, and those that are not searched, with the reason."""

    @property
    def image_url(self) -> str | None:
        """The URL of its main image; `None` without one, or if the one in the index stays."""

    def complete(self, image: Image.Image | None) -> Sequence[str]:
        """Sets the main image, and what the article does not name of the entity that it replaces.

        Returns:
            The URLs of its further images, of which those that can be fetched are passed to `add`.
        """

    def add(self, url: str, image: Image.Image) -> None:
        """Adds a further image."""

    def put(self) -> None:
        """Adds it to the index, or replaces the one with its id; on return, it is on disk and searchable.

        Raises:
            ChatError: The model that writes summaries failed.
            OSError: The article could not be written; nothing has changed.
            ValueError: The index cannot be changed with these models.
        """


class Editor(Protocol):
    """Changes an index. Its methods are called in threads, and several at a time."""

    def load_image(
        self, file: bytes, name: str = "", *, max_pixels: int | None = None, max_side: int | None = None
    ) -> Image.Image:
        """Reads an image of an article as `retriever.images.load_image` does, perhaps of more formats."""

    def draft(self, row: Mapping[str, Any], named: Collection[str]) -> Draft:
        """Reads an article.

        Args:
            row: Its fields.
            named: Which of "image", "images", "url" and "fields" it names; the others stay as they are.

        Raises:
            ValueError: A field is missing or wrong.
        """

    def remove(self, ids: Sequence[str]) -> None:
        """Removes entities; on return, the removal is on disk and they are no longer found.

        Raises:
            KeyError: One of them is not in the index; none is removed.
            OSError: As for `Draft.put`.
            ValueError: As for `Draft.put`.
        """


OpenEditor = Callable[[], Editor | str]
"""Opens an index for changes that another process had open, or returns why it cannot be changed now."""
