"""What a run replaced is read from what it did."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.protocol import Protocol, comparable, protocol_of
from evaluation.search.figures import replaced_inputs


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
