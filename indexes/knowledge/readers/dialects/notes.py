"""Notes of Obsidian and Logseq: wiki links, embedded notes and images, comments, callouts and properties.

Texts of other files are put in the places that name them: `![[Note]]`, `![[Note#Heading]]`, `{{< include a.md >}}`.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache, partial
from html import escape
from pathlib import Path, PurePosixPath

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
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
_LINK = re.compile(r"(!?)\[\[([^\[\]|\n]*)(?:\\?\|([^\[\]\n]*))?\]\]")
_REWRITTEN = (  # a comment; the type and title of a callout; a property on a line of its own
    r"^[ \t]*%%(?s:.*?)%%|%%(?:(?!\n[ \t]*\n)(?s:.))*?%%"
    r"|^(?P<quote>[ \t>]*>[ \t]*)\[![\w-]+(?:\|[^\]\n]*)?\][-+]?[ \t]*(?P<title>[^\n]*)$"
    r"|^(?P<lead>[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+(?:\[[ xX]\][ \t]+)?)?)(?P<bold>[*_]{0,3})"
    r"(?P<key>[^\W\d_](?:[\w /°%().-]{0,40}[\w)])?)(?:(?P=bold)::|::(?P=bold))(?:[ \t]+(?P<value>[^\n]*))?$"
)
_SETTINGS = re.compile(
    r"id|collapsed|heading|icon|public|template.*|exclude-.*|filters|query-.*|logseq\..*|background-color|hl-.*|ls-.*"
    r"|card-.*|cssclass(?:es)?|created.*|updated.*",
    re.IGNORECASE,
)


def plugin(md: MarkdownIt) -> None:
    """Reads `[[note|words]]` as its words, `![[a.jpg|caption]]` as an image, and properties as lines `Key: value`."""
    rewrite(md, _EMBED, ("![[", "{{", "{%"), _embedded)
    rewrite(md, _REWRITTEN, ("%%", "::", "[!"), _rewritten)
    md.inline.ruler.before("link", "wiki_link", _wiki_link)


def _rewritten(match: re.Match[str], env: EnvType) -> str:
    key, value = match["key"], (match["value"] or "").strip()
    if match["quote"]:
        return f"{match['quote']}{match['title']}{'<br>' if match['title'] else ''}"
    if not key:
        return label(env, "comments", match[0].strip(" \t%"))
    if not value or _SETTINGS.fullmatch(key):
        return label(env, "settings of notes", value) + str(match["lead"])
    if key.lower() in ("title", "alias", "aliases") and not match["lead"]:
        env["properties"][key.lower()] = value
        return ""
    return f"{match['lead']}<br>{key[:1].upper()}{key[1:].replace('-', ' ').replace('_', ' ')}: {value}  "


def _wiki_link(state: StateInline, silent: bool) -> bool:
    if (match := _LINK.match(state.src, state.pos)) is None:
        return False
    target, words = match[2].strip().rstrip("\\"), (match[3] or "").strip()
    if not silent and not match[1]:
        state.push("text", "", 0).content = words or target.split("#")[0].strip() or target.lstrip("#")
    elif not silent:
        path = target if _is_image(target) else target.partition("#")[0].strip()
        size = re.fullmatch(r"(\d+)(?:x(\d+))?", words)
        sides = f'width="{size[1]}" height="{size[2] or ""}"' if size else f'alt="{escape(words)}"'
        state.push("html_inline", "", 0).content = f'<img src="{escape(path)}" {sides}>'
    state.pos = match.end()
    return True


def _is_image(target: str) -> bool:
    return target.lower().endswith(IMAGE_SUFFIXES)


def _embedded(match: re.Match[str], env: EnvType) -> str:
    name, _, part = (match["note"] or "").strip().rstrip("\\").partition("#")
    if _is_image(name) or _is_image(part):
        return match[0]
    if match["path"]:
        text = included(env, match["path"])
    else:
        text = _text(env, _notes_of(env["folder"]).get(_note_name(name)) if name else env["file"], part)
    label(env, "embedded notes that are missing or repeat", "" if text else match["path"] or match["note"])
    line = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()].lstrip()
    return " ".join(text.replace("|", "\\|").split()) if line.startswith("|") else f"\n\n{text}\n\n" if text else ""


@lru_cache(maxsize=4)
def _notes_of(folder: Folder) -> dict[str, Path]:
    """Returns the notes of a folder by their normalized names; of several with one name, the first."""
    return {_note_name(file.name): file for file in reversed(folder.files)}


def _note_name(target: str) -> str:
    return re.sub(r"[\s_-]+", "-", posixpath.basename(target.strip()).removesuffix(".md")).casefold()


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
    """Returns a note's text, or that of a heading or a block in it, with what it embeds; each one only once."""
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
