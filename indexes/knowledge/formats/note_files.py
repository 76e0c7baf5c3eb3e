"""Which files of a folder are notes, and how a note is called after its file or folder."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from indexes.knowledge.file_names import sorted_files
from indexes.knowledge.formats.encodings import BEGINNING, encoding_of

MARKDOWN = (".md", ".markdown", ".mdx", ".qmd", ".rmd")
_PROJECT_FILES = frozenset(
    {"LICENSE", "LICENCE", "CONTRIBUTING", "CODE_OF_CONDUCT", "CHANGELOG", "SECURITY", "SUPPORT", "GOVERNANCE"}
    | {"SUMMARY", "PULL_REQUEST_TEMPLATE", "ISSUE_TEMPLATE", "AUTHORS", "CONTRIBUTORS", "AGENTS", "CLAUDE"}
)
"""Files about a repository, with names in capitals, that are not part of its content."""
_NO_NOTES = frozenset({"readme", "robots", "humans", "llms", "requirements", "constraints", "classes", "labels"})
"""Text files for people and programs that handle the folder."""
_UNNAMED = ("index", "_index", "readme")
"""Names of files that are named by their folder instead."""


def article_files(path: Path) -> list[Path]:
    """Returns the Markdown files under a folder in order, or its text files if there are none.

    Hidden files and folders are left out.

    Raises:
        ValueError: The path is not a folder.
    """
    return markdown_files(path) or text_files(path)


def markdown_files(path: Path) -> list[Path]:
    """Returns the Markdown files under a folder in order; hidden files and folders are left out.

    Raises:
        ValueError: The path is not a folder.
    """
    if not path.is_dir():
        raise ValueError(f"{path}: not a folder; Markdown is read from a folder of *.md files")
    return [file for file in sorted_files(path, MARKDOWN) if file.stem not in _PROJECT_FILES]


def text_files(path: Path) -> list[Path]:
    """Returns the text files under a folder that hold prose, in order: no data, no tables of numbers."""
    return [file for file in sorted_files(path, (".txt",)) if _is_note(file)]


def _is_note(file: Path) -> bool:
    if file.stem in _PROJECT_FILES or file.stem.lower() in _NO_NOTES:
        return False
    try:
        with file.open("rb") as opened:
            start = opened.read(BEGINNING)
    except OSError:  # the reader will report it
        return True
    text = start.decode(encoding_of(start), "replace").lstrip("\ufeff\r\n\t ")
    words = text.split()
    return text[:1] not in ("{", "[", "<") and 2 * sum(any(map(str.isalpha, word)) for word in words) > len(words)


def with_line_breaks(text: str) -> str:
    """Returns a plain text as Markdown in which its lines remain lines, and no indented one becomes code."""
    return "\n".join(line.strip() + "  " if line.strip() else "" for line in text.splitlines())


def common_names(files: Sequence[Path]) -> frozenset[str]:
    """Returns the file name that most of the notes share, such as `notes` where each thing has its own folder."""
    counts = Counter(file.stem.casefold() for file in files)
    return frozenset(name for name, count in counts.items() if count > max(len(files) / 2, 1))


def as_words(name: str) -> str:
    """Returns the name of a file as words: GitHub wikis write `Gold-Pan`, and sites `gold_pan`."""
    return name if re.search(r"\s", name) else re.sub(r"(?<=[^\W\d_])[-_]+(?=\w)|(?<=\w)[-_]+(?=[^\W\d_])", " ", name)


def named_by(path: str, folder: str, common: frozenset[str] = frozenset()) -> str:
    """Returns the name of a note: its file's, or its folder's if the file is an index or has a common name.

    Args:
        path: Its path in the knowledge base.
        folder: The name of the knowledge base's folder.
        common: Names of files that say nothing, in lower case.
    """
    parts = posixpath.splitext(path)[0].split("/")
    says_nothing = parts[-1].lower() in _UNNAMED or parts[-1].casefold() in common
    return [folder, *parts][-2] if says_nothing else parts[-1]
