"""Published protocols: what the real commands send to a chat server, from files in the official formats."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from PIL import Image

from chat_models.replies import ChatReply
from omgm.__main__ import main
from omgm.downloads import prompts
from search_agents.wordings import stored
from tests.fakes.inputs import planner
from tests.fakes.planner import text_of
from tests.fakes.prompt_files import HEURISTIC, MMSEARCH, OMNISEARCH, OMNISEARCH_TEXT, VSA, write_clone
from tests.fakes.question_files import DYNVQA
from tests.fakes.rows import write_jsonl
from tests.fakes.scripted_server import ScriptedServer
from tests.fakes.search_sets import embedded, jpeg, mmsearch_rows, plus_rows, write_parquet
from tests.kept import own_cache

Body = dict[str, Any]


@pytest.fixture(autouse=True)
def new_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps downloaded prompts out of other tests."""
    own_cache(tmp_path / "cache", monkeypatch)


def download(source: str, files: dict[str, str], tmp_path: Path) -> None:
    clone = write_clone(tmp_path / "clone", files)
    assert main(["download", "--prompts", source, "--prompts-from", str(clone)]) == 0


def evaluate(
    examples: Path, dataset: str, queries: Path, out: Path, play: Callable[[Body], str], *more: str
) -> tuple[dict[str, Any], list[Body]]:
    """Runs `omgm evaluate` against a server that logs its requests; returns the metrics and the requests."""

    def whole(body: Body) -> ChatReply:
        return ChatReply(play(body))

    with ScriptedServer(whole, whole=True) as server:
        command = ["evaluate", "--index", str(examples / "index"), "--dataset", dataset, "--queries", str(queries)]
        command += ["--out", str(out), *planner(server.url), *more]
        assert main(command) == 0
    metrics: dict[str, Any] = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    return metrics, server.bodies


def shown(message: Body) -> list[str]:
    """Returns the parts of a message in order, an image as its size, which tells our images apart."""
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [part["text"] if part["type"] == "text" else _size(part["image_url"]["url"]) for part in content]


def _size(uri: str) -> str:
    with Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))) as image:
        return f"<{image.width}x{image.height}>"


def mmsearch(folder: Path) -> Path:
    """One question with an image of 50 x 30 pixels, and one in words; screenshots of different sizes."""
    folder.mkdir()
    files = mmsearch_rows([jpeg("red", (50, 30)), None], ["Tokyo", "Nairobi"])
    for row in files[1]:
        for site in range(8):
            row[f"website{site}_head_screenshot"] = embedded(jpeg("white", (20 + site, 20)))
    for name, rows in zip(("end2end", "rerank", "summarization"), files, strict=True):
        write_parquet(folder / f"{name}.parquet", rows)
    return folder


def engine(body: Body) -> str:
    text = text_of(body["messages"][0])
    return "flag of Japan" if text.endswith("Query: ") else "<Website 2>" if text.endswith("Pick: ") else "Tokyo"


