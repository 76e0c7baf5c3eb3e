"""Finds the image file in a folder that a written path or URL means, or says why there is none."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from pathlib import Path, PurePath
from threading import RLock
from typing import NamedTuple
from unicodedata import normalize

from indexes.image_paths import (
    IMAGE_SUFFIXES,
    Parts,
    files_at,
    is_embedded,
    is_inside,
    is_remote,
    paths_of,
    plain_path,
)
from indexes.knowledge.embedded import PREFIX, image_kind
from indexes.knowledge.file_names import KeyTable, files_under
from indexes.knowledge.image_names import fold, loose_key, split_name, stem_of
from indexes.knowledge.readers.registry import beginning_of

_SMALL = frozenset({"thumb", "thumbs", "thumbnail", "thumbnails", "small", "mini", "preview", "previews", "cache"})
"""Names of folders for smaller copies of images."""
_NOTES = ("another letter case", "another form of Unicode", "another folder")
_LISTED = 3


class Lookup(NamedTuple):
    """The path of an image's file under the folder, or `None`.

    The note says how it differs from what is written, other than in the folders above, or why there is none. Examples
    follow a colon.
    """

    name: str | None
    note: str = ""


class ImageFiles:
    """The image files in a folder and its subfolders; thread-safe.

    If not `listed`, only the paths that `names_of` yields are tried, which needs no list of all files.
    """

    def __init__(self, folder: Path, listed: bool = True) -> None:
        self.folder, self.listed = folder, listed
        self._root, self._listing = os.path.realpath(folder), RLock()
        self.refused: list[str] = []

    def __reduce__(self) -> tuple[type[ImageFiles], tuple[Path, bool]]:
        """Lets another process look into the same folder."""
        return ImageFiles, (self.folder, self.listed)

    def find(self, written: str, own_file: str = "") -> Lookup:
        """Looks up an image.

        The file is the one at the first path of `names_of` that exists. If there is none, it is a file with the same
        name, ignoring case and the form of Unicode, whose path ends like the written one as far as possible; of
        several, the one nearest to the file that names it. If these are different images, none is found. A remote
        image must agree in more than its name. Neither `..` nor a link leads out of the folder.
        """
        if is_embedded(written):
            return Lookup(None, "embedded in the text")
        link = ""
        for name in files_at(self._root, written, own_file):
            if is_inside(os.path.join(self._root, name), self._root):
                return Lookup(name)
            link = link or name
        if not self.listed:
            return Lookup(None, self._of_link(link) if link else "no file at any suffix of its path")
        alike = self._alike(written, own_file)
        return Lookup(None, self._of_link(link)) if link and alike.name is None else alike

    def path_of(self, written: str, own_file: str) -> str:
        """Returns the path of an image under the folder, also if there is no file; "" for a `data:` address.

        A remote image without a file keeps its URL, and an embedded one its name.
        """
        if written.startswith(PREFIX):
            return written
        name = self.find(written, own_file).name
        if name is not None or is_embedded(written) or written.rstrip().endswith("/"):
            return name or ""
        return written.strip() if is_remote(written) else plain_path(written, own_file)

    @cached_property
    def names(self) -> list[str]:
        """The paths of the image files, in the order of a walk from the top; those without an extension come last."""
        with self._listing:
            self.refused.clear()
            names = list(files_under(self.folder, IMAGE_SUFFIXES, self._refuse, outside=False))
            bare = (name for name in files_under(self.folder, ("",), outside=False) if not PurePath(name).suffix)
            return names + [name for name in bare if image_kind(beginning_of(self.folder / name))]

    @cached_property
    def _by_stem(self) -> KeyTable:
        with self._listing:
            return KeyTable((hash(loose_key(stem_of(name))), number) for number, name in enumerate(self.names))

    def _refuse(self, path: str, error: OSError | None) -> None:
        reason = f"cannot be read ({error.strerror}): {path or self.folder}" if error else self._of_link(path)
        self.refused.append(reason)

    def _of_link(self, name: str) -> str:
        """Returns the reason why a link is not followed, and how to allow it."""
        parts = name.split("/")
        paths = (os.path.join(self._root, *parts[:length]) for length in range(1, len(parts) + 1))
        link = next(path for path in paths if os.path.islink(path) and not is_inside(path, self._root))
        target = os.path.realpath(link)
        both = target if os.path.isdir(target) else os.path.commonpath([self._root, target])
        return f"only a link out of the folder: {name} leads to {target}; to allow it, pass --images {both}"

    def _alike(self, written: str, own_file: str) -> Lookup:
        """Looks up an image by its name alone, in any folder."""
        paths, home = list(paths_of(written, own_file)), tuple(own_file.split("/")[:-1])
        for same_extension in (True, False):
            likeness, names = self._nearest(paths, home, is_remote(written), same_extension)
            if len(names) == 1 or (names and self._are_copies(names)):
                return Lookup(names[0], _NOTES[likeness.same] if same_extension else "another extension")
            if names:
                return Lookup(None, f"the name of {len(names)} files: {_listed(names)}")
        if any(os.path.isdir(os.path.join(self._root, *path)) for path in paths):
            return Lookup(None, "a folder, not a file")
        keys = dict.fromkeys(filter(None, (loose_key(split_name(path[-1])[0]) for path in paths)))
        similar = [self.names[number] for key in keys for number in self._by_stem[key][: _LISTED + 1]]
        return Lookup(None, "no file of this name" + (f", but similar ones: {_listed(similar)}" if similar else ""))

    def _nearest(
        self, paths: Sequence[Parts], home: Parts, remote: bool, same_extension: bool
    ) -> tuple[_Likeness, list[str]]:
        """Returns the files that agree best with one of the paths, and how well; none without the same name."""
        best, nearest = _Likeness(0, 0, False, 0, -len(IMAGE_SUFFIXES)), list[str]()
        for path in paths:
            for candidate in self._called(path[-1], same_extension):
                likeness = _likeness(candidate, path, home)
                name_suffices = not remote and (same_extension or len(path) == 1)
                if likeness.alike < min(1 if name_suffices else 2, candidate.count("/") + 1) or likeness < best:
                    continue
                nearest = [] if likeness > best else nearest
                best = likeness
                nearest += [candidate] if candidate not in nearest else []
        return best, nearest

    def _called(self, name: str, same_extension: bool) -> Iterator[str]:
        """Yields the files with a name, or those that differ from it in their extension only."""
        stem, extension = split_name(fold(name))
        for number in self._by_stem[loose_key(stem)]:
            other = split_name(fold(self.names[number].rpartition("/")[2]))
            if other[0] == stem and (other[1] == extension) == same_extension:
                yield self.names[number]

    def _are_copies(self, names: Sequence[str]) -> bool:
        first, *others = (os.path.join(self._root, name) for name in names)
        return len(names) <= _LISTED and all(filecmp.cmp(first, other, shallow=False) for other in others)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")


class _Likeness(NamedTuple):
    """How well a file agrees with a path, the most important first."""

    alike: int  # number of names at the end of both paths that are alike
    same: int  # whether these are the same (2), differ in the form of Unicode (1), or in letter case (0)
    large: bool  # whether the file is in no folder for smaller copies
    near: int  # number of folders at the start of its path that are those of the file that names it
    preferred: int  # how usual its extension is, compared with others of the same name


def _likeness(candidate: str, path: Parts, home: Parts) -> _Likeness:
    """Returns how well a file agrees with a path whose last name is alike except, perhaps, for the extension."""
    parts = candidate.split("/")
    extension = split_name(parts[-1])[1]
    written = [*path[:-1], split_name(path[-1])[0] + extension]
    pairs = zip(reversed(parts), reversed(written), strict=False)
    agreeing = list(takewhile(lambda pair: fold(pair[0]) == fold(pair[1]), pairs))
    near = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(parts[:-1], home, strict=False)))
    large = _SMALL.isdisjoint(part.lower() for part in parts[:-1])
    same = min(_sameness(*pair) for pair in agreeing)
    return _Likeness(len(agreeing), same, large, near, -(*IMAGE_SUFFIXES, "").index(extension.lower()))


def _sameness(name: str, other: str) -> int:
    return 2 if name == other else int(normalize("NFC", name) == normalize("NFC", other))
