"""Finds the image file in a folder that a written path or URL means, or says why there is none."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from threading import RLock
from typing import NamedTuple
from unicodedata import normalize

from indexes.knowledge import image_names
from indexes.knowledge.embedded import PREFIX, image_kind
from indexes.knowledge.file_names import FileNames, KeyTable, files_under, image_files, is_inside
from indexes.knowledge.image_keys import loose_key
from indexes.knowledge.image_names import IMAGE_SUFFIXES, Parts
from retriever.wording import counted

_SMALL = frozenset({"thumb", "thumbs", "thumbnail", "thumbnails", "small", "mini", "preview", "previews", "cache"})
"""Names of folders for smaller copies of images."""
_LISTED, _SAMPLE, _START = 3, 50, 1000


class Lookup(NamedTuple):
    """The result of looking up an image.

    Attributes:
        name: The path of its file under the folder, or `None`.
        note: How this path differs from what is written, "" if only in the folders above; or why there is no file.
            Examples follow a colon.
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
        if image_names.is_embedded(written):
            return Lookup(None, "embedded in the text")
        link = ""
        for name in image_names.names_of(written, own_file):
            path = os.path.join(self._root, name)
            if os.path.isfile(path) and not name.rpartition("/")[2].startswith("._"):  # made by macOS
                if is_inside(path, self._root):
                    return Lookup(name)
                link = link or name
        found = self._alike(written, own_file) if self.listed else Lookup(None, "no file at any suffix of its path")
        return Lookup(None, self._of_link(link)) if link and found.name is None else found

    def path_of(self, written: str, own_file: str) -> str:
        """Returns the path of an image under the folder, also if there is no file; "" for a `data:` address.

        A remote image without a file keeps its URL, and an embedded one its name.
        """
        if written.startswith(PREFIX):
            return written
        found = self.find(written, own_file).name
        if found is not None or image_names.is_embedded(written) or written.rstrip().endswith("/"):
            return found or ""
        return written.strip() if image_names.is_remote(written) else image_names.plain_path(written, own_file)

    @cached_property
    def names(self) -> FileNames:
        """The paths of the image files, in the order of a walk from the top."""
        with self._listing:
            self.refused.clear()
            found = FileNames(image_files(self.folder, self._refuse))
            self.refused += [] if len(found) else self._without_extension()
            return found

    def _without_extension(self) -> Iterator[str]:
        """Yields the reason why files are not read that have no extension, if most of them are images."""
        names = [name for name in files_under(self.folder, ("",)) if "." not in _last(name)]
        images = [name + kind for name in names[:_SAMPLE] if (kind := _kind_of(self.folder / name))]
        if 2 * len(images) > len(names[:_SAMPLE]):
            yield f"{counted(len(names), 'file')} without an extension; name images like {images[0]}"

    def _refuse(self, path: str, error: OSError | None) -> None:
        self.refused.append(
            f"cannot be read ({error.strerror}): {path or self.folder}" if error else self._of_link(path)
        )

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
        paths, own = list(image_names.paths_of(written, own_file)), tuple(own_file.split("/")[:-1])
        for same_extension in (True, False):
            likeness, found = self._nearest(paths, own, image_names.is_remote(written), same_extension)
            if len(found) == 1 or (found and self._are_copies(found)):
                return Lookup(found[0], _NOTES[likeness.same] if same_extension else "another extension")
            if found:
                return Lookup(None, f"the name of {len(found)} files: {_listed(found)}")
        return Lookup(None, self._why_none(paths))

    def _nearest(
        self, paths: Sequence[Parts], own: Parts, remote: bool, same_extension: bool
    ) -> tuple[_Likeness, list[str]]:
        """Returns the files that agree best with one of the paths, and how well; none without the same name."""
        best, found = _WORST, list[str]()
        for path in paths:
            for candidate in self._called(path[-1], same_extension):
                likeness = _likeness(candidate, path, own)
                name_suffices = not remote and (same_extension or len(path) == 1)
                if likeness.alike < min(1 if name_suffices else 2, candidate.count("/") + 1) or likeness < best:
                    continue
                found = [] if likeness > best else found
                best = likeness
                found += [candidate] if candidate not in found else []
        return best, found

    def _called(self, name: str, same_extension: bool) -> Iterator[str]:
        """Yields the files with a name, or those that differ from it in their extension only."""
        stem, extension = image_names.split_name(image_names.fold(name))
        for number in self._by_stem[stem]:
            candidate = self.names[int(number)]
            other = image_names.split_name(image_names.fold(candidate.rpartition("/")[2]))
            if other[0] == stem and (other[1] == extension) == same_extension:
                yield candidate

    @cached_property
    def _by_stem(self) -> KeyTable:
        with self._listing:
            return KeyTable(
                (image_names.split_name(image_names.fold(_last(name)))[0], number)
                for number, name in enumerate(self.names)
            )

    @cached_property
    def _by_loose_stem(self) -> KeyTable:
        with self._listing:
            return KeyTable(
                (loose_key(image_names.split_name(_last(name))[0]), number) for number, name in enumerate(self.names)
            )

    def _are_copies(self, names: Sequence[str]) -> bool:
        first, *others = (os.path.join(self._root, name) for name in names)
        return len(names) <= _LISTED and all(filecmp.cmp(first, one, shallow=False) for one in others)

    def _why_none(self, paths: Sequence[Parts]) -> str:
        """Returns the reason why no file has the name, with the most similar names."""
        if any(os.path.isdir(os.path.join(self._root, *path)) for path in paths):
            return "a folder, not a file"
        stems = dict.fromkeys(loose_key(image_names.split_name(path[-1])[0]) for path in paths)
        similar = [self.names[int(number)] for stem in stems if stem for number in self._by_loose_stem[stem][:_LISTED]]
        return "no file of this name" + (f", but similar ones: {_listed(similar)}" if similar else "")


