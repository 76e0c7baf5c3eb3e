"""Which entities of an index their knowledge base no longer has: only these may be removed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from os import scandir
from pathlib import Path
from unicodedata import normalize

from indexes.account import Account
from indexes.knowledge.folder import POINTERS
from indexes.knowledge.knowledge_base import name_of
from indexes.knowledge.readers.registry import readers
from indexes.live.articles import SERVICE
from indexes.live.index import LiveIndex
from retriever.types import Entity
from retriever.wording import counted

_FEW = 3
"""Number of entities from which on equal titles tell that two knowledge bases are versions of the same one."""

_WHOLE_FILES = ("markdown", "website")
"""Formats with an entity in each file, whose ids are paths unless they are named."""
_BAD = "entries that cannot be used"


def _is_content(name: str) -> bool:
    """Returns whether a file may hold entities: one of a reader's, by its extension."""
    return Path(name).suffix.lower() in {suffix for reader in readers() for suffix in reader.suffixes}


@dataclass(frozen=True, slots=True)
class Gaps:
    """Why a knowledge base was not read as a whole, in words; empty if it was.

    Attributes:
        chosen: What was chosen, so that others are not among the entities.
        lost: What could not be read or was left out. Entities that are files are known to be there all the same.
    """

    chosen: str = ""
    lost: str = ""


@dataclass(slots=True)
class _Shared:
    """How many entities a knowledge base has in common with a source: by id, also by title or a text, and by a text."""

    ids: int = 0
    alike: int = 0
    texts: int = 0


@dataclass
class Origins:
    """Compares the entities of a knowledge base with those of an index, by the sources of the latter.

    A source is the knowledge base that an entity was added from, or "" for the one that the index was built from.

    Args:
        kb: The knowledge base.
        index: The index.
        built: Whether the index is known to have been built from it.
    """

    kb: Path
    index: LiveIndex
    built: bool = False
    total: int = 0
    paths_only: bool = True
    documents: set[str] = field(default_factory=set)
    shared: defaultdict[str, _Shared] = field(default_factory=lambda: defaultdict(_Shared))

    def __post_init__(self) -> None:
        """Names the knowledge base by its last two names, since tables in different folders are often called alike."""
        self.source = "/".join(self.kb.resolve().parts[-2:])
        self._files = cache(_files_in)

    def add(self, entity: Entity, row: int | None) -> None:
        """Takes an entity of the knowledge base into account, with its row in the index."""
        self.total += 1
        self.paths_only = self.paths_only and self.file_of(entity.id) is not None
        document, part, _ = entity.id.partition("#")
        if part:
            self.documents.add(document)
        if row is not None:
            old = self.index.entity(row)
            texts = bool({one.text for one in entity.sections} & {one.text for one in old.sections})
            shared = self.shared[old.source]
            shared.ids, shared.texts = shared.ids + 1, shared.texts + texts
            shared.alike += texts or entity.title == old.title

    def has(self, source: str) -> bool:
        """Returns whether the knowledge base is a source, or a later version of it."""
        if source in (self.source, SERVICE) or (self.built and not source):
            return source != SERVICE
        shared = self.shared[source]
        if 2 * shared.texts >= max(self.total, 1) or (shared.alike >= _FEW and 2 * shared.alike >= self.total):
            return True
        called = not source and self.index.manifest.name == name_of(self.kb)
        same = (self.paths_only and self.kb.is_dir()) or 2 * shared.alike >= shared.ids  # numbers are ids of anything
        return bool(self.total) and called and same and 2 * shared.ids >= self.total

    def named(self, source: str) -> str:
        """Returns the name of a source for messages."""
        return source or self.index.manifest.name

    def why_kept(self, entity: Entity, gaps: Gaps) -> str:
        """Returns why an entity that was not read may not be removed, "" if its file or row is gone."""
        if entity.source == SERVICE:
            return "put through the service, not from a knowledge base; omgm index remove removes them"
        if not self.has(entity.source):
            return f"from another knowledge base, {self.named(entity.source)}"
        if gaps.chosen:
            return gaps.chosen
        document, part, _ = entity.id.partition("#")
        file = self.file_of(document if part and document not in self.documents else entity.id)
        if file is not None:
            empty = file.is_file() and not file.stat().st_size
            return "their files are empty (0 bytes)" if empty else "their files are still there, but were not read"
        is_path = self.index.manifest.inputs.kb_format in _WHOLE_FILES or "/" in entity.id
        return "" if self.paths_only and is_path and self.kb.is_dir() else gaps.lost

    def file_of(self, entity_id: str) -> Path | None:
        """Returns the file that an entity's id names if it is a path in the knowledge base, or what denies access."""
        *folders, name = entity_id.split("/")
        folder = self.kb.joinpath(*folders)
        if not self.kb.is_dir() or not folder.is_relative_to(self.kb) or ".." in folders:
            return None
        try:
            return self._files(folder).get(normalize("NFC", name))
        except (FileNotFoundError, NotADirectoryError):  # what a link leads to may only not be mounted now
            return next((link for link in (folder, *folder.parents) if link.is_symlink() and not link.exists()), None)
        except OSError:
            return folder


def _files_in(folder: Path) -> dict[str, Path]:
    """Returns the files in a folder that may be entities, by names with and without extension, composed."""
    with scandir(folder) as entries:
        files = [Path(entry.path) for entry in entries if not entry.is_dir() and _is_content(entry.name)]
    return {normalize("NFC", name): file for file in files for name in (file.stem, file.name)}


def gaps_of(kb: Path, patterns: Sequence[str], part: str, kb_format: str | None, bad: int, ledger: Account) -> Gaps:
    """Returns why a knowledge base was not read as a whole.

    What was chosen are `patterns` of `--only` and `--skip`, `part` in words, or a `kb_format` other than the build's;
    `bad` entries cannot be used, and others are in the `ledger`.
    """
    chosen = [part] if part else []
    if patterns:
        chosen.append("--only and --skip leave others out; prune without them")
    if kb_format:
        chosen.append(f"--kb-format {kb_format} reads only some files; prune without it")
    lost = [f"{counted(bad, 'entry')} that cannot be used"] if bad else []
    for loss in ledger["left_out"]:
        reason = loss["reason"]
        whole = loss["unit"] == "entities" and reason != _BAD and "copies" not in reason
        if whole or reason == POINTERS or "without text" in reason:
            lost.append(f"{loss['count']:,} {reason}")
    files = kb.rglob("*") if kb.is_dir() else ()
    if empty := [file for file in files if _is_content(file.name) and file.is_file() and not file.stat().st_size]:
        lost.append(f"{counted(len(empty), 'empty file')}, such as {empty[0].relative_to(kb).as_posix()}")
    why = f"the reading was not complete: {', '.join(lost)}; repair, remove or add them first" if lost else ""
    return Gaps("; ".join(chosen), why)
