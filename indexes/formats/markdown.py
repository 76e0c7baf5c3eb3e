"""A folder of Markdown files with their images: one article per file."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from indexes.sections import split_article
from retriever.types import ArticleImage, Entity

_SUFFIXES = (".md", ".markdown")
_HEADING = re.compile(r" {0,3}(#{1,2})[ \t]+(.*?)[ \t]*#*[ \t]*")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_TARGET = r"<[^<>\n]*>|(?:[^\s()]|\([^\s()]*\))+"
_IMAGE = re.compile(rf"!\[([^\]]*)\]\(\s*({_TARGET})(?:\s+[^)]*)?\)")
_LINK = re.compile(rf"\[([^\]]*)\]\(\s*(?:{_TARGET})(?:\s+[^)]*)?\)")
_SETTING = re.compile(r"([A-Za-z_]+)[ \t]*:[ \t]*(.*?)[ \t]*")


def read_markdown(path: Path) -> Iterator[tuple[str, Entity]]:
    """Yields the articles of the Markdown files under a folder, sorted by their paths.

    `# ` is the article's title and `## ` begins a section; deeper headings stay in the text. `![caption](image)`
    belongs to its section; the first image is the main one. `id`, `title`, `url` and `image` may be given as
    `key: value` between two lines `---` at the top; the id is the path without extension by default.

    Raises:
        ValueError: There is no such file, one is not UTF-8, or its front matter has no end; the message names it.
    """
    files = article_files(path)
    if not files:
        raise ValueError(f"{path}: no Markdown file (*.md) in this folder")
    for file in files:
        try:
            text = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"{file}: byte {error.start}: not UTF-8 ({error.reason}); convert the file") from error
        yield str(file), _article(file, file.relative_to(path).as_posix(), text)


def article_files(path: Path) -> list[Path]:
    """Returns the Markdown files under a folder in order; hidden files and folders are left out."""
    if not path.is_dir():
        raise ValueError(f"{path}: not a folder; Markdown is read from a folder of *.md files")
    files = (file for file in path.rglob("*") if file.suffix.lower() in _SUFFIXES and file.is_file())
    visible = (file for file in files if not any(part.startswith(".") for part in file.relative_to(path).parts))
    return sorted(visible, key=lambda file: file.relative_to(path).as_posix())


def _article(file: Path, name: str, text: str) -> Entity:
    settings, lines = _front_matter(file, text.splitlines())
    title = settings.get("title", "")
    sections: list[tuple[str, list[str]]] = [("", [])]
    images: list[ArticleImage] = []
    fence = ""
    for line in lines:
        marked = _FENCE.match(line)
        if marked and fence in ("", marked[1]):
            fence = "" if fence else marked[1]
        heading = None if fence or marked else _HEADING.fullmatch(line)
        if heading and heading[1] == "#" and len(sections) == 1 and not any(map(str.strip, sections[0][1])):
            title = title or _plain(heading[2])
        elif heading:
            sections.append((_plain(heading[2]), []))
        else:
            if not fence:
                found = _linked_images(line, name)
                images += (ArticleImage(url, len(sections) - 1, caption) for caption, url in found)
                line = _plain(line)
            sections[-1][1].append(line)
    title = title or file.stem
    main = _resolve(settings["image"], name) if settings.get("image") else None
    return Entity(
        id=settings.get("id") or posixpath.splitext(name)[0],
        title=title,
        sections=split_article((heading or title, "\n".join(body).strip()) for heading, body in sections),
        image=main or (images[0].url if images else None),
        url=settings.get("url", ""),
        images=tuple(images),
    )


def _front_matter(file: Path, lines: list[str]) -> tuple[dict[str, str], list[str]]:
    if not lines or lines[0].rstrip() != "---":
        return {}, lines
    end = next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip() in ("---", "...")), None)
    if end is None:
        raise ValueError(f"{file}: line 1: the front matter that begins with '---' has no end; close it with '---'")
    found = filter(None, map(_SETTING.fullmatch, lines[1:end]))  # anything else in YAML is for other programs
    return {match[1]: _unquoted(match[2]) for match in found}, lines[end + 1 :]


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _linked_images(line: str, name: str) -> Iterator[tuple[str, str]]:
    for caption, target in _IMAGE.findall(line):
        if url := _resolve(target.strip("<>"), name):
            yield caption, url


def _resolve(target: str, name: str) -> str:
    """Returns an image's path relative to the knowledge base's folder, "" for one embedded in the text."""
    if target.startswith("data:"):
        return ""
    if "://" in target:
        return target
    start = "" if target.startswith("/") else posixpath.dirname(name)
    return posixpath.normpath(posixpath.join(start, target.lstrip("/")))


def _plain(line: str) -> str:
    """Returns a line without images, and with links as plain words."""
    return _LINK.sub(r"\1", _IMAGE.sub("", line))
