from __future__ import annotations

from typing import Any

from evaluation.search.trajectories import trajectory_figures


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
