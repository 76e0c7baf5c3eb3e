"""Image files: found by what is written, and thumbnails of them."""

from __future__ import annotations

import io
import posixpath
import string
import tempfile
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from indexes.image_paths import find_image, names_of
from indexes.image_source import advice_on, thumbnail
from indexes.knowledge.file_names import is_hidden
from indexes.knowledge.image_files import ImageFiles, Lookup


def folder_with(folder: Path, *names: str, content: str = "") -> ImageFiles:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content or name)
    return ImageFiles(folder)


LETTERS = string.ascii_letters + string.digits + " #%+&'(),;=@[]_-~éüßñøаяポ日"
NAMES = st.text(LETTERS, min_size=1, max_size=8).map(str.strip).filter(lambda name: name and not is_hidden(name))
PATHS = st.lists(NAMES, min_size=1, max_size=4)
EXTENSIONS = st.sampled_from((".jpg", ".PNG", ".webp", ".svg", ".jpeg"))

Form = Literal["NFC", "NFD"]
FORMS: st.SearchStrategy[Form] = st.sampled_from(("NFC", "NFD"))

SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda path: path,
    "quoted": lambda path: f'"{path}"',
    "with white space": lambda path: f" {path}\n",
    "with a dot": lambda path: f"./{path}",
    "from the root": lambda path: f"/{path}",
    "with backslashes": lambda path: path.replace("/", "\\"),
    "of a drive": lambda path: "C:\\Users\\me\\site\\" + path.replace("/", "\\"),
    "of a server": lambda path: "\\\\server\\share\\" + path.replace("/", "\\"),
    "encoded": quote,
    "encoded with plus signs": lambda path: "/".join(quote(part).replace("%20", "+") for part in path.split("/")),
    "of an earlier version": lambda path: f"{quote(path)}?v=2",
    "with a fragment": lambda path: f"{quote(path)}#top",
    "as a file URL": lambda path: f"file:///home/me/{quote(path)}",
    "as a file URL of a drive": lambda path: f"file:///C:/Users/me/{quote(path)}",
    "of an app": lambda path: f"app://local/{quote(path)}",
    "on the web": lambda path: f"https://host.example/site/{quote(path)}",
    "on the web, of any scheme": lambda path: f"//host.example/{quote(path)}?width=300#x",
    "by a service that scales": lambda path: f"/_next/image?url={quote('/' + path, safe='')}&w=640&q=75",
}


