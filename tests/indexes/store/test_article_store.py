"""What an index holds of its knowledge base: articles, summaries, ids, and images as originals or thumbnails."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from indexes.knowledge.sources import FolderImages
from indexes.labeled_images import LabeledImage
from indexes.store.article_store import ArticleImages
from indexes.store.articles import open_articles
from retriever.images import ImageError
from tests.fakes.images import write_image
from tests.fakes.plans import indexed

KB = """
{"id": "fox", "title": "Fox", "names": ["Vixen"], "image": "fox.png", "images": [{"url": "den.png"}], "text": "Red."}
{"id": "elk", "title": "Elk", "image": "gone.png", "images": [{"url": "elk.png"}], "text": "Large."}
{"id": "owl", "title": "Owl", "text": "It sees."}
{"id": "eel", "title": "Eel", "image": "torn.png", "text": "Long."}
"""


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    """Four articles: with an image, with one in the second place, without one, and with a damaged one."""
    for name in ("fox", "den", "elk"):
        write_image(tmp_path / "images" / f"{name}.png", {"fox": "red", "den": "green", "elk": "blue"}[name], 400)
    (tmp_path / "images" / "torn.png").write_bytes(b"no image")
    write_image(tmp_path / "seen.png", "white")
    (tmp_path / "kb.jsonl").write_text(KB.strip())
    seen = [LabeledImage("seen", tmp_path / "seen.png", id) for id in ("fox", "owl")]
    indexed(tmp_path / "kb.jsonl", tmp_path / "images", labeled=seen, candidates="combined")
    return tmp_path / "kb.jsonl"


def test_articles_summaries_and_ids_need_no_model(kb: Path) -> None:
    articles = open_articles(kb.with_name("kb.jsonl-index"))
    assert len(articles) == 4
    assert [articles.row_of(id) for id in ("elk", "Vixen", "nobody")] == [1, 0, None]
    assert [section.text for section in articles.entity(0).sections] == ["Red."]
    assert articles.summary(3) == "Eel. Long"
    (articles.folder / "summaries.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"summaries\.jsonl: 0 bytes, but the manifest says"):
        open_articles(articles.folder)


def test_images_are_those_that_the_index_was_built_from(kb: Path) -> None:
    articles = open_articles(kb.with_name("kb.jsonl-index"))
    images = ArticleImages(articles, FolderImages(kb.parent / "images"))
    assert [images.main(row) for row in range(4)] == ["fox.png", "elk.png", None, "torn.png"]  # labeled ones are none
    assert (images.find("den.png"), images.find("labeled:seen")) == ("den.png", None)
    assert images.load("fox.png").size == (400, 400) and images.content("fox.png") == kb.parent / "images" / "fox.png"
    with pytest.raises(ImageError, match=r"torn\.png"):
        images.load("torn.png")


def test_without_the_originals_main_images_are_thumbnails(kb: Path) -> None:
    articles = open_articles(kb.with_name("kb.jsonl-index"))
    images = pickle.loads(pickle.dumps(ArticleImages(articles)))
    assert [images.main(row) for row in range(4)] == ["thumbnail:0", "thumbnail:1", None, None]
    assert images.find("den.png") is None
    assert images.load("thumbnail:0").size == (320, 320)
    assert images.content("thumbnail:1") == articles.image_path(1)
    (kb.parent / "images" / "fox.png").unlink()  # some are left
    some = ArticleImages(articles, FolderImages(kb.parent / "images"))
    assert [some.main(row) for row in range(2)] == ["den.png", "elk.png"]
