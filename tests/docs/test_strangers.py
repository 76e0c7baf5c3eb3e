"""What a stranger adds is one new file of a package of theirs: it is installed here, and used by the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexes.knowledge.reading import read_knowledge_base
from indexes.store.index import Index
from omgm import OMGM
from omgm.__main__ import main
from tests.fakes.inputs import planner
from tests.fakes.packages import Install, installing
from tests.fakes.scripted_server import ScriptedServer

FORMAT = '''
"""Sayings: a line per animal, `Fox = It is red.`"""

from indexes.knowledge.document import Block, Document, Heading
from indexes.knowledge.readers import Reader


def read(file, folder):
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        name, _, text = line.partition(" = ")
        yield f"{file}: line {number}", Document(parts=[Heading(1, name), Block(text)], id=name)


SAYINGS = Reader("sayings", (".say",), lambda path, start: b" = " in start, read)
'''
DATASET = '''
"""Quizzes: a line per question, `image | question | answer`; half a point for the first letter."""

from evaluation.datasets.dataset import Dataset
from evaluation.datasets.question import Question


def read(path):
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if line.count(" | ") == 2:
            image, question, answer = line.split(" | ")
            yield Question(str(number), question, image, (answer,), (), style="quiz")
        else:
            yield ValueError(f"{path}: line {number}: expected image | question | answer, got {line!r}")


def judge(question, answer):
    return {"points": sum(0.5 for right in question.answers if right[0] == answer[0])}


QUIZ = Dataset("quiz", "points", judge, read)
'''
POLICY = '''
"""Asks the index twice, and answers with what it says the second time."""

from search_agents.policies.kinds import PolicyKind
from search_agents.records import Call, Decision

PROMPT = "Say it shortly: "


class Twice:
    name = "twice"
    rounds = 3

    def __init__(self, words):
        self.words = words

    async def decide(self, run):
        if len(run.rounds) < 3:
            return Decision("Ask again.", (Call("text_search", {"queries": [f"{run.question} {len(run.rounds)}"]}),))
        reply = await run.ask("answer", [{"role": "user", "content": self.words + run.question}])
        return Decision("Now I know.", answer=reply.text)

    async def conclude(self, run):
        return None


TWICE = PolicyKind(lambda conditions: Twice(PROMPT))
'''
RERANKER = '''
"""Prefers the section whose text is the shortest, whatever the question."""

import numpy as np

from omgm.kinds import SectionKind


class Shortest:
    def score(self, questions, passages):
        return [np.array([1 / (1 + len(text)) for text in texts], np.float32) for texts in passages]


SHORTEST = SectionKind(lambda profile: Shortest())
'''
STEP = '''
"""Prefers entities whose title has a word."""

from typing import Annotated

from pydantic import Field


class Titled:
    name = "titled"

    def __init__(self, index, word, most):
        self.index, self.word, self.most = index, word, most

    def start(self, queries):
        return lambda candidates: [self._ordered(ranked) for ranked in candidates]

    def _ordered(self, ranked):
        first = ranked[: self.most]
        return [*sorted(first, key=lambda one: self.word not in self.index.entity(one.row).title), *ranked[self.most :]]


def titled(parts, word: str, most: Annotated[int, Field(ge=1)] = 20):
    return Titled(parts.index, word, most)
'''
GENERATOR = '''
"""Answers with the title of the best entity, in capital letters."""

from retriever.types import Generation


class Shout:
    name = "shout"

    async def generate(self, requests):
        return [Generation(request.evidence.entity_title.upper()) for request in requests]


def shout(profile, apart):
    return Shout()
'''
COLUMN = '''
"""How many words each title has."""

import numpy as np

from indexes.store.columns import Column, Encoded


class Counter:
    dimension, fingerprint = 1, "counter-1"


def encode(model, items):
    counts = [np.array([[len(item.entity.title.split())]], np.int32) for item in items]
    return [Encoded(count, np.zeros(1, np.int64)) for count in counts]


WORDS = Column("words", "entities", np.int32, encode, ("words.npy", "words_of.npy"), lambda profile: Counter())
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs packages for one test."""
    with installing(tmp_path / "site", monkeypatch) as install:
        yield install


