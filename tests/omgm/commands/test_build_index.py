from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from indexes.image_copies import content_names
from omgm import parts
from omgm.__main__ import main
from omgm.indexing import Build
from omgm.parts import build_summarizer
from omgm.settings import Profile
from retriever.images import FORMATS
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.knowledge_base import write_kb
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.rows import write_jsonl
from tests.fakes.scripted_server import ScriptedServer
from tests.kept import own_cache
from tests.paths import contents
from training.config import TrainingConfig
from training.questions import is_held_out


@pytest.fixture(autouse=True)
def fake_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "build_encoder", lambda profile: FakeEncoder())
    monkeypatch.setattr(parts, "build_fusion", lambda profile: FakeFusion())
    monkeypatch.setattr(parts, "build_summarizer", lambda profile: FakeSummarizer())


def build(kb: Path, images: Path, out: Path, *more: str) -> int:
    return main(["build-index", "--kb", str(kb), "--images", str(images), "--out", str(out), *more])


def test_unusable_images_are_counted_with_their_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kb, images = write_kb(tmp_path)
    out = tmp_path / "index"
    expected = (
        f"{out}: 7 entities, 4 with an image, 8 sections, 5 with tokens\n"
        "entity index: flat (SQfp16), recall@20 1.0000 on 7 mixtures of two stored vectors\n"
        "kept 95.1 % of 41 words; left out: sections titled References 2 words in 1 place, "
        "e.g. entry 1 ('https://e.example/wiki/France'): [1]\n"
        "1 image missing, the first of https://e.example/wiki/Lost: "
        "1 x no file at any suffix of its path; "
        "omgm kb images downloads those on the web\n"
        "1 image unreadable, the first of https://e.example/wiki/Broken: "
        f"1 x not an image of a known format ({', '.join(FORMATS)})\n"
        "1 main image shared by 2 entities, which no photograph can tell apart; the most common, with 2 entities: "
        "https://e.example/images/flag/Plain.png\n"
        "2 main images of only one color, such as https://e.example/images/flag/Plain.png of "
        "https://e.example/wiki/Empty: nothing to recognize\n"
        f"each with its reason: {out / 'report.json'} and image_problems.jsonl\n"
    )
    for _ in range(2):  # the second time, there is nothing to build
        assert build(kb, images, out) == 0
        assert capsys.readouterr().out == expected
    assert build(kb, images, out, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["images_missing"], report["images_unreadable"], report["counts"]["with_image"]) == (1, 1, 4)
    assert report["search"]["kind"] == "flat" and report["search"]["recall"] == 1


def test_the_profile_says_which_entity_index_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kb, images = write_kb(tmp_path)
    assert build(kb, images, tmp_path / "index", "--set", "search.kind=hnsw") == 2
    assert "search.kind = 'hnsw' needs at least 1000 searchable entities, got 7" in capsys.readouterr().err
    assert not (tmp_path / "index").exists()
    monkeypatch.setattr("indexes.store.search_kinds.AT_LEAST", 1)
    assert build(kb, images, tmp_path / "index", "--set", "search.kind=sq8") == 0
    assert "entity index: sq8 (SQ8), 2 candidates rescored per result, recall@20 1.0000" in capsys.readouterr().out


def test_images_that_can_be_used_have_no_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kb, images = write_kb(tmp_path)
    for name in ("Lost", "Broken"):
        (images / "flag" / f"{name}.png").write_bytes((images / "flag" / "Plain.png").read_bytes())
    assert build(kb, images, tmp_path / "index") == 0
    assert capsys.readouterr().out == (
        f"{tmp_path / 'index'}: 7 entities, 6 with an image, 8 sections, 7 with tokens\n"
        "entity index: flat (SQfp16), recall@20 1.0000 on 7 mixtures of two stored vectors\n"
        "kept 95.1 % of 41 words; left out: sections titled References 2 words in 1 place, "
        "e.g. entry 1 ('https://e.example/wiki/France'): [1]\n"
        "1 main image shared by 4 entities, which no photograph can tell apart; the most common, with 4 entities: "
        "https://e.example/images/flag/Plain.png\n"
        "4 main images of only one color, such as https://e.example/images/flag/Plain.png of "
        "https://e.example/wiki/Empty: nothing to recognize\n"
    )


def test_a_knowledge_base_without_entities_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kb.json").write_text("[]")
    assert build(tmp_path / "kb.json", tmp_path, tmp_path / "index") == 2
    assert "kb.json: contains no entities; check the file and --kb-format" in capsys.readouterr().err


def test_the_profile_says_which_sections_are_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kb, images = write_kb(tmp_path)
    assert build(kb, images, tmp_path / "index", "--set", 'index.drop_sections=["area", "Use*"]') == 0
    assert "7 entities, 4 with an image, 7 sections" in capsys.readouterr().out