def test_mmsearch_sends_the_published_prompts_inputs_and_order(examples: Path, tmp_path: Path) -> None:
    download("mmsearch", MMSEARCH, tmp_path)
    metrics, bodies = evaluate(examples, "mmsearch", mmsearch(tmp_path / "m"), tmp_path / "out", engine)
    assert all(len(body["messages"]) == 1 and body["messages"][0]["role"] == "user" for body in bodies)
    assert {(body["max_tokens"], body["temperature"]) for body in bodies} == {(512, 0.0)}
    asked = [shown(body["messages"][0]) for body in bodies]
    # Stage 1: the question's image before the question, then the screenshot of the image search.
    requery = "Make a query about an image.\nQuestion: ", "<50x30>", "Question 0?\nFound: ", "<40x30>", "\nQuery: "
    assert asked[0] == list(requery)
    assert asked[1][:4] == ["Pick 1 of 8 for an image, such as <Website 0>.\nQuestion: ", *requery[1:4]]
    assert asked[2][-4:] == ["<40x30>", "\nQuestion: ", "<50x30>", "Question 0?.\nReply: "]
    # The question in words has the prompts without an image search.
    assert asked[3] == ["Make a query.\nQuestion: Question 1?\nQuery: "]
    # The single steps: each screenshot behind the label of its website, the image search behind its own.
    sites = [part for part in asked if part[0].startswith("Pick 1 of 8") and part[-1].endswith("\nPick: ")][-2:]
    expected = ["Pick 1 of 8 for an image, such as <Website 0>.\nQuestion: ", *requery[1:4]]
    for n in range(8):
        gap = "\n" if n == 0 else "\n\n"
        label = f"Website {n + 1} Title: title {n};\nWebsite {n + 1} snippet: snippet {n};\n"
        expected += [f"{gap}{label}Website {n + 1} Screenshot: ", f"<{20 + n}x20>"]
    assert sites[0] == [*expected, "\nPick: "]
    page = "Website Title: t;\n Website Snippet: s;\nWebsite Content: content of the page;\nWebsite Screenshot: "
    assert asked[-2] == [
        f"Read 1 site for an image.\n{page}", "<60x512>", "<60x512>", "<60x76>", ";\n\nFound: ", *requery[3:4],
        "\nQuestion: ", "<50x30>", "Question 0?.\nReply: ",
    ]  # fmt: skip
    assert asked[-1][0] == f"Read 1 site.\n{page}"
    # The index replaced the web, which no score may hide.
    assert metrics["protocol"] == "mmsearch-end2end/no-screenshots+own-text-search"
    assert (tmp_path / "out/scores.mmsearch-end2end.no-screenshots+own-text-search.json").is_file()
    assert metrics["trajectories"]["calls"] == {"open_page": 2, "text_search": 2}  # no image search of our own
    [first, _] = map(json.loads, (tmp_path / "out/queries.jsonl").read_text(encoding="utf-8").splitlines())
    opened = next(call for one in first["trail"]["rounds"] for call in one["calls"] if call["tool"] == "open_page")
    assert opened["arguments"]["question"] == "flag of Japan"  # the text is ranked by the requery


