"""What a piece of work depends on: notes it in the work's folder, and names in words what is different later.

Settings, names and digests are noted as they are. Collections (labels, texts, wordings, images) are `Items`: the note
has one digest of each collection, and a file beside it has one per item, which is needed only to say what changed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import tee
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.digests import MISSING, digests_of
from retriever.files import as_line, read_object, replacing, write_json
from retriever.wording import counted

logger = logging.getLogger(__name__)

_HASH = re.compile(r"[0-9a-f]{12,64}(-\S*)?")


class Items:
    """A collection of named contents, of which only hashes are held: 16 bytes per item.

    Args:
        pairs: The name and the content of each item, in order; bytes, or values that are JSON.
        noun: What an item is.
        differs: What a changed item has.
    """

    def __init__(self, pairs: Iterable[tuple[object, object]], noun: str, differs: str):
        names, contents = array("Q"), array("Q")
        for name, content in pairs:
            names.append(short_hash(name))
            contents.append(short_hash(content))
        self.names, self.contents = np.array(names, np.uint64), np.array(contents, np.uint64)
        self.noun, self.differs = noun, differs

    @property
    def digest(self) -> str:
        """A hash of all items and their order."""
        return hashlib.sha256(self.names.tobytes() + self.contents.tobytes()).hexdigest()

    def noted(self) -> dict[str, object]:
        """Returns the number of items and their hash, for the JSON file that records the inputs of a run."""
        return {"count": len(self.names), "sha256": self.digest}

    def changes(self, names: NDArray[np.uint64], contents: NDArray[np.uint64]) -> str:
        """Says how the collection differs from an earlier one, given its names and contents, uint64 [N].

        Files that were missing may turn up: this is no difference, and if it is the only one, the text is empty.
        """
        now, before = (
            dict(zip(keys.tolist(), values.tolist(), strict=True))
            for keys, values in ((self.names, self.contents), (names, contents))
        )
        both = now.keys() & before.keys()
        changed = sum(before[name] not in (now[name], _MISSING) for name in both)
        verb = "has" if changed == 1 else "have"
        said = [f"{changed:,} of {counted(len(now), self.noun)} {verb} {self.differs}"] if changed else []
        for count, how in ((len(now) - len(both), "new"), (len(before) - len(both), "gone")):
            said += [f"{counted(count, self.noun)} {'is' if count == 1 else 'are'} {how}"] if count else []
        reordered = not said and not np.array_equal(self.names, names)
        return "another order" if reordered else ", ".join(said)


def files_as_items(files: Iterable[tuple[object, Path | bytes | None]], noun: str) -> Items:
    """Returns the bytes of files as items; see `digests_of`.

    Args:
        files: The name of each file, independent of its folder, and its path or its bytes.
        noun: What a file is.
    """
    names, contents = tee(files)  # of contents, only the next part is in memory
    digests = digests_of(content for _, content in contents)
    return Items(((name, digest) for (name, _), digest in zip(names, digests, strict=True)), noun, "other bytes")


def agree(
    path: Path,
    inputs: Mapping[str, Any],
    *,
    write: bool = True,
    adapt: Mapping[str, Callable[[], None]] = MappingProxyType({}),
    work: Sequence[Path] = (),
    overwrite: bool = False,
    advice: str = "",
) -> bool:
    """Checks that earlier work had the same inputs; returns whether there is such work. Writes nothing if it had not.

    Args:
        path: The file that notes the inputs.
        inputs: The inputs of this run: `Items`, or values that are JSON; others are noted as text.
        write: Whether to note them if there is no earlier work.
        adapt: Inputs that may differ, each with a function that adapts the work to the new value before it is noted.
        work: Files and folders that depend on the inputs; if none of them exists, there is no earlier work.
        overwrite: Whether to remove `work` of other inputs, and start over.
        advice: What to do about a difference; by default, to choose another --out or to pass --overwrite.

    Raises:
        ValueError: The inputs differ, or the note is damaged or missing; the message names the differences.
    """
    collections = {key: value for key, value in inputs.items() if isinstance(value, Items)}
    noted = {key: value.noted() if isinstance(value, Items) else value for key, value in inputs.items()}
    now = json.loads(json.dumps(noted, default=str))
    different, problem = _compared(path, now, collections, work)
    if problem is None and different is not None:
        said = {key: words for key, words in different.items() if words}
        if adapt.keys() >= said.keys():
            for key in said:
                adapt[key]()
            if different and write:
                _note(path, now, collections)
            return True
        problem = f"made from other inputs ({'; '.join(said.values())})"
    if problem is not None:
        if not overwrite:
            advice = advice or "choose another --out, or pass --overwrite to start over"
            raise ValueError(f"{path}: {problem}; {advice}")
        logger.warning("%s: %s; starting over", path, problem)
        for one in work if write else ():
            shutil.rmtree(one) if one.is_dir() else one.unlink(missing_ok=True)
    if write:
        _note(path, now, collections)
    return False


def _compared(
    path: Path, now: dict[str, Any], collections: Mapping[str, Items], work: Sequence[Path]
) -> tuple[dict[str, str] | None, str | None]:
    """Compares the inputs of earlier work with those of now.

    Returns:
        A sentence on each input that differs, by its name, `None` if there is no earlier work or its inputs are
        unknown; and in the latter case the reason, else `None`.
    """
    known = next((one for one in work if one.exists()), None)
    if work and known is None:
        return None, None
    if not path.is_file():
        return None, f"missing, but there is {known.name}, whose inputs are unknown" if known else None
    try:
        before = read_object(path)
    except ValueError as error:
        return None, f"damaged ({error})"
    keys = [key for key in now | before if now.get(key) != before.get(key)]
    said = {key: _said(path, key, before.get(key), now.get(key), collections.get(key)) for key in keys}
    return said, None


def _said(path: Path, key: str, before: Any, now: Any, items: Items | None) -> str:
    """Says how an input differs."""
    if items is None:
        return ", ".join(differences(key, before, now))
    try:
        with np.load(_beside(path), allow_pickle=False) as arrays:
            said = items.changes(arrays[f"{key}.names"], arrays[f"{key}.contents"])
            return f"{key}: {said}" if said else ""
    except (OSError, ValueError, KeyError):
        return f"{key}: others"


def differences(key: str, before: Any, now: Any) -> Iterator[str]:
    """Says how inputs that are JSON differ; of collections, only that they do."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in before | now:
            if before.get(name) != now.get(name):
                yield from differences(f"{key}.{name}".lstrip("."), before.get(name), now.get(name))
    else:
        yield difference(key, before, now)


