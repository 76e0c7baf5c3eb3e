from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from evaluation.ablation import SectionChoice
from evaluation.datasets import find_query_image, forget_listings, load
from evaluation.records import RECORDS, read_records
from evaluation.tables.indexes import Components, QuestionSet
from evaluation.tables.make import MeasuredTable, make
from evaluation.tables.paper import cell, tables
from evaluation.tables.runs import TableRuns, refuse_tuned
from evaluation.tables.variants import (
    ArticleGenerator,
    BlindedEncoder,
    FirstTokenRerank,
    RecordedRetriever,
    clip_itc,
    qformer_itc,
)
from evaluation.tables.write import as_json, as_markdown, write
from generators.reader.reader import ExtractiveReader
from indexes.builder.plan import IndexDesign
from indexes.knowledge.knowledge_base import KnowledgeBase
from indexes.store.index import Index
from indexes.store.manifest import read_manifest
from omgm.__main__ import main
from retriever.models.bm25 import BM25
from retriever.models.hybrid import HybridReranker
from retriever.step1_search import EntitySearch
from retriever.texts import blip_caption
from retriever.types import Candidate, Evidence, Generation, GenerationRequest, Query, StoredTokens
from tests.fakes.knowledge_base import FLAGS, write_kb
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSections, FakeSummarizer
from tests.fakes.plans import build_index
from tests.fakes.question_files import evqa_row
from tests.fakes.records import record
from tests.fakes.rows import write_csv

WIKI = "https://e.example/wiki/"
BLIND = ("sees-T-T", "sees-T-IT")


def make_index(folder: Path, tokens: str = "float16") -> Index:
    kb, images = write_kb(folder)
    models: dict[str, Any] = {"encoder": FakeEncoder(), "fusion": FakeFusion(), "summarizer": FakeSummarizer()}
    return build_index(kb, images, folder / "index", tokens=tokens, **models)


def write_questions(folder: Path, name: str, wordings: list[str]) -> Path:
    """A question for every flag and wording about an area, answered by France's third published section."""
    (folder / "queries").mkdir(exist_ok=True)
    for country in FLAGS:
        with Image.open(folder / "images" / "flag" / f"{country}.png") as flag:
            flag.save(folder / "queries" / f"{country}.png")
    sections = {country: 2 if country == "France" else 0 for country in FLAGS}
    rows = (
        evqa_row(words, "643,801 km²", country, evidence_section_id=section, encyclopedic_vqa_split=name)
        for country, section in sections.items()
        for words in wordings
    )
    return write_csv(folder / f"{name}.csv", *rows)


def runs_of(
    folder: Path, questions: str = "test", out: str = "out", dataset: str = "evqa", tokens: str = "float16"
) -> TableRuns:
    components = Components(
        profile="colors",
        settings={"k": 20},
        encoder=FakeEncoder(),
        fusion=FakeFusion(),
        reranker=BM25(),
        summarizer=FakeSummarizer(),
        generator=ExtractiveReader(),
        k=20,
        alpha=0.9,
        beta=0.2,
        mode="cosine",
        design=IndexDesign(tokens=tokens, search="flat", image_weight=0.5, section_images=True),
    )
    given = QuestionSet(
        dataset=dataset,
        questions=load("evqa", folder / f"{questions}.csv"),
        query_images=folder / "queries",
        knowledge=KnowledgeBase(kb=folder / "kb.json", images=folder / "images"),
    )
    return TableRuns(components, given, folder / out)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    write_kb(folder)
    write_questions(folder, "test", ["How large is the area?"])
    write_questions(folder, "validation", ["How large is this country?"])
    return folder


def test_its_own_index_has_vectors_of_sections_that_step_3_compares(world: Path) -> None:
    runs, sections = runs_of(world, out="hybrid"), FakeSections()
    runs.components = replace(runs.components, reranker=HybridReranker(sections, 0.5), sections=sections)
    assert runs.main.manifest.inputs.columns["sections"] == sections.fingerprint and sections.encoded == 8
    runs.folder("full")
    runs.folder("search-title")  # an index for step 1 only
    assert sections.encoded == 8


