"""`omgm evaluate --mode`: agents on miniatures of MMSearch, MMSearch-Plus and Dyn-VQA, with a scripted server."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from chat_models.chat import ChatClient
from chat_models.replies import ChatReply
from evaluation.datasets import forget_listings
from indexes.store.index import Index
from omgm.__main__ import main
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.grounding_dino import write_grounding_dino
from tests.fakes.inputs import planner
from tests.fakes.planner import calling, text_of
from tests.fakes.processes import kill_omgm_when
from tests.fakes.question_files import DYNVQA
from tests.fakes.rows import write_jsonl
from tests.fakes.scripted_server import ScriptedServer
from tests.fakes.search_sets import plus_rows, write_mmsearch, write_parquet
from tests.paths import contents


def arguments(examples: Path, dataset: str, queries: Path, out: Path, *more: str) -> list[str]:
    inputs = ["--index", str(examples / "index"), "--dataset", dataset, "--queries", str(queries), "--out", str(out)]
    return ["evaluate", *inputs, *more]


def figures(out: Path) -> dict[str, Any]:
    metrics: dict[str, Any] = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    return metrics


def pipeline(messages: list[dict[str, Any]]) -> str:
    """Plays MMSearch's pipeline: right for the flag of Japan, without a choice in the rerank step of question 1."""
    [message] = messages
    about = re.sub(r"\AToday is \w+, [\d-]+\.\s*", "", text_of(message))
    first = "Question 0?" in about
    if about.startswith("A search engine"):
        return "Query to the search engine: capital 0" if first else ""
    if about.startswith("Here are 8 websites"):
        return "<Website 2>" if first else "the second one"
    return "Tokyo" if first else "Kyoto"


def test_mmsearch(examples: Path, tmp_path: Path) -> None:
    pytest.importorskip("nltk", reason="needs the extra mmsearch")
    queries = write_mmsearch(tmp_path / "mmsearch", [(examples / "photo.jpg").read_bytes(), None], ["Tokyo", "Nairobi"])
    with ScriptedServer(pipeline) as server:
        options = [*planner(server.url), "--tolerant"]
        assert main(arguments(examples, "mmsearch", queries, tmp_path / "out", *options)) == 0
    metrics = figures(tmp_path / "out")
    # Question 1: no requery, none of eight websites chosen, a wrong answer.
    scores = {"end_to_end": 0.5, "requery": 0.5, "rerank": 0.5, "summarization": 0.5, "final": 0.5}
    assert metrics["mmsearch"] == pytest.approx(scores)
    assert metrics["by_area"]["knowledge"]["final"] == pytest.approx(1) and metrics["by_area"]["news"]["final"] == 0
    assert metrics["by_subfield"]["Sports"]["n"] == 2
    assert metrics["answer"] == {"metric": "mmsearch_f1", "accuracy": 0.5}
    assert (metrics["mode"], metrics["n_queries"], metrics["n_failed"]) == ("mmsearch", 2, 0)
    assert metrics["trajectories"]["calls"] == {"open_page": 2, "text_search": 2}
    assert metrics["trajectories"]["malformed"] == 2  # the requery and the choice
    first, second = map(json.loads, (tmp_path / "out/queries.jsonl").read_text(encoding="utf-8").splitlines())
    assert first["requery"] == "capital 0" and second["requery"] == ""
    opened = [call for one in second["trail"]["rounds"] for call in one["calls"] if call["tool"] == "open_page"]
    assert opened[0]["arguments"]["page"] == second["trail"]["sources"][0]["url"]  # the first page nevertheless
    # The single steps show all screenshots: the image, the image search, and 8 websites or 3 slices of 512 rows.
    steps = [body["messages"] for body in server.bodies if "Question 0?" in text_of(body["messages"][0])][-2:]
    assert [sum(part["type"] == "image_url" for part in step[0]["content"]) for step in steps] == [1 + 1 + 8, 1 + 1 + 3]


