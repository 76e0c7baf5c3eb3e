"""Rankings of other systems: their forms, their order, what of them is in the index, and ids in TREC's files."""

from __future__ import annotations

import json
import logging
import string
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evaluation.records import GoldRecord, QueryRecord
from evaluation.trec import write_trec
from indexes.ids import to_column
from indexes.ranked_lists import Ranking, check_coverage
from indexes.rankings import from_column, read_rankings

BLANKS = "".join(chr(point) for point in range(0x110000) if chr(point).isspace()) + "\ufeff\u200b\u180e\0\x7f"
ids = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(BLANKS + "%:#2025"), max_size=12)


def written(folder: Path, content: object, name: str = "results") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8", newline="\n")
    return path


def read(folder: Path, content: object, **options: object) -> dict[str, Ranking]:
    return read_rankings(written(folder, content), ["q0", "q1"], flag="--step1-order", **options)  # type: ignore[arg-type]


@given(ids | st.text(st.characters(), max_size=4))
@example("")
@example("%:")
@example("%20")
@example("a b")
@example("\ud800")
def test_an_id_is_one_column_and_comes_back(id: str) -> None:
    column = to_column(id)
    assert from_column(column) == id
    assert column.split() == [column] and column.encode().split() == [column.encode()]
    assert column.splitlines() == [column] and column.isprintable()


@pytest.mark.parametrize("id", ["https://kb/San%20Marino_(state)", "E-VQA_0", "Q42", "圣马力诺", "a#b", "100%"])
def test_ids_without_white_space_stay(id: str) -> None:
    assert to_column(id) == id


