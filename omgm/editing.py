"""Opens an index with a profile's models, for changes."""

from __future__ import annotations

from pathlib import Path

from indexes.fields import FieldsModel
from indexes.live.editor import Editor
from indexes.live.index import LiveIndex
from indexes.parts.layout import read_part
from indexes.store.columns import ColumnModel
from indexes.store.generations import current_files
from indexes.store.index import Index
from indexes.store.manifest import read_manifest
from omgm import parts
from omgm.opening import index_options
from omgm.settings import Profile
from retriever.pipeline import Retriever
from retriever.protocols import DualEncoder, FusionEncoder

LACKING = "this service cannot compute its columns"
"""Why an index cannot be changed that has columns for which a profile has no model."""


def lacks_models(profile: Profile, folder: Path) -> bool:
    """Returns whether an index has columns that the profile cannot compute, so that it cannot be changed.

    Raises:
        ValueError: The index is missing or damaged.
    """
    return bool(read_manifest(current_files(folder)).inputs.columns.keys() - columns_for(profile, folder).keys())


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
    if (part := read_part(folder)) is not None:
        raise ValueError(f"{folder}: is {part}; send articles to a front (PUT /entities?id=…)")
    options = index_options(profile, encoder, fusion, columns_for(profile, folder))
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
    return LiveIndex.open(folder, **index_options(profile, encoder, fusion, columns_for(profile, folder)))


def editor_of(profile: Profile, index: LiveIndex, encoder: DualEncoder, fusion: FusionEncoder) -> Editor:
    """Returns the editor of an open index; takes the models of `open_editor`.

    Raises:
        ValueError: The index has vectors of sections, and the profile has no encoder for them.
    """
    columns = columns_for(profile, index.root)
    return Editor(index, lambda: parts.build_summarizer(profile), encoder, fusion, columns=columns)


def editor_of_parts(
    profile: Profile, retriever: Retriever[Index], encoder: DualEncoder, fusion: FusionEncoder
) -> Editor | str:
    """Returns the editor of the parts behind a front, or why the profile cannot change them."""
    from indexes.parts.changing import ChangingParts

    if lacks_models(profile, retriever.index.folder):
        return LACKING
    editor = editor_of(profile, ChangingParts(retriever.index), encoder, fusion)
    editor.models = retriever.models
    return editor


def columns_for(profile: Profile, folder: Path) -> dict[str, ColumnModel]:
    """Returns the models that a profile has for the columns of an index.

    Raises:
        ValueError: The index is missing or damaged, or a model is.
    """
    stored = read_manifest(current_files(folder)).inputs.columns
    models = parts.build_columns(profile, stored)
    return models | ({"fields": FieldsModel(*stored["fields"].splitlines())} if "fields" in stored else {})