def difference(key: str, before: Any, now: Any) -> str:
    """Says how an input that is JSON differs; hashes are not shown."""
    if is_hash(before) and is_hash(now):
        return f"{key}: other content"
    if is_hash(before) or is_hash(now):
        return f"{key}: {_shown(before)} before, {_shown(now)} now"
    return f"{key} was {_shown(before)} and is now {_shown(now)}"


def is_hash(value: Any) -> bool:
    """Tells whether a value is the digest of content, perhaps with settings, which says nothing to people."""
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def _shown(value: Any) -> str:
    text = "not given" if value is None else "given" if is_hash(value) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _note(path: Path, now: Mapping[str, Any], collections: Mapping[str, Items]) -> None:
    """Writes the note last: it alone decides whether inputs are the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {f"{key}.names": items.names for key, items in collections.items()}
    arrays |= {f"{key}.contents": items.contents for key, items in collections.items()}
    if arrays:
        with replacing(_beside(path)) as partial, partial.open("wb") as file:
            np.savez(file, **arrays)
    write_json(path, now)


def _beside(path: Path) -> Path:
    return path.with_suffix(".npz")


_MISSING = int.from_bytes(hashlib.blake2b(MISSING, digest_size=8).digest(), "little")


def short_hash(value: object) -> int:
    """Returns a hash of bytes, or of a value that is JSON, uint64."""
    content = value if isinstance(value, bytes) else as_line(value)
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
