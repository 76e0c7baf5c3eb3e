"""An editor's summarizer: used by one thread at a time, and closed with the editor."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor

from chat_models.chat import ChatClient
from indexes.builder.chat_summarizer import ChatSummarizer
from indexes.live.editor import Editor
from retriever.protocols import Summarizer
from retriever.types import Entity
from tests.fakes.live import World, article
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer


class SingleFile(FakeSummarizer):
    """Fails if two threads use it concurrently, like an event loop."""

    def __init__(self) -> None:
        self._used = threading.Lock()

    def stream(self, entities: Iterable[Entity]) -> Generator[str]:
        assert self._used.acquire(blocking=False)
        try:
            time.sleep(0.02)  # time for another thread to enter
            yield from super().stream(entities)
        finally:
            self._used.release()


def test_threads_take_turns_with_one_summarizer(world: World) -> None:
    made: list[Summarizer] = []

    def make() -> Summarizer:
        made.append(SingleFile())
        return made[-1]

    editor = Editor(world.open(write=True), make, FakeEncoder(), FakeFusion())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: world.put(editor, article(name)), "fghi"))
    assert len(made) == 1
    assert all(editor.index.row_of(f"kb/{name}") is not None for name in "fghi")
    editor.close()


def test_the_connections_of_a_chat_model_are_closed_with_the_editor(world: World) -> None:
    closed: list[str] = []

    class Chat(ChatSummarizer):
        def stream(self, entities: Iterable[Entity]) -> Generator[str]:
            return FakeSummarizer().stream(entities)

        def close(self) -> None:
            super().close()
            closed.append(self.name)

    def make() -> Summarizer:
        return Chat(ChatClient("http://127.0.0.1:9", FakeSummarizer.name))

    editor = Editor(world.open(write=True), make, FakeEncoder(), FakeFusion())
    world.put(editor, article("f"))
    editor.close()
    assert closed == [FakeSummarizer.name]
    world.editor().close()  # another editor can open it now, without running a model
