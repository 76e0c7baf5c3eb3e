from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from indexes.knowledge.image_names import names_of
from indexes.knowledge.sources import advice_on, find_image, thumbnail


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def test_the_longest_suffix_wins(tmp_path: Path) -> None:
    url = "https://atlas.example/images/flag/fr.jpg?width=300#top"
    assert find_image(tmp_path, url) is None
    short = touch(tmp_path / "fr.jpg")
    assert find_image(tmp_path, url) == short
    middle = touch(tmp_path / "flag" / "fr.jpg")
    assert find_image(tmp_path, url) == middle
    long = touch(tmp_path / "images" / "flag" / "fr.jpg")
    assert find_image(tmp_path, url) == long


def test_percent_decoding_comes_after_the_written_name(tmp_path: Path) -> None:
    decoded = touch(tmp_path / "a" / "Côte d'Ivoire.jpg")
    url = "https://e.example/a/C%C3%B4te%20d'Ivoire.jpg"
    assert find_image(tmp_path, url) == decoded
    written = touch(tmp_path / "a" / "C%C3%B4te%20d'Ivoire.jpg")
    assert find_image(tmp_path, url) == written


def test_nothing_outside_the_folder_is_found(tmp_path: Path) -> None:
    secret = touch(tmp_path / "secret.jpg")
    folder = tmp_path / "images"
    (folder / "flag").mkdir(parents=True)
    (folder / "link.jpg").symlink_to(secret)
    for url in [
        "https://e.example/../secret.jpg",
        "https://e.example/flag/../../secret.jpg",
        "https://e.example/flag/%2e%2e/%2E%2E/secret.jpg",
        "https://e.example/..%2Fsecret.jpg",
        "https://e.example/..%5Csecret.jpg",
        f"file://{secret}",
        str(secret),
        "https://e.example/link.jpg",
        "https://e.example/flag",
        "https://e.example/",
        "https://[broken/secret.jpg",
        "https://e.example/a%00b.jpg",
        "https://e.example/" + "x" * 5000,
        "",
    ]:
        assert find_image(folder, url) is None, url


def test_a_relative_name_and_a_linked_folder(tmp_path: Path) -> None:
    touch(tmp_path / "real" / "flag" / "fr.jpg")
    (tmp_path / "images").symlink_to(tmp_path / "real")
    assert find_image(tmp_path / "images", "flag/fr.jpg") == tmp_path / "images" / "flag" / "fr.jpg"


def test_thumbnails_are_small_and_repeatable() -> None:
    image = Image.new("RGB", (1000, 500), "green")
    image.info["comment"] = b"left out"
    assert thumbnail(image) == thumbnail(Image.new("RGB", (1000, 500), "green"))
    with Image.open(io.BytesIO(thumbnail(image))) as small:
        assert (small.format, small.size) == ("JPEG", (320, 160))
    with Image.open(io.BytesIO(thumbnail(Image.new("RGB", (3, 2))))) as tiny:
        assert tiny.size == (3, 2)


def test_a_query_is_part_of_a_name_that_is_no_images(tmp_path: Path) -> None:
    for name in ("show.php?id=1", "fox.jpg"):
        (tmp_path / name).touch()
    assert find_image(tmp_path, "https://a.example/show.php?id=1") == tmp_path / "show.php?id=1"
    assert find_image(tmp_path, "https://a.example/show.php?id=2") is None
    assert find_image(tmp_path, "https://a.example/fox.jpg?width=300") == tmp_path / "fox.jpg"
    assert list(names_of("https://a.example/show?file=a/b")) == ["show?file=a%2Fb"]


def test_only_images_on_the_web_are_to_be_downloaded() -> None:
    said = "; omgm kb images downloads those on the web"
    assert [advice_on([one]) for one in ("https://a.example/x.png of Fox", "HTTP://a/x", "//a.example/x.png")] == [
        said
    ] * 3
    assert [advice_on([one]) for one in ("file:///home/x.png", "C://x.png", "img/x.png", "")] == [""] * 4
