"""A small index to change, and the fresh build that it must then equal."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from PIL import Image

from indexes.knowledge.sources import FolderImages
from indexes.live.articles import article_of
from indexes.live.editor import Editor
from indexes.live.index import LiveIndex
from indexes.store.columns import all_files
from indexes.store.index import Index
from indexes.store.manifest import REPORT
from retriever.types import ArticleImage, Entity, Section
from tests.fakes.models import PALETTE, FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index
from tests.paths import contents


def painting(seed: int) -> Image.Image:
    """Returns an image with all colors of the palette, each with its own share."""
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.ones(len(PALETTE)))
    pixels = np.array(list(PALETTE.values()), np.uint8)[generator.choice(len(PALETTE), (32, 32), p=shares)]
    return Image.fromarray(np.kron(pixels, np.ones((4, 4, 1), np.uint8)))


def article(name: str, seed: int = 0, image: str | None = "own", sections: int = 2, further: int = 0) -> Entity:
    """Returns an article; "own" is an image that `World` paints from the seed; `further` ones belong to sections."""
    generator = np.random.default_rng(hash_of(f"{name}-{seed}"))
    texts = [" ".join(generator.choice(list(PALETTE), 40)) + f" {name} {seed}." for _ in range(sections)]
    return Entity(
        id=f"kb/{name}",
        title=f"{name} {seed}",
        sections=tuple(Section(f"Part {i}", text, i) for i, text in enumerate(texts)),
        image=f"of-{name}-{seed}.png" if image == "own" else image,  # not named like the article
        images=tuple(ArticleImage(f"{name}-{seed}/{i}.png", i % sections) for i in range(further)),
    )


class World:
    """A folder with images, an index of some articles, and helpers to change it.

    Args:
        folder: An empty folder.
        articles: The articles that the index is built from.
        options: Further arguments of `build_index`.
    """

    folder: Path
    index: Path
    images: Path
    options: dict[str, Any]

    def __init__(self, folder: Path, articles: Sequence[Entity], **options: Any) -> None:
        vars(self).update(vars(self.at(folder, **options)))
        self.build(articles, self.index)

    @classmethod
    def at(cls, folder: Path, **options: Any) -> Self:
        """Returns a world that exists, as for another process, or whose index is still to be built."""
        world = object.__new__(cls)
        world.folder, world.index, world.images = folder, folder / "index", folder / "images"
        world.options = {"candidates": "combined", "tokens": "int8"} | options
        world.images.mkdir(parents=True, exist_ok=True)
        return world

    def paint(self, entities: Iterable[Entity]) -> None:
        """Writes the images of articles that have one."""
        for entity in entities:
            if entity.image and "-" in entity.image:
                painting(hash_of(entity.image)).save(self.images / entity.image)
            for image in entity.images:
                (self.images / image.url).parent.mkdir(exist_ok=True)
                painting(zlib.crc32(image.url.encode())).save(self.images / image.url)

    def build(self, articles: Sequence[Entity], out: Path) -> Index:
        """Builds an index of articles."""
        self.paint(articles)
        kb = self.folder / f"{out.name}.jsonl"
        kb.write_text("".join(json.dumps(as_row(one)) + "\n" for one in articles), encoding="utf-8")
        return build_index(kb, self.images, out, **self.options)

    def open(self, **options: Any) -> LiveIndex:
        """Opens the index as a reader does."""
        return LiveIndex.open(self.index, encoder=FakeEncoder(), fusion=FakeFusion(), **options)

    def editor(self, **options: Any) -> Editor:
        """Opens the index to change it."""
        return Editor(self.open(write=True), FakeSummarizer, FakeEncoder(), FakeFusion(), **options)

    def put(self, editor: Editor, *articles: Entity) -> None:
        """Puts articles with their images."""
        self.paint(articles)
        use = editor.index.manifest.inputs.image_use
        editor.put([article_of(one, FolderImages(self.images), use) for one in articles])


def as_row(entity: Entity) -> dict[str, Any]:
    """Returns an article as a line of a knowledge base."""
    sections = [{"title": one.title, "text": one.text} for one in entity.sections]
    images = [{"url": one.url, "section": one.section} for one in entity.images]
    row = {"id": entity.id, "title": entity.title, "image": entity.image, "images": images, "sections": sections}
    return row | ({"names": list(entity.names)} if entity.names else {})


def hash_of(name: str) -> int:
    """Returns a number that depends only on a name."""
    return int.from_bytes(name.encode()[-6:], "big")


def data_of(folder: Path) -> dict[str, bytes]:
    """Returns the data files of an index: all but the manifest, which names the knowledge base.

    The report is without what is known only when the knowledge base is read: how many words and image files it has,
    how many of these belong to no entity, and how many images of an entity are beyond `image_keys`.
    """
    files = {name: data for name, data in contents(folder).items() if name in all_files() or name.startswith("images/")}
    report = json.loads(files[REPORT])
    report.pop("words")
    report["pictures"].pop("files")
    assert all("not searched" in note or "of no entity" in note for note in report.pop("notes", []))
    return files | {REPORT: json.dumps(report).encode()}


BASE = [article(name) for name in ("a", "b", "c", "d", "e")]