def test_a_dry_run_says_what_it_would_take_and_builds_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kb, images = write_kb(tmp_path)
    out = tmp_path / "index"
    assert build(kb, images, out, "--dry-run") == 0
    printed = capsys.readouterr().out
    for line in (
        "7 entities, 8 sections, about 4 with an image; measured on 7 entities",
        "entity index: flat",
        "time: about ",
        "nothing was built",
    ):
        assert line in printed
    assert "requests" not in printed and not out.exists()
    assert build(kb, images, out, "--dry-run", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["entities"], report["sections"], report["requests"], report["search"]) == (7, 8, 0, "flat")
    # of the embedded profile, bit1: 32 tokens of 8 values in one bit each, for 5 sections and 4 main images
    assert report["bytes"]["tokens"] == (5 + 4) * 32 * 1


def test_bad_entries_are_counted_listed_and_limited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.dumps({"key": number, "name": f"Fox {number}", "text": "Red."}) for number in range(3)]
    kb, out = tmp_path / "kb.jsonl", tmp_path / "index"
    arguments = ("--map", "id=key", "--map", "title=name")
    kb.write_text("\n".join([*rows, *["{broken"] * 6, ""]))
    assert build(kb, tmp_path, out, *arguments) == 2
    assert "6 of 9 entries cannot be used, more than 1 %" in capsys.readouterr().err
    kb.write_text("\n".join([*rows, "{broken", ""]))
    assert build(kb, tmp_path, out, *arguments, "--strict") == 2
    assert f"{kb}: line 4: Expecting" in capsys.readouterr().err
    assert not out.exists()
    assert build(kb, tmp_path, out, *arguments, "--max-bad", "0.25") == 0
    shown = capsys.readouterr().out
    assert "1 of 4 entries skipped (25 %), the first: line 4: Expecting" in shown and "report.json" in shown
    report = json.loads((out / "report.json").read_text())["skipped"]
    assert (report["count"], report["of"], report["entries"][0]["place"]) == (1, 4, "line 4")
    assert build(kb, tmp_path, out, *arguments, "--max-bad", "0.25", "--json") == 0
    assert json.loads(capsys.readouterr().out)["entries_skipped"] == 1
    assert build(kb, tmp_path, out, "--map", "id=key", "--map", "title=text", "--max-bad", "0.25") == 2
    assert "other inputs" in capsys.readouterr().err


def test_a_cluster_needs_its_extra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kb, images = write_kb(tmp_path)
    monkeypatch.delitem(sys.modules, "indexes.builder.cluster", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert build(kb, images, tmp_path / "index", "--cluster", "auto") == 2
    assert 'error: --cluster needs the extra ray: pip install "omgm[ray]"' in capsys.readouterr().err
    assert not (tmp_path / "index").exists()


@pytest.mark.slow
def test_a_rebuild_asks_the_chat_model_only_for_what_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "build_summarizer", build_summarizer)
    kb, images = write_kb(tmp_path)
    own_cache(tmp_path / "caches", monkeypatch)
    articles = json.loads(kb.read_text())
    with FakeChatServer() as server:
        options = [f"summarizer.{key}" for key in ("kind=openai", f"base_url={server.url}", "model=counting")]
        chosen = [word for option in options for word in ("--set", option)]
        counts = []
        for number in range(3):
            if number == 2:
                next(iter(articles.values()))["section_texts"][0] += " Edited."
                kb.write_text(json.dumps(articles))
            assert build(kb, images, tmp_path / f"index-{number}", *chosen, "--json") == 0
            counts.append(json.loads(capsys.readouterr().out)["summaries"])
        assert build(kb, images, tmp_path / "index-3", *chosen, "--set", "summarizer.cache=none") == 0
    total = 7
    good = {"cut": 0, "unanswered": 0}
    assert counts[0] == good | {"requests": total, "cached": 0, "tokens_in": 120 * total, "tokens_out": 7 * total}
    assert counts[1] == good | {"requests": 0, "cached": total, "tokens_in": 0, "tokens_out": 0}
    assert counts[2] == good | {"requests": 1, "cached": total - 1, "tokens_in": 120, "tokens_out": 7}
    assert "summaries: 7 requests, 840 tokens in and 49 out; 0 were in the cache" in capsys.readouterr().out
    assert (tmp_path / "caches" / "omgm" / "summaries.sqlite").is_file()
    same = [(tmp_path / f"index-{number}" / "manifest.json").read_bytes() for number in (0, 1)]
    assert same[0] == same[1]