@given(st.lists(ids, min_size=1, max_size=4, unique=True), st.lists(ids, min_size=1, max_size=6, unique=True))
@example([""], ["", "a b", "a%20b", "a\tb", "a\u2003b", "%:a%20b", " a b", "a b "])
def test_a_run_comes_back_as_it_was_written(questions: list[str], entities: list[str]) -> None:
    ranking = [(entity, -place / 4) for place, entity in enumerate(entities)]
    records = [
        QueryRecord(
            id=id, question="?", image_id="i", gold=GoldRecord(entities[-1:], section=3), rankings={"step1": ranking}
        )
        for id in questions
    ]
    with tempfile.TemporaryDirectory() as folder:
        write_trec(records, Path(folder), "my tag")
        found = read_rankings(Path(folder) / "step1.run", questions)
        qrels = (Path(folder) / "qrels.txt").read_text(encoding="utf-8").split("\n")[:-1]
        sections = (Path(folder) / "qrels.sections.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert found == dict.fromkeys(questions, ranking)
    assert [from_column(line.split(" ")[0]) for line in qrels] == questions
    assert {from_column(line.split(" ")[2]) for line in qrels} == {entities[-1]}
    assert {from_column(line.split(" ")[2]) for line in sections} == {f"{entities[-1]}#3"}


FALLING = {"q0": [("a", 0.5), ("b", 0.25)], "q1": [("c", 0.125)]}
TREC = "q1 Q0 c 1 0.125 x\nq0 Q0 a 1 0.5 x\nq0 Q0 b 2 0.25 x\n"


@pytest.mark.parametrize(
    "content",
    [
        {
            "q0": {"retrieved_entities": [{"url": "a"}, {"url": "b"}], "retrieval_similarities": [0.5, 0.25]},
            "q1": {"retrieved_entries": ["c"], "retrieval_similarities": ["0.125"]},
        },
        {"q0": {"a": 0.5, "b": 0.25}, "q1": {"c": 0.125}},  # BEIR
        {"q0": {"b": 0.25, "a": 0.5}, "q1": {"c": 0.125}, "other": {"z": 1, "y": 2}},
        {"q0": {"ids": ["a", "b", -1], "scores": [0.5, 0.25, -3.4e38]}, "q1": {"ids": ["c"], "scores": [0.125]}},
        {"q0": [{"id": "a", "score": 0.5}, {"id": "b", "score": 0.25}], "q1": [{"id": "c", "score": 0.125}]},
        {"q0": [["a", 0.5], ["b", 0.25]], "q1": [["c", 0.125]]},
        {"q0": {"results": {"a": 0.5, "b": 0.25}}, "q1": {"results": {"c": 0.125}}},
        [{"query_id": "q0", "hits": [["a", 0.5], ["b", 0.25]]}, {"query_id": "q1", "hits": [["c", 0.125]]}],
        '{"id": "q0", "docs": ["a", "b"], "scores": [0.5, 0.25]}\n{"id": "q1", "docs": ["c"], "scores": [0.125]}\n',
        TREC,
        TREC.replace(" 1 ", " 0 ").replace(" 2 ", " 0 "),  # one rank everywhere
        TREC.replace(" ", "\t"),
    ],
)
def test_forms(content: object, tmp_path: Path) -> None:
    assert read(tmp_path, content) == FALLING


def test_distances_by_name_are_negative_scores(tmp_path: Path) -> None:
    content: dict[str, object] = {
        "q0": {"ids": ["a", "b"], "distances": [0.5, 2.0]},
        "q1": [{"id": "c", "distance": 1}],
    }
    assert read(tmp_path, content) == {"q0": [("a", -0.5), ("b", -2.0)], "q1": [("c", -1.0)]}
    content["q0"] = {"ids": ["a", "b"], "distances": [2.0, 0.5]}
    with pytest.raises(ValueError, match="contradicts the scores: first in the list is 'a'"):
        read(tmp_path, content)


def test_ids_of_others_may_contain_any_white_space_and_blanks_as_percent_20(tmp_path: Path) -> None:
    run = "q0\tQ0\tNew Zealand\t1\t0.5\tx\nq1 Q0 New\u00a0Zealand\u3000(atoll) 1 0.5 x\n"
    assert read(tmp_path, run) == {"q0": [("New Zealand", 0.5)], "q1": [("New\u00a0Zealand\u3000(atoll)", 0.5)]}
    spaced = read_rankings(written(tmp_path, "set%20A Q0 New%20Zealand 1 0.5 x\n"), ["set A"])
    assert spaced == {"set A": [("New%20Zealand", 0.5)]}
    ids = {"set A": ["New%20Zealand"]}
    assert check_coverage(tmp_path, ids, 1, {"New Zealand"}.__contains__)["candidates_in_index"] == 1


ASCENDING = [
    {"q0": {"retrieved_entries": ["a", "b"], "retrieval_similarities": [0.25, 0.5]}, "q1": {"retrieved_entries": []}},
    {"q0": [["a", 0.25], ["b", 0.5]]},
    {"q0": {"a": 0.25, "c": 0.25, "b": 0.5}, "q1": dict(zip("abcd", [0.25, 0.5, 0.75, 1], strict=True))},
    {"q0": {"ids": ["a", "b"], "D": [0.25, 0.5]}},
    "q0 Q0 a 1 0.25 x\nq0 Q0 b 2 0.5 x\n",
    "q0 Q0 b 2 0.5 x\nq0 Q0 a 1 0.25 x\n",
]


@pytest.mark.parametrize("content", ASCENDING)
def test_an_order_against_the_scores_stops_and_can_be_chosen(content: object, tmp_path: Path) -> None:
    message = r"first in the list is 'a' \(0.25\), the highest score has 'b' \(0.5\).*--step1-order list.*distances$"
    with pytest.raises(ValueError, match=message):
        read(tmp_path, content)
    orders = {order: read(tmp_path, content, order=order)["q0"] for order in ("scores", "distances", "list")}
    without_c = {order: [pair for pair in ranking if pair[0] != "c"] for order, ranking in orders.items()}
    assert without_c == {
        "scores": [("b", 0.5), ("a", 0.25)],
        "distances": [("a", -0.25), ("b", -0.5)],
        "list": [("a", None), ("b", None)],
    }


def test_one_list_in_a_file_may_contradict(tmp_path: Path) -> None:
    rows = {f"q{n}": [["a", 0.5], ["b", 0.25]] for n in range(9)} | {"q9": [["a", 0.5], ["b", 0.75], ["c", 0.7]]}
    with pytest.raises(ValueError, match=r"in 1 of 10 lists, such as that of 'q9'"):
        read_rankings(written(tmp_path, rows), list(rows))


def test_rounding_is_no_contradiction_and_equal_scores_say_nothing(tmp_path: Path) -> None:
    assert [id for id, _ in read(tmp_path, {"q0": [["a", 0.1], ["b", 0.10000000149]]})["q0"]] == ["b", "a"]
    assert read(tmp_path, {"q0": [["b", 0], ["a", 0]], "q1": [["z", 1]]}) == {
        "q0": [("b", None), ("a", None)],
        "q1": [("z", None)],
    }


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", '"nan"', '"inf"', "true", "null"])
@pytest.mark.parametrize(
    "form",
    [
        '{"q0": {"retrieved_entries": ["a", "b"], "retrieval_similarities": [0.5, NUMBER]}}',
        '{"q0": {"a": 0.5, "b": NUMBER}}',
        '{"q0": [{"id": "a", "score": 0.5}, {"id": "b", "score": NUMBER}]}',
        '{"q0": [["a", 0.5], ["b", NUMBER]]}',
        '{"q0": {"ids": ["a", "b"], "distances": [0.5, NUMBER]}}',
    ],
)
def test_numbers_are_finite(form: str, number: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="q0: expected"):
        read(tmp_path, form.replace("NUMBER", number))


@pytest.mark.parametrize("number", ["nan", "NaN", "inf", "-Infinity", "1e999"])
def test_numbers_of_a_run_are_finite(number: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"line 1: neither JSON .*a score must be a finite number, got"):
        read(tmp_path, f"q0 Q0 a 1 {number} x\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"q0": 5}, r"q0: expected .*\(found a number\)"),
        ({"q0": {"top": []}}, "q0: expected retrieved_entities or retrieved_entries"),
        ({"q0": {"retrieved_entries": ["a"], "retrieval_similarities": []}}, "and as many retrieval_similarities"),
        ({"q0": {"retrieved_entries": ["a"], "scores": [1], "distances": [1]}}, "found both scores and distances"),
        ({"q0": [["a", 1], "b"]}, "1 of 2 candidates have no score"),
        ({"E-VQA_0": {"retrieved_entries": []}}, "none of the questions, such as 'q0'; it has others, such as 'E-VQA"),
        ([{"hits": []}], "item 1: expected an object with the question's id"),
        ([{"id": "q0", "hits": []}, {"id": "q0", "hits": ["a"]}], "q0: occurs twice"),
        ("q0 Q0 a 1 0.5\n", "line 1: neither JSON nor a line `question Q0 entity rank score tag`"),
        ("", "none of the questions, such as 'q0'$"),
    ],
)
def test_bad_files_are_named(content: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, content)


