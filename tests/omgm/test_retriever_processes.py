"""The models in processes of their own: `omgm serve --workers`."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

import httpx
import pytest
import torch
from PIL import Image

from generators.reader.reader import ExtractiveReader
from indexes.live.following import FollowingIndex
from omgm.__main__ import main
from omgm.opening import open_retriever
from omgm.profile import load_profile
from omgm.retriever_messages import ChangedMeanwhileError, read_queries, read_results, write_queries, write_results
from omgm.retriever_processes import RetrieverProcesses
from retriever.image_cache import content_of, set_content
from retriever.images import ALPHA
from retriever.types import (
    ArticleImage,
    Candidate,
    Entity,
    Evidence,
    Generation,
    GenerationRequest,
    Options,
    OtherSection,
    Query,
    RetrievalResult,
    ScoredSection,
)
from serving.errors import ApiError
from serving.lanes import ParallelRetriever
from tests.fakes.listening import free_port
from tests.fakes.service import wait_until
from tests.fakes.world import LANDS, FakeIndex
from tests.paths import ROOT

linux = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc, which only Linux has")


def test_a_batch_comes_out_as_it_went_in() -> None:
    rng = random.Random(3)
    index, queries = FakeIndex(), list[Query]()
    for number in range(20):
        image = Image.frombytes("RGB", (3, 2), rng.randbytes(18))
        if number % 2:
            set_content(image, f"content {number}")
        if number % 3 == 0:
            image.info[ALPHA] = Image.frombytes("L", (3, 2), rng.randbytes(6))
        options = Options(rng.choice([None, 5]), rng.choice([None, 0.1]), None, tuple(rng.sample(range(3), number % 3)))
        queries.append(Query(image, f"How tall is № {number}? 🌋", str(number), options))
    first, *others = write_queries(queries, index, threads=2)
    again, more = read_queries(json.loads(first), iter(others), index)
    assert more == {"threads": 2}
    for query, other in zip(queries, again, strict=True):
        assert (other.id, other.question, other.options) == (query.id, query.question, query.options)
        assert other.image.tobytes() == query.image.tobytes() and other.image.size == query.image.size
        assert content_of(other.image) == content_of(query.image)
        shade, given = other.image.info.get(ALPHA), query.image.info.get(ALPHA)
        assert (shade and shade.tobytes()) == (given and given.tobytes())


def test_results_come_out_as_they_went_in() -> None:
    rng = random.Random(4)

    def score() -> float | None:
        return rng.choice([None, rng.random(), rng.random() / 3, -0.0])

    results = [
        RetrievalResult(
            str(number),
            [
                Candidate(
                    row,
                    score(),
                    score(),
                    rng.random(),
                    [ScoredSection(0, score(), score(), score())] * rng.randrange(3),
                    score(),
                    score(),
                )
                for row in rng.sample(range(3), number % 4)
            ],
            {"step1": rng.random()},
            recognized=score(),
            crop=rng.choice([None, (0.1, 0.2, 1 / 3, 1.0)]),
            turned=rng.choice([0, 90, 180, 270]),
        )
        for number in range(30)
    ]
    message = json.loads(write_results(results, FakeIndex(), counts=[]))
    version = object()
    again = read_results(message, FakeIndex(), version)
    assert again == results and all(result.version is version for result in again)


class Changed(FakeIndex):
    """An index whose entity at row 0 has another text."""

    def entity(self, row: int) -> Entity:
        entity = LANDS[row]
        sections = (replace(entity.sections[0], text="Another text."), *entity.sections[1:])
        return replace(entity, sections=sections) if row == 0 else entity


def test_what_changed_meanwhile_is_not_taken_for_what_was_scored() -> None:
    found = [RetrievalResult("", [Candidate(0, 0.5), Candidate(1, 0.4)], {})]
    message = json.loads(write_results(found, FakeIndex()))
    with pytest.raises(ChangedMeanwhileError):
        read_results(message, Changed(), None)
    found[0].candidates.reverse()
    assert [
        one.row for one in read_results(json.loads(write_results(found, FakeIndex())), Changed(), None)[0].candidates
    ] == [1, 0]


@pytest.fixture(scope="module")
def processes(examples: Path) -> Iterator[RetrieverProcesses]:
    profile = load_profile("embedded")
    processes = RetrieverProcesses(profile, examples / "index", 1, Counter())
    processes.wait(FollowingIndex.open(examples / "index"))
    yield processes
    processes.close()


def photographs(folder: Path) -> list[Query]:
    paths = sorted((folder / "queries").glob("*.jpg"))[:3]
    return [Query(Image.open(path).convert("RGB"), "What is the capital of this country?", path.stem) for path in paths]


def test_a_process_retrieves_what_the_server_would(processes: RetrieverProcesses, examples: Path) -> None:
    queries = photographs(examples)
    expected = open_retriever(load_profile("embedded"), examples / "index").retrieve(queries)
    assert isinstance(processes, ParallelRetriever)
    for result, other in zip(processes.retrieve(queries), expected, strict=True):
        assert result.query_id == other.query_id and result.crop == other.crop
        assert [one.row for one in result.candidates] == [one.row for one in other.candidates]
        assert [one.score for one in result.candidates] == pytest.approx(
            [one.score for one in other.candidates], abs=1e-3
        )
        assert result.recognized == pytest.approx(other.recognized, abs=0.02)
    [other] = processes.retrieve([replace(queries[0], options=Options(exclude=(result.candidates[0].row,)))])
    assert result.candidates[0].row not in [one.row for one in other.candidates]


TOWER = Evidence(
    "tower", "Eiffel Tower", "History", "The tower was built in 1889 by Gustave Eiffel. It is of iron.", 3,
    (ArticleImage("https://example.org/tower.jpg", 3, "The tower"),),
)  # fmt: skip
WHEN = GenerationRequest("When was the tower built?", None, TOWER)
READINGS = [
    WHEN,
    GenerationRequest("Who built the \udcfftower “in iron”?\n", None, TOWER),
    GenerationRequest("How many elephants live in it?", None, TOWER),
    GenerationRequest("When?", None, None),
    GenerationRequest("When was it?", None, replace(TOWER, text="")),
    GenerationRequest("When was it built?", None, replace(TOWER, text="High."), others=(OtherSection(TOWER, -0.1),)),
]  # fmt: skip


def test_a_process_reads_what_the_server_would(processes: RetrieverProcesses) -> None:
    def rounded(answer: Generation) -> Generation:
        """Returns an answer with the digits of its confidence that do not depend on what is read with it."""
        return replace(answer, confidence=round(answer.confidence or 0.0, 5))

    [lane] = processes.lanes
    expected = ExtractiveReader().read_all(READINGS)
    assert expected[0].answer == "1889" and expected[0].span == (23, 27) and expected[-1].evidence == TOWER
    assert list(map(rounded, lane.read(READINGS))) == list(map(rounded, expected))
    broken = GenerationRequest("When?", None, replace(TOWER, text=cast(str, None)))
    with pytest.raises(RuntimeError, match="TypeError"):
        lane.read([WHEN, broken])
    for number in (signal.SIGINT, signal.SIGTERM):  # Ctrl-C and service managers signal all processes at once
        assert lane._process.pid is not None
        os.kill(lane._process.pid, number)
    assert lane.read([WHEN])[0].answer == "1889"


@pytest.mark.slow
def test_a_process_that_ends_fails_its_batch_and_is_replaced(processes: RetrieverProcesses, examples: Path) -> None:
    [lane], queries = processes.lanes, photographs(examples)
    first = lane._process
    assert first.pid is not None
    os.kill(first.pid, signal.SIGSTOP)  # it does not answer, and then ends
    ending = threading.Timer(0.5, first.kill)
    ending.start()
    with pytest.raises(ApiError) as caught:
        lane.retrieve(queries)
    assert (caught.value.status, caught.value.headers["Retry-After"]) == (503, "5")
    lane.revive()
    assert lane._process.pid != first.pid and len(lane.retrieve(queries)) == len(queries)
    lane._process.kill()  # while nobody waits for it
    lane._process.join()
    assert lane.read([WHEN])[0].answer == "1889"


@pytest.mark.slow
def test_a_process_that_cannot_be_replaced_is_tried_again(
    processes: RetrieverProcesses, examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [lane], queries = processes.lanes, photographs(examples)
    with monkeypatch.context() as patched:
        patched.setattr(lane, "_folder", tmp_path)  # where there is no index
        lane._process.kill()
        lane._process.join()
        with pytest.raises(ApiError, match="cannot be started") as caught:
            lane.retrieve(queries)
        assert (caught.value.status, caught.value.headers["Retry-After"]) == (503, "5")
        lane.revive()  # raises nothing
    assert len(lane.retrieve(queries)) == len(queries)


def test_a_failure_in_a_process_is_one_of_its_batch(processes: RetrieverProcesses, examples: Path) -> None:
    [query, *_] = photographs(examples)
    with pytest.raises(RuntimeError, match="ValueError: k must be at least 1, got 0"):
        processes.retrieve([replace(query, options=Options(k=0))])
    assert len(processes.retrieve([query])) == 1


@pytest.mark.slow
def test_a_process_that_cannot_load_the_models_says_why(tmp_path: Path) -> None:
    processes = RetrieverProcesses(load_profile("embedded"), tmp_path, 1, Counter())
    with pytest.raises(ValueError, match=r"no manifest\.json"):
        processes.lanes[0].wait()
    processes.close()


@contextmanager
def serving(index: Path, port: int, workers: int = 2) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "omgm", "serve", "--index", str(index), "--port", str(port)]
    with subprocess.Popen(
        [*command, "--workers", str(workers)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdout is not None
        try:
            assert service.stdout.readline().startswith("Serving")
            yield service
        finally:
            service.terminate()


def children_of(process: int) -> set[int]:
    """Returns the ids of the processes with models that a service has started."""
    names = dict[int, bytes]()
    tasks = Path(f"/proc/{process}/task").glob("*/children")  # by the thread that started them
    for child in (child for task in tasks for child in task.read_text().split()):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            names[int(child)] = Path(f"/proc/{child}/cmdline").read_bytes()
    return {child for child, name in names.items() if b"spawn_main" in name}


@pytest.mark.slow
@linux
def test_a_service_survives_its_processes_and_changes_its_index(example_folder: Path) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    photograph = sorted((example_folder / "queries").glob("*.jpg"))[0]

    def ask(_: int) -> httpx.Response:
        files = {"image": photograph.read_bytes()}
        asked = {"question": "What is the capital of this country?"}
        return httpx.post(f"{address}/answer", files=files, data=asked, timeout=60)

    with serving(example_folder / "index", port) as service, ThreadPoolExecutor(4) as threads:
        first = children_of(service.pid)
        assert len(first) == 2
        for process in (service.pid, *first):  # as of a terminal that is closed, or `systemctl reload`
            os.kill(process, signal.SIGHUP)
        answers = list(threads.map(ask, range(8)))
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.json()["entity"]["id"] for answer in answers}) == 1 and children_of(service.pid) == first
        entity = answers[0].json()["entity"]["id"]
        assert httpx.delete(f"{address}/entities", params={"id": entity}).status_code == 200
        assert {answer.json()["entity"]["id"] for answer in threads.map(ask, range(4))}.isdisjoint({entity})
        os.kill(min(first), signal.SIGKILL)
        after = list(threads.map(ask, range(6)))
        assert {answer.status_code for answer in after} <= {200, 503}
        assert all("Retry-After" in answer.headers for answer in after if answer.status_code == 503)
        wait_until(lambda: len(children_of(service.pid) - {min(first)}) == 2)
        assert ask(0).status_code == 200
        last = children_of(service.pid)
        service.kill()
    assert service.returncode == -signal.SIGKILL
    with serving(example_folder / "index", port, 1) as restarted:  # at the same port, as by a supervisor
        last |= children_of(restarted.pid)
        assert httpx.delete(f"{address}/entities", params={"id": "unknown"}).status_code == 404  # it can be changed
    assert restarted.returncode == 0 and len(last) == 3
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in last))


@pytest.mark.parametrize("device", ["cuda", "auto"])
def test_workers_are_for_a_cpu(
    device: str, example_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    command = ["serve", "--index", str(example_folder / "index"), "--workers", "2", "--set", f"device={device}"]
    assert main([*command, "--port", str(free_port())]) == 2
    told = capsys.readouterr().err
    assert f"--workers shares the cores of a CPU, but with device = '{device}' the models run on the GPU" in told
    assert "use --replicas, or --set device=cpu" in told
