"""An index in parts that processes serve, with the embedded profile from end to end."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from indexes.live.drafts import DraftEditor
from indexes.live.editor import Editor
from indexes.live.index import LiveIndex
from indexes.parts import remote
from indexes.parts.index import PartedIndex
from indexes.parts.layout import part_of
from indexes.parts.split import split_index
from indexes.store.index import Index
from omgm.__main__ import main
from omgm.editing import open_editor
from omgm.indexing import Build, build
from omgm.opening import open_retriever
from omgm.part_server import part_app
from omgm.parts import build_encoder, build_fusion
from omgm.profile import load_profile
from omgm.served_app import build_app, open_service
from retriever.filters import within
from retriever.pipeline import Retriever
from retriever.types import NO_IMAGE, EngineError, Options, Query, RetrievalResult
from search_agents.tools.fulltext import full_text
from tests.fakes.listening import free_port
from tests.fakes.live import hash_of, painting
from tests.fakes.service import listening, wait_until
from tests.omgm.test_words import NAMES, package
from tests.paths import ROOT, contents

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
        rows.append(row | {"names": [f"the {name.lower()} of Basel"], "kind": "label" if name in NAMES else "painting"})
    (folder / "kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    names = {"fields": "kind"}
    order = Build(kb=folder / "kb.jsonl", images=folder / "images", out=folder / "index", names=names)
    build(load_profile("embedded"), order)
    for parts in (2, 4):
        assert len([*split_index(folder / "index", parts, folder / f"in {parts}")]) == parts
    return folder


def queries() -> list[Query]:
    shown = [
        package(NAMES[0], 50, 4, "navy", "white"),  # recognized by its label
        painting(hash_of(THINGS[0])).rotate(90),
        Image.new("RGB", (64, 64), "gray"),
        *(painting(hash_of(name)) for name in THINGS[1:4]),
    ]
    texts = ["How heavy is the drum of Basel?", "When was the kettle found?", "Who wrote War and Peace?"]
    about = [Query(image, "How many grams does it weigh?", str(number)) for number, image in enumerate(shown)]
    about += [Query(NO_IMAGE, text, text) for text in texts]
    about += [Query(shown[2], texts[0], "named"), Query(shown[3], texts[1], "chosen", Options(entity="kb/3"))]
    paintings = Options(filter=(("kind", ("painting",)),))
    return [*about, *(replace(query, options=paintings) for query in (about[0], about[-3]))]


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


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits longer for parts, which on a busy machine would be left out."""
    monkeypatch.setattr(remote, "DEADLINE", 30.0)


@pytest.fixture(scope="module")
def whole(folder: Path) -> Retriever[Index]:
    """The retriever of the index that is not in parts; it is not changed."""
    return open_retriever(load_profile("embedded"), folder / "index")


@pytest.fixture(scope="module")
def one_machine(whole: Retriever[Index]) -> tuple[list[RetrievalResult], list[RetrievalResult]]:
    """What it finds for each query alone, and for all together."""
    return [whole.retrieve([query])[0] for query in queries()], whole.retrieve(queries())


def joined(urls: Iterable[str]) -> Path:
    return Path(",".join(urls))


