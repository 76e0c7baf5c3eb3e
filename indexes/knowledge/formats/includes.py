"""Brings the text of files that notes include, in the spellings of site generators and book makers."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path, PurePosixPath

from indexes.knowledge.file_names import is_inside
from indexes.knowledge.formats import front_matter
from indexes.knowledge.formats.losses import Losses

_SPELLINGS = (
    r"\{\{#(?:rustdoc_)?include\s+([^\s{}]+)\s*\}\}",  # mdBook
    r"\{%-?\s*include(?:_relative)?\s+[\"']?([^\s\"'%{}]+\.(?:md|markdown|txt))[\"']?[^%{}]*%\}",  # Jekyll
    r"\{\{[<%]\s*(?:include|readfile|snippet)\s+(?:(?:file|path)\s*=\s*)?[\"']?([^\s\"'<>%{}]+\.\w+)[^{}]*[>%]\}\}",
    r"<!--\s*@include:\s*([^\s<>]+?)\s*-->",  # VitePress
    r"-+8<-+[ \t]*[\"']([^\"'\n]+)[\"']",  # MkDocs, and its plugin
    r"\{!\s*([^\s{}!]+)\s*!\}",
    r"`{3,}\{include\}[ \t]+(\S+)[ \t]*\n(?:[ \t]*:[^\n]*\n)*[ \t]*`{3,}",  # MyST
    r"::include\{file=([^\s{}]+)\}",  # GitLab
    r"\[!INCLUDE\s*\[[^\[\]]*\]\(([^()\s]+)\)\]",  # DocFX
)
"""Those of a line of its own; the third one is Hugo's and Quarto's."""
_INCLUDE = re.compile(rf"^([ \t]*)(?:{'|'.join(_SPELLINGS)})[ \t]*$", re.MULTILINE | re.IGNORECASE)
_IMPORT = re.compile(r"^import[ \t]+(\w+)[ \t]+from[ \t]+['\"]([^'\"\n]+\.mdx?)['\"];?[ \t]*$", re.MULTILINE)
_TARGET = re.compile(r"(.+?\.\w+)(?:[:#{](.*?)\}?)?")
_LINES = re.compile(r"(\d*)[:,](\d*)")
_REGION = re.compile(r"\bANCHOR(?:_END)?:|-+8<-+[ \t]*\[(?:start|end):|#(?:end)?region\b")
_DEEPEST, _MOST = 5, 500  # levels of files that include others, and files that one note brings


def with_included(text: str, file: Path, root: Path, losses: Losses) -> str:
    """Returns a note with the texts of the files that it includes; those that are missing are counted.

    Files outside the knowledge base's folder `root` are missing, and so is a part of a file that is not there. Paths
    are relative to the note, or to a folder above it.
    """
    return _Included(root, losses).into(text, file, 0)


class _Included:
    def __init__(self, root: Path, losses: Losses) -> None:
        self._root, self._losses, self._left = root, losses, _MOST

    def into(self, text: str, file: Path, depth: int) -> str:
        """Returns the text of a file with what it includes."""
        for name, target in _IMPORT.findall(text) if "import" in text else ():
            part = re.compile(rf"^([ \t]*)<{name}(?=[\s/>])[^<>]*/>[ \t]*$", re.MULTILINE)
            text = part.sub(partial(self._shown, file=file, depth=depth, target=target), text)
        return _INCLUDE.sub(partial(self._shown, file=file, depth=depth), text)

    def _shown(self, found: re.Match[str], file: Path, depth: int, target: str = "") -> str:
        target = target or next(filter(None, found.groups()[1:]))
        brought = self._text_of(target, file, depth)
        self._losses.leave_out("included files that are missing", "" if brought else target)
        return "\n".join(f"{found[1]}{line}" for line in brought.split("\n")) if brought else found[0]

    def _text_of(self, target: str, file: Path, depth: int) -> str:
        """Returns the text of a file, or of the part of it that is meant, "" if it is not there."""
        found = _TARGET.fullmatch(target)
        other = _file_of(found[1], file, self._root) if found else None
        if found is None or other is None or other == file or depth >= _DEEPEST or not self._left:
            return ""
        self._left -= 1
        try:
            text = other.read_text("utf-8-sig").replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError):
            return ""
        part = _part(front_matter.split_front_matter(text)[1], found[2] or "")
        return self.into(part, other, depth + 1).strip("\n")


def _file_of(target: str, file: Path, root: Path) -> Path | None:
    """Returns the file that a path means: seen from the note or a folder above it, at the longest end that is there."""
    parts = [part for part in PurePosixPath(target).parts if part not in ("/", ".", "..")]
    above = [folder for folder in file.parents if folder == root or root in folder.parents]
    folders = [*above, *(folder / "_includes" for folder in above)]
    ends = (folder.joinpath(*parts[start:]) for start in range(len(parts)) for folder in folders)
    found = (one for one in (file.parent / target, *ends) if is_inside(str(one), str(root.resolve())))
    return next((one for one in found if one.is_file()), None)


def _part(text: str, part: str) -> str:
    """Returns the lines with some numbers, `2:5`, or in a region with a name, without the marks of regions."""
    lines = text.split("\n")
    if numbers := _LINES.fullmatch(part):
        lines = lines[max(int(numbers[1] or 1) - 1, 0) : int(numbers[2] or len(lines))]
    elif part.isdecimal():
        lines = lines[int(part) - 1 : int(part)]
    elif part:
        named = re.compile(rf"{_REGION.pattern}\s*{re.escape(part)}(?![\w-])")
        marks = [number for number, line in enumerate(lines) if named.search(line)]
        lines = lines[marks[0] + 1 : marks[1]] if len(marks) > 1 else []
    return "\n".join(line for line in lines if not _REGION.search(line))