def _kind_of(file: Path) -> str:
    """Returns the extension that fits the first bytes of a file, "" if they are not those of an image."""
    try:
        with file.open("rb") as opened:
            return image_kind(opened.read(_START))
    except OSError:
        return ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")


def _last(path: str) -> str:
    return path.rpartition("/")[2]


class _Likeness(NamedTuple):
    """How well a file agrees with a path, the most important first."""

    alike: int  # number of names at the end of both paths that are alike
    same: int  # whether these are the same (2), differ in the form of Unicode (1), or in letter case (0)
    large: bool  # whether the file is in no folder for smaller copies
    near: int  # number of folders at the start of its path that are those of the file that names it
    preferred: int  # how usual its extension is, compared with others of the same name


_WORST = _Likeness(0, 0, False, 0, -len(IMAGE_SUFFIXES))
_NOTES = ("another letter case", "another form of Unicode", "another folder")


def _likeness(candidate: str, path: Parts, own: Parts) -> _Likeness:
    """Returns how well a file agrees with a path whose last name is alike except, perhaps, for the extension."""
    parts = candidate.split("/")
    extension = image_names.split_name(parts[-1])[1]
    written = [*path[:-1], image_names.split_name(path[-1])[0] + extension]
    pairs = zip(reversed(parts), reversed(written), strict=False)
    agreeing = list(takewhile(lambda pair: image_names.fold(pair[0]) == image_names.fold(pair[1]), pairs))
    near = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(parts[:-1], own, strict=False)))
    large = _SMALL.isdisjoint(part.lower() for part in parts[:-1])
    rank = IMAGE_SUFFIXES.index(extension.lower())
    return _Likeness(len(agreeing), min(map(_sameness, *zip(*agreeing, strict=True))), large, near, -rank)


def _sameness(one: str, other: str) -> int:
    return 2 if one == other else int(normalize("NFC", one) == normalize("NFC", other))