def test_its_own_index_is_designed_as_the_profile_says(world: Path) -> None:
    inputs = runs_of(world).main.manifest.inputs
    assert (inputs.candidates, inputs.tokens, inputs.section_images) == ("summary", "float16", True)


def test_an_index_of_other_candidates_is_refused(world: Path, tmp_path: Path) -> None:
    runs = runs_of(world)
    runs.questions = replace(runs.questions, index=make_index(tmp_path).folder)
    assert len(runs.main)
    titles = runs_of(world)
    titles.questions = runs.questions
    titles.components = replace(titles.components, design=replace(titles.components.design, candidates="title"))
    with pytest.raises(
        ValueError, match=r"was built with search\.candidates = 'summary', but this profile has 'title'"
    ):
        _ = titles.main


def rows_of(table: MeasuredTable) -> dict[str, dict[str, float | None]]:
    return {name: dict(zip(b.columns, cells, strict=True)) for b in table.blocks for name, cells in b.rows}


def test_all_of_the_papers_tables_are_there() -> None:
    assert list(tables()) == [*map(str, range(2, 15)), "figure3", "figure4", "figure5"]
    for table in tables().values():
        known = {column for columns in table.columns.values() for column in columns}
        for block in table.paper:
            assert set(block.columns) <= known
            assert {len(cells) for _, cells in block.rows} == {len(block.columns)}
    published = {name: cells for name, cells in tables()["2"].paper[0].rows}
    assert published["OMGM w. reranking"] == (42.8, 55.7, 58.1, 58.7)
    assert published["Wiki-LLaVA"] == (3.3, None, 9.9, 13.2)


def test_a_cell_has_its_columns_unit() -> None:
    metrics = {"step1": {"recall@1": 0.25, "recall@5": None}, "latency_ms": {"retrieve_p50": 12.5}}
    assert cell(metrics, "R@1", "step1.recall@1") == 25.0
    assert cell(metrics, "Time [s]", "latency_ms.retrieve_p50") == 0.0125
    assert cell(metrics, "R@5", "step1.recall@5") is None
    assert cell(metrics, "R@1", "step2.recall@1") is None


def test_similarities_by_hand() -> None:
    query = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    firsts = torch.tensor([[0.6, 0.8], [1.0, 0.0]])
    assert clip_itc(query, firsts).tolist() == pytest.approx([0.6, 1.0])
    assert qformer_itc(query, firsts).tolist() == pytest.approx([0.8, 1.0])


@pytest.mark.parametrize("name", ["clip", "qformer"])
def test_first_tokens_rank_as_by_brute_force(tmp_path: Path, name: str) -> None:
    index, fusion = make_index(tmp_path), FakeFusion()
    query = Query(Image.new("RGB", (30, 20), "white"), "Which flag is green and white?")
    step = FirstTokenRerank(fusion, index, {"clip": clip_itc, "qformer": qformer_itc}[name])
    found = EntitySearch(FakeEncoder(), index, 20).start([query])([[]])
    [ranked] = step.start([query])(found)

    tokens = fusion.encode([query.image], [blip_caption(query.question)])[0].numpy().astype(np.float64)
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    expected: dict[int, list[float]] = {}
    for row in range(len(index)):
        span = index.section_rows(row)
        stored = index.tokens(np.arange(span.start, span.stop)).numpy().astype(np.float64)
        sims = np.einsum("nh,rh->nr", tokens, stored[:, 0]) if len(span) else np.zeros((len(tokens), 0))
        expected[row] = (sims[0] if name == "clip" else sims.max(axis=0)).tolist()
    for candidate in ranked:
        own = expected[candidate.row]
        assert candidate.sim_m == (pytest.approx(max(own), abs=1e-3) if own else None)
        assert len(candidate.sections) == len(index.entity(candidate.row).sections)
        assert [s.sim_m for s in candidate.sections if s.sim_m is not None] == pytest.approx(
            sorted(own, reverse=True), abs=1e-3
        )
    best = max(expected, key=lambda row: max(expected[row], default=-2.0))
    assert ranked[0].row == best