@pytest.mark.slow
def test_mmsearch_says_what_replaced_a_published_input(
    examples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queries = mmsearch(tmp_path / "m")

    def play(body: Body) -> str:
        text = text_of(body["messages"][0])
        return "flag" if text.endswith("Query:") else "<Website 1>" if "Choose the one" in text else "Tokyo"

    out = tmp_path / "own"
    metrics, bodies = evaluate(examples, "mmsearch", queries, out, play, "--own-image-search", "--tolerant")
    name = "no-screenshots+own-image-search+own-prompts+own-text-search+tolerant-parser"
    assert metrics["protocol"] == f"mmsearch-end2end/{name}"
    assert [path.name for path in out.glob("scores.*")] == [f"scores.mmsearch-end2end.{name}.json"]
    assert "(1 of 2 questions)" in metrics["deviations"]["own-image-search"]
    printed = capsys.readouterr().out
    assert "instead of the data set's image_search_result (1 of 2 questions)" in printed and name in printed
    assert "<40x30>" not in shown(bodies[0]["messages"][0])
    published, _ = evaluate(examples, "mmsearch", queries, tmp_path / "published", play, "--tolerant")
    assert "own-image-search" not in published["protocol"]
    assert main(["compare", str(out), str(tmp_path / "published")]) == 2
    assert "different protocols" in capsys.readouterr().err
    assert main(["compare", str(out), str(tmp_path / "published"), "--force", "--resamples", "99"]) == 0


CHOICES = {
    "<Website 2>": (1.0, 1.0),
    "<Website 2>,<Website 1>": (0.0, 1.0),
    "<website 2>": (0.0, 1.0),
    "<Website Index 2>": (0.0, 1.0),
    "<Website: 2>": (0.0, 1.0),
    "<think><Website 1></think><Website 2>": (1.0, 1.0),  # declared: a thought is no part of a reply
    "<Website 3>": (0.5, 0.5),
    "<Website 0>": (0.0, 0.0),
    "<Website 9>": (0.0, 0.0),
}
"""Choices with their scores, official and tolerant: website 2 is valid, 3 and 4 are unsure."""


def test_choices_are_read_as_published(examples: Path, tmp_path: Path) -> None:
    files = mmsearch_rows([None] * len(CHOICES), ["x"] * len(CHOICES))
    (tmp_path / "m").mkdir()
    for name, rows in zip(("end2end", "rerank"), files, strict=False):
        write_parquet(tmp_path / f"m/{name}.parquet", rows)

    def play(body: Body) -> str:
        text = text_of(body["messages"][0])
        number = re.search(r"Question (\d)\?", text)
        assert number is not None
        return list(CHOICES)[int(number[1])] if "Choose the one" in text else "flag"

    for place, flag in enumerate(("--official", "--tolerant")):
        out = tmp_path / flag
        evaluate(examples, "mmsearch", tmp_path / "m", out, play, flag)
        lines = (out / "rerank.jsonl").read_text(encoding="utf-8").splitlines()
        assert {row["reply"]: row["score"] for row in map(json.loads, lines)} == {
            choice.removeprefix("<think><Website 1></think>"): scores[place] for choice, scores in CHOICES.items()
        }


def test_an_official_answer_is_the_reply_as_it_is(examples: Path, tmp_path: Path) -> None:
    """The published code scores "Answer: Tokyo [1]" as three words and the thought as a word, not as a label."""
    replies = {"Question 0?": "Answer: Tokyo [1]", "Question 1?": "unknown"}

    def play(body: Body) -> str:
        text = text_of(body["messages"][0])
        return next(reply for name, reply in replies.items() if name in text) if "Website Title" in text else "flag"

    queries = mmsearch(tmp_path / "m")
    metrics, _ = evaluate(examples, "mmsearch", queries, tmp_path / "out", play)
    records = [json.loads(line) for line in (tmp_path / "out/queries.jsonl").read_text().splitlines()]
    assert [record["answer"] for record in records] == list(replies.values())
    assert records[0]["scores"]["mmsearch_f1"] == pytest.approx(2 * 1 / (3 + 1))
    assert metrics["n_unanswered"] == 0
    tolerant, _ = evaluate(examples, "mmsearch", queries, tmp_path / "tolerant", play, "--tolerant")
    assert tolerant["n_unanswered"] == 1 and tolerant["mmsearch"]["end_to_end"] == 0.5


def test_the_published_prompts_are_read_and_required(
    examples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = mmsearch(tmp_path / "m")
    command = ["evaluate", "--index", str(examples / "index"), "--dataset", "mmsearch", "--queries", str(queries)]
    command += ["--out", str(tmp_path / "out"), *planner()]
    assert main([*command, "--set", "agents.prompts=paper"]) == 2
    assert "omgm download --prompts mmsearch" in capsys.readouterr().err
    broken = {**MMSEARCH, "prompts/prompt.py": MMSEARCH["prompts/prompt.py"].replace("{website_information}", "")}
    clone = write_clone(tmp_path / "broken", broken)
    assert main(["download", "--prompts", "mmsearch", "--prompts-from", str(clone)]) == 2
    assert "the prompt 'text_stage2' lacks the place {website_information}" in capsys.readouterr().err
    assert main(["download", "--prompts", "mmsearch", "--prompts-from", str(tmp_path)]) == 2
    assert "is it a clone of CaraJ7/MMSearch?" in capsys.readouterr().err
    assert main(["download", "--prompts", "mmsearch-plus"]) == 2
    assert "only in the paper: --prompts-from FILE" in capsys.readouterr().err
    assert not (tmp_path / "cache/omgm/prompts").exists()
    assert main(["download", "--prompts", "vsa", "--dry-run"]) == 0
    assert "cnzzx/VSA@a41222f" in capsys.readouterr().out


def test_downloaded_prompts_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(tmp_path / "site"))

        def log_message(self, *args: Any) -> None:
            """Logs nothing."""

    source = prompts.SOURCES["vsa"]
    write_clone(tmp_path / f"site/{source.repo}/{source.commit}", VSA)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(prompts, "RAW", f"http://127.0.0.1:{server.server_port}")
    try:
        assert main(["download", "--prompts", "vsa"]) == 2
        assert "it is not the pinned file" in capsys.readouterr().err
        digests = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in VSA.items()}
        monkeypatch.setitem(prompts.SOURCES, "vsa", replace(source, files=digests))
        assert main(["download", "--prompts", "vsa"]) == 0
        assert "3 prompts from cnzzx/VSA@a41222f" in capsys.readouterr().out
    finally:
        server.shutdown()
        server.server_close()
    found = stored(prompts.SOURCES["vsa"].prompts)
    assert found is not None and found["caption"] == '\nSay what the {label} is, for "{text}".\n'