def test_labeled_images_that_the_training_of_the_encoder_held_out_are_no_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kb, images = write_kb(tmp_path)
    names, rng = [f"{number}.png" for number in range(60)], random.Random(0)
    (tmp_path / "photos").mkdir()
    for number in range(0, 60, 2):  # each is there twice, under two names
        image = Image.frombytes("RGB", (4, 4), rng.randbytes(48)).resize((40, 40))
        image.save(tmp_path / "photos" / names[number])
        image.resize((60, 60)).save(tmp_path / "photos" / names[number + 1])
    rows = [
        {"id": n, "image": n, "question": "?", "answers": ["a"], "entity": "https://e.example/wiki/Lost"} for n in names
    ]
    write_jsonl(tmp_path / "questions.jsonl", *rows)
    trained = tmp_path / "trained"
    for part, seed in (("encoder", 7), ("fusion", 8)):
        (trained / part).mkdir(parents=True)
        (trained / part / "training.json").write_text(json.dumps({"settings": {"seed": seed}}))
    keys: list[set[str]] = []

    def estimate(profile: Profile, order: Build) -> None:
        keys.append({image.image_id for image in order.labeled})
        raise ValueError("that is all")

    monkeypatch.setattr("omgm.indexing.estimate", estimate)
    encoder, fusion = (["--set", f"{part}.model={trained / part}"] for part in ("encoder", "fusion"))
    labeled = ["--dataset", "plain", "--queries", str(tmp_path / "questions.jsonl"), "--query-images"]
    for models in ([], encoder, [*encoder, *fusion], [*encoder, "--seed", "9"]):
        build(kb, images, tmp_path / "index", *labeled, str(tmp_path / "photos"), "--dry-run", *models)
    share = TrainingConfig().validation_share
    named = content_names({name: tmp_path / "photos" / name for name in names})
    assert all(named[one] == named[other] for one, other in zip(names[::2], names[1::2], strict=True))
    assert len({*named.values()}) == 30
    assert keys == [{name for name in names if not is_held_out(named[name], share, seed)} for seed in (0, 7, 8, 9)]
    assert len({frozenset(left) for left in keys}) == 4  # the seeds hold out different images

    caplog.clear()
    for candidates in ("combined", "summary"):
        given = [*labeled, str(tmp_path / "photos"), "--dry-run", "--set", f"search.candidates={candidates}"]
        build(kb, images, tmp_path / "index", *given)
    [warning] = [record.getMessage() for record in caplog.records if "--queries" in record.getMessage()]
    assert warning.startswith("--queries has no effect: step 1 searches each entity's summary alone")

    (trained / "encoder" / "training.json").write_text("{}")
    assert build(kb, images, tmp_path / "index", *labeled, str(tmp_path / "photos"), "--dry-run", *encoder) == 2


class ReportingServer(ScriptedServer):
    """Writes the same summary for everything, and reports what `reports` has of its model."""

    reports: dict[str, Any] = {}  # noqa: RUF012  set by the test

    async def models(self) -> dict[str, Any]:
        return {"data": [{"id": "another"}, {"id": "scripted", "created": len(self.bodies), **self.reports}]}


def test_a_finished_index_knows_the_model_that_summarized_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(parts, "build_summarizer", build_summarizer)
    kb, images = write_kb(tmp_path)
    chat = ["summarizer.kind=openai", "summarizer.model=scripted", "summarizer.cache=none"]
    with ReportingServer(["A summary."]) as server:
        server.reports = {"root": "/models/a", "meta": {"size": 1}}

        def again(*more: str, url: str = server.url) -> tuple[int, str]:
            given = [f"--set={one}" for one in (*chat, f"summarizer.base_url={url}", *more)]
            capsys.readouterr()
            return build(kb, images, tmp_path / "index", *given), capsys.readouterr().err

        assert again()[0] == 0
        asked = len(server.bodies)
        assert asked == 7 and again()[0] == 0 and len(server.bodies) == asked
        before = contents(tmp_path / "index")
        for reports in ({"root": "/models/b", "meta": {"size": 1}}, {"root": "/models/a", "meta": {"size": 2}}):
            server.reports = reports
            status, error = again()
            assert status == 2 and "what the summarizer's server says of its model: other content" in error
        server.reports = {"root": "/models/a", "meta": {"size": 1}}
        status, error = again("summarizer.max_tokens=99")
        assert status == 2
        assert 'settings was "at most 256 tokens from 6144" and is now "at most 99 tokens from 6144"' in error
        assert contents(tmp_path / "index") == before and len(server.bodies) == asked
        unreachable = again(url="http://127.0.0.1:9/v1")
    assert unreachable[0] == 0 and "whether it still serves the same model is not compared" in caplog.text