class ResidentIndex:
    """An index that returns its whole store on every call, like one in GPU memory."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.entity, self.section_rows, self.token_rows = index.entity, index.section_rows, index.token_rows
        self.stored = index.gather([range(index.manifest.counts.token_sections)])

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        return StoredTokens(self.stored.values, self.stored.scales, np.array([span.start for span in spans], np.int64))


def test_first_tokens_of_a_resident_store_are_those_of_the_candidates_alone(tmp_path: Path) -> None:
    index, fusion = make_index(tmp_path), FakeFusion()
    query = Query(Image.new("RGB", (30, 20), "white"), "Which flag is green and white?")
    sizes: list[int] = []

    def similarity(query: Tensor, firsts: Tensor) -> Tensor:
        sizes.append(len(firsts))
        return clip_itc(query, firsts)

    rows = [row for row in range(len(index)) if len(index.section_rows(row))][-2:]
    ranked = [
        FirstTokenRerank(fusion, store, similarity).start([query])([[Candidate(row) for row in rows]])  # type: ignore[arg-type]
        for store in (index, ResidentIndex(index))
    ]
    wanted = sum(len(index.section_rows(row)) for row in rows)
    assert wanted < index.manifest.counts.token_sections
    assert sizes == [wanted, wanted]
    assert ranked[0] == ranked[1]


@pytest.mark.parametrize("tokens", ["float16", "int8", "int4", "bit1"])
def test_first_tokens_are_compared_as_they_are_stored(tmp_path: Path, tokens: str) -> None:
    index, fusion = make_index(tmp_path, tokens), FakeFusion()
    query = Query(Image.new("RGB", (30, 20), "white"), "Which flag is green and white?")
    row = next(row for row in range(len(index)) if len(index.section_rows(row)))
    [[candidate]] = FirstTokenRerank(fusion, index, clip_itc).start([query])([[Candidate(row)]])
    asked = torch.nn.functional.normalize(fusion.encode([query.image], ["which flag is green and white?"]), dim=-1)[0]
    expected = clip_itc(asked, index.tokens(np.array(index.section_rows(row)))[:, 0])
    assert candidate.sim_m == pytest.approx(float(expected.max()), abs=1e-3)


def test_a_blinded_encoder_does_not_see_its_other_input() -> None:
    fusion = FakeFusion()
    red, blue = (Image.new("RGB", (8, 8), color) for color in ("red", "blue"))
    no_image, no_text = BlindedEncoder(fusion, image=False), BlindedEncoder(fusion, text=False)
    assert torch.equal(no_image.encode([red], ["a"]), no_image.encode([blue], ["a"]))
    assert not torch.equal(no_image.encode([red], ["a"]), no_image.encode([red], ["b"]))
    assert torch.equal(no_text.encode_sections([red], [["a"]]), no_text.encode_sections([red], [["b"]]))
    assert not torch.equal(no_text.encode([red], ["a"]), no_text.encode([blue], ["a"]))
    assert len({fusion.fingerprint, no_image.fingerprint, no_text.fingerprint}) == 3
    assert no_text.token_shape == fusion.token_shape


def test_a_replay_reads_what_was_chosen(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    choices: dict[str, SectionChoice] = {"a": (WIKI + "France", 2), "b": (None, None)}
    replay = RecordedRetriever(index, [record("a"), record("b")], lambda one: choices[one.id])
    image = Image.new("RGB", (8, 8))
    [first, second] = replay.retrieve([Query(image, "?", "a"), Query(image, "?", "b")])
    entity = index.entity(first.candidates[0].row)
    assert entity.sections[first.candidates[0].sections[0].position].title == "Area"
    assert second.candidates == []


def test_a_generator_reads_whole_articles(tmp_path: Path) -> None:
    index = make_index(tmp_path)

    class EchoedEvidence:
        name = "echo"

        async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
            return [Generation(None if r.evidence is None else r.evidence.text) for r in requests]

        def stream(self, request: GenerationRequest) -> Any:
            raise AssertionError

    lead = Evidence(WIKI + "Plain", "Plain", "Plain", "All yellow.")
    requests = [GenerationRequest("?", None, lead), GenerationRequest("?", None, None)]
    coroutine = ArticleGenerator(EchoedEvidence(), index).generate(requests)
    with pytest.raises(StopIteration) as finished:
        coroutine.send(None)
    assert [answer.answer for answer in finished.value.value] == ["Plain\nAll yellow.\n\nUse\nNone.", None]


@pytest.mark.slow
def test_tables_of_a_small_world(world: Path) -> None:
    runs = runs_of(world)
    # a flag's summary names its colors; "All yellow" is Plain's, so step 1 finds all three
    table2 = make(tables()["2"], runs, {})
    assert rows_of(table2)["OMGM w/o reranking"]["R@1"] == 100.0
    table4 = rows_of(make(tables()["4"], runs, {}))
    assert table4["no step"] == {"Answers": 0.0}  # an extractive reader without evidence
    assert table4["step 1"]["Answers"] == pytest.approx(100 / 3)  # only France's article has the area
    sees = rows_of(make(tables()["6"], runs, {}))
    assert sees["T → T"].keys() == {"Sec. R@1", "R@1", "R@5", "R@10"} and len(sees) == 5
    # three images, one wording: without the image step 2 cannot tell the queries apart
    best = {run: {one.rankings["step2"][0][0] for one in read_records(runs.folder(run) / RECORDS)} for run in BLIND}
    assert {run: len(entities) for run, entities in best.items()} == {"sees-T-T": 1, "sees-T-IT": 1}
    assert set(rows_of(make(tables()["5"], runs, {}))) == {
        f"image → {c}" for c in ("article", "image", "title", "summary")
    }
    times = rows_of(make(tables()["7"], runs, {}))
    assert all((row["Time [s]"] or 0) > 0 for row in times.values()) and len(times) == 4
    assert len(rows_of(make(tables()["11"], runs, {}))) == 4
    beta = rows_of(make(tables()["figure5"], runs, {}))
    assert len(beta) == 11
    assert beta["0.2"]["Answers"] == rows_of(make(tables()["3"], runs, {}))["OMGM, extractive-reader"]["Answers"]

    path = write(table2, world / "out")
    assert path.read_text(encoding="utf-8") == as_markdown(table2)
    assert "| OMGM w. reranking | 42.8 | 55.7 | 58.1 | 58.7 |" in as_markdown(table2)
    assert json.loads(path.with_suffix(".json").read_text(encoding="utf-8")) == as_json(table2)
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_first_tokens_are_compared_where_no_token_is_merged(world: Path) -> None:
    pooled = runs_of(world, out="pooled", tokens="pool4+int4")
    ours, exact = (runs.metrics("compares-clip") for runs in (pooled, runs_of(world, out="exact")))
    assert pooled.main.manifest.inputs.tokens == "pool4+int4"
    assert read_manifest(world / "pooled" / "indexes" / "summary-IT-float16").inputs.tokens == "float16"
    assert ours["step2"] == exact["step2"]


def test_a_finished_run_is_not_made_again(world: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in [runs_of(world).folder("full") / "metrics.json"]}
    assert {path: (runs_of(world).folder("full") / "metrics.json").stat().st_mtime_ns for path in before} == before
    other = runs_of(world, "validation").folder("full")
    assert other.parent not in {path.parent.parent for path in before}


def test_runs_belong_to_the_content_of_their_inputs(world: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(world, tmp_path / "copy", ignore=shutil.ignore_patterns("out*", "hybrid", "pooled")))
    shutil.copytree(world / "out", copy / "out")
    before = runs_of(world).folder("search-summary")
    assert runs_of(copy).folder("search-summary").relative_to(copy) == before.relative_to(world)
    other = runs_of(copy)
    other.components = replace(other.components, used=lambda index: {"sections.model": "2d"})
    folders = {before.parent.name, other.folder("search-summary").parent.name}
    photo = next(path for path in sorted((copy / "queries").iterdir()) if path.suffix == ".png")
    Image.new("RGB", (40, 30), "white").save(photo)
    assert len({*folders, runs_of(copy).folder("search-summary").parent.name}) == 3


def test_what_cannot_be_measured_says_why(world: Path) -> None:
    nothing = make(tables()["3"], None, {})
    assert nothing.blocks == () and "no questions were given" in nothing.notes[0]
    assert "**The paper: E-VQA test**" in as_markdown(nothing)
    other = make(tables()["12"], runs_of(world), {})
    assert other.blocks == () and "infoseek, these are of evqa" in other.notes[0]
    write(nothing, world / "nothing")  # a chart with only the paper's figures


def test_tables_of_other_indexes_need_the_knowledge_base(world: Path) -> None:
    runs_of(world).folder("full")
    index = world / "out" / "indexes" / "summary-IT"
    for dataset, names, lacking in (
        ("evqa", ["2", "5", "6", "11"], {"5", "6"}),
        ("infoseek", ["13", "14"], {"13", "14"}),
    ):
        with_kb = runs_of(world, dataset=dataset)
        without = replace(with_kb.questions, knowledge=None, index=index)
        runs = TableRuns(with_kb.components, without, world / "no-kb")
        made = {name: make(tables()[name], runs, {}) for name in names}
        assert {name for name, table in made.items() if not table.blocks} == lacking
        assert all("needs indexes other" in made[name].notes[0] and "(--kb)" in made[name].notes[0] for name in lacking)


def test_unmerged_tokens_need_the_knowledge_base(world: Path) -> None:
    pooled = runs_of(world, out="pooled", tokens="pool4+int4")
    assert pooled.main.manifest.inputs.tokens == "pool4+int4"
    index = world / "pooled" / "indexes" / "summary-IT"
    runs = TableRuns(pooled.components, replace(pooled.questions, knowledge=None, index=index), world / "no-kb")
    table = make(tables()["11"], runs, {})
    assert table.blocks == () and "needs indexes other" in table.notes[0]


def test_runs_that_are_given_make_rows(world: Path) -> None:
    full = runs_of(world).folder("full")
    made = make(tables()["2"], None, {"mine": full})
    assert list(rows_of(made)) == ["mine w/o reranking", "mine w. reranking"]
    assert "evqa, 3 questions, profile colors, run mine" in as_markdown(made)
    assert "mine is left out" in " ".join(make(tables()["8"], None, {"mine": full}).notes)
    with pytest.raises(ValueError, match="not a finished run"):
        make(tables()["2"], None, {"none": world})


def test_no_figures_on_the_split_that_was_tuned_on(world: Path) -> None:
    tuned, test = runs_of(world, "validation").folder("full"), runs_of(world)
    refuse_tuned(tuned, test.questions)
    with pytest.raises(ValueError, match=r"3 of 3 questions.*tuning run"):
        refuse_tuned(test.folder("full"), test.questions)
    renamed = [replace(question, image_id=f"renamed_{question.image_id}") for question in test.questions.questions]
    for question in test.questions.questions:
        photo = Image.open(find_query_image(test.questions.query_images, question.image_id) or "")
        photo.resize((90, 90)).save(test.questions.query_images / f"renamed_{question.image_id}.png")
    forget_listings()
    with pytest.raises(ValueError, match=r"3 of 3 questions.*tuning run"):
        refuse_tuned(test.folder("full"), replace(test.questions, questions=renamed))
    with pytest.raises(ValueError, match="--tuned-on"):
        refuse_tuned(world, test.questions)
    with pytest.raises(ValueError, match="share 3 queries"):
        make(tables()["figure3"], test, {}, test.folder("full"))
    held_out = make(tables()["figure3"], test, {}, tuned)
    assert "(tuning split)" in held_out.blocks[0].on and "Reported on evqa, 3 questions" in held_out.notes[0]
    assert held_out.notes[0].endswith("100.0 percent of these queries have an image of the tuning split.")
    assert "is a choice, not a result" in make(tables()["figure4"], test, {}).notes[0]


def test_the_command_without_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tables", "4", "10", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        f"table{n}.{e}" for n in (4, 10) for e in ("md", "json", "png")
    }
    assert "Not measured" in capsys.readouterr().out
    (tmp_path / "q.csv").write_text("")
    assert main(["tables", "4", "--queries", str(tmp_path / "q.csv"), "--out", str(tmp_path)]) == 2
    assert "--queries needs --query-images" in capsys.readouterr().err