def dynvqa(examples: Path, folder: Path) -> list[str]:
    folder.mkdir()
    (folder / "image_1.jpeg").write_bytes((examples / "photo.jpg").read_bytes())
    return [str(write_jsonl(folder / "q.jsonl", DYNVQA)), "--query-images", str(folder)]


def ask_dynvqa(
    examples: Path, tmp_path: Path, mode: str, play: Callable[[Body], str], *more: str
) -> tuple[dict[str, Any], list[Body], dict[str, Any]]:
    queries, *images = dynvqa(examples, tmp_path / "d")
    out = tmp_path / "out"
    metrics, bodies = evaluate(examples, "dynvqa", Path(queries), out, play, "--mode", mode, *images, *more)
    [record] = map(json.loads, (out / "queries.jsonl").read_text(encoding="utf-8").splitlines())
    return metrics, bodies, record


def test_the_plain_model_of_dynvqa_is_asked_as_in_table_10(examples: Path, tmp_path: Path) -> None:
    metrics, [body], record = ask_dynvqa(examples, tmp_path, "dynvqa-plain", lambda body: "  Ann Lee [1], I think. ")
    [message] = body["messages"]
    first, image, last = shown(message)
    assert (first, last) == ("Q", " Who leads this team? Answer:") and image.startswith("<")
    assert record["answer"].strip() == "Ann Lee [1], I think." and record["trail"]["rounds"][0]["calls"] == []
    assert "own-prompts" not in metrics["protocol"]


def test_a_heuristic_of_dynvqa_uses_the_paper_s_prompt_if_it_is_given(examples: Path, tmp_path: Path) -> None:
    write_clone(tmp_path / "clone", OMNISEARCH)
    text = "".join(f"=== {name}\n{body}\n" for name, body in OMNISEARCH_TEXT.items()) + HEURISTIC
    (tmp_path / "table10.txt").write_text(text, encoding="utf-8")
    assert main(["download", "--prompts", "omnisearch", "--prompts-from", str(tmp_path / "table10.txt")]) == 0
    metrics, [body], _ = ask_dynvqa(examples, tmp_path, "dynvqa-image", lambda body: "Ann Lee")
    [message] = body["messages"]
    found, image, last = shown(message)
    assert found.startswith("Found: Japan") and found.endswith("\nAsked: ") and image.startswith("<")
    assert last == " Who leads this team? Reply:"
    assert {"own-image-search"} <= set(metrics["deviations"]) and "own-prompts" not in metrics["deviations"]


