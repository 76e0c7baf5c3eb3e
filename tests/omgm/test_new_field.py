"""A field that a stranger adds in one place is in Python, HTTP, MCP and the records of evaluations."""

from __future__ import annotations

import json

import pytest

from tests.fakes.processes import run_python
from tests.paths import ROOT

DECLARED = {
    "AnswerFields": '    ending: Annotated[Ending, Field(description=_ENDING)] = "complete"\n',
    "RetrievalFields": "    crop: Annotated[Crop | None, Field(description=_CROP)] = None\n",
}
"""The line of `retriever/types.py` below which a stranger writes a field, by class."""

DOORS = """
import asyncio, json, sys
from types import ModuleType

source, line, field = open(sys.argv[1], encoding="utf-8").read(), sys.argv[2], sys.argv[3]
assert source.count(line) == 1
types = sys.modules["retriever.types"] = ModuleType("retriever.types")
exec(compile(source.replace(line, line + field), sys.argv[1], "exec"), types.__dict__)

from dataclasses import replace
from pathlib import Path

from PIL import Image
from starlette.testclient import TestClient

from evaluation.records import from_json, to_json
from evaluation.recording import make_record
from omgm.mcp_results import answer_result
from omgm.results import Answer, Retrieval
from retriever.types import Query
from serving.app import create_app
from serving.settings import ServingSettings
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.questions import ask
from tests.fakes.world import FakeGenerator, FakeIndex, FakeRetriever

MOOD = {"mood": "calm"} if sys.argv[4] == "AnswerFields" else {}
PLACE = {} if MOOD else {"mood": "calm"}


class Generator(FakeGenerator):
    def _generate(self, request):
        return replace(super()._generate(request), **MOOD)


class Retriever(FakeRetriever):
    def _retrieve(self, query):
        return replace(super()._retrieve(query), **PLACE)


query = Query(Image.new("RGB", (40, 30), "red"), "When was the treaty?")
index = FakeIndex()
[result] = Retriever(index).retrieve([query])
retrieval = Retrieval.of(index, query, result)
[generation] = asyncio.run(Generator().generate([retrieval.request()]))
answer = Answer.to(retrieval, generation, 1.0)
record = make_record(
    ask(0, "red", query.question), index, result, generation, with_generator=True, failed=None, timings_ms={}
)
assert from_json(json.loads(json.dumps(to_json(record)))).mood == "calm"
with TestClient(create_app(Retriever(index), Generator(), ServingSettings())) as client:
    asked = {"image": data_uri(image_bytes("red")), "question": query.question}
    retrieved, answered = (client.post(path, json=asked).json() for path in ("/retrieve", "/answer"))
    streamed = client.post("/answer", json=asked | {"stream": True}).text
    described = client.get("/openapi.json").json()["components"]["schemas"]["AnswerOut"]["properties"]
print(json.dumps({
    "python": [getattr(answer, "mood"), getattr(retrieval, "mood", None)],
    "http": [answered["mood"], retrieved.get("mood")],
    "stream": streamed.count('"mood": "calm"'),
    "described": described["mood"]["description"],
    "mcp": answer_result(answer).model_dump()["mood"],
    "record": to_json(record)["mood"],
}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", DECLARED)
def test_a_new_field_is_declared_once(kind: str) -> None:
    field = '    mood: Annotated[str, Field(description="How it feels.")] = "unknown"\n'
    run = run_python("-c", DOORS, ROOT / "retriever" / "types.py", DECLARED[kind], field, kind)
    assert run.returncode == 0, run.stderr
    before_answer = "calm" if kind == "RetrievalFields" else None
    assert json.loads(run.stdout.splitlines()[-1]) == {
        "python": ["calm", before_answer],
        "http": ["calm", before_answer],
        "stream": 1,
        "described": "How it feels.",
        "mcp": "calm",
        "record": "calm",
    }