def test_a_candidate_that_occurs_twice_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read(tmp_path, "q0 Q0 a 1 9 run\nq0 Q0 b 2 8 run\n")
    assert not caplog.text
    read(tmp_path, "q0 Q0 a 1 9 run\nq0 Q0 a 2 8 run\nq1 Q0 a 1 7 run\n")
    assert "1 of 2 lists, such as that of 'q0', have a candidate more than once; its best place counts" in caplog.text


def test_what_a_file_covers_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = {"q0": ["a", "b"], "q1": ["a", "z"], "q2": ["z"]}
    with caplog.at_level(logging.WARNING):
        counts = check_coverage(tmp_path / "run", found, 4, set("ab").__contains__, partial_flag="--some")
    # of five candidates, a, b and a; of four questions, q0 and q1
    assert list(counts.values()) == [5, 3, 4, 2]
    assert "2 candidates of 5 are not in the index, such as 'z'" in caplog.text
    assert "2 questions of 4 have no candidate in the index" in caplog.text


@pytest.mark.parametrize(
    ("found", "n_questions", "message"),
    [
        ({"q0": ["a", "y", "z"]}, 1, "2 candidates of 3 are not in the index.*accept.*--some"),
        ({"q0": ["a"]}, 3, "2 questions of 3 have no candidate in the index; name the questions"),
        ({"q0": ["z"]}, 1, "1 candidate of 1 are not in the index"),
    ],
)
def test_under_half_stops_unless_accepted(
    found: dict[str, list[str]], n_questions: int, message: str, tmp_path: Path
) -> None:
    known = set(string.ascii_lowercase[:3]).__contains__
    with pytest.raises(ValueError, match=message):
        check_coverage(tmp_path, found, n_questions, known, partial_flag="--some")
    assert check_coverage(tmp_path, found, n_questions, known)["questions"] == n_questions


@pytest.mark.parametrize("unasked", [0, 1, 3])
def test_lists_of_questions_that_are_not_asked_are_told(
    tmp_path: Path, unasked: int, caplog: pytest.LogCaptureFixture
) -> None:
    rows = {f"q{n}": ["a", "b"] for n in range(2 + unasked)}
    assert list(read(tmp_path, rows)) == ["q0", "q1"]
    told = f"{unasked} of {2 + unasked} lists, such as that of 'q2', are for questions that are not asked"
    assert (told in caplog.text) == bool(unasked)


def test_distances_without_ranks_are_told(tmp_path: Path) -> None:
    rows = [(question, n) for question in ("q0", "q1") for n in range(4)]
    lines = "".join(f"{question} Q0 e{n} 0 {n / 10} x\n" for question, n in rows)  # the nearest first
    with pytest.raises(ValueError, match="the order contradicts the scores: first in the list is 'e0'"):
        read(tmp_path, lines)
    assert [id for id, _ in read(tmp_path, lines, order="distances")["q0"]] == ["e0", "e1", "e2", "e3"]
    shuffled = "".join(f"q0 Q0 e{n} 0 {n / 10} x\n" for n in (2, 0, 3, 1))
    assert [id for id, _ in read(tmp_path, shuffled)["q0"]] == ["e3", "e2", "e1", "e0"]
