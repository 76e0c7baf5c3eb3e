"""Keeps what a test process would make again for each command and service: digests, readings, schemas, certificates.

What is kept is known by the size and time of every file that it was made from, so that tests may change files.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Hashable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from retriever.base_models import find_base
from retriever.files import sha256_of


def own_cache(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Makes a new folder the user's cache, with the base models of the one before, which take seconds to unpack."""
    base = _base_folder()
    base.mkdir(parents=True, exist_ok=True)
    (folder / "omgm").mkdir(parents=True)
    (folder / "omgm" / "base").symlink_to(base, target_is_directory=True)
    patch.setenv("XDG_CACHE_HOME", str(folder))


def _base_folder() -> Path:
    return find_base("all-MiniLM-L6-v2").folder.parent.resolve()


def keeping(patch: pytest.MonkeyPatch) -> None:
    """Keeps it until a patch is undone; of the modules that are imported by now. No test cuts the power either."""
    patch.setattr(os, "fsync", lambda file: None)  # it takes more time than most builds of a few entities
    patch.setattr("retriever.base_models.sha256_of", _kept(sha256_of, _stamp))
    if ocr := sys.modules.get("retriever.models.ocr"):  # takes a third of a second for an image without text
        read = _kept(ocr.OCR._read, _reading_key)
        patch.setattr(ocr.OCR, "_read", lambda *given: list(read(*given)))
    if routing := sys.modules.get("fastapi.routing"):  # makes a schema for each route and each error that it may return
        patch.setattr(routing, "create_model_field", cache(vars(routing)["create_model_field"]))
    for client in ("httpx", "httpx2"):
        if made := sys.modules.get(f"{client}._transports.default"):  # reads all certificates for each client
            patch.setattr(made, "create_ssl_context", _kept(vars(made)["create_ssl_context"], _default_context))


def _kept(make: Callable[..., Any], key_of: Callable[..., Hashable | None]) -> Callable[..., Any]:
    """Returns `make`, which is called once per key of its arguments, and always if the key is `None`."""
    found: dict[Hashable, Any] = {}

    def kept(*arguments: Any, **settings: Any) -> Any:
        key = key_of(*arguments, **settings)
        if key is None:
            return make(*arguments, **settings)
        if key not in found:
            found[key] = make(*arguments, **settings)
        return found[key]

    return kept


def _stamp(path: Path) -> Hashable:
    status = path.stat()
    return path.resolve(), status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _reading_key(reader: Any, image: Image.Image, side: int | None) -> Hashable | None:
    content = hashlib.sha256(image.tobytes()).digest()
    return (reader.fingerprint, image.mode, image.size, content, side) if reader.fingerprint else None


def _default_context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> Hashable | None:
    own = trust_env and any(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    return "default" if verify is True and cert is None and not own else None
