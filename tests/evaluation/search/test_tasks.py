"""Readers of MMSearch, MMSearch-Plus and Dyn-VQA in their published formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.datasets.question import RowImages
from evaluation.search.mmsearch import subset
from evaluation.search.steps import read_rerank, read_summarization
from evaluation.search.tasks import read_tasks
from tests.fakes.question_files import DYNVQA
from tests.fakes.rows import write_jsonl
from tests.fakes.search_sets import jpeg, mmsearch_rows, plus_rows, write_mmsearch, write_parquet


def test_rows_of_mmsearch_become_tasks(tmp_path: Path) -> None:
    folder = write_mmsearch(tmp_path / "mmsearch", [jpeg("red"), None], ["Niamey", "2024-08-01"])
    first, second = read_tasks("mmsearch", folder, None)(True)
    assert (first.question.id, first.question.question) == ("s0", "Question 0?")
    assert first.question.answers == ("Niamey", "Niamey city")
    assert first.images == RowImages((jpeg("red"),)) and second.images == RowImages()
    assert first.requery == "capital 0" and first.groups == {"area": "knowledge", "subfield": "Sports"}
    [file, _] = read_tasks("mmsearch", folder / "end2end.parquet", None)(False)
    assert file.question == first.question and file.images == RowImages()


def test_mmsearch_as_json_lines(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/demo.png").write_bytes(jpeg("red"))
    rows = [
        {"sample_id": "a", "query": "When?", "query_image": "demo/demo.png", "gt_answer": "2024", "area": "news"},
        {"sample_id": "b", "query": "Who?", "query_image": "https://host/none.png", "gt_answer": "x"},
    ]
    path = write_jsonl(tmp_path / "end2end.jsonl", *rows)
    first, second = read_tasks("mmsearch", path, None)(True)
    assert first.images == RowImages((tmp_path / "demo/demo.png",))
    assert second.images == RowImages((), ("https://host/none.png",))


def test_single_steps_of_mmsearch(tmp_path: Path) -> None:
    folder = write_mmsearch(tmp_path, [jpeg("red")], ["Niamey"])
    assert subset(folder, "rerank") == folder / "rerank.parquet"
    [rerank] = read_rerank(folder / "rerank.parquet")
    assert [site.title for site in rerank.websites] == [f"title {n}" for n in range(8)]
    assert rerank.websites[3].snippet == "snippet 3" and rerank.websites[3].screenshot.found == (jpeg("white"),)
    assert (rerank.valid, rerank.unsure) == ((1,), (2, 3))
    assert rerank.images.found == (jpeg("red"),) and rerank.image_search.found == (jpeg("gray"),)
    [summarization] = read_summarization(folder / "summarization.parquet")
    [site] = summarization.websites
    assert (site.title, site.snippet, site.text) == ("t", "s", "content of the page")
    assert summarization.question.answers == ("Niamey", "Niamey city")


@pytest.mark.parametrize("canary", ["", "MMSearch-Plus"])
def test_mmsearch_plus(tmp_path: Path, canary: str) -> None:
    rows = plus_rows([jpeg("red"), jpeg("blue")], ["Sochi", "3.7 überall"], canary)
    write_parquet(tmp_path / "train-00000.parquet", rows)
    first, second = read_tasks("mmsearch-plus", tmp_path, None, canary=canary)(True)
    assert first.question.question == "Question 0?" and first.question.answers == ("Sochi",)
    assert first.images.found == (jpeg("red"), jpeg("gray")) and second.images.found == (jpeg("blue"),)
    assert second.question.answers == ("3.7 überall",) and second.groups is not None
    assert second.groups["difficulty"] == "easy"


def test_a_wrong_canary_is_told(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", plus_rows([jpeg("red")], ["Sochi"], "MMSearch-Plus"))
    with pytest.raises(ValueError, match="row 1: cannot decrypt this text with --canary"):
        list(read_tasks("mmsearch-plus", tmp_path, None, canary="another")(False))


def test_rows_of_dynvqa_become_tasks(tmp_path: Path) -> None:
    (tmp_path / "image_336.jpeg").write_bytes(jpeg("red"))
    path = write_jsonl(
        tmp_path / "q.jsonl", DYNVQA | {"golden_query": "Of Slovenia?", "image_url": "https://h/image_336.jpeg"}
    )
    [task] = read_tasks("dynvqa", path, tmp_path)(True)
    assert task.images == RowImages((tmp_path / "image_336.jpeg",))
    assert task.question.golden_query == "Of Slovenia?"
    nothing = write_jsonl(tmp_path / "r.jsonl", {**DYNVQA, "golden_query": float("nan")})
    assert [task.question.golden_query for task in read_tasks("dynvqa", nothing, tmp_path)(False)] == [""]


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    first, second, _ = mmsearch_rows([None], ["x"])
    path = write_jsonl(tmp_path / "end2end.jsonl", first[0] | {"gt_answer": None, "alternative_gt_answers": None})
    with pytest.raises(ValueError, match=r"end2end\.jsonl: line 1: field gt_answer must be"):
        list(read_tasks("mmsearch", path, None)(False))
    plain = {key: value for key, value in second[0].items() if "screenshot" not in key}
    path = write_jsonl(tmp_path / "rerank.jsonl", plain | {"valid": [8]})
    with pytest.raises(ValueError, match="field valid must be a list of positions from 0 to 7"):
        list(read_rerank(path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"holds neither end2end\.parquet"):
        read_tasks("mmsearch", tmp_path / "empty", None)
    with pytest.raises(ValueError, match=r"the folder has no \.parquet files"):
        list(read_tasks("mmsearch-plus", tmp_path / "empty", None)(False))
    (tmp_path / "end2end.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(ValueError, match=r"end2end\.parquet: after row 0: damaged, or not a Parquet file"):
        list(read_tasks("mmsearch", tmp_path / "end2end.parquet", None)(False))
    with pytest.raises(ValueError, match="--query-images is needed: dynvqa names its images"):
        read_tasks("dynvqa", path, None)
