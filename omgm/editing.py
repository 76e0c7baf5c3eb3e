"""Opens an index with a profile's models, for changes."""

from __future__ import annotations

from pathlib import Path

from indexes.live.editor import Editor
from indexes.live.index import LiveIndex
from omgm import parts
from omgm.opening import has_section_vectors, index_options
from omgm.settings import Profile
from retriever.protocols import DualEncoder, FusionEncoder, SectionEncoder


def lacks_encoder(profile: Profile, folder: Path) -> bool:
    """Returns whether an index has vectors of sections that the profile cannot compute, so that it cannot be changed.

    Raises:
        ValueError: The index is missing or damaged.
    """
    return not parts.has_section_encoder(profile) and has_section_vectors(folder)


def open_editor(profile: Profile, folder: Path, encoder: DualEncoder, fusion: FusionEncoder, doing: str) -> Editor:
    """Opens an index for changes.

    Args:
        profile: The profile that it was built with.
        folder: The index's folder.
        encoder: The profile's model for step 1.
        fusion: The profile's model for step 2.
        doing: What this process does with the index; see `LiveIndex.open`.

    Raises:
        ValueError: As for `open_retriever`, or another process has the index open for changes (`LockedError`).
        OSError: The folder is read-only.
    """
    options = index_options(profile, encoder, fusion, _sections_of(profile, folder))
    index = LiveIndex.open(folder, **options, write=True, doing=doing)
    try:
        return editor_of(profile, index, encoder, fusion)
    except ValueError:
        index.close()
        raise


def open_later(profile: Profile, folder: Path, encoder: DualEncoder, fusion: FusionEncoder) -> LiveIndex:
    """Opens an index that another process changes for reading, until `LiveIndex.take_over`.

    Raises:
        ValueError: As for `open_editor`.
    """
    return LiveIndex.open(folder, **index_options(profile, encoder, fusion, _sections_of(profile, folder)))


def editor_of(profile: Profile, index: LiveIndex, encoder: DualEncoder, fusion: FusionEncoder) -> Editor:
    """Returns the editor of an open index; takes the models of `open_editor`.

    Raises:
        ValueError: The index has vectors of sections, and the profile has no encoder for them.
    """
    sections = _sections_of(profile, index.root)
    return Editor(index, lambda: parts.build_summarizer(profile), encoder, fusion, sections=sections)


def _sections_of(profile: Profile, folder: Path) -> SectionEncoder | None:
    needed = parts.has_section_encoder(profile) and has_section_vectors(folder)
    return parts.build_sections(profile) if needed else None
