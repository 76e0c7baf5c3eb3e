"""Notes that embed others, or parts of them, as in Obsidian: `![[Note]]`, `![[Note#Heading]]`, `![[Note#^block]]`."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache, partial
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.utils import EnvType

from indexes.knowledge.readers import Folder
from indexes.knowledge.readers.dialects import label, rewrite
from indexes.knowledge.readers.dialects.note_parts import part_of
from indexes.knowledge.readers.dialects.templates import is_image
from indexes.knowledge.readers.front_matter import read_note

_EMBED = r"!\[\[(?P<note>[^\[\]|\n]+)(?:\|[^\[\]\n]*)?\]\]"
_STRUCTURE = re.compile(
    r"\n[ \t]*\n|^[ \t]*(?:#{1,6}[ \t]|[-*+>|~`]|\d+[.)][ \t])", re.MULTILINE
)  # more than a paragraph


def plugin(md: MarkdownIt) -> None:
    """Puts the text of embedded notes in their places; each part of a note once."""
    rewrite(md, _EMBED, ("![[",), _embedded)


def note_name(target: str) -> str:
    """Returns the normalized name of a note that a link refers to, without folder and extension."""
    return re.sub(r"[\s_-]+", "-", posixpath.basename(target.split("#")[0].strip()).removesuffix(".md")).casefold()


@lru_cache(maxsize=4)
def notes_of(folder: Folder) -> dict[str, Path]:
    """Returns the notes of a folder by their normalized names; of several with one name, the first."""
    return {note_name(file.name): file for file in reversed(folder.files)}


def _embedded(match: re.Match[str], env: EnvType) -> str:
    target = match["note"].strip().rstrip("\\")
    if is_image(target) or is_image(target.replace("#", "")):
        return match[0]
    name, _, part = target.partition("#")
    file = notes_of(env["folder"]).get(note_name(name)) if name.strip() else env["file"]
    text = ""
    if file is not None and (file, part) not in env["places"]:
        env["places"].add((file, part))
        try:
            text = re.sub(_EMBED, partial(_embedded, env=env), part_of(read_note(file)[1], part))
        except ValueError:
            text = ""  # reported when that note is read
    label(env, "embedded notes that are missing or repeat", "" if text else target)
    line = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    if _STRUCTURE.search(text) and not line.lstrip().startswith("|"):
        return f"\n\n{text}\n\n"
    return " ".join(re.sub(_STRUCTURE, " ", text).replace("|", "\\|" if "|" in line else "|").split())
