"""The index that a training reads if it is given a knowledge base: built once, in the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

from indexes.builder.summary_cache import default_cache
from indexes.knowledge.knowledge_base import name_of
from omgm.indexing import Build
from omgm.kept_index import keep_index
from omgm.settings import Profile


def cached_index(profile: Profile, kb: Path, images: Path | None, *, tokens: bool, **reading: Any) -> Path:
    """Returns the index of a knowledge base in the user's cache; builds it first, unless it is up to date.

    There is one for each knowledge base, or two with and without tokens, so that the cache does not grow with every
    profile. Another process that needs the same index, as under torchrun, waits for it.

    Args:
        profile: The models and settings.
        kb: The knowledge base.
        images: Its images; by default those in the knowledge base, or the folder that contains it.
        tokens: Whether steps 2 and 3 can use it. Articles, images and step 1's keys need less time and space.
        **reading: `kb_format`, `names` and `max_bad` of `omgm.indexing.Build`.

    Raises:
        ValueError: The input is invalid.
    """
    digest = hashlib.sha256(str(kb.resolve()).encode()).hexdigest()[:12]
    folder = default_cache().parent / "indexes" / f"{name_of(kb)}-{digest}{'-tokens' if tokens else ''}"
    # a server of vectors is for indexes that are searched by others, too
    local = profile.model_copy(update={"search": profile.search.model_copy(update={"kind": "auto", "uri": ""})})
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        say = partial(print, file=sys.stderr, flush=True)
        order = Build(kb=kb, out=folder, images=images, overwrite=True, tokens=tokens, **reading)
        keep_index(local, order, say=say)
    return folder