def test_mmsearch_plus_is_judged(examples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photo = (examples / "photo.jpg").read_bytes()
    rows = plus_rows([photo, photo, photo], ["Tokyo", "Edo", "Kyoto"], "canary")
    queries = write_parquet(tmp_path / "plus.parquet", rows)

    def play(messages: list[dict[str, Any]]) -> str | ChatReply:
        if "accepted_answers" in text_of(messages[-1]):
            given = json.loads(text_of(messages[-1]))
            return json.dumps({"correct": given["accepted_answers"][0] in ("Tokyo", "Edo")})  # its old name
        if len(messages) == 2:
            return calling("image_zoom_in_tool", '{"bbox_index": 1, "image_name": "image"}')
        if len(messages) == 4:
            return calling("image_search", '{"image_name": "image.png"}')
        return "<answer>Tokyo [1]</answer>"

    options = ["--canary", "canary", "--judge-model", "scripted", "--concurrency", "2"]
    with ScriptedServer(play) as server:
        command = arguments(examples, "mmsearch-plus", queries, tmp_path / "out", *planner(server.url), *options)
        assert main(command) == 0
    metrics = figures(tmp_path / "out")
    assert metrics["answer"]["metric"] == "llm_judge" and metrics["answer"]["accuracy"] == 2 / 3
    assert metrics["answer"]["string_match"] == 1 / 3
    assert metrics["judge"] == {
        "unreadable": 0, "n": 3, "string_match": 1 / 3, "agreement": 2 / 3, "kappa": pytest.approx(0.4),
    }  # fmt: skip
    assert metrics["trajectories"]["p_image_given_zoom"] == 1.0
    assert metrics["trajectories"]["malformed"] == 3  # there is no region 1
    assert metrics["trajectories"]["failed_calls"] == {"zoom_in": 3}
    assert metrics["by_difficulty"]["difficult"] == {"n": 1, "accuracy": 1.0}
    printed = capsys.readouterr().out
    assert "llm_judge 66.7" in printed and "P(image | zoom) 100.0" in printed
    first = next(body["messages"] for body in server.bodies if "Question 0?" in text_of(body["messages"][1]))
    assert sum(part["type"] == "image_url" for part in first[1]["content"]) == 2


@pytest.mark.parametrize(
    ("mode", "searched"),
    [
        ("dynvqa-image", ""),
        ("dynvqa-web", "Who leads this team?"),
        ("dynvqa-image-web", "Japan Who leads this team?"),
        ("dynvqa-caption-web", "A flag. Who leads this team?"),
        ("dynvqa-golden", "Who leads the Reds?"),
    ],
)
def test_the_baselines_of_dynvqa(examples: Path, tmp_path: Path, mode: str, searched: str) -> None:
    (tmp_path / "image_1.jpeg").write_bytes((examples / "photo.jpg").read_bytes())
    queries = write_jsonl(tmp_path / "q.jsonl", DYNVQA)

    def play(messages: list[dict[str, Any]]) -> str:
        return "A flag." if "Describe" in text_of(messages[0]) else "Ann Lee leads it"

    more = ["--query-images", str(tmp_path), "--mode", mode]
    with ScriptedServer(play) as server:
        assert main(arguments(examples, "dynvqa", queries, tmp_path / "out", *more, *planner(server.url))) == 0
    metrics = figures(tmp_path / "out")
    assert metrics["answer"]["token_f1" if "token_f1" in metrics["answer"] else "accuracy"] == pytest.approx(4 / 6)
    [record] = map(json.loads, (tmp_path / "out/queries.jsonl").read_text(encoding="utf-8").splitlines())
    calls = [call for one in record["trail"]["rounds"] for call in one["calls"]]
    assert [call["tool"] for call in calls if call["tool"] == "image_search"] == ["image_search"] * mode.count("image")
    assert [call["arguments"]["queries"] for call in calls if call["tool"] == "text_search"] == (
        [[searched]] if searched else []
    )


@pytest.mark.slow
def test_a_killed_run_asks_nothing_twice_and_a_replayed_one_is_the_same(examples: Path, tmp_path: Path) -> None:
    photo = (examples / "photo.jpg").read_bytes()
    queries = write_parquet(tmp_path / "plus.parquet", plus_rows([photo] * 4, ["Tokyo"] * 4))
    held, killed = threading.Event(), threading.Event()

    def play(messages: list[dict[str, Any]]) -> str | ChatReply:
        """Three requests per question; holds the last request of the third question until the process is killed."""
        if "Question 2?" in text_of(messages[1]) and len(messages) == 6 and not held.is_set():
            held.set()
            killed.wait(30)
        if len(messages) < 6:
            question = text_of(messages[1]).split("Question: ")[1]
            return calling("text_search", json.dumps({"queries": [f"{len(messages)} {question}"]}))
        return "<answer>Tokyo [1]</answer>"

    def asked(server: FakeChatServer) -> list[str]:
        bodies = [json.dumps(body["messages"], sort_keys=True) for body in server.bodies]
        server.bodies.clear()
        return bodies

    with ScriptedServer(play) as server:
        command = arguments(examples, "mmsearch-plus", queries, tmp_path / "killed", *planner(server.url))
        kill_omgm_when(held.is_set, command)
        killed.set()
        assert not (tmp_path / "killed/metrics.json").exists()
        first = asked(server)
        assert len(first) == 3 * 3  # the last one was not answered
        assert main(command) == 0
        second = asked(server)
        assert len(second) == 1 + 3 and set(first) & set(second) == {first[-1]}

    command = arguments(examples, "mmsearch-plus", queries, tmp_path / "replayed", *planner())
    assert main([*command, "--corpus", str(tmp_path / "killed/corpus")]) == 0
    for folder in ("replayed", "killed"):  # one depends on the corpus, the other on the server
        for name in ("run.json", "run.npz"):
            (tmp_path / folder / name).unlink()
    assert contents(tmp_path / "replayed") == contents(tmp_path / "killed", without="corpus")
    assert figures(tmp_path / "replayed")["answer"]["accuracy"] == 1.0


def test_regions_are_proposed_if_the_profile_says_so(examples: Path, tmp_path: Path) -> None:
    queries = write_jsonl(tmp_path / "q.jsonl", {"id": "1", "image": "1", "question": "Who?", "answers": ["x"]})
    (tmp_path / "1.jpg").write_bytes((examples / "photo.jpg").read_bytes())
    options = ["--mode", "mmsearch-plus", "--query-images", str(tmp_path), "--set", "agents.propose_regions=true"]
    with ScriptedServer([calling("zoom_in", '{"region": 1}'), "<answer>x</answer>"]) as server:
        command = arguments(examples, "plain", queries, tmp_path / "out", *planner(server.url), *options)
        assert main(command) == 0
        assert len(server.bodies[0]["messages"][1]["content"]) == 3  # image, overlay, question
    assert figures(tmp_path / "out")["trajectories"]["failed_calls"] == {}


def test_an_agent_s_run_knows_its_images_and_its_model(
    examples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = write_jsonl(tmp_path / "q.jsonl", {"id": "1", "image": "1", "question": "Who?", "answers": ["x"]})
    (tmp_path / "images").mkdir()
    image, out = tmp_path / "images" / "1.jpg", tmp_path / "out"
    original = (examples / "photo.jpg").read_bytes()
    image.write_bytes(original)
    options = ["--mode", "mmsearch-plus", "--query-images", str(tmp_path / "images")]
    served = [{"id": "scripted", "size": 1}]

    async def reported(self: ChatClient) -> list[dict[str, Any]]:
        return served

    monkeypatch.setattr(ChatClient, "reported", reported)
    with ScriptedServer(lambda messages: "<answer>x</answer>") as server:
        command = arguments(examples, "plain", queries, out, *planner(server.url), *options)
        assert main(command) == 0
        image.write_bytes(original)  # with a new time
        assert main(command) == 0 and len(server.bodies) == 1
        before = contents(out)
        image.write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
        assert main(command) == 2 and "query images: 1 of 1 image has other bytes" in capsys.readouterr().err
        image.write_bytes(original)
        served[0]["size"] = 2
        assert main(command) == 2 and "planner's server was [" in capsys.readouterr().err
        assert contents(out) == before and len(server.bodies) == 1
        assert main([*command, "--overwrite"]) == 0 and len(server.bodies) == 2  # nothing of the other model is left


def test_an_agent_s_run_says_which_images_the_index_has(
    examples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = Index.open(examples / "index")
    main_image = index.image_path(0)
    assert main_image is not None
    Image.open(main_image).resize((200, 160)).save(tmp_path / "known.webp")
    Image.linear_gradient("L").save(tmp_path / "new.png")
    entity = index.entity(0).id
    names = ("known", "new")
    rows = [{"id": one, "image": one, "question": "What?", "answers": [one], "entity": entity} for one in names]
    queries = write_jsonl(tmp_path / "q.jsonl", *rows)
    with ScriptedServer(lambda messages: "<answer>known</answer>") as server:
        options = ["--mode", "mmsearch-plus", "--query-images", str(tmp_path), *planner(server.url)]
        assert main(arguments(examples, "plain", queries, tmp_path / "out", *options)) == 0
    metrics = figures(tmp_path / "out")
    overlap = {"share": 0.5, "questions": {"known": "main"}, "others": {"n": 1, "accuracy": 0.0}}
    assert (metrics["n_overlap"], metrics["overlap"], metrics["answer"]["accuracy"]) == (1, overlap, 0.5)
    said = "known 50.0 (1 among main images of their entities); the other 1 question: accuracy 0.0"
    assert said in capsys.readouterr().out


def test_half_an_emoji_that_a_model_writes_ends_no_evaluation(examples: Path, tmp_path: Path) -> None:
    queries = write_jsonl(tmp_path / "q.jsonl", {"id": "1", "image": "1", "question": "Who?", "answers": ["x \ufffd"]})
    (tmp_path / "1.jpg").write_bytes((examples / "photo.jpg").read_bytes())
    searches = calling("text_search", '{"queries": ["\\ud83d wave"]}')
    replies: list[str | ChatReply] = [searches, '{"answer": "x \\ud83d"}']
    options = ["--mode", "mmsearch-plus", "--query-images", str(tmp_path)]
    with ScriptedServer(replies) as server:
        command = arguments(examples, "plain", queries, tmp_path / "out", *planner(server.url), *options)
        assert main(command) == 0
    assert figures(tmp_path / "out")["answer"]["accuracy"] == 1.0


def test_what_failed_is_asked_and_judged_again(
    examples: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    photo = (examples / "photo.jpg").read_bytes()
    (tmp_path / "images").mkdir()
    (tmp_path / "images/here.jpg").write_bytes(photo)
    rows = [
        {"id": name, "image": name, "question": f"Question {name}?", "answers": ["Tokyo"]} for name in ("late", "here")
    ]
    queries = write_jsonl(tmp_path / "q.jsonl", *rows)

    def play(messages: list[dict[str, Any]]) -> str:
        # U+2028 is a line separator to some text readers, but not in JSON lines
        return (
            json.dumps({"correct": True})
            if "accepted_answers" in text_of(messages[-1])
            else "<answer>To\u2028kyo</answer>"
        )

    out = tmp_path / "out"
    options = ["--mode", "mmsearch-plus", "--query-images", str(tmp_path / "images"), "--judge-model", "scripted"]
    with ScriptedServer(play) as server:
        command = arguments(examples, "plain", queries, out, *planner(server.url), *options)
        assert main(command) == 0
        assert (figures(out)["n_failed"], figures(out)["answer"]["accuracy"]) == (1, 0.5)
        assert "1 of 2 questions failed; the first: its image late was not found; evaluate into" in caplog.text
        assert len(server.bodies) == 2  # an answer and its verdict
        (tmp_path / "images/late.jpg").write_bytes(photo)
        forget_listings()  # in reality, the second command would run in a new process
        assert main(command) == 0
        assert (figures(out)["n_failed"], figures(out)["answer"]["accuracy"]) == (0, 1.0)
        assert main(command) == 0
        asked = [text_of(body["messages"][-1]) for body in server.bodies]
    assert [["Question late?" in text, "Question here?" in text] for text in asked] == (
        [[False, True]] * 2 + [[True, False]] * 2
    )


def test_region_proposals_and_unknown_entities_belong_to_the_run(
    examples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    detector = write_grounding_dino(tmp_path / "dino")
    (tmp_path / "images").mkdir()
    (tmp_path / "images/a.jpg").write_bytes((examples / "photo.jpg").read_bytes())
    rows = [
        {"id": entity, "image": "a", "question": "Which?", "answers": ["x"], "entity": entity}
        for entity in ("https://nobody.example/", next(iter(json.loads((examples / "kb.json").read_text()))))
    ]
    queries, out = write_jsonl(tmp_path / "q.jsonl", *rows), tmp_path / "out"
    options = ["--mode", "mmsearch-plus", "--query-images", str(tmp_path / "images")]
    regions = ["--set", f"regions.model={detector}", "--set", "agents.propose_regions=true"]
    with ScriptedServer(lambda messages: "<answer>x</answer>") as server:
        command = arguments(examples, "plain", queries, out, *planner(server.url), *options)
        assert main([*command, *regions]) == 0
        assert figures(out)["n_gold_missing"] == 1
        counts = "1 about entities that the index lacks, 1 about the same image as an earlier one, in the same words"
        assert f"of 2 questions: {counts}\n" in capsys.readouterr().out
        weights = bytearray((detector / "model.safetensors").read_bytes())
        weights[-1] ^= 1
        (detector / "model.safetensors").write_bytes(weights)
        assert main([*command, *regions]) == 2
        assert "made from other inputs (regions.model: other content)" in capsys.readouterr().err
        assert main([*command, *regions[:2]]) == 2
        error = capsys.readouterr().err
    assert "settings.agents.propose_regions was true and is now false" in error
    assert "regions.model: given before, not given now" in error


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--dataset", "mmsearch", "--no-answers"], "--no-answers, --bem and --step1 do not apply to agents"),
        (["--dataset", "evqa", "--canary", "x"], "--canary needs --mode"),
        (["--dataset", "evqa"], "--query-images is needed: evqa names its images"),
        (["--dataset", "evqa", "--mode", "magic"], "--mode must be one of auto, "),
    ],
)
def test_what_is_wrong_is_told(
    tmp_path: Path, options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.csv").touch()
    inputs = ["--index", str(tmp_path), "--queries", str(tmp_path / "q.csv"), "--out", str(tmp_path / "out")]
    assert main(["evaluate", *inputs, *options]) != 0
    assert told in capsys.readouterr().err
