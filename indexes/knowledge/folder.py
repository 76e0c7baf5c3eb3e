"""A folder is the union of its files: which reader reads which file, and what no reader reads."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from indexes.decoding import opened, plain_name
from indexes.image_paths import IMAGE_SUFFIXES
from indexes.knowledge.file_names import sorted_files, unread_folders
from indexes.knowledge.readers import Reader
from indexes.knowledge.readers.registry import BEGINNING, beginning_of, reader_named, readers
from indexes.knowledge.readers.source_file import settings_in
from indexes.knowledge.selection import listing_pages
from indexes.knowledge.unread import UNREAD, advice_on, data_in_code, is_template, why_no_entity
from retriever.wording import counted

UNION = "folder"  # the format of a folder whose files have several
_LISTED = 3
_POINTER = b"version https://git-lfs"
POINTERS = "Git LFS pointers instead of files; fetch these with: git lfs pull"


@dataclass(slots=True)
class Contents:
    """The files of a knowledge base.

    Attributes:
        root: The folder that paths are relative to.
        files: The files of each reader, in order; the readers in the order of their first files.
        every: All files in the folder, none for a single file.
        left_out: What is read by a reader, but left out: (reason, example, number of files).
        closed: Folders that cannot be read, with the errors.
        elsewhere: Links to folders outside, in words, with their numbers of files.
    """

    root: Path
    files: dict[Reader, list[Path]]
    every: Sequence[Path] = ()
    left_out: list[tuple[str, str, int]] = field(default_factory=list)
    closed: dict[str, OSError] = field(default_factory=dict)
    elsewhere: dict[str, int] = field(default_factory=dict)

    @property
    def format(self) -> str:
        """The name of the only reader, or `UNION`."""
        return next(iter(self.files)).name if len(self.files) == 1 else UNION

    @property
    def paths(self) -> list[Path]:
        """All files that are read, by their paths."""
        return sorted(path for files in self.files.values() for path in files)


def contents_of(path: Path, format: str | None = None) -> Contents:
    """Returns which files of a knowledge base are read, and by which readers.

    Args:
        path: The folder, or the file.
        format: The name of the only reader to use; by default, each file is read by the first that recognizes it.

    Raises:
        ValueError: No reader reads any file; the message says how to convert what is there. The format is unknown.
        FileNotFoundError: There is no such file.
    """
    reader = None if format in (None, UNION) else reader_named(str(format))
    if not path.is_dir():
        return Contents(path.parent, {reader or _reader_of(path): [path]})
    candidates = (reader,) if reader else readers()
    suffixes = tuple({suffix for one in candidates for suffix in one.suffixes})
    every = sorted_files(path, ("",))
    contents = Contents(path, {}, every)
    contents.closed, contents.elsewhere = unread_folders(path, suffixes)
    recognized, templates, pointers = list[tuple[Path, Reader]](), set[Path](), list[Path]()
    for file in every:
        # each file is opened once, since there may be a hundred thousand
        suffix = inner_path(file).suffix.lower()
        if fitting := [one for one in candidates if suffix in one.suffixes]:
            start = beginning_of(file)
            if start.startswith(_POINTER):
                pointers.append(file)
            elif (one := reader or next((one for one in fitting if one.recognizes(file, start)), None)) is not None:
                recognized.append((file, one))
                templates |= {file} if is_template(file, start) else set()
    if pointers:
        contents.left_out.append((POINTERS, pointers[0].relative_to(path).as_posix(), len(pointers)))
    if archives := [file for file, one in recognized if one.name == "zim"]:
        reason = "archives, each a knowledge base of its own; name the file"
        contents.left_out.append((reason, archives[0].relative_to(path).as_posix(), len(archives)))
        recognized = [(file, one) for file, one in recognized if one.name != "zim"]
    if not recognized:
        raise ValueError(f"{path}: {len(pointers):,} {POINTERS}" if pointers else _nothing_in(path, every))
    files = defaultdict[Reader, list[Path]](list)
    for file, one in _things(path, recognized, templates, contents):
        files[one].append(file)
    contents.files = dict(files)
    return contents


def _reader_of(path: Path) -> Reader:
    """Returns the reader of a single file."""
    named = plain_name(path)
    if advice := advice_on(named.suffix, named.stem):
        raise ValueError(f"{path}: {advice}")
    start = beginning_of(path)
    if start.startswith(_POINTER):
        raise ValueError(f"{path}: is a Git LFS pointer, not the file itself; fetch the file with: git lfs pull")
    every = readers()
    by_name = (one for one in every if named.suffix.lower() in one.suffixes and one.recognizes(path, start))
    by_content = (one for one in every if start and one.recognizes(path, start))
    if (reader := next(by_name, None) or next(by_content, None)) is None:
        if named.suffix.lower() == ".toml":
            settings_in(path)  # says what is missing
        with opened(path) as content:  # says if it is damaged
            content.read(BEGINNING)
        known = ", ".join(sorted({suffix for one in every for suffix in one.suffixes}))
        raise ValueError(f"{path}: unknown extension; known are {known}; name the format with --kb-format")
    return reader


def _things(
    root: Path, recognized: Iterable[tuple[Path, Reader]], templates: Collection[Path], contents: Contents
) -> list[tuple[Path, Reader]]:
    """Returns the files that are no README, template, index page and the like, unless nothing else is there."""
    pairs = list(recognized)
    names = {file: file.relative_to(root).as_posix() for file, _ in pairs}
    reasons = {file: why_no_entity(name) for file, name in names.items()}
    lists = listing_pages([names[file] for file, reason in reasons.items() if not reason])
    for file in (file for file, reason in reasons.items() if not reason):
        if names[file] in lists:
            reasons[file] = "pages that list others"
        elif file in templates:
            reasons[file] = "templates and parts of pages"
    if not all(reasons.values()):
        for reason, count in Counter(filter(None, reasons.values())).items():
            example = next(names[file] for file, why in reasons.items() if why == reason)
            contents.left_out.append((reason, example, count))
        pairs = [(file, one) for file, one in pairs if not reasons[file]]
    return pairs


def unread_in(root: Path, files: Sequence[Path]) -> list[tuple[str, str, int]]:
    """Counts the files that no reader reads, by kind, each with the command that converts it."""
    count, examples = Counter[str](), dict[str, str]()
    for file in files:
        if (suffix := file.suffix.lower()) in UNREAD:
            count[suffix] += 1
            examples.setdefault(suffix, file.relative_to(root).as_posix())
    left_out = [(f"files *{suffix}: {advice_on(suffix)}", examples[suffix], number) for suffix, number in count.items()]
    if code := data_in_code(files):
        reason = f"data in programs (*{code[0].suffix}); save the list as JSON, and read that"
        left_out.append((reason, code[0].relative_to(root).as_posix(), len(code)))
    return left_out


def _nothing_in(path: Path, files: Sequence[Path]) -> str:
    """Returns the message for a folder in which no file is read."""
    for reason, example, count in unread_in(path, files):
        return f"{path}: nothing is read in this folder, but it has {count:,} {reason} (such as {example})"
    images = sum(file.suffix.lower() in IMAGE_SUFFIXES for file in files)
    reason = "holds no Markdown, pages, tables, JSON, YAML or texts" if files else "is empty"
    suffixes = Counter(file.suffix.lower() for file in files if file.suffix)
    if images:
        reason += f"; describe its {counted(images, 'image')} in a table, as in images.csv with title,image,text"
    elif suffixes:
        reason += ", but " + ", ".join(f"{counted(n, 'file')} *{suffix}" for suffix, n in suffixes.most_common(_LISTED))
    return f"{path}: the folder {reason}"


def inner_path(path: Path) -> Path:
    """Returns a path without the extension of a compressed file: `animals.csv` for `animals.csv.gz`."""
    return path.with_suffix("") if path.suffix.lower() in (".gz", ".bz2") else path