@pytest.mark.slow
@settings(max_examples=60)
@given(parts=PATHS, extension=EXTENSIONS, form=FORMS, written_in=FORMS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_a_path_finds_its_file(
    spelling: str, parts: list[str], extension: str, form: Form, written_in: Form
) -> None:
    path = "/".join(parts) + extension
    with tempfile.TemporaryDirectory() as folder:
        images = folder_with(Path(folder), unicodedata.normalize(form, path), "other/else.jpg")
        written = SPELLINGS[spelling](unicodedata.normalize(written_in, path))
        assert images.find(written).name == unicodedata.normalize(form, path)


@settings(max_examples=60)
@given(
    parts=PATHS,
    extension=EXTENSIONS,
    note=st.lists(NAMES, max_size=3),
    spelling=st.sampled_from(("as it is", "with backslashes", "encoded", "with a fragment", "with a dot")),
    form=FORMS,
)
def test_a_path_relative_to_its_own_file(
    parts: list[str], extension: str, note: list[str], spelling: str, form: Form
) -> None:
    path, own_file = "/".join(parts) + extension, "/".join([*note, "note.md"])
    relative = posixpath.relpath(f"/{path}", posixpath.dirname(f"/{own_file}"))
    with tempfile.TemporaryDirectory() as folder:
        images = folder_with(Path(folder), unicodedata.normalize(form, path))
        assert images.find(SPELLINGS[spelling](relative), own_file).name == unicodedata.normalize(form, path)


def test_the_file_beside_goes_before_the_served_address_and_that_before_others(tmp_path: Path) -> None:
    images = folder_with(tmp_path, "docs/img/a.png", "docs/tools/img/a.png", "docs/tools/saw/img/b.png", "b.png")
    assert images.find("../img/a.png", "docs/tools/saw.md") == Lookup("docs/img/a.png")
    (tmp_path / "docs/img/a.png").unlink()  # MkDocs serves docs/tools/saw.md at docs/tools/saw/
    assert images.find("../img/a.png", "docs/tools/saw.md") == Lookup("docs/tools/img/a.png")
    assert images.find("img/b.png", "docs/tools/saw.md") == Lookup("docs/tools/saw/img/b.png")
    assert images.find("img/b.png", "docs/other.md") == Lookup("b.png")  # the longest suffix under the folder


@pytest.mark.parametrize(
    ("files", "written", "found", "note"),
    [
        (("Fox.PNG",), "fox.png", "Fox.PNG", "another letter case"),
        (("Img/Fox.png",), "img/fox.PNG", "Img/Fox.png", "another letter case"),
        (("STRASSE.png",), "straße.png", "STRASSE.png", "another letter case"),
        (("a/b/fox.png",), "fox.png", "a/b/fox.png", "another folder"),
        (("a/fox.png", "b/fox.png"), "photos/b/fox.png", "b/fox.png", ""),
        (("thumbs/fox.png", "full/fox.png"), "fox.png", "full/fox.png", "another folder"),
        (("img/fox.jpeg",), "img/fox.jpg", "img/fox.jpeg", "another extension"),
        (("img/fox.svg", "img/fox.webp"), "img/fox.png", "img/fox.webp", "another extension"),
        (("stamps/poland-1935.jpg",), "poland-1935", "stamps/poland-1935.jpg", "another extension"),
        (("fox.png", "FOX.png"), "fOx.png", None, "the name of 2 files: FOX.png, fox.png"),
        (("a/fox.png", "b/fox.png"), "fox.png", None, "the name of 2 files: a/fox.png, b/fox.png"),
        (("a/fox.png",), "b/fox.jpg", None, "no file of this name, but similar ones: a/fox.png"),
        (("red_fox.png",), "Red Fox.png", None, "no file of this name, but similar ones: red_fox.png"),
        (("hen.png",), "fox.png", None, "no file of this name"),
        (("fox.png/hen.png",), "fox.png", None, "a folder, not a file"),
        (("hen.png",), "data:image/png;base64,AAAA", None, "embedded in the text"),
    ],
)
def test_names_that_differ(tmp_path: Path, files: tuple[str, ...], written: str, found: str | None, note: str) -> None:
    assert folder_with(tmp_path, *files).find(written) == Lookup(found, note)


def test_the_nearest_of_several_files_and_copies(tmp_path: Path) -> None:
    images = folder_with(tmp_path, "fox/img/1.png", "hen/img/1.png")
    assert images.find("1.png", "hen/notes/hen.md").name == "hen/img/1.png"
    folder_with(tmp_path, "a/same.png", "b/same.png", content="the same")
    assert ImageFiles(tmp_path).find("same.png").name == "a/same.png"


def test_a_remote_image_needs_more_than_its_name(tmp_path: Path) -> None:
    images = folder_with(tmp_path, "flags/fr.png", "img/Flags/de.png", "it.png")
    assert images.find("https://a.example/fr.png").name is None
    assert images.find("https://a.example/flags/de.png") == Lookup("img/Flags/de.png", "another letter case")
    assert images.find("https://a.example/x/it.png") == Lookup("it.png")


def test_what_systems_put_beside_images_is_no_image(tmp_path: Path) -> None:
    images = folder_with(tmp_path, "pics/Fox.png", "fox.m4a")
    assert images.find("fox.m4a") == Lookup(None, "no file of this name")
    folder_with(tmp_path, "pics/._Fox.png", ".thumbnails/Fox.png", "@eaDir/Fox.png/SYNOPHOTO_THUMB_M.jpg", content="x")
    folder_with(tmp_path, "__MACOSX/Fox.png", ".Trash-1000/Fox.png", ".git/Fox.png", "Node/node_modules/Fox.png")
    folder_with(tmp_path, "kb-index/manifest.json", "kb-index/entities.jsonl", "kb-index/images/0.jpg")
    assert list(images.names) == ["pics/Fox.png"]
    assert images.find("Fox.png") == Lookup("pics/Fox.png", "another folder")
    assert images.find("pics/._Fox.png").name is None
    folder_with(tmp_path, ".attachments/hen.png")  # where Azure DevOps keeps those of its wikis
    assert images.find("/.attachments/hen.png") == Lookup(".attachments/hen.png")


def test_links_are_followed_inside_the_folder_and_named_outside(tmp_path: Path) -> None:
    folder_with(tmp_path, "store/blob", "store/hen.png", "kb/real/elk.png")
    kb = tmp_path / "kb"
    (kb / "fox.png").symlink_to("../store/blob")
    (kb / "attachments").symlink_to("../store")
    (kb / "again").symlink_to("real")
    images = ImageFiles(kb)
    assert images.find("again/elk.png") == Lookup("again/elk.png") and list(images.names) == ["real/elk.png"]
    allow = "to allow it, pass --images"
    fox = f"only a link out of the folder: fox.png leads to {tmp_path}/store/blob; {allow} {tmp_path}"
    hen = f"only a link out of the folder: attachments/hen.png leads to {tmp_path}/store; {allow} {tmp_path}/store"
    assert images.find("fox.png") == Lookup(None, fox) and images.find("attachments/hen.png") == Lookup(None, hen)
    attachments = f"only a link out of the folder: attachments leads to {tmp_path}/store; {allow} {tmp_path}/store"
    assert images.refused == [attachments, fox]
    assert ImageFiles(tmp_path).find("fox.png") == Lookup("kb/fox.png", "another folder")  # as the message says
    assert ImageFiles(tmp_path / "store").find("attachments/hen.png") == Lookup("hen.png")


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = folder_with(tmp_path, "a/fox.png", "closed/hen.png")
    import os

    scandir = os.scandir

    def refusing(path: str) -> object:
        if path.endswith("closed"):  # root may read any folder
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert list(images.names) == ["a/fox.png"] and images.refused == ["cannot be read (Permission denied): closed"]


def test_nothing_outside_the_folder_is_found(tmp_path: Path) -> None:
    folder_with(tmp_path, "secret.jpg", "images/flag/fr.jpg")
    secret, folder = tmp_path / "secret.jpg", tmp_path / "images"
    (folder / "link.jpg").symlink_to(secret)
    (tmp_path / "linked").symlink_to(folder)
    assert find_image(tmp_path / "linked", "flag/fr.jpg") == tmp_path / "linked" / "flag" / "fr.jpg"
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


def test_thumbnails_are_small_and_repeatable() -> None:
    image = Image.new("RGB", (1000, 500), "green")
    image.info["comment"] = b"left out"
    assert thumbnail(image) == thumbnail(Image.new("RGB", (1000, 500), "green"))
    with Image.open(io.BytesIO(thumbnail(image))) as small:
        assert (small.format, small.size) == ("JPEG", (320, 160))
    with Image.open(io.BytesIO(thumbnail(Image.new("RGB", (3, 2))))) as tiny:
        assert tiny.size == (3, 2)


def test_a_query_is_part_of_a_name_that_is_no_images(tmp_path: Path) -> None:
    folder_with(tmp_path, "show.php?id=1", "fox.jpg")
    assert find_image(tmp_path, "https://a.example/show.php?id=1") == tmp_path / "show.php?id=1"
    assert find_image(tmp_path, "https://a.example/show.php?id=2") is None
    assert find_image(tmp_path, "https://a.example/fox.jpg?width=300") == tmp_path / "fox.jpg"
    assert list(names_of("https://a.example/show?file=a/b")) == ["show?file=a%2Fb"]


def test_only_images_on_the_web_are_to_be_downloaded() -> None:
    advice = "; omgm kb images downloads those on the web"
    for written in ("https://a.example/x.png of Fox", "HTTP://a/x", "//a.example/x.png"):
        assert advice_on([written]) == advice
    for written in ("file:///home/x.png", "C://x.png", "img/x.png", ""):
        assert advice_on([written]) == ""


def test_images_without_an_extension_are_listed(tmp_path: Path) -> None:
    folder_with(tmp_path, "foxes/red-fox", "hen.v2", "zebra.png")
    (tmp_path / "foxes/red-fox").write_bytes(b"\x89PNG\r\n\x1a\n")
    files = folder_with(tmp_path, "Makefile")
    assert files.names == ["zebra.png", "foxes/red-fox"]
    assert files.find("animals/red-fox").name == files.find("Red-Fox.jpg").name == "foxes/red-fox"
