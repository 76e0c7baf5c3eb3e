from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.ablation import as_markdown, step_table
from evaluation.records import GoldRecord, QueryRecord
from evaluation.sweep import FEWEST_READ, as_text, sweep
from tests.fakes.records import SectionScores, candidate, record
from tests.fakes.records import evidence as section_of


def scored(
    id: str,
    candidates: list[tuple[str, float, float | None, list[SectionScores]]],
    *,
    gold: str = "g",
    section: int | None = 1,
    evidence: tuple[str, int] | None = None,
    step2: list[tuple[str, float]] | None = None,
) -> QueryRecord:
    """A record with the fields that sweep and ablation read; candidates are (entity, sim_c, sim_m, sections)."""
    return record(
        id,
        gold=GoldRecord([gold], section=section),
        candidates=[candidate(*fields) for fields in candidates],
        rankings={"step1": [(e, c) for e, c, _, _ in candidates], "step2": step2 or []},
        evidence=evidence and section_of(*evidence),
    )


# g leads from alpha 0 to 0.75 (there 0.75 * 0.4 + 0.25 * 0.8 = 0.5 against 0.75 * 0.6 + 0.25 * 0.1 = 0.475), h at 1
STEP_2_HELPS = scored("a", [("h", 0.6, 0.1, []), ("g", 0.4, 0.8, [(1, 0.2, 0.9), (2, 0.8, 0.1)])])
# g leads from alpha 0.5 (0.5 * 0.9 + 0.5 * 0.3 = 0.6 against 0.5 * 0.3 + 0.5 * 0.7 = 0.5), h at 0 and 0.25
STEP_1_HELPS = scored("b", [("h", 0.3, 0.7, []), ("g", 0.9, 0.3, [(1, 0.3, 0.8), (2, 0.2, 0.6)])])
NO_CANDIDATES = scored("c", [])
TUNE = [STEP_2_HELPS, STEP_1_HELPS, NO_CANDIDATES]


def test_alpha_and_beta_by_hand() -> None:
    table = sweep(TUNE, [0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.2, 1.0], tune_split="val")
    assert [row["recall@1"] for row in table["by_alpha"]] == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3, 1 / 3])
    # The standard error of 2/3 is sqrt(2/3 * 1/3 / 3) = 0.27: 0.5 and 0.75 are within it, as near to their middle.
    assert table["alpha"] == 0.5
    # a: beta 0 and 0.2 put section 1 first (0.2 * 0.2 + 0.8 * 0.9 = 0.76 against 0.24), beta 1 section 2
    # b: section 1 always
    assert [row["section_recall@1"] for row in table["by_beta"]] == pytest.approx([2 / 3, 2 / 3, 1 / 3])
    assert table["beta"] == 0.0
    assert {row["n_with_section"] for row in table["by_beta"]} == {3}
    assert {row["n_without_sim_t"] for row in table["by_beta"]} == {0}
    assert "reported" not in table


def test_a_missing_image_is_not_a_zero() -> None:
    # g has no sim_m; it gets the lowest, 0.2: 0.5 * 0.9 + 0.5 * 0.2 = 0.55 against 0.5 * 0.5 + 0.5 * 0.2 = 0.35
    query = scored("a", [("g", 0.9, None, [(1, None, None)]), ("h", 0.5, 0.2, [])])
    table = sweep([query], [0.5], [0.2], tune_split="val")
    assert table["by_alpha"][0]["recall@1"] == 1.0
    assert table["by_beta"][0] == {"beta": 0.2, "n_with_section": 1, "section_recall@1": 1.0, "n_without_sim_t": 1}


