"""Notes that show others: `![[Note]]`, `![[Note#Heading]]` and `![[Note#^block]]`, or files, `{{< include a.md >}}`."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath

from markdown_it import MarkdownIt
from markdown_it.utils import EnvType

from indexes.image_paths import IMAGE_SUFFIXES
from indexes.knowledge.readers import Folder
from indexes.knowledge.readers.dialects import CODE, label, rewrite
from indexes.knowledge.readers.front_matter import read_note

_EMBED = (
    r"!\[\[(?P<note>[^\[\]|\n]+)(?:\|[^\[\]\n]*)?\]\]"
    r"|\{[{%][<%#]?-?\s*(?:include|include_relative|readfile)\s+(?:(?:file|path)\s*=\s*)?[\"']?"  # Quarto, Hugo, Jekyll
    r"(?P<path>[^\s\"'<>%{}]+\.(?:[qr]?md|mdx|markdown|txt))\b[^{}]*\}+"
)


def plugin(md: MarkdownIt) -> None:
    """Puts the texts of embedded notes in their places, each part of a note once."""
    rewrite(md, _EMBED, ("![[", "{{", "{%"), _embedded)


def note_name(target: str) -> str:
    """Returns the normalized name of a note that a link refers to, without folder and extension."""
    return re.sub(r"[\s_-]+", "-", posixpath.basename(target.split("#")[0].strip()).removesuffix(".md")).casefold()


@lru_cache(maxsize=4)
def notes_of(folder: Folder) -> dict[str, Path]:
    """Returns the notes of a folder by their normalized names; of several with one name, the first."""
    return {note_name(file.name): file for file in reversed(folder.files)}


def _embedded(match: re.Match[str], env: EnvType) -> str:
    name, _, part = (match["note"] or "").strip().rstrip("\\").partition("#")
    if name.lower().endswith(IMAGE_SUFFIXES) or part.lower().endswith(IMAGE_SUFFIXES):
        return match[0]
    if match["path"]:
        text = included(env, match["path"])
    else:
        text = _text(env, notes_of(env["folder"]).get(note_name(name)) if name else env["file"], part)
    label(env, "embedded notes that are missing or repeat", "" if text else match["path"] or match["note"])
    line = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()].lstrip()
    return " ".join(text.replace("|", "\\|").split()) if line.startswith("|") else f"\n\n{text}\n\n" if text else ""


def included(env: EnvType, target: str) -> str:
    """Returns the text of a file below the note's folder or one above it: at the longest end of its path."""
    root = env["folder"].root
    parts = [part for part in PurePosixPath(target).parts if part not in ("/", "..", "~", "@")]
    above = [folder for folder in env["file"].parents if folder == root or root in folder.parents]
    folders = [*above, *(folder / "_includes" for folder in above)]
    paths = (folder.joinpath(*parts[start:]) for start in range(len(parts)) for folder in folders)
    inside = (path for path in paths if path.is_file() and path.resolve().is_relative_to(root.resolve()))
    return _text(env, next(inside, None))


def _text(env: EnvType, file: Path | None, part: str = "") -> str:
    if file is None or (file, part) in env["places"]:
        return ""
    env["places"].add((file, part))
    try:
        text = _part(read_note(file)[1], part)
    except ValueError:  # reported when that note is read
        return ""
    return re.sub(_EMBED, partial(_embedded, env={**env, "file": file}), text).strip("\n")


def _part(text: str, part: str) -> str:
    """Returns the text of a heading, or the paragraph or item with an id, `^id`; "" if it is not there."""
    if part.startswith("^"):  # at the end of its last line, or below it
        mark = rf"(?:[ \t]|\n\n?)\^{re.escape(part[1:])}[ \t]*$"
        match = re.search(rf"(?:^[ \t]*(?:[-*+]|\d+[.)])[ \t][^\n]*?|(?:^[^\n]+\n)*^[^\n]+?){mark}", text, re.MULTILINE)
        return re.sub(mark, "", match[0], flags=re.MULTILINE) if match else ""
    plain = re.sub(CODE, lambda code: " " * len(code[0]), text, flags=re.MULTILINE)
    title = r"\W+".join(map(re.escape, re.findall(r"\w+", part.rpartition("#")[2])))
    head = re.search(rf"^(#{{1,6}})[ \t]+\W*{title}\W*$", plain, re.MULTILINE | re.IGNORECASE)
    if not part or head is None:
        return "" if part else text
    end = re.compile(rf"^#{{1,{len(head[1])}}}[ \t]", re.MULTILINE).search(plain, head.end())
    return text[head.start() : end.start() if end else None]
