"""Columns of images of articles that are put into an index: which images are read anew, and whose rows stay."""

from __future__ import annotations

import numpy as np
from PIL import Image

from indexes.builder.image_stage import EntityImages
from indexes.live.articles import Article, own_row
from indexes.live.index import LiveIndex
from indexes.store.columns import MAIN, Column, Encoded, picture_part
from retriever.types import LABELED


def new_pictures(article: Article, images: EntityImages) -> dict[int, Image.Image]:
    """Returns an article's searched images by their parts, without those that the index has."""
    pictures = {} if article.kept or article.image is None else {MAIN: article.image}
    for image in article.entity.images:
        name = article.names.get(image.url, "")
        if name in images.further.keys and images.images[name] not in pictures.values():
            pictures[picture_part(image.url)] = images.images[name]
    return pictures


def main_part(article: Article) -> int:
    """Returns the part that an article's main image has by its URL, see `Stored.main`."""
    urls = (image.url for image in article.entity.images)
    named = (url for url in urls if article.image is not None and article.names.get(url, url) == article.main.path)
    return next(map(picture_part, named), MAIN)


def with_staying(encoded: Encoded, column: Column, article: Article, index: LiveIndex) -> Encoded:
    """Returns the rows of an article's new images with those of the images that stay in the index."""
    row = own_row(index, article.entity.id)
    old = None if row is None else index.column(column.name, row)
    if old is None or row is None:
        return encoded
    stays = {
        picture_part(image.url) for image in article.entity.images if article.stay or image.url.startswith(LABELED)
    }
    if article.kept or (article.image is None and index.main_is_labeled(row)):
        stays.add(MAIN)
    kept = np.isin(old.parts, sorted(stays - set(encoded.parts.tolist())))
    parts = np.concatenate([encoded.parts, old.parts[kept]])
    order = np.argsort(parts, kind="stable")
    return Encoded(np.concatenate([encoded.values, old.values[kept]])[order], parts[order])