def test_another_split_is_reported(tmp_path: Path) -> None:
    held_out = [scored("x", [("g", 0.9, 0.9, [(1, 0.5, 0.5)])]), scored("y", [("h", 0.9, 0.9, [(1, 0.5, 0.5)])])]
    table = sweep(TUNE, [0.5], [0.2], tune_split="val", report=held_out, report_split="test", out=tmp_path / "sweep")
    assert table["reported"]["split"] == "test"
    assert (table["reported"]["n"], table["reported"]["recall@1"], table["reported"]["section_recall@1"]) == (
        2,
        0.5,
        0.5,
    )
    assert as_text(table).splitlines() == [
        " alpha  recall@1 in percent",
        "  0.50   66.7",
        "  beta  section_recall@1 in percent",
        "  0.20   66.7",
        "on test, 2 queries: recall@1 50.0, recall@5 50.0, section_recall@1 50.0",
    ]
    assert json.loads((tmp_path / "sweep" / "sweep.json").read_text(encoding="utf-8")) == table
    assert (tmp_path / "sweep" / "sweep.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("split", ["val", None])
def test_no_report_on_the_split_that_chose(split: str | None) -> None:
    with pytest.raises(ValueError, match="report_split"):
        sweep(TUNE, [0.5], [0.2], tune_split="val", report=[scored("x", [])], report_split=split)


def test_no_report_on_the_same_queries_by_another_name() -> None:
    with pytest.raises(ValueError, match="share 1 query"):
        sweep(TUNE, [0.5], [0.2], tune_split="val", report=[NO_CANDIDATES, scored("x", [])], report_split="test")


def test_empty_grids_and_runs_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        sweep(TUNE, [], [0.2], tune_split="val")
    with pytest.raises(ValueError, match="between 0 and 1"):
        sweep(TUNE, [1.5], [0.2], tune_split="val")
    with pytest.raises(ValueError, match="no records"):
        sweep([], [0.5], [0.2], tune_split="val")


def test_without_labeled_sections_there_is_no_beta(tmp_path: Path) -> None:
    one, other = (scored(name, [("g", 0.5, 0.5, [])], section=None) for name in "ab")
    table = sweep([one], [0.5], [0.2], tune_split="val", report=[other], report_split="test", out=tmp_path)
    assert table["by_beta"][0]["section_recall@1"] is None
    assert table["beta"] is None
    assert as_text(table).splitlines()[-1] == "on test, 1 query: recall@1 100.0, recall@5 100.0, section_recall@1 -"


def test_each_step_earns_its_place() -> None:
    sections: list[SectionScores] = [(0, 0.1, 0.1), (1, 0.4, 0.9), (2, 0.5, 0.2)]
    lines = [
        # the right section only with step 3; without it the largest sim_m takes section 2, step 1 the lead
        scored("a", [("g", 0.9, 0.5, sections)], evidence=("g", 1), step2=[("g", 0.9)]),
        # step 1 puts h first, step 2 g with section 2
        scored(
            "b",
            [("h", 0.9, 0.1, []), ("g", 0.8, 0.5, sections)],
            section=2,
            evidence=("g", 2),
            step2=[("g", 2), ("h", 1)],
        ),
        # the lead is right, but step 3 replaces it
        scored("c", [("g", 0.9, 0.5, [(0, 0.9, 0.1), (1, 0.1, 0.9)])], section=0, evidence=("g", 1), step2=[("g", 1)]),
        # no section is known
        scored("d", [("g", 0.9, 0.5, sections)], section=None, evidence=("g", 1), step2=[("g", 1)]),
        # failed
        scored("e", []),
    ]
    rows = step_table(lines)
    assert [row["steps"] for row in rows] == ["1", "1+2", "1+2+3"]
    assert [row["recall@1"] for row in rows] == [3 / 5, 4 / 5, 4 / 5]
    assert [row["section_recall@1"] for row in rows] == [1 / 4, 2 / 4, 2 / 4]
    assert as_markdown(rows).splitlines()[2:] == [
        "| 1 | 60.0 | 25.0 |",
        "| 1+2 | 80.0 | 50.0 |",
        "| 1+2+3 | 80.0 | 50.0 |",
    ]


def test_ablation_of_nothing() -> None:
    with pytest.raises(ValueError, match="no records"):
        step_table([])


def test_nothing_found_is_nothing_to_tune_on(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="val: no question has candidates"):
        sweep([scored("a", [])], [0.5], [0.2], tune_split="val", out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_weight_of_words_by_hand() -> None:
    """g is behind by 0.1 and ahead in words by 0.55, so it leads from a weight of 0.18 on."""

    def read(number: int, lead: float) -> QueryRecord:
        query = scored(f"{number}", [("h", 0.5, 0.5, []), ("g", 0.4, 0.4, [])])
        words = zip(query.candidates, (0.2, 0.2 + lead), strict=True)
        return replace(query, candidates=[replace(one, sim_w=similar) for one, similar in words])

    table = sweep(
        [*(read(number, 0.55) for number in range(FEWEST_READ)), STEP_2_HELPS], [0.5], [0.2], tune_split="val"
    )
    recall = {row["words"]: row["recall@1"] for row in table["by_words"]}
    assert [weight for weight, share in recall.items() if share == 1.0] == [n / 20 for n in range(4, 21)]
    assert recall[0.15] == 0.0 and {row["n"] for row in table["by_words"]} == {FEWEST_READ}
    assert table["words"] == 0.6
    few = sweep([read(number, -0.5) for number in range(FEWEST_READ - 1)], [0.5], [0.2], tune_split="val", words=0.3)
    assert few["words"] == 0.3 and few["by_words"][0]["n"] == FEWEST_READ - 1
    assert "19 queries with words" in as_text(few) and "words" not in as_text(sweep(TUNE, [0.5], [0.2], tune_split="v"))
