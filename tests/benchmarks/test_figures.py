"""The figures in the pages are those that `make figures` measures, and it writes nothing else."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import figure_tables, figures
from benchmarks.figures import BLOCK, PAGES, PARTS, Part, filled, main
from tests.paths import ROOT

RECALL = {"recall@1": 0.5, "recall@5": 0.75, "recall@10": 0.875, "recall@20": 1.0}
LATENCY = {"p50": 61.4, "p95": 90.0, "p99": 129.6}
NONE = dict.fromkeys(LATENCY)
LOAD = {"share_of_capacity": 0.97, "latency_ms": LATENCY, "refusal_ms": NONE, "client_cpu": 0.05}
STAGES = {"decode": 0.6, "queue": 1.25, "step1": 12.0, "step2": 9.5, "step3": 1.5, "generate": 8.0}
LOST = {"value": 0.876, "loss": 0.25, "p": 0.031}
RESULTS: dict[str, dict[str, Any]] = {
    "load": {
        "load": {
            "capacity_per_s": 41.5,
            "retrievals_per_s": 101.0,
            "batching_gain": 2.6,
            "single_ms": 48.0,
            "parts_ms": 46.5,
            "single_added_ms": 1.5,
            "plain_added_ms": 2.25,
            "stages_ms": dict.fromkeys(("alone", "full"), STAGES),
            "answers_per_s": {"service": 41.5, "unbatched": 16.0, "plain": 20.0},
            "loads": [{"factor": 2.0, "p99_against_0.8": 1.5, **LOAD, "refusal_ms": LATENCY}],
            "plain_at_2": {"answered_per_s": 15.0, **LOAD},
        }
    },
    "scale": {
        "scale": {
            "runs": {
                "10000": {
                    "sections": 45287,
                    "index_bytes": 94e6,
                    "build_s": {"all": 7.41},
                    "peak_rss_mb": {"all": 377},
                    "update_ms_p50": 3.0,
                    "found_ms_p50": 3.9,
                    "search": {
                        "ivf-pq": {"build_s": 2.6, "bytes": 11.1e6, "parameters": {"nprobe": 4}, "rescored": 10}
                    },
                    "search_ms_p50": {"ivf-pq": 0.14},
                    "recall@20_against_exact": {"ivf-pq": 0.9885},
                },
            }
        }
    },
    "demo": {
        "metrics": {
            "n_queries": 1434,
            "step1": RECALL,
            "step2": RECALL,
            "step3": {"section_recall@1": 0.9},
            "answer": {"accuracy": 0.25},
        }
    },
    "imagined": {
        "codecs": {"codecs": [{"codec": "bit1", "bytes_per_section": 512, "recall@1": LOST, "section_recall@1": LOST}]},
    },
    "training": {
        "train": {
            "samples_per_s": 4.16,
            "hours_191k": 13.5,
            "hours_191k_preparation": 0.75,
            "peak_rss_mb": 900,
        }
    },
    "first-use": {"ways": [{"way": "clone", "seconds": 167, "mb_to_load": 510, "mb_on_disk": 1746}]},
}
RESULTS["atlas"] = RESULTS["demo"]
RESULTS["imagined"]["metrics"] = {**RESULTS["demo"]["metrics"], "answer": {"accuracy": None}}
RECORDS = {
    name: {"commit": "0123abcd", "machine": "2 cores of a model", "results": found} for name, found in RESULTS.items()
}


PART_OF = {block: name for name, part in PARTS.items() for block in part.blocks}


def blocks() -> list[tuple[str, str]]:
    """Returns name and content of each block of the pages."""
    return [(block[2], block[3]) for page in PAGES for block in BLOCK.finditer((ROOT / page).read_text("utf-8"))]


def test_every_block_of_a_page_has_its_tables_and_the_other_way_round() -> None:
    assert {name for name, _ in blocks()} == set(PART_OF)
    assert len(PART_OF) == sum(len(part.blocks) for part in PARTS.values())
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert text.count("<!-- figures:") == text.count("<!-- /figures -->") == len(BLOCK.findall(text))


def test_commit_and_machine_stand_in_every_block() -> None:
    where = re.compile(r"\n\n`make figures ARGS=\"--only ([\w-]+)\"`, commit [0-9a-f]{8}, \d+ cores of .+\.\n$")
    sources = {name: where.search(content) for name, content in blocks()}
    assert {name: source and source[1] for name, source in sources.items()} == PART_OF


def test_what_a_part_depends_on_exists() -> None:
    assert [path for part in PARTS.values() for path in part.paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_filling_a_page_twice_changes_nothing(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    once = filled(text, RECORDS)
    assert filled(once, RECORDS) == once and filled(once, {}) == once
    assert BLOCK.sub(r"\1\4", once) == BLOCK.sub(r"\1\4", text)  # what was written by hand stays
    assert {content.rpartition("\n\n")[2].count("0123abcd") for _, _, content, _ in BLOCK.findall(once)} == {1}


def test_the_tables() -> None:
    tables = {
        block: getattr(figure_tables, function)(RESULTS[name])
        for name, part in PARTS.items()
        for block, function in part.blocks.items()
    }
    lines = {name: table.splitlines() for name, table in tables.items()}
    assert lines["service"][2] == "| capacity, answers per second (goal: at least 40) | 41.5 | 20.0 |"
    assert lines["service"][-1].endswith("reading (goal: at most 2) | 1.5 | 2.25 |")
    assert lines["service"][-2].endswith("| 48.0 | 48.75 |")
    assert lines["overload"][2:] == [
        "| 2.0 | 0.97 | 61, 130 | 1.5 | 61, 130 | 0.05 |",
        "| plain server at 2 | 0.75 | 61, 130 |  |  | 0.05 |",
    ]
    assert lines["search"][2:] == ["| 10,000 | `ivf-pq` | 0.14 | 0.9885 | 2.6 s | 11.1 MB | nprobe 4, rescored 10 |"]
    assert lines["builds"][2:] == ["| 10,000 | 45,287 | 94 MB | 7.4 s | 377 MB | 3.0, 3.9 ms |"]
    assert lines["codecs"][2:] == ["| `bit1` | 3,072 | 512 | 0.25 (p 0.031) | 0.25 (p 0.031) |"]
    assert lines["atlas"][0].startswith("| 1,434 questions | Recall@1 |")
    assert lines["atlas"][2:] == [
        "| step 1, by the image | 0.500 | 0.750 | 0.875 | 1.000 |",
        "| step 2, with the question | 0.500 | 0.750 | 0.875 | 1.000 |",
        "",
        "The right section is first for 0.900, and 0.250 of the answers are right.",
    ]
    assert lines["imagined"][-1] == "The right section is first for 0.900."
    assert lines["training"][2:] == ["| 4.16 | 13.5 | 0.75 | 900 |"]
    assert tables["first-use"].endswith("`make demo`: 167 seconds, 510 MB to download, 1,746 MB on disk.")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a page of two blocks, whose parts are a command that works and one that does not."""

    def shown(results: Mapping[str, Any]) -> str:
        return f"| {results['n']} |"

    works = Part(0.1, ('-c \'open(r"{out}/n.json", "w").write("7")\'',), {"n": "n.json"}, {"a": "shown"}, ("code",))
    fails = Part(0.1, ("-c 'raise SystemExit(3)'",), {"n": "n.json"}, {"b": "shown"}, ("other",))
    patched = {
        "ROOT": tmp_path,
        "FOLDER": tmp_path / "artifacts",
        "PAGES": ("page.md",),
        "PARTS": {"works": works, "fails": fails},
        "figure_tables": SimpleNamespace(shown=shown),
        "processor": lambda: "a model",
    }
    for name, value in patched.items():
        monkeypatch.setattr(figures, name, value)
    (tmp_path / ".gitignore").write_text("artifacts\n")
    for name in ("code", "other"):
        (tmp_path / name).write_text("1\n")
    (tmp_path / "page.md").write_text(
        "By hand.\n<!-- figures: a -->\n<!-- /figures -->\n<!-- figures: b -->\nold\n<!-- /figures -->\n"
    )
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path) -> str:
    """Commits everything; returns the commit."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "All")
    return git(folder, "rev-parse", "--short=8", "HEAD")


def test_a_part_that_fails_leaves_its_block(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = git(repository, "rev-parse", "--short=8", "HEAD")
    assert main([]) == 1
    text = (repository / "page.md").read_text()
    assert f'| 7 |\n\n`make figures ARGS="--only works"`, commit {at}, ' in text and " cores of a model.\n" in text
    assert text.startswith("By hand.\n") and text.endswith("<!-- figures: b -->\nold\n<!-- /figures -->\n")
    said = capsys.readouterr().err
    assert "1/2  works: about 0.1 minutes" in said and "exit status 3, see" in said and "as before: fails" in said
    assert main(["--only", "works"]) == main(["--recorded"]) == 0
    assert (repository / "page.md").read_text() == text
    (repository / "code").write_text("2\n")
    assert main(["--only", "works"]) == 0
    assert f"commit {at}-dirty, " in (repository / "page.md").read_text()


def test_a_block_is_stale_once_its_code_has_changed(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--only", "works"])
    commit(repository)
    capsys.readouterr()
    assert main(["--stale"]) == 1
    assert capsys.readouterr().out == "page.md: b: never measured\n"
    (repository / "other").write_text("2\n")
    commit(repository)
    assert main(["--stale"]) == 1
    assert "page.md: a" not in capsys.readouterr().out
    (repository / "code").write_text("2\n")
    assert main(["--stale"]) == 1
    assert "page.md: a: 1 file changed, 1 insertion(+), 1 deletion(-)\n" in capsys.readouterr().out
    page = repository / "page.md"
    page.write_text(re.sub(r"commit \w{8}", "commit 00000000", page.read_text()))
    main(["--stale"])
    assert "page.md: a: measured at a commit that is not in this repository" in capsys.readouterr().out
