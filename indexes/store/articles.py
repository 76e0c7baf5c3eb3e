"""Opens the articles of an index alone, for trainings."""

from __future__ import annotations

from pathlib import Path

from indexes.store.article_store import ArticleStore
from indexes.store.columns import column_files
from indexes.store.generations import settled_files
from indexes.store.manifest import check_files, read_manifest


def open_articles(folder: Path) -> ArticleStore:
    """Opens what the index in `folder` holds of its knowledge base, without what it searches by.

    Raises:
        ValueError: The index is incomplete or damaged, or has changes that are not in its files; the message says what
            to do.
    """
    files = settled_files(folder)
    manifest = read_manifest(files)
    check_files(files, manifest, column_files(manifest), verify=False)
    return ArticleStore(files, manifest.files["entities.jsonl"].sha256)
