"""Questions without an image, with the embedded profile from end to end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from mcp import Client
from PIL import Image

from omgm.__main__ import main, parser
from omgm.api import OMGM
from omgm.indexing import Build, build
from omgm.mcp_server import build_server
from omgm.profile import load_profile
from omgm.retriever_messages import read_queries, read_results, write_queries, write_results
from retriever.section_search import points
from retriever.types import NO_IMAGE, Options, Query
from serving.app import create_app
from serving.openai_routes import OPENAI
from serving.settings import ServingSettings
from tests.fakes.images import image_bytes
from tests.fakes.service import listening

ARTICLES = {
    "Eiffel Tower": ("The tower is 330 metres tall.", "Gustave Eiffel's company built it in 1889 in Paris."),
    "Tokyo Tower": ("Its height is 333 metres.", "The tower was completed in 1958."),
    "Café Zürich": ("The café was founded in 1923.", "It serves hot chocolate."),
    "Saxophone": ("It was invented by the Belgian Adolphe Sax.", "A saxophone is made of brass."),
    "Mount Fuji": ("The volcano is 3,776 metres high.", "It last erupted in 1707."),
    "Clint": ("Clint is a villager who lives in Pelican Town. Clint is busy.", "Birthday: 26\nOccupation: Blacksmith"),
    "Empty": (),
}
NAMES = {"Mount Fuji": ["Fujiyama"]}
TALL = "How tall is the Eiffel Tower?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notes")
    (folder / "queries").mkdir()
    (folder / "notes").mkdir()
    (folder / "queries" / "photo.png").write_bytes(image_bytes("red"))
    (folder / "notes" / "notes.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "id": f"kb/{title}",
                    "title": title,
                    "names": NAMES.get(title, []),
                    "sections": [{"title": f"Part {i}", "text": text} for i, text in enumerate(texts)],
                }
            )
            + "\n"
            for title, texts in ARTICLES.items()
        ),
        encoding="utf-8",
    )
    build(
        load_profile("embedded"),
        Build(kb=folder / "notes" / "notes.jsonl", images=folder / "notes", out=folder / "index"),
    )
    return folder


@pytest.fixture(scope="module")
def omgm(folder: Path) -> Iterator[OMGM]:
    with OMGM.open(folder / "index") as omgm:
        yield omgm


def test_names_aliases_and_accents(omgm: OMGM) -> None:
    for question, title, answer in (
        (TALL, "Eiffel Tower", "330"),
        ("How tall is Tokyo Tower?", "Tokyo Tower", "333"),
        ("When was the Cafe Zurich founded?", "Café Zürich", "1923"),
        ("When did Fujiyama last erupt?", "Mount Fuji", "1707"),
        ("Who invented the saxophone?", "Saxophone", "Adolphe Sax"),
        ("Was the Eiffel Tower built by the company of Gustave Eiffel?", "Eiffel Tower", "Yes"),
    ):
        found = omgm.ask(None, question)
        assert found.entity is not None and found.entity.title == title and answer in (found.answer or "")
        assert found.recognized is not None and found.recognized > 0.4 and found.picture is None and found.image is None
        assert [(one.sim_c, one.sim_m) for one in found.candidates] == [(None, None)] * len(found.candidates)
        assert list(found.timings_ms) == ["step1", "step3", "generate"] and "<img" not in found._repr_html_()


def test_the_name_of_a_thing_does_not_choose_its_section(omgm: OMGM) -> None:
    answer = omgm.ask(None, "What is Clint's occupation?")
    assert answer.answer == "Blacksmith" and answer.evidence is not None and answer.evidence.section_title == "Part 1"


def test_the_thing_itself_is_asked_for(omgm: OMGM) -> None:
    for question, title in (
        ("Which villager lives in Pelican Town?", "Clint"),
        ("Who is the blacksmith?", "Clint"),
        ("Which volcano last erupted in 1707?", "Mount Fuji"),
        ("Which tower was completed in 1958?", "Tokyo Tower"),
    ):
        assert omgm.ask(None, question).answer == title
    assert omgm.ask(None, "Who invented the saxophone?").answer != "Saxophone"


def test_two_entities_are_both_candidates(omgm: OMGM) -> None:
    [found] = omgm.retrieve([(None, "Is the Eiffel Tower taller than Tokyo Tower?")])
    assert {one.title for one in found.candidates[:2]} == {"Eiffel Tower", "Tokyo Tower"}


def test_another_language(omgm: OMGM) -> None:
    [found] = omgm.retrieve([(None, "Wie hoch ist der Tokyo Tower?")])
    assert found.entity is not None and found.entity.title == "Tokyo Tower" and (found.recognized or 0) > 0.4


def test_what_is_not_in_the_notes_is_declined(omgm: OMGM) -> None:
    for question in ("Who wrote War and Peace?", "What is the capital of France?", "hello", "How tall is it?", "???"):
        answer = omgm.ask(None, question)
        assert answer.answer is None and answer.declined and answer.recognized is not None and answer.recognized < 0.4
        assert answer.reason is not None and answer.reason.startswith("nothing in the index fits the question")
    assert points("And this one?") and not points(TALL)
    with pytest.raises(ValueError, match="the question is empty"):
        omgm.ask(None, " ")


def test_a_batch_gives_what_each_question_gives(omgm: OMGM, folder: Path) -> None:
    pairs = [(None, TALL), (folder / "queries" / "photo.png", "What is this?"), (None, "Who invented the saxophone?")]
    for pair, found in zip(pairs, omgm.retrieve(pairs), strict=True):
        [alone] = omgm.retrieve([pair])
        assert [one.entity for one in found.candidates] == [one.entity for one in alone.candidates]
        fused = [one.fused for one in alone.candidates]
        assert [one.fused for one in found.candidates] == pytest.approx(fused, abs=1e-5)
        assert found.evidence == alone.evidence and found.recognized == pytest.approx(alone.recognized, abs=1e-4)
    [fewer] = omgm.retrieve([(None, TALL)], k=1)
    assert len(fewer.candidates) == 1
    row = omgm.index.row_of("kb/Eiffel Tower")
    assert row is not None
    [other] = omgm.retriever.retrieve([Query(NO_IMAGE, TALL, options=Options(exclude=(row,)))])
    assert row not in [candidate.row for candidate in other.candidates]


def test_a_query_without_an_image_goes_to_another_process(omgm: OMGM) -> None:
    index = omgm.index
    first, *others = write_queries([Query(NO_IMAGE, TALL, "7")], index)
    queries, _ = read_queries(json.loads(first), iter(others), index)
    assert (queries[0].image.size, queries[0].question, queries[0].id) == ((0, 0), TALL, "7")
    results = omgm.retriever.retrieve(queries)
    [again] = read_results(json.loads(write_results(results, index)), index, None)
    assert again.candidates == results[0].candidates and again.recognized == results[0].recognized


def test_an_image_that_is_not_recognized_leaves_what_the_question_names(omgm: OMGM) -> None:
    image = Image.effect_noise((80, 60), 90).convert("RGB")
    asked = {
        TALL: "330",
        "How tall is the Eiffel Tower, and when did they build it?": "330",
        "When did Fujiyama last erupt?": "1707",
        "How tall is this tower?": None,
        "Is the Eiffel Tower taller than this?": None,
        "How old is it?": None,
        "Who wrote War and Peace?": None,
    }
    alone = [omgm.retriever.retrieve([Query(image, question)])[0] for question in asked]
    together = omgm.retriever.retrieve([Query(image, question) for question in asked])
    for (question, answer), one, other in zip(asked.items(), alone, together, strict=True):
        assert one.searched == other.searched == (question if answer else None), question
        assert [c.row for c in one.candidates] == [c.row for c in other.candidates]
        if answer:
            assert answer in (omgm.ask(image, question).answer or "")
            assert answer in (omgm.ask([image, image.rotate(90)], question).answer or "")
        else:
            assert omgm.ask(image, question).declined
    [shown], [named] = (omgm.retriever.retrieve([Query(image, asked)]) for asked in ("How tall is this?", TALL))
    steps = [step.name for step in omgm.retriever.steps]  # each is measured by what it made of the image
    assert list(named.rankings) == steps and named.rankings["step1"] == shown.rankings["step1"]
    assert named.rankings["step3"][0][0] == omgm.index.row_of("kb/Eiffel Tower")
    [text] = omgm.retriever.retrieve([Query(NO_IMAGE, TALL)])
    assert named.recognized == text.recognized and named.timings_ms["step1"] > text.timings_ms["step1"]


@pytest.mark.parametrize("question", ["How tall is it?", "How tall is this tower?", "How tall?", "Wie hoch ist er?"])
def test_the_entity_that_is_asked_about(omgm: OMGM, question: str) -> None:
    image = Image.effect_noise((80, 60), 90).convert("RGB")
    for images in (image, None, [image, image]):
        for title, height in (("Tokyo Tower", "333"), ("Eiffel Tower", "330")):
            answer = omgm.ask(images, question, entity=f"kb/{title}")
            assert answer.entity is not None and answer.entity.title == title and not answer.declined
            assert [one.title for one in answer.candidates] == [title] and answer.recognized is None
            assert answer.evidence is not None and height in answer.evidence.text, answer.evidence
    assert omgm.ask(image, "How tall is this tower?").declined  # by the image alone
    with pytest.raises(ValueError, match="entity: no entity that fits the filter has the id 'kb/Big Ben'"):
        omgm.ask(image, question, entity="kb/Big Ben")


def test_http(omgm: OMGM) -> None:
    settings = ServingSettings()
    with (
        listening(create_app(omgm.retriever, omgm.generator, settings, routes=OPENAI), settings) as url,
        httpx.Client(base_url=url, timeout=20, trust_env=False) as client,
    ):
        answer = client.post("/answer", json={"question": TALL}).json()
        assert "330" in answer["answer"] and answer["entity"]["title"] == "Eiffel Tower" and not answer["abstained"]
        declined = client.post("/answer", json={"question": "Who wrote War and Peace?"}).json()
        assert (declined["answer"], declined["declined"], declined["abstained"]) == (None, True, True)
        about = {"question": "How tall is it?", "entity": "kb/Tokyo Tower"}
        assert "333" in client.post("/answer", json=about).json()["answer"]
        asked = [{"role": "user", "content": about["question"]}]
        chat = {"model": "omgm", "messages": asked, "omgm": {"entity": about["entity"]}}
        assert "333" in client.post("/v1/chat/completions", json=chat).json()["choices"][0]["message"]["content"]
        wrong = client.post("/retrieve", json=about | {"entity": "kb/Big Ben"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "bad_entity")
        message = {"model": "omgm", "messages": [{"role": "user", "content": TALL}]}
        assert "330" in client.post("/v1/chat/completions", json=message).json()["choices"][0]["message"]["content"]


async def test_mcp(omgm: OMGM) -> None:
    async with Client(build_server(omgm, ServingSettings())) as client:
        answer = (await client.call_tool("answer", {"question": TALL})).structured_content
        assert answer is not None and "330" in answer["answer"]
        sections = (await client.call_tool("search_sections", {"question": TALL, "image": None})).structured_content
        assert sections is not None and sections["entity"]["title"] == "Eiffel Tower"


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = ["--index", str(folder / "index")]
    assert main(["ask", *index, TALL]) == 0
    assert "330" in capsys.readouterr().out
    assert main(["ask", *index, str(folder / "queries" / "photo.png"), TALL]) == 0
    assert re.match("(?s)330 metres.*not about the image", capsys.readouterr().out)
    assert main(["ask", *index, str(folder / "queries" / "photo.png")]) == 2
    assert "QUESTION is missing after the IMAGE" in capsys.readouterr().err
    assert main(["ask", *index, "--mode", "auto", TALL]) == 2
    assert "IMAGE is missing: an agent looks at one" in capsys.readouterr().err


@pytest.mark.parametrize("order", ["IMAGE QUESTION OPTION", "IMAGE OPTION QUESTION", "OPTION IMAGE QUESTION"])
def test_options_may_stand_anywhere(order: str) -> None:
    words = {"IMAGE": ["a.png"], "QUESTION": ["Who?"], "OPTION": ["--json", "--index", "i"]}
    args = parser("ask").parse_args(["ask", *(word for part in order.split() for word in words[part])])
    assert (args.images, args.question, args.json, args.index) == (["a.png"], "Who?", True, Path("i"))
    assert parser("ask").parse_args(["ask", *words["OPTION"], "Who?"]).images == []