def test_omnisearch_runs_the_published_loop(examples: Path, tmp_path: Path) -> None:
    download("omnisearch", OMNISEARCH, tmp_path)
    replies = iter(
        [
            "<Thought>\nWhat?\n<Sub-Question>\nWhich flag is it?\n<Search>\nImage Retrieval with Input Image",
            '<Thought>\nNow\n<Sub-Question>\nWhat is on it?\n<Search>\nText Retrieval: "Japan: flag">\nI wait.',
            "A red disc.",
            "<Thought>\nDone\n<End>\nFinal Answer: a red disc [1]",
        ]
    )
    metrics, bodies, record = ask_dynvqa(examples, tmp_path, "omnisearch", lambda body: next(replies))
    assert {body["max_tokens"] for body in bodies} == {4096}
    first, second, solver, last = bodies
    question, image = shown(first["messages"][0])
    assert question == "Plan in steps.\nAsked:Who leads this team?\n" and image.startswith("<")
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
    assert shown(second["messages"][2])[:2] == ["Images found: ", "Shown: Japan"]
    [message] = solver["messages"]
    asked = shown(message)
    assert asked[0] == "Documents found:" and asked[-3:] == ["\nThe image:", image, "What is on it? Solve:"]
    assert shown(last["messages"][4]) == ["Solved: ", "A red disc."]
    searched = [call["arguments"] for one in record["trail"]["rounds"] for call in one["calls"]][1]
    assert searched == {"queries": ["Japan flag I wait."], "limit": 5}
    assert record["answer"] == "a red disc [1]"
    assert {"own-image-search", "own-text-search"} <= set(metrics["deviations"])
    assert "own-prompts" not in metrics["deviations"]


def test_omnisearch_ends_with_a_reply_that_names_no_retrieval(examples: Path, tmp_path: Path) -> None:
    download("omnisearch", OMNISEARCH, tmp_path)
    _, bodies, record = ask_dynvqa(examples, tmp_path, "omnisearch", lambda body: "<Search>\nNo Retrieval")
    assert len(bodies) == 1 and record["answer"] == "<Search>\nNo Retrieval"


def test_the_golden_query_is_searched_as_text_or_as_image(examples: Path, tmp_path: Path) -> None:
    def play(body: Body) -> str:
        return "Yes." if "Query: Who leads the Reds?" in text_of(body["messages"][-1]) else "Ann Lee"

    _, _, record = ask_dynvqa(examples, tmp_path, "dynvqa-golden", play)
    calls = [(call["tool"], call["arguments"]) for one in record["trail"]["rounds"] for call in one["calls"]]
    assert calls == [("find_images", {"query": "Who leads the Reds?"})]


def vsa_queries(examples: Path, tmp_path: Path) -> list[str]:
    (tmp_path / "1.jpg").write_bytes((examples / "photo.jpg").read_bytes())
    row = {"id": "1", "image": "1", "question": "Who?", "answers": ["x"]}
    return [str(write_jsonl(tmp_path / "q.jsonl", row)), "--mode", "vsa", "--query-images", str(tmp_path)]


def test_vision_search_assistant_captions_and_correlates_given_regions(examples: Path, tmp_path: Path) -> None:
    download("vsa", VSA, tmp_path)
    boxes = write_jsonl(tmp_path / "regions.jsonl", {"id": "1", "boxes": [[0, 0, 30, 20], [30, 0, 70, 20]]})
    queries, *more = vsa_queries(examples, tmp_path)

    def play(body: Body) -> str:
        text = text_of(body["messages"][-1])
        if "Say what" in text:
            return 'a "flag"' if shown(body["messages"][-1])[0] == "<30x20>" else "a pole"
        if text.startswith("\n\nCorrect") or "Correct" in text:
            return "the flag" if "a 'flag'" in text.split(" by: ")[0] else "the pole"
        return '{"sufficient": true}' if len(body["messages"]) > 1 else "a country"

    options = [*more, "--regions", str(boxes)]
    metrics, bodies = evaluate(examples, "plain", Path(queries), tmp_path / "out", play, *options)
    captions = sorted(shown(body["messages"][0]) for body in bodies[:2])
    assert captions == [[size, '\n\nSay what the object is, for "Who?".\n'] for size in ("<30x20>", "<40x20>")]
    correlated = sorted(shown(body["messages"][0])[1] for body in bodies[2:4])
    assert correlated == ["\n\nCorrect \"a 'flag'\" by: a pole\n", "\n\nCorrect \"a pole\" by: a 'flag'\n"]
    answer = shown(bodies[-1]["messages"][0])
    assert answer[1].strip() == 'Reply to "Who?". Perhaps: Who? the flag Who? the pole'
    assert {body["max_tokens"] for body in [*bodies[:4], bodies[-1]]} == {2000}
    assert metrics["protocol"] == "plain/own"