def plain(result: Any, index: Any) -> Any:
    """Returns the values of a result, with ids instead of rows and without the last digits of scores."""

    def rounded(one: Any) -> Any:
        scores = {
            name: value and round(value, 4) for name in ("sim_c", "sim_p", "score") for value in [getattr(one, name)]
        }
        return replace(one, row=index.entity(one.row).id, **scores)

    candidates = list(map(rounded, result.candidates))
    recognized = result.recognized and round(result.recognized, 5)
    return candidates, recognized, result.crop, result.turned, result.text, result.by_text, result.searched


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_answers_are_those_of_one_machine(
    folder: Path, count: int, whole: Retriever[Index], one_machine: tuple[list[RetrievalResult], list[RetrievalResult]]
) -> None:
    alone, together = one_machine
    with threads(folder / f"in {count}") as addresses:
        front = open_retriever(load_profile("embedded"), addresses)
        for query, expected in zip(queries(), alone, strict=True):
            [found] = front.retrieve([query])
            assert plain(found, front.index) == plain(expected, whole.index), query.question
            assert found.parts == (count, count) and expected.parts is None
            if query.image.width and found.searched is None:
                assert [one.score for one in found.candidates] == [one.score for one in expected.candidates]
        for one, other in zip(together, front.retrieve(queries()), strict=True):
            assert plain(other, front.index) == plain(one, whole.index)
        for name in ("kb/3", "the drum of Basel", "kb/99"):
            row, own = whole.index.row_of(name), front.index.row_of(name)
            assert (row is None) == (own is None)
            if row is not None and own is not None:
                assert front.index.entity(own) == whole.index.entity(row)
                assert front.index.summary(own) == whole.index.summary(row)
        assert front.index.fields.names == ["kind"]
        front.index.fields.check((("kind", ("label", "painting")),), ())
        with pytest.raises(ValueError, match=r"filter.kind: no entity has 'coin'; values are '(label|painting)'"):
            front.index.fields.check((("kind", ("label", "coin")),), ())
        assert len(front.index) == len(whole.index) and front.index.fingerprint == whole.index.fingerprint


def put(editor: DraftEditor, row: dict[str, Any], image: Image.Image | None = None) -> None:
    draft = editor.draft(row, row.keys())
    draft.complete(image)
    draft.put()


def change(editor: DraftEditor) -> None:
    """Adds an article, replaces the image, then the text of others, and removes one."""
    texts = [{"title": "Part 0", "text": "The trumpet weighs 777 grams."}]
    trumpet = {"id": "kb/new", "title": "Trumpet", "names": ["the trumpet of Basel"], "fields": {"kind": "painting"}}
    put(editor, {**trumpet, "image": "new.png", "sections": texts}, painting(hash_of("trumpet")))
    zero = {
        "id": "kb/0",
        "title": "Article 0",
        "image": "0.png",
        "sections": [{"title": "Part 0", "text": "It is red."}],
    }
    put(editor, zero, package(NAMES[0], 50, 4, "navy", "white"))
    drum = f"kb/{len(NAMES) + THINGS.index('drum')}"
    put(editor, {"id": drum, "title": "Big drum", "sections": [{"title": "Part 0", "text": "The drum weighs 5 kg."}]})
    editor.remove([f"kb/{len(NAMES)}"])


@pytest.mark.slow
def test_changes_at_a_front_are_those_of_one_machine(folder: Path, tmp_path: Path) -> None:
    profile = load_profile("embedded")
    for name in ("index", "in 2"):
        shutil.copytree(folder / name, tmp_path / name)
    encoder = build_encoder(profile)
    asked = [*queries(), Query(painting(hash_of("trumpet")), "How heavy is it?", "new")]
    asked += [Query(NO_IMAGE, text, text) for text in ("How heavy is the trumpet of Basel?", "How heavy is the drum?")]
    whole, own = open_service(profile, tmp_path / "index", encoder)
    assert isinstance(own, Editor) and isinstance(whole.index, LiveIndex)

    def found(by: Retriever[Index]) -> list[Any]:
        assert len(by.index) == len(NAMES) + len(THINGS)
        return [plain(result, by.index) for result in by.retrieve(asked)]

    with closing(own):
        with threads(tmp_path / "in 2") as addresses:
            other = open_retriever(profile, addresses, encoder=encoder)
            front, editor = open_service(profile, addresses, encoder)
            assert isinstance(editor, Editor)
            for each in (own, editor):
                change(DraftEditor(each))
            with pytest.raises(KeyError, match="kb/404"):
                editor.remove(["kb/404"])
            expected = found(whole)
            assert found(front) == expected
            assert found(other) == expected
        with threads(tmp_path / "in 2") as addresses:
            assert found(open_retriever(profile, addresses, encoder=encoder)) == expected
        with pytest.raises(ValueError, match=r"1-of-2: is part 1 of 2; send articles to a front"):
            open_editor(profile, tmp_path / "in 2" / "1-of-2", encoder, build_fusion(profile), "tests it")
        whole.index.compact()
    again, of_whole = tmp_path / "again", tmp_path / "of whole"
    assert len([*split_index(tmp_path / "in 2", 3, again)]) == len([*split_index(tmp_path / "index", 3, of_whole)]) == 3
    names = ("whole.json", "part.json", "report.json", "manifest.json")
    notes = {f"{number}-of-3/{name}" for number in (1, 2, 3) for name in names}
    one, two = contents(again), contents(of_whole)
    assert [
        name for name in sorted(one.keys() | two.keys()) if one.get(name) != two.get(name) and name not in notes
    ] == []
    with threads(tmp_path / "in 2") as addresses:  # compacted
        assert found(open_retriever(profile, addresses, encoder=encoder)) == found(whole)


