"""What an index found about its own recognition, and whether that is still current."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from indexes.live.following import FollowingIndex
from indexes.live.version import count
from indexes.store.index import Index
from indexes.store.manifest import RECOGNITION
from omgm.settings import Profile
from retriever.files import read_object, write_whole
from retriever.recognition import APART, Recognition, Signs

logger = logging.getLogger(__name__)

_GROWN = 0.2
"""Share by which the number of entities with an image may change before a calibration is out of date."""
_CHECKSUM = "sha256"
"""The entry with the checksum of all others; the manifest cannot list the file, which may be written again after it."""


def read_recognition(folder: Path) -> dict[str, Any] | None:
    """Reads an index's `recognition.json`; returns `None` if there is none.

    Raises:
        ValueError: The file is damaged.
    """
    path = folder / RECOGNITION
    if not path.is_file():
        return None
    found = read_object(path)
    expected = found.pop(_CHECKSUM, None)  # older files have none
    if expected is not None and expected != _checksum(found):
        raise ValueError(
            f"{path}: content differs from its checksum; remove it and measure again with omgm index calibrate --index "
            f"{folder}"
        )
    return found


def write_recognition(folder: Path, found: Mapping[str, Any]) -> None:
    """Writes `recognition.json` with its checksum."""
    text = json.dumps({**found, _CHECKSUM: _checksum(found)}, indent=1)
    write_whole(folder / RECOGNITION, f"{text}\n".encode())


def _checksum(found: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def own_recognition(profile: Profile, folder: Path, index: Index, key: str) -> Recognition | None:
    """Returns the recognition calibrated on an index itself; `None` if it was not, or with other models or settings.

    Args:
        profile: The profile.
        folder: The index's folder.
        index: The index, open.
        key: The `recognition_key` of the models and settings.

    Raises:
        ValueError: `recognition.json` is damaged.
    """
    found = read_recognition(folder)
    if found is None or found["fitted_to"] != key:
        return None
    if outdated := outdated_recognition(folder, index):
        logger.warning("%s: %s %s", folder / RECOGNITION, outdated, profile.options)
    crop_threshold = found.get("crop_threshold") if profile.search.crops else None  # older files have none
    signs = Signs(**{**found["weights"], **{name: getattr(profile.recognition, name) for name in APART}})
    return Recognition(found["bias"], signs, profile.recognition.threshold, crop_threshold)


def outdated_recognition(folder: Path, index: Index) -> str | None:
    """Returns why an index should be calibrated again, as a sentence that ends with the command; `None` if not."""
    found = read_recognition(folder)
    if found is None:
        return None
    calibrated, now = found["entities"], images_in(index)
    if abs(now - calibrated) <= _GROWN * calibrated:
        return None
    return (
        f"what counts as recognized was measured when {calibrated:,} entities had an image; {now:,} have one now, so "
        "too few or too many questions may be declined: measure it again with omgm index calibrate --index "
        f"{folder}"
    )


def images_in(index: Index) -> int:
    """Returns the number of entities with an image, including changes that are not yet compacted."""
    return (count(index.version) if isinstance(index, FollowingIndex) else index.manifest.counts).with_image
