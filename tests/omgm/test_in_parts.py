"""An index in parts that processes serve, with the embedded profile from end to end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from indexes.parts import remote
from indexes.parts.split import split_index
from omgm.__main__ import main
from omgm.indexing import Build, build
from omgm.opening import open_retriever
from omgm.part_server import part_app
from omgm.profile import load_profile
from retriever.types import EngineError, Query
from tests.fakes.listening import free_port
from tests.fakes.live import hash_of, painting
from tests.fakes.service import listening, wait_until
from tests.omgm.test_words import NAMES, package
from tests.paths import ROOT

THINGS = ("lamp", "kettle", "drum", "ladder", "anchor", "violin")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index of packages, whose labels are read, and of paintings, and with its parts."""
    folder = tmp_path_factory.mktemp("things")
    (folder / "images").mkdir()
    rows = []
    for number, name in enumerate((*NAMES, *THINGS)):
        image = package(name, number) if name in NAMES else painting(hash_of(name))
        image.save(folder / "images" / f"{number}.png")
        texts = [f"The {name.lower()} weighs {100 + number} grams.", f"It was found in {1900 + number}."]
        sections = [{"title": f"Part {place}", "text": text} for place, text in enumerate(texts)]
        row = {"id": f"kb/{number}", "title": f"Article {number}", "image": f"{number}.png", "sections": sections}
        rows.append(row | {"names": [f"the {name.lower()} of Basel"]})
    (folder / "kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    build(load_profile("embedded"), Build(kb=folder / "kb.jsonl", images=folder / "images", out=folder / "index"))
    for parts in (2, 4):
        assert len([*split_index(folder / "index", parts, folder / f"in {parts}")]) == parts
    return folder


def queries() -> list[Query]:
    shown = [
        package(NAMES[0], 50, 4, "navy", "white"),  # recognized by its label
        painting(hash_of(THINGS[0])).rotate(90),
        Image.new("RGB", (64, 64), "gray"),
        *(painting(hash_of(name)) for name in THINGS),
    ]
    texts = ["How heavy is the drum of Basel?", "When was the kettle found?", "Who wrote War and Peace?"]
    about = [Query(image, "How many grams does it weigh?", str(number)) for number, image in enumerate(shown)]
    return [*about, *(Query(Image.new("RGB", (0, 0)), text, text) for text in texts)]


class Served:
    """A part in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "omgm", "serve", "--index", str(self.folder), "--port", str(self.port)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_up(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health/live", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def processes(folder: Path) -> Iterator[list[Served]]:
    parts = [Served(path) for path in sorted(folder.iterdir())]
    try:
        for part in parts:
            wait_until(part.is_up)
        yield parts
    finally:
        for part in parts:
            part.kill()


@contextmanager
def threads(folder: Path) -> Iterator[Path]:
    """Yields the addresses of the parts in a folder, which threads serve."""
    with ExitStack() as stack:
        yield joined(stack.enter_context(listening(part_app(path))) for path in sorted(folder.iterdir(), reverse=True))


def joined(urls: Iterable[str]) -> Path:
    return Path(",".join(urls))


def plain(result: Any, index: Any) -> Any:
    """Returns what a result says, with ids instead of rows, and scores of text up to their last digits."""
    candidates = [replace(one, row=index.entity(one.row).id, score=round(one.score, 6)) for one in result.candidates]
    recognized = result.recognized and round(result.recognized, 6)
    return candidates, recognized, result.crop, result.turned, result.text, result.by_text, result.searched


@pytest.mark.parametrize("count", [2, 4])
def test_answers_are_those_of_one_machine(folder: Path, count: int) -> None:
    profile = load_profile("embedded")
    whole = open_retriever(profile, folder / "index")
    with threads(folder / f"in {count}") as addresses:
        front = open_retriever(profile, addresses)
        for query in queries():
            [expected], [found] = whole.retrieve([query]), front.retrieve([query])
            assert plain(found, front.index) == plain(expected, whole.index), query.question
            assert found.parts == (count, count) and expected.parts is None
            if query.image.width:
                assert [one.score for one in found.candidates] == [one.score for one in expected.candidates]
        assert found.recognized == 0 or found.recognized < 0.4
        for one, other in zip(whole.retrieve(queries()), front.retrieve(queries()), strict=True):
            assert plain(other, front.index) == plain(one, whole.index)
        for name in ("kb/3", "the drum of Basel", "kb/99"):
            row, own = whole.index.row_of(name), front.index.row_of(name)
            assert (row is None) == (own is None)
            if row is not None and own is not None:
                assert front.index.entity(own) == whole.index.entity(row)
                assert front.index.summary(own) == whole.index.summary(row)
        assert len(front.index) == len(whole.index) and front.index.fingerprint == whole.index.fingerprint


def test_a_lost_part_is_named_and_comes_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "DEADLINE", 2.0)
    monkeypatch.setattr(remote, "RETRY", 0.1)
    profile, asked = load_profile("embedded"), queries()
    whole = open_retriever(profile, folder / "index")
    expected = [plain(result, whole.index) for result in whole.retrieve(asked)]
    with processes(folder / "in 2") as parts:
        front = open_retriever(profile, joined(part.url for part in parts))
        alone = []
        for number in range(2):  # what each part knows alone
            front.index.parts._drop(1 - number, remote.PartLostError("gone"))
            alone.append([plain(result, front.index) for result in front.retrieve(asked)])
            wait_until(lambda: len(front.index.parts.up) == 2)
        assert [plain(result, front.index) for result in front.retrieve(asked)] == expected != alone[0] != alone[1]
        for lost, how in ((0, signal.SIGKILL), (1, signal.SIGKILL), (0, signal.SIGSTOP)):
            seen = Counter[str]()
            ended = threading.Event()

            def ask() -> None:
                while not ended.is_set():
                    started = time.monotonic()
                    results = front.retrieve(asked)
                    assert time.monotonic() - started < 20
                    own = [plain(result, front.index) for result in results]
                    answered = results[0].parts
                    assert answered in ((1, 2), (2, 2)) and own == (expected if answered == (2, 2) else alone[1 - lost])
                    seen[str(answered)] += 1

            with ThreadPoolExecutor(2) as askers:
                futures = [askers.submit(ask) for _ in range(2)]
                wait_until(lambda: seen["(2, 2)"] > 1)
                parts[lost].process.send_signal(how)
                wait_until(lambda: seen["(1, 2)"] > 1)
                if how == signal.SIGKILL:
                    parts[lost].process.wait()
                    parts[lost].start()
                else:
                    parts[lost].process.send_signal(signal.SIGCONT)
                seen.clear()
                wait_until(lambda: seen["(2, 2)"] > 1)
                ended.set()
                for future in futures:
                    future.result()
        for part in parts:
            part.kill()
        with pytest.raises(EngineError, match="down|refused|reset"):
            front.retrieve(asked)
        with pytest.raises(ValueError, match="no part of the index answers"):
            main(["ask", "--index", str(joined(part.url for part in parts)), "What is this?"])
