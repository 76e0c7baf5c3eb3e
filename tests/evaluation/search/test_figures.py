"""What a run replaced is read from what it did."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.protocol import Protocol, comparable, protocol_of
from evaluation.search.figures import replaced_inputs, trajectory_figures


def record(*calls: tuple[str, object]) -> dict[str, Any]:
    rounds = [{"calls": [{"tool": tool, "arguments": arguments}]} for tool, arguments in calls]
    return {"trail": {"rounds": rounds}}


WEB = record(("web_search", {}), ("open_page", {"screenshot": "top"}), ("open_page", {"screenshot": "full"}))


@pytest.mark.parametrize(
    ("dataset", "records", "names"),
    [
        ("mmsearch", [WEB], set()),
        ("mmsearch", [WEB, record(("image_search", {}), ("web_search", {}))], {"own-image-search"}),
        ("mmsearch", [record(("web_image_search", {}))], {"own-image-search"}),
        ("mmsearch", [record(("text_search", {}), ("open_page", {}))], {"own-text-search", "no-screenshots"}),
        ("mmsearch", [{"trail": None}], set()),
        ("mmsearch-plus", [record(("web_image_search", {}), ("web_search", {}))], set()),
        ("mmsearch-plus", [record(("image_search", {}))], {"own-image-search"}),
        ("dynvqa", [record(("web_image_search", {}))], {"titles-only"}),
        ("dynvqa", [record(("find_images", {}), ("ask_index", {}))], {"own-image-search", "own-text-search"}),
        ("plain", [record(("text_search", {}))], set()),
        ("mmsearch", [record(("text_search", "{not JSON"))], {"own-text-search"}),
    ],
)
def test_replaced_inputs(dataset: str, records: list[dict[str, Any]], names: set[str]) -> None:
    said = replaced_inputs(dataset, records)
    assert set(said) == names
    assert all("(1 of " in sentence for sentence in said.values())


def test_names_of_protocols() -> None:
    assert protocol_of("evqa", "evqa_bem", {}).name == "evqa/official"
    assert protocol_of("evqa", "evqa_exact_match", {}).name == "evqa/exact-match"
    assert protocol_of("evqa", None, {"own-prompts": "x"}).as_dict() == {"protocol": "evqa/retrieval", "deviations": {}}
    assert protocol_of("plain", "exact_match", {}).name == "plain/own"
    assert protocol_of("infoseek", "infoseek_csv", {"own-prompts": "x"}).name == "infoseek/from-csv+own-prompts"
    assert Protocol("mmsearch").name == "mmsearch-end2end/official"


def test_runs_that_may_be_compared() -> None:
    assert comparable({"a": "evqa/official", "b": "evqa/retrieval", "c": "evqa/official"}) == ""
    assert comparable({"a": None, "b": None, "c": "evqa/retrieval"}) == ""
    assert "b: not named" in comparable({"a": "evqa/official", "b": None})


def trail(*rounds: str, answer: str | None = "x", malformed: int = 0, stopped: str = "") -> dict[str, Any]:
    """Returns a trail; a round names its tools, with an exclamation mark after those that failed."""
    return {
        "answer": answer,
        "rounds": [
            {
                "calls": [{"tool": tool.strip("!"), "error": "no" if "!" in tool else ""} for tool in tools.split()],
                "requests": [{}],
            }
            for tools in rounds
        ],
        "malformed": malformed,
        "stopped": stopped,
        "invented_citations": [7] if malformed else [],
        "spent": {"tokens": 100, "money": 0.25},
    }


def test_figures_by_hand() -> None:
    trails = [
        trail("zoom_in zoom_in", "image_search text_search", "text_search", ""),
        trail("zoom_in", "text_search!", "", answer=None, malformed=2, stopped="rounds"),
        trail(""),
    ]
    figures = trajectory_figures(trails, [1.0, 0.0, 0.4])
    assert figures["n"] == 3
    assert figures["rounds_mean"] == (4 + 3 + 1) / 3 == figures["requests_mean"]
    assert figures["calls"] == {"image_search": 1, "text_search": 3, "zoom_in": 3}
    assert figures["calls_mean"] == 7 / 3
    assert (figures["calls_mean_right"], figures["calls_mean_wrong"]) == (5.0, 1.0)
    assert figures["by_step"] == [
        {"step": 1, "answer": 1, "zoom_in": 3},
        {"step": 2, "image_search": 1, "text_search": 2},
        {"step": 3, "text_search": 1},
        {"step": 4, "answer": 1},
    ]
    assert figures["p_image_given_zoom"] == 2 / 3  # both zooms of the first round are followed by an image search
    assert figures["next"]["zoom_in"] == {"image_search": 2 / 3, "text_search": 1.0}
    assert figures["next"]["text_search"] == {"answer": 1 / 3, "text_search": 1 / 3}
    assert (figures["malformed"], figures["malformed_trajectories"]) == (2, 1)
    assert figures["failed_calls"] == {"text_search": 1}
    assert figures["stopped"] == {"rounds": 1} and figures["invented_citations"] == 1
    assert (figures["tokens_mean"], figures["money"]) == (100, 0.75)


def test_nothing_at_all() -> None:
    figures = trajectory_figures([], [])
    assert figures["rounds_mean"] is None and figures["p_image_given_zoom"] is None and figures["calls"] == {}
