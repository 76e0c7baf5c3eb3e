"""A folder of Markdown files with their images: one article per file."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from indexes.formats.fields import Names, field_of, images_in, string_of
from indexes.formats.front_matter import split_front_matter
from indexes.formats.images import photos_first
from indexes.formats.markdown_text import Heading, Piece, parse
from indexes.formats.skipped import Entry, attempt
from indexes.sections import split_article
from retriever.types import ArticleImage, Entity

_SUFFIXES = (".md", ".markdown")
_UNNAMED = ("index", "_index", "readme")
"""Names of files that say nothing of what is in them: the folder's name does."""


def read_markdown(path: Path, names: Names) -> Iterator[Entry]:
    """Yields the articles of the Markdown files under a folder, sorted by their paths.

    A heading of any level begins a section. An image belongs to its section; the first one is the main one, unless the
    front matter names another. Title, id and URL are those of the front matter. Without them, the title is the heading
    that stands above all others, else the name of the file or of its folder, and the id is the path without extension.

    Raises:
        ValueError: The folder contains no Markdown file.
    """
    files, images = _listed(path)
    if not files:
        raise ValueError(f"{path}: no Markdown file (*.md) in this folder")
    found = _Images(images)
    for file in files:
        yield attempt(str(file), partial(_read, path, file, names, found))


def article_files(path: Path) -> list[Path]:
    """Returns the Markdown files under a folder in order; hidden files and folders are left out."""
    return _listed(path)[0]


def _listed(path: Path) -> tuple[list[Path], list[str]]:
    """Returns the Markdown files under a folder in order, and the paths of all others in it."""
    if not path.is_dir():
        raise ValueError(f"{path}: not a folder; Markdown is read from a folder of *.md files")
    articles: list[str] = []
    others: list[str] = []
    for file in path.rglob("*"):
        name = file.relative_to(path)
        if not any(part.startswith(".") for part in name.parts) and file.is_file():
            (articles if file.suffix.lower() in _SUFFIXES else others).append(name.as_posix())
    return [path / name for name in sorted(articles)], sorted(others)


class _Images:
    """Finds the files that links to images mean.

    Args:
        files: The paths of all files in the folder.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self._files = frozenset(files)
        self._named: dict[str, list[str]] = {}
        for file in self._files:
            self._named.setdefault(posixpath.basename(file).lower(), []).append(file)

    def resolve(self, target: str, article: str) -> str:
        """Returns an image's path in the folder, or its URL; "" for one embedded in the text.

        A path is relative to its article, or else to the folder, or is that of the only file of this name, as notes and
        site generators have it. If no such file exists, it is the path relative to the article.
        """
        if target.startswith("data:"):
            return ""
        if "://" in target or target.startswith("//"):
            return target
        start = "" if target.startswith("/") else posixpath.dirname(article)
        written = target.lstrip("/")
        tried = [
            posixpath.normpath(posixpath.join(base, name))
            for name in (written, unquote(written))
            for base in (start, "")
        ]
        for path in tried:
            if path in self._files:
                return path
        alike = sorted(self._named.get(posixpath.basename(tried[-1]).lower(), ()), key=lambda file: (len(file), file))
        if alike and (len(alike) == 1 or "/" not in written):
            return alike[0]
        return posixpath.normpath(posixpath.join(start, unquote(re.split(r"[?#]", written)[0])))


def _read(folder: Path, file: Path, names: Names, images: _Images) -> Entity:
    try:
        content = file.read_bytes()
        text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: byte {error.start}: not UTF-8 ({error.reason}); convert the file") from error
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from error
    return _article(file, file.relative_to(folder).as_posix(), folder.resolve().name, text, names, images)


def _article(file: Path, name: str, folder: str, text: str, names: Names, images: _Images) -> Entity:
    settings, body = split_front_matter(text)
    pieces = parse(body)
    title, first = _setting(settings, "title", str(file), names), _title_heading(pieces)
    if first is not None:
        title = title or pieces[first].text
    title = title or _name(name, folder)
    sections: list[tuple[str, list[str]]] = [(title, [])]
    found: list[ArticleImage] = []
    for number, piece in enumerate(pieces):
        if isinstance(piece, Heading):
            if number != first:
                sections.append((piece.text, []))
            continue
        if piece.text:
            sections[-1][1].append(piece.text)
        for target, caption in piece.images:
            if url := images.resolve(target, name):
                found.append(ArticleImage(url, len(sections) - 1, caption))
    field, value = field_of(settings, "image", names)
    given = filter(None, (images.resolve(one, name) for one in images_in(value, str(file), field)))
    mains = [*given, *(image.url for image in found)]
    return Entity(
        id=_setting(settings, "id", str(file), names) or posixpath.splitext(name)[0],
        title=title,
        sections=split_article((heading, "\n".join(lines)) for heading, lines in sections),
        image=next(iter(photos_first(mains)), None),
        url=_setting(settings, "url", str(file), names),
        images=tuple(found),
        names=tuple(_aliases(settings.get("aliases"))),
    )


def _setting(settings: dict[str, Any], field: str, where: str, names: Names) -> str:
    """Returns a text of the front matter; of anything else than text, "", because other programs read it too."""
    name, value = field_of(settings, field, names)
    if isinstance(value, str | int) and not isinstance(value, bool):
        return " ".join(string_of(value, where, name).split())
    return ""


def _aliases(value: Any) -> Iterator[str]:
    """Yields other names of a note, a list or separated by commas, as Obsidian has them."""
    for alias in value.split(",") if isinstance(value, str) else value if isinstance(value, list) else ():
        if isinstance(alias, str) and alias.strip():
            yield " ".join(alias.split())


def _title_heading(pieces: list[Piece | Heading]) -> int | None:
    """Returns the position of the heading that is the article's title: first, and above all others.

    A first-level heading before any text is the title even if others follow.
    """
    headings = [(number, piece.level) for number, piece in enumerate(pieces) if isinstance(piece, Heading)]
    if not headings:
        return None
    number, level = headings[0]
    leads = not any(isinstance(piece, Piece) and piece.text for piece in pieces[:number])
    highest = [one for _, one in headings].count(level) == 1 and level == min(one for _, one in headings)
    return number if (level == 1 and leads) or (highest and (leads or level == 1)) else None


def _name(path: str, folder: str) -> str:
    parts = posixpath.splitext(path)[0].split("/")
    return parts[-1] if parts[-1].lower() not in _UNNAMED else [folder, *parts][-2]