def printed(capsys: pytest.CaptureFixture[str], *command: object) -> Any:
    """Returns the JSON that a command prints."""
    capsys.readouterr()
    assert main([*map(str, command), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_format(install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install("sayings", FORMAT, "omgm.readers", "sayings = sayings:SAYINGS")
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb/animals.say").write_text("Fox = It is red.\nHare = It is brown.\n")
    (tmp_path / "kb/owl.md").write_text("# Owl\n\nIt is gray.\n")
    assert printed(capsys, "kb", "inspect", tmp_path / "kb")["entities"] == 3
    assert [(one.id, one.title, one.sections[0].text) for one in read_knowledge_base(tmp_path / "kb")] == [
        ("Fox", "Fox", "It is red."),
        ("Hare", "Hare", "It is brown."),
        ("owl", "Owl", "It is gray."),
    ]
    assert printed(capsys, "kb", "inspect", tmp_path / "kb/animals.say", "--kb-format", "sayings")["entities"] == 2
    with pytest.raises(SystemExit):
        main(["build-index", "--help"])
    assert "sayings, zim, epub" in " ".join(capsys.readouterr().out.split())


def test_a_data_set(examples: Path, install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install("quizzes", DATASET, "omgm.datasets", "quiz = quizzes:QUIZ")
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    assert "quiz, evqa, evqa-all, infoseek, okvqa, dynvqa or plain (evqa)" in " ".join(capsys.readouterr().out.split())
    rows = ["jp_0 | What is the capital of this country? | Kyoto", "fr_0 | What is its capital? | Paris"]
    (tmp_path / "quiz.txt").write_text("\n".join(rows))
    questions = ("--dataset", "quiz", "--queries", tmp_path / "quiz.txt", "--query-images", examples / "queries")
    checked = printed(capsys, "kb", "check", *questions)
    assert (checked["usable"], checked["questions"], checked["images"]) == (True, 2, {"flat": 2})
    with ScriptedServer(lambda _: "Kobe") as server:
        model = (f"--set=generator.base_url={server.url}", "--set=generator.kind=openai", "--set=generator.model=m")
        out = ("--out", tmp_path / "out")
        metrics = printed(capsys, "evaluate", "--index", examples / "index", *questions, *model, *out)
    # "Kobe" begins as "Kyoto" does, and not as "Paris"
    assert (metrics["answer"]["metric"], metrics["answer"]["accuracy"]) == ("points", 0.25)
    assert metrics["protocol"] == "quiz/own"


def test_a_policy(examples: Path, install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install("two_looks", POLICY, "omgm.policies", "twice = two_looks:TWICE")
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    assert "auto, mmsearch-plus, omnisearch, mmsearch, vsa, twice, or a" in " ".join(capsys.readouterr().out.split())
    (tmp_path / "q.jsonl").write_text('{"image": "jp_0", "question": "What is its capital?", "answers": ["Tokyo"]}\n')
    questions = ("--dataset", "plain", "--queries", tmp_path / "q.jsonl", "--query-images", examples / "queries")
    replies = {"Say it shortly: What is its capital?": "Tokyo"}
    with ScriptedServer(lambda messages: replies[messages[0]["content"]]) as server:
        command = ("--index", examples / "index", *planner(server.url), "--mode", "twice")
        metrics = printed(capsys, "evaluate", *command, *questions, "--out", tmp_path / "out")
        answer = printed(capsys, "ask", *command, examples / "photo.jpg", "What is its capital?")
    assert (metrics["mode"], metrics["answer"]["accuracy"]) == ("twice", 1.0)
    assert metrics["trajectories"]["calls"] == {"text_search": 2}
    assert (answer["answer"], len(answer["rounds"])) == ("Tokyo", 3)


def test_a_model_for_step_3(examples: Path, install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("shortest", RERANKER, "omgm.rerankers", "shortest = shortest:SHORTEST")
    settings = {"sections.kind": "shortest", "sections.beta": 0}
    with OMGM.open(examples / "index", settings=settings) as omgm:
        [result] = omgm.retrieve([(examples / "photo.jpg", "What is its capital?")])
    lengths = [len(f"{section.title} {section.text}") for section in result.sections]
    assert len(lengths) > 1 and lengths == sorted(lengths)
    question = ("ask", "--index", examples / "index", examples / "photo.jpg", "What is its capital?")
    assert printed(capsys, *question, *(f"--set={name}={value}" for name, value in settings.items()))["answer"]
    assert main([*map(str, question), "--set=sections.kind=longest"]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "sections.kind" in error
    assert "'longest' is unknown; known are bm25, hybrid, cross_encoder, flag, rerank, tei, shortest" in error


def test_a_step(examples: Path, install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A list of steps in a profile, with settings of their own, in Python, at the command line and in an evaluation."""
    install("titles", STEP, "omgm.steps", "titled = titles:titled")
    profile = tmp_path / "titled.toml"
    step = '[[steps]]\nkind = "titled"\nword = "Kenya"\n'
    others = "".join(f'[[steps]]\nkind = "{kind}"\n' for kind in ("search", "fusion"))
    profile.write_text(f'extends = "embedded"\n{others}{step}[[steps]]\nkind = "sections"\n')
    with OMGM.open(examples / "index", profile=str(profile)) as omgm:
        assert [type(step).__name__ for step in omgm.retriever.steps][2] == "Titled"
        [result] = omgm.retrieve([(examples / "photo.jpg", "What is its capital?")])
        assert "Kenya" in omgm.index.entity(result.candidates[0].row).title and result.recognized is None
    question = ("ask", "--index", examples / "index", examples / "photo.jpg", "What is its capital?")
    answer = printed(capsys, *question, "--profile", profile)
    assert "Kenya" in answer["evidence"]["entity_title"] and "titled" in answer["timings_ms"]
    (tmp_path / "q.jsonl").write_text('{"image": "jp_0", "question": "What is its capital?", "answers": ["Tokyo"]}\n')
    questions = ("--dataset", "plain", "--queries", tmp_path / "q.jsonl", "--query-images", examples / "queries")
    out = ("--profile", profile, "--out", tmp_path / "out")
    assert "titled" in printed(capsys, "evaluate", "--index", examples / "index", *questions, *out)
    listed = '--set=steps=["search", {kind = "titled", word = "Japan", most = 0}]'
    assert main([*map(str, question), listed]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "profile embedded: steps.1 (titled): most: Input should be greater than or equal to 1" in error
    assert main([*map(str, question), '--set=steps=["fusion", "search"]']) == 2
    assert "steps.0: 'fusion' only scores candidates" in " ".join(capsys.readouterr().err.split())
    assert main([*map(str, question), '--set=steps=["search", "title"]']) == 2
    known = "search, fusion, sections, identify, inspect, rewrite, manifold, rerank-vl, titled"
    assert f"'title' is unknown; known are {known}" in " ".join(capsys.readouterr().err.split())


def test_a_generator(examples: Path, install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("shouts", GENERATOR, "omgm.generators", "shout = shouts:shout")
    question = ("ask", "--index", examples / "index", examples / "photo.jpg", "What is its capital?")
    answer = printed(capsys, *question, "--set=generator.kind=shout")
    assert answer["answer"] == answer["evidence"]["entity_title"].upper() and answer["answer"].isupper()


def test_a_column(install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install("title_words", COLUMN, "omgm.columns", "words = title_words:WORDS")
    (tmp_path / "kb").mkdir()
    for name in ("Red fox", "Owl", "Great crested grebe"):
        (tmp_path / f"kb/{name}.md").write_text(f"# {name}\n\nAn animal.\n")
    printed(capsys, "build-index", "--kb", tmp_path / "kb", "--out", tmp_path / "index")
    info = printed(capsys, "index", "info", "--index", tmp_path / "index")
    assert info["counts"]["columns"]["words"] == 3
    index = Index.open(tmp_path / "index", verify=True)
    counts = {index.entity(row).title: index.column("words", row) for row in range(3)}
    assert {title: encoded.values.tolist() for title, encoded in counts.items() if encoded} == {
        "Red fox": [[2]],
        "Owl": [[1]],
        "Great crested grebe": [[3]],
    }