def test_vision_search_assistant_proposes_regions_by_default(examples: Path, tmp_path: Path) -> None:
    queries, *more = vsa_queries(examples, tmp_path)

    def play(body: Body) -> str:
        return '{"sufficient": true}' if "plan the searches" in text_of(body["messages"][0]) else "a part"

    _, bodies = evaluate(examples, "plain", Path(queries), tmp_path / "out", play, *more)
    captioned = [body for body in bodies if "Describe what this part" in text_of(body["messages"][0])]
    with Image.open(examples / "photo.jpg") as photo:
        whole = f"<{photo.width}x{photo.height}>"
    assert captioned and all(shown(one["messages"][1])[0] != whole for one in captioned)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "tools", "images"),
    [
        ("mmsearch-plus-none", [], 1),
        ("mmsearch-plus-image", [], 1),
        ("mmsearch-plus-text", ["text_search", "open_page"], 1),
        ("mmsearch-plus-rollout", ["image_search", "text_search", "open_page"], 1),
        ("mmsearch-plus", ["image_search", "text_search", "zoom_in", "rotate", "sharpen", "open_page"], 2),
    ],
)
def test_the_settings_of_mmsearch_plus(
    examples: Path, tmp_path: Path, mode: str, tools: list[str], images: int
) -> None:
    photo = (examples / "photo.jpg").read_bytes()
    queries = write_parquet(tmp_path / "plus.parquet", plus_rows([photo, photo], ["Tokyo", "Tokyo"])[1:])
    boxes = write_jsonl(tmp_path / "regions.jsonl", {"id": "1", "boxes": [[0, 0, 30, 20]]})
    more = ["--mode", mode, "--regions", str(boxes)]
    metrics, bodies = evaluate(examples, "mmsearch-plus", queries, tmp_path / "out", lambda body: PLUS, *more)
    assert len(bodies) == 1 and metrics["answer"]["accuracy"] == 1.0
    offered = [tool["function"]["name"] for tool in bodies[0].get("tools", [])]
    assert [name for name in offered if name != "ocr"] == tools
    assert sum(part.startswith("<") and part.endswith(">") for part in shown(bodies[0]["messages"][1])) == images
    assert ("Result 1" in text_of(bodies[0]["messages"][1])) == (mode == "mmsearch-plus-image")
    assert "string-match" in metrics["protocol"] and "own-prompts" in metrics["protocol"]


PLUS = "<answer>Tokyo</answer>"


def test_mmsearch_plus_takes_its_system_prompt_from_a_text_file(examples: Path, tmp_path: Path) -> None:
    (tmp_path / "appendix.txt").write_text("You may search.\n")
    assert main(["download", "--prompts", "mmsearch-plus", "--prompts-from", str(tmp_path / "appendix.txt")]) == 0
    photo = (examples / "photo.jpg").read_bytes()
    queries = write_parquet(tmp_path / "plus.parquet", plus_rows([photo], ["Tokyo"]))
    metrics, bodies = evaluate(examples, "mmsearch-plus", queries, tmp_path / "out", lambda body: PLUS)
    assert bodies[0]["messages"][0] == {"role": "system", "content": "You may search."}
    assert metrics["protocol"] == "mmsearch-plus/string-match"
    own, bodies = evaluate(
        examples, "mmsearch-plus", queries, tmp_path / "own", lambda body: PLUS, "--set", "agents.prompts=own"
    )
    assert own["protocol"] == "mmsearch-plus/own-prompts+string-match" and "tools" in str(bodies[0]["messages"][0])