@dataclass
class Asker:
    """Asks a front on and on, and checks every result."""

    front: Retriever[Index]
    queries: list[Query]
    right: dict[tuple[int, int], Any]
    """What is right by how many parts answered."""
    seen: Counter[tuple[int, int]] = field(default_factory=Counter)
    ended: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> None:
        while not self.ended.wait(0.5):  # leaves the processor to parts that start
            started = time.monotonic()
            results = self.front.retrieve(self.queries)
            assert time.monotonic() - started < 15
            parts = results[0].parts
            assert parts is not None
            assert [plain(result, self.front.index) for result in results] == self.right[parts]
            self.seen[parts] += 1

    def wait_for(self, parts: tuple[int, int]) -> None:
        self.seen.clear()
        wait_until(lambda: self.seen[parts] > 1)


@pytest.mark.slow
def test_a_lost_part_is_named_and_comes_back(
    folder: Path, whole: Retriever[Index], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(remote, "DEADLINE", 2.0)
    profile, asked = load_profile("embedded"), [*queries()[1:4], *queries()[6:8]]
    expected = [plain(result, whole.index) for result in whole.retrieve(asked)]
    with processes(folder / "in 2") as parts:
        urls = [part.url for part in parts]
        front = open_retriever(profile, joined(urls))
        for lost, how in ((0, signal.SIGSTOP), (1, signal.SIGKILL)):
            alone = open_retriever(profile, joined([urls[1 - lost], "http://127.0.0.1:9"]))
            rest = [plain(result, alone.index) for result in alone.retrieve(asked)]
            assert rest != expected
            ask = Asker(front, asked, {(2, 2): expected, (1, 2): rest})
            with ThreadPoolExecutor(1) as threads:
                future = threads.submit(ask)
                try:
                    ask.wait_for((2, 2))
                    parts[lost].process.send_signal(how)
                    ask.wait_for((1, 2))
                    if how == signal.SIGKILL:
                        parts[lost].process.wait()
                        parts[lost].start()
                    else:
                        parts[lost].process.send_signal(signal.SIGCONT)
                    ask.wait_for((2, 2))
                finally:
                    ask.ended.set()
                    future.result()  # its error is why the wait failed
        for part in parts:
            part.kill()
        with pytest.raises(EngineError, match=r"down|refused|reset"):
            front.retrieve(asked)
        assert main(["ask", "--index", str(joined(urls)), "What is this?"]) == 2
        assert "error: no part of the index answers: http://127.0.0.1:" in capsys.readouterr().err


def test_a_front_serves_the_parts(folder: Path) -> None:
    with threads(folder / "in 2") as addresses:
        app, editor = build_app(load_profile("embedded"), addresses, read_only=False)
        assert isinstance(editor, Editor)
        with listening(app) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            image = BytesIO()
            package(NAMES[0], 0).save(image, "PNG")
            answer = client.post("/answer", files={"image": image.getvalue()}, data={"question": "How heavy is it?"})
            body = answer.json()
            assert (body["parts"], body["entity"]["id"], body["answer"]) == ([2, 2], "kb/0", "100 grams")
            assert client.get(body["candidates"][1]["image"]).headers["content-type"] == "image/jpeg"
            assert client.get("/entities", params={"id": "kb/3"}).json()["title"] == "Article 3"
            assert "in the parts" in client.get("/health/ready").text


def test_an_image_stays_if_another_step_reads_its_entity_at_once(folder: Path) -> None:
    with threads(folder / "in 2") as addresses:
        index = open_retriever(load_profile("embedded"), addresses).index
        assert isinstance(index, PartedIndex)
        row = index.row_of("kb/3")
        assert row is not None
        with index.pinned() as view:
            path = index.image_path(row)
            index._read([row], view)  # as by a step that did not find it before
            assert path is not None and path.exists() and index.image_path(row) == path


def test_a_change_whose_part_is_down_is_refused_by_its_name(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "in 2", tmp_path / "in 2")
    with listening(part_app(tmp_path / "in 2" / "1-of-2")) as first, ExitStack() as second:
        urls = [first, second.enter_context(listening(part_app(tmp_path / "in 2" / "2-of-2")))]
        app, editor = build_app(load_profile("embedded"), joined(urls), read_only=False)
        assert isinstance(editor, Editor)
        ids = {part_of(f"kb/{number}", 2): f"kb/{number}" for number in range(12)}
        new = {"title": "New", "sections": [{"title": "Weight", "text": "The zither weighs 12 grams."}]}
        with listening(app) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as client:

            def send(method: str, id: str, **content: Any) -> httpx.Response:
                return client.request(method, "/entities", params={"id": id}, **content)

            assert send("PUT", "zither", json=new).json() == {
                "id": "zither",
                "created": True,
                "notes": [],
                "index": {"name": "kb", "entities": 13},
            }
            assert send("GET", "zither").json()["title"] == "New"
            question = {"question": "How heavy is the zither?"}
            assert client.post("/answer", json=question).json()["answer"] == "12 grams"
            assert send("DELETE", "zither").status_code == 200 and send("GET", "zither").status_code == 404
            second.close()
            for method in ("PUT", "DELETE", "GET"):
                refused = send(method, ids[1], **({"json": new} if method == "PUT" else {}))
                error = refused.json()["error"]
                assert (refused.status_code, error["code"]) == (503, "engine_unavailable")
                assert error["message"] == "part 2 of 2 of the index does not answer; try again"
            assert send("DELETE", ids[0]).status_code == 200


def test_agents_search_the_text_of_parts(folder: Path) -> None:
    with threads(folder / "in 2") as addresses:
        listed = load_profile("embedded", ['steps=["search", "manifold", "fusion"]'])
        with pytest.raises(ValueError, match="manifold needs the keys of candidates, which stay with the parts"):
            open_retriever(listed, addresses)
        texts = full_text(open_retriever(load_profile("embedded"), addresses).index)
        assert texts.search("drum weighs", 1)[0].entity.title == f"Article {len(NAMES) + THINGS.index('drum')}"
        for name in ("Article 3", "the drum of Basel", "kb/3"):
            assert texts.entity_of(name) is not None
        assert texts.entity_of("Article") is None and texts.changes == 0
        with within((("kind", ("label",)),)):
            assert texts.entity_of(f"Article {len(NAMES)}") is None
            kinds = {dict(place.entity.fields)["kind"] for place in texts.search("weighs grams", 5)}
            assert kinds == {"label"}


@pytest.mark.slow
def test_the_commands_of_the_page_run(folder: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    commands = [shlex.split(line, comments=True)[1:] for line in page.split("```sh\n")[1].split("```")[0].splitlines()]
    places = {"INDEX": str(folder / "index"), "PARTS": str(tmp_path / "parts"), "MORE": str(tmp_path / "more")}
    places |= {port: str(free_port()) for port in ("8000", "8001", "8002")}
    words = re.compile("|".join(places))
    split, *serve, front, again = [[words.sub(lambda found: places[found[0]], one) for one in own] for own in commands]
    assert main(split) == 0
    with ExitStack() as stack:
        for command in (*serve, [*front, "--port", places["8000"], "--set", "serving.processes=0"]):
            process = subprocess.Popen([sys.executable, "-m", "omgm", *command], cwd=ROOT, stdout=subprocess.PIPE)
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None and process.stdout.readline().startswith(b"Serving ")
        question = {"question": "How heavy is the drum of Basel?"}
        answer = httpx.post(f"http://127.0.0.1:{places['8000']}/answer", json=question, trust_env=False, timeout=60)
        assert (answer.json()["answer"], answer.json()["parts"]) == ("108 grams", [2, 2])
    assert main(again) == 0
    assert contents(tmp_path / "more") == contents(folder / "in 4")
