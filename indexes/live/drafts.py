"""Articles that are sent one by one, as over HTTP, and put into an index: `serving.editing` says what that asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from PIL import Image

from indexes.article_images import MAIN_ONLY, MainImage, note_unsearched
from indexes.knowledge.readers.published import entry_of
from indexes.live.articles import Article, completed
from indexes.live.editor import Editor
from indexes.svg import load_any
from retriever.types import Entity


class Draft:
    """An article until it is put into an index; see `serving.editing.Draft`."""

    def __init__(self, entity: Entity, named: Collection[str], editor: Editor) -> None:
        self.article = Article(entity)
        self.notes: list[str] = []
        self._named, self._editor = named, editor

    @property
    def id(self) -> str:
        """The id of its entity."""
        return self.article.entity.id

    @property
    def image_url(self) -> str | None:
        """The URL of its main image; `None` without one, or if the one in the index stays."""
        index = self._editor.index
        row = index.row_of(self.id)
        stays = "image" not in self._named and row is not None and index.image_path(row) is not None
        return None if stays else self.article.entity.image

    def complete(self, image: Image.Image | None) -> list[str]:
        """Sets the main image, and what the article does not name; returns the URLs of its further images."""
        article, index = self.article, self._editor.index
        if image is not None:
            article = article._replace(main=MainImage(article.entity.image), image=image)
        with index.pinned():
            self.article = article = completed(article, index, self._named, self.notes)
        if article.stay:
            return []
        use = self._editor.image_use
        list(note_unsearched(iter([article.entity]), use.keys, self.notes))
        if article.image is None or use._replace(labeled=False) == MAIN_ONLY:
            return []
        main = str(article.main.path)
        self.article = article._replace(names={main: main})
        return [further.url for further in article.entity.images if further.url != main]

    def add(self, url: str, image: Image.Image) -> None:
        """Adds a further image."""
        names, further = {**self.article.names, url: url}, {**self.article.further, url: image}
        self.article = self.article._replace(names=names, further=further)

    def put(self) -> None:
        """Puts it into the index, unless the index has exactly this article; raises as `Editor.put`."""
        if self.article.further or not self._editor.holds(self.article):
            self._editor.put([self.article])


class DraftEditor:
    """Changes an index by drafts; see `serving.editing.Editor`.

    Args:
        editor: Changes the index.
    """

    load_image = staticmethod(load_any)

    def __init__(self, editor: Editor) -> None:
        self.editor = editor

    def draft(self, row: Mapping[str, Any], named: Collection[str]) -> Draft:
        """Reads an article.

        Raises:
            ValueError: A field is missing or wrong.
        """
        _, entity = entry_of(row, "the article", {})
        if isinstance(entity, ValueError):
            raise entity
        if unknown := sorted({name for name, _ in entity.fields} - set(self.editor.index.fields.names)):
            known = (
                ", ".join(self.editor.index.fields.names) or "none; build it again with `omgm build-index --field NAME`"
            )
            raise ValueError(f"fields.{unknown[0]}: the index has no such field; it has {known}")
        return Draft(entity, named, self.editor)

    def remove(self, ids: Sequence[str]) -> None:
        """Removes entities; raises as `Editor.remove`."""
        self.editor.remove(ids)

    def close(self) -> None:
        """Lets other processes change the index."""
        self.editor.close()
