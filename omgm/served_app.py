"""Builds the service for an index from a profile, as the only process that serves the index or as one of several."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

    from indexes.live.drafts import DraftEditor
    from indexes.live.editor import Editor
    from indexes.store.index import Index
    from omgm.settings import Profile
    from retriever.image_cache import ImageCache
    from retriever.pipeline import Retriever
    from retriever.protocols import DualEncoder, FusionEncoder

logger = logging.getLogger(__name__)

READ_ONLY = "several processes serve it; change it with `omgm index add`, which they follow"
"""Why `PUT` and `DELETE` are refused: only one process may write, but a request may reach any of them."""


class LateEditor:
    """Opens the editor of a service once no other process has the index open for changes.

    That is its predecessor in a rolling restart, until it has ended.
    """

    def __init__(self, retriever: Retriever[Index], take_over: Callable[[], Editor]) -> None:
        self._retriever, self._take_over = retriever, take_over
        self._editor: DraftEditor | None = None
        self._lock = threading.Lock()

    def __call__(self) -> DraftEditor | str:
        """Returns the editor, or why there is none yet: another process has the index open for changes."""
        from indexes.live.drafts import DraftEditor
        from indexes.store.lock import LockedError

        with self._lock:
            if self._editor is None:
                try:
                    self._editor = DraftEditor(self._take_over())
                except LockedError as error:
                    logger.warning("a change was refused: %s", error)  # clients must not see the path
                    return "another process changes it"
                logger.info("%s: can be changed here now", self._retriever.index.folder)
            return self._editor

    def close(self) -> None:
        """Closes the editor if it is open."""
        with self._lock:
            if self._editor is not None:
                self._editor.close()


def build_app(profile: Profile, index: Path, *, read_only: bool) -> tuple[FastAPI, Editor | LateEditor | str]:
    """Builds the service and warms it up; returns it with its editor, which the caller closes, or why it has none.

    Args:
        profile: The profile.
        index: The index's folder.
        read_only: Whether this is one of several services of the index.

    Raises:
        ValueError: As for `omgm.opening.open_retriever`.
    """
    from chat_models.certificates import certificates
    from indexes.live.drafts import DraftEditor
    from indexes.live.editor import Editor
    from omgm.kinds import in_parts
    from omgm.modes import modes_of
    from omgm.parts import build_encoder, build_generator, placement
    from omgm.retriever_processes import RetrieverProcesses
    from omgm.warm_up import warm_up
    from retriever.image_cache import ImageCache
    from serving.app import create_app
    from serving.examples import add_example_routes
    from serving.logs import log_json
    from serving.openai_routes import OPENAI
    from serving.tracing import tracer_of_environment

    settings, on_cpu = profile.serving, placement(profile)[0] == "cpu"
    if settings.image_hosts:
        certificates()  # before requests wait for it, or for the error
    if settings.log_format == "json":
        log_json()
    cache = ImageCache(settings.cache_mib * 2**20)
    with ExitStack() as failing:
        processes = None
        if (
            settings.processes and on_cpu and not read_only and not in_parts(index)
        ):  # first: they load their models meanwhile
            processes = RetrieverProcesses(profile, index, settings.processes, cache.counts)
            failing.callback(processes.close)
        encoder = build_encoder(profile, cache)
        retriever, editor = open_service(profile, index, encoder, cache, read_only=read_only)
        modes, tracer = modes_of(profile, encoder), tracer_of_environment()
        changes = DraftEditor(editor) if isinstance(editor, Editor) else editor
        generator = build_generator(profile, apart=processes is not None)
        if processes is None:
            warm_up(retriever, 1 if on_cpu else settings.max_batch)
        else:
            processes.wait(retriever.index)
        failing.pop_all()
    routes = *OPENAI, add_example_routes
    return create_app(processes or retriever, generator, settings, changes, cache, modes, tracer, routes), editor


def open_service(
    profile: Profile, folder: Path, encoder: DualEncoder, cache: ImageCache | None = None, *, read_only: bool = False
) -> tuple[Retriever[Index], Editor | LateEditor | str]:
    """Opens an index for retrieval and for changes; returns the reason instead of an editor if it cannot be changed.

    Args:
        profile: The profile.
        folder: The index's folder.
        encoder: The profile's model of step 1.
        cache: Where the model of step 2 caches what it computes from images.
        read_only: Whether to open the index for reading only, even if no other process changes it.

    Raises:
        ValueError: As for `omgm.opening.open_retriever`.
    """
    from indexes.store.lock import SERVES, LockedError
    from omgm.editing import LACKING, editor_of_parts, lacks_models, open_editor, open_later
    from omgm.kinds import in_parts
    from omgm.opening import open_retriever
    from omgm.parts import build_fusion

    fusion = build_fusion(profile, cache)
    if in_parts(folder):
        retriever = open_retriever(profile, folder, encoder=encoder, fusion=fusion)
        return retriever, editor_of_parts(profile, retriever, encoder, fusion)
    if read_only:
        return open_retriever(profile, folder, encoder=encoder, fusion=fusion, live=True), READ_ONLY
    if lacks_models(profile, folder):
        logger.warning("%s cannot be changed: this profile lacks models of its columns", folder)
        retriever = open_retriever(profile, folder, encoder=encoder, fusion=fusion, live=True)
        return retriever, LACKING
    try:
        editor = open_editor(profile, folder, encoder, fusion, SERVES)
    except (LockedError, OSError) as error:
        logger.warning("%s cannot be changed here, but changes by other processes are followed: %s", folder, error)
        later = open_later(profile, folder, encoder, fusion)
        retriever = open_retriever(profile, folder, encoder=encoder, fusion=fusion, index=later)
        if isinstance(error, LockedError):
            return retriever, LateEditor(retriever, lambda: take_over(profile, retriever, encoder, fusion))
        return retriever, "its files cannot be written"  # clients see this, so it names no path; the log does
    retriever = open_retriever(profile, folder, encoder=encoder, fusion=fusion, index=editor.index)
    editor.models, editor.compact_after = retriever.models, profile.serving.compact_after
    return retriever, editor


def take_over(profile: Profile, retriever: Retriever[Index], encoder: DualEncoder, fusion: FusionEncoder) -> Editor:
    """Returns the editor of an index that is already served from.

    Raises:
        ValueError: As from `LiveIndex.take_over`.
        OSError: As from `LiveIndex.take_over`.
    """
    from indexes.live.index import LiveIndex
    from indexes.store.lock import SERVES
    from omgm.editing import editor_of

    index = retriever.index
    assert isinstance(index, LiveIndex)
    editor = editor_of(profile, index, encoder, fusion)
    index.take_over(SERVES)
    editor.models, editor.compact_after = retriever.models, profile.serving.compact_after
    return editor
