"""Files that notes include whole, in the spellings of Quarto, Hugo, Jekyll, MkDocs, MyST, mdBook and MDX."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path, PurePosixPath

from markdown_it.utils import EnvType

from indexes.knowledge.readers.dialects import label
from indexes.knowledge.readers.front_matter import read_note

_SPELLINGS = (
    r"\{\{[<%]\s*(?:include|readfile|snippet)\s+(?:(?:file|path)\s*=\s*)?[\"']?([^\s\"'<>%{}]+\.\w+)[^{}]*[>%]\}\}",
    r"\{%-?\s*include(?:_relative)?\s+[\"']?([^\s\"'%{}]+\.(?:md|markdown|txt))[\"']?[^%{}]*%\}",
    r"-+8<-+[ \t]*[\"']([^\"'\n]+)[\"']",
    r"`{3,}\{include\}[ \t]+(\S+)[ \t]*\n(?:[ \t]*:[^\n]*\n)*[ \t]*`{3,}",
    r"\{\{#(?:rustdoc_)?include\s+([^\s{}]+)\s*\}\}",
)
_INCLUDE = re.compile(rf"^([ \t]*)(?:{'|'.join(_SPELLINGS)})[ \t]*$", re.MULTILINE)
_IMPORT = re.compile(r"^import[ \t]+(\w+)[ \t]+from[ \t]+['\"]([^'\"\n]+\.mdx?)['\"];?[ \t]*$", re.MULTILINE)


def with_included(text: str, env: EnvType) -> str:
    """Returns a note with the texts of the files in the folder that it includes, each once; others are labeled."""
    for name, path in _IMPORT.findall(text) if "import" in text else ():
        tag = re.compile(rf"^([ \t]*)<{name}(?=[\s/>])[^<>]*/>[ \t]*$", re.MULTILINE)
        text = tag.sub(partial(_included, env=env, path=path), text)
    return _INCLUDE.sub(partial(_included, env=env), text)


def _included(match: re.Match[str], env: EnvType, path: str = "") -> str:
    file = _file_of(path or next(filter(None, match.groups()[1:])), env["file"], env["folder"].root)
    if file is not None and (file, "") not in env["places"]:
        env["places"].add((file, ""))
        try:
            lines = with_included(read_note(file)[1], env).strip("\n").split("\n")
            return "\n".join(f"{match[1]}{line}" for line in lines)
        except ValueError:
            pass  # reported when that file is read, if it is a note
    return label(env, "included files that are missing or repeat", match[0])


def _file_of(target: str, file: Path, root: Path) -> Path | None:
    """Returns the file that a path means: seen from the note or a folder above it, at the longest end that is there."""
    parts = [part for part in PurePosixPath(target).parts if part not in ("/", ".", "..", "~", "@")]
    above = [folder for folder in file.parents if folder == root or root in folder.parents]
    folders = [*above, *(folder / "_includes" for folder in above)]
    ends = (folder.joinpath(*parts[start:]) for start in range(len(parts)) for folder in folders)
    inside = (path for path in (file.parent / target, *ends) if path.resolve().is_relative_to(root.resolve()))
    return next((path for path in inside if path.is_file()), None)
