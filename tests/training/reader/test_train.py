"""Training on made-up articles: it learns, is reproducible, and NumPy computes the same as PyTorch."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from generators.reader.features import candidates
from generators.reader.model import SpanModel
from generators.reader.question import analyze
from generators.reader.reader import ExtractiveReader
from generators.reader.tokens import stems_of, tokenize_text
from retriever.types import Evidence
from training.reader.confidence import trials
from training.reader.examples import examples, joined
from training.reader.network import Network
from training.reader.questions import SpanAnswer, SpanQuestion
from training.reader.train import main, pointing, train
from training.reader.weights import model_of, numbers_of, save

NAMES = ["Ada", "Bo", "Cora", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jo", "Kim", "Lou", "Mia", "Ned", "Ola", "Pia"]


def passage(i: int) -> str:
    name, year = NAMES[i], 1800 + 7 * i
    return f"The tower was built in {year} by {name} Stone. It has {i + 3} bells. It stands near the river."


def asked(i: int) -> list[SpanQuestion]:
    answers = {"Who built the tower?": f"{NAMES[i]} Stone", "When was it built?": str(1800 + 7 * i)}
    found = [(question, (SpanAnswer(answer, passage(i).index(answer)),)) for question, answer in answers.items()]
    return [SpanQuestion(q, passage(i), f"Tower {i}", a) for q, a in [*found, ("Who painted the ceiling?", ())]]


def test_it_learns_and_the_same_seed_gives_the_same_weights() -> None:
    questions = [question for i in range(len(NAMES)) for question in asked(i)]
    numbers = numbers_of(questions)
    data = list(examples(questions, numbers))
    network = train(data[:36], numbers, seed=0, epochs=240)
    model = model_of([network], numbers)
    quality = [trial.f1 for trial in trials(model, [question for question in questions[36:] if question.answers])]
    assert len(quality) == 8 and np.mean(quality) > 0.8
    first, second = (train(data[:36], numbers, seed=1, epochs=1).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    words = [word for word in numbers.rarity if word]
    assert len(words) > 10 and words == sorted(words)  # in any process


def test_the_command_writes_weights_that_the_reader_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = []
    for i in range(len(NAMES)):
        rows = [
            {"question": q, "answers": [{"text": text, "answer_start": start} for text, start in answers]}
            for q, _, _, answers in asked(i)
        ]
        data.append({"title": f"Tower {i}", "paragraphs": [{"context": passage(i), "qas": rows}]})
    source, out = tmp_path / "squad.json", tmp_path / "weights.safetensors"
    source.write_text(json.dumps({"data": data}))
    command = ["train", "--squad", str(source), "--out", str(out), "--networks", "1", "--epochs", "1"]
    monkeypatch.setattr(sys, "argv", command)
    main()
    reader = ExtractiveReader(threshold=0.0, weights=out)
    answer = reader.read("Who built the tower?", Evidence("e", "Tower", "History", passage(0)))
    assert answer.answer is not None and answer.answer in passage(0)


def test_numpy_computes_what_torch_does(tmp_path: Path) -> None:
    source = [SpanQuestion("Who built it?", passage(i), "Tower", (SpanAnswer(f"{NAMES[i]} Stone"),)) for i in range(16)]
    numbers = numbers_of(source)
    torch.manual_seed(0)
    networks = [Network(numbers).eval() for _ in range(2)]
    [example] = examples(source[:1], numbers)
    with torch.no_grad():
        results = [network(joined([example])) for network in networks]
    save(tmp_path / "w.safetensors", networks, numbers, np.zeros(36, np.float32), 0.0, 0.5)
    save(tmp_path / "again.safetensors", networks, numbers, np.zeros(36, np.float32), 0.0, 0.5)
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "w.safetensors").read_bytes()
    model = SpanModel.load(tmp_path / "w.safetensors")
    unsaved = model_of(networks, numbers)
    tokens, question = tokenize_text(passage(0)), analyze("Who built it?", model.rarity)
    found = candidates(tokens, question, model.rarity, stems_of("Tower"))
    scores, null = model.scores(tokens, question, found)
    np.testing.assert_allclose(scores, np.mean([r[0].numpy() for r in results], 0), atol=0.02)  # float16 on disk
    np.testing.assert_allclose(unsaved.scores(tokens, question, found)[0], scores, rtol=1e-5)
    assert null == pytest.approx(np.mean([r[1].item() for r in results]), abs=0.01)
    assert model.threshold == 0.5 and model.confidence(np.zeros(36, np.float32)) == 0.5


def test_some_questions_point_at_the_image_instead_of_naming_the_article() -> None:
    question = SpanQuestion("Who built the Old Tower's roof?", "", "Old Tower", ())
    rng = random.Random(1)
    asked = {pointing(question, rng).question for _ in range(8)}
    assert asked == {"Who built the Old Tower's roof?", "Who built this roof?"}


def test_an_example_thinned_for_training_keeps_the_good_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.reader.examples.KEPT", 50)
    text = " ".join(passage(i) for i in range(12))
    question = SpanQuestion("Who built the tower?", text, "Tower", (SpanAnswer("Ada Stone", text.index("Ada")),))
    numbers = numbers_of([question] * 4)
    [full] = examples([question], numbers)
    [thin] = examples([question], numbers, np.random.default_rng(0))
    good = int((full.quality > 0.5).sum())
    assert len(full.f1) > 50 + good and len(thin.f1) == 50 + good
    assert thin.quality.max() == full.quality.max() == 1
    assert thin.candidates.features.base is None  # a view would keep all candidates' features in memory
    spans = zip(full.candidates.first, full.candidates.last, strict=True)
    rows = {span: i for i, span in enumerate(spans)}
    old = [rows[span] for span in zip(thin.candidates.first, thin.candidates.last, strict=True)]
    np.testing.assert_array_equal(thin.features, full.features[old])
    np.testing.assert_array_equal(thin.candidates.links, full.candidates.links[old])
    np.testing.assert_array_equal(thin.candidates.doubts, full.candidates.doubts[old])
    np.testing.assert_array_equal(thin.f1, full.f1[old])
