from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from retriever.models.hybrid import HybridReranker
from retriever.models.text_embedding import TextEmbedding, embedding_fingerprint
from retriever.texts import section_passage
from tests.fakes.published_models import write_qwen3_embedding

QUESTIONS = ["what is red", "a red flag, or three bands of blue", "", "was ist rot und blau"]
TASK = "Given a web search query, retrieve relevant passages that answer the query"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_qwen3_embedding(tmp_path_factory.mktemp("qwen3-embedding"))


def published(folder: Path, texts: list[str]) -> Tensor:
    """Returns vectors as the model's documentation computes them: padded on the left, the last token of each text."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    batch = tokenizer(texts, padding=True, truncation=True, max_length=8192, return_tensors="pt")
    with torch.no_grad():
        hidden = AutoModel.from_pretrained(folder).eval()(**batch).last_hidden_state
    return functional.normalize(hidden[:, -1], dim=1)


def cosines(rows: list[np.ndarray], vectors: Tensor) -> np.ndarray:
    found = np.concatenate(rows).astype(np.float32)
    return np.asarray((found * vectors.numpy()).sum(1) / np.linalg.norm(found, axis=1))


def test_qwen3_embedding_gives_the_published_vectors(folder: Path) -> None:
    model = TextEmbedding.load(folder)
    asked = published(folder, [f"Instruct: {TASK}\nQuery:{question}" for question in QUESTIONS])
    vectors = model.encode_questions(QUESTIONS)
    assert vectors.dtype == np.float32 and model.dimension == 16
    np.testing.assert_allclose(vectors, asked, atol=1e-5)
    np.testing.assert_allclose(model.encode_questions(QUESTIONS[1:2]), asked[1:2], atol=1e-5)
    assert model.encode_questions([]).shape == (0, 16) and model.encode_passages([]) == []
    texts = ["a red flag", section_passage("Flags", "Colors", "three bands of blue, white and red")]
    expected = published(folder, ["a red flag", "Colors\nthree bands of blue, white and red"])
    assert cosines(model.encode_passages(texts), expected).min() > 0.9999  # rounded to int8


@pytest.mark.parametrize("mode", ["lasttoken", "cls", "mean"])
@pytest.mark.parametrize("prompts", [{"query": "Ask: ", "document": "Say: "}, {}])
def test_sentence_transformers_reads_a_folder_the_same_way(
    folder: Path, tmp_path: Path, mode: str, prompts: dict[str, str]
) -> None:
    library = pytest.importorskip("sentence_transformers")
    for file in folder.rglob("*"):
        (tmp_path / file.relative_to(folder)).parent.mkdir(exist_ok=True)
        if file.is_file():
            (tmp_path / file.relative_to(folder)).write_bytes(file.read_bytes())
    names = {"lasttoken": "lasttoken", "cls": "cls_token", "mean": "mean_tokens"}
    (tmp_path / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 16, f"pooling_mode_{names[mode]}": True})
    )
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    theirs, ours = library.SentenceTransformer(str(tmp_path), device="cpu"), TextEmbedding.load(tmp_path)
    np.testing.assert_allclose(ours.encode_questions(QUESTIONS), theirs.encode_query(QUESTIONS), atol=1e-5)
    expected = torch.from_numpy(theirs.encode_document(QUESTIONS[:2]))
    assert cosines(ours.encode_passages(QUESTIONS[:2]), expected).min() > 0.9999
    assert ours.fingerprint == embedding_fingerprint(tmp_path, 1024) != embedding_fingerprint(folder, 1024)
    assert ours.fingerprint != embedding_fingerprint(tmp_path, 512)


def test_a_long_section_has_windows_after_its_title(folder: Path) -> None:
    model = TextEmbedding.load(folder, max_tokens=24)
    text = "red flag blue " * 12
    [windows] = model.encode_passages([section_passage("Flags", "Title", text)])
    title, inner = model.tokenizer(["Title\n", text], add_special_tokens=False)["input_ids"]
    end = model.tokenizer("")["input_ids"]
    room = 24 - len(title) - len(end)
    pieces = [[*title, *inner[at : at + room], *end] for at in range(0, len(inner), room)]
    assert len(windows) == len(pieces) > 2 and max(map(len, pieces)) == 24
    with torch.no_grad():
        last = torch.cat([model.model(torch.tensor([ids])).last_hidden_state[:, -1] for ids in pieces])
    assert cosines([windows], functional.normalize(last, dim=1)).min() > 0.9999
    assert np.allclose(np.linalg.norm(model.encode_questions([text]), axis=1), 1, atol=1e-5)


def test_questions_of_all_languages_are_compared_by_meaning(folder: Path) -> None:
    encoder = TextEmbedding.load(folder)
    question, passages = "Wie hoch ist der Turm?", ["a red flag", "three bands"]
    [scores] = HybridReranker(encoder, 1, reads=lambda question: True).score([question], [passages])
    asked, found = encoder.encode_questions([question])[0], encoder.encode_passages(passages)
    np.testing.assert_allclose(scores, cosines(found, torch.from_numpy(np.stack([asked] * 2))), atol=1e-5)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("modules.json", [{"type": "x.Transformer", "path": ""}], "must list a Transformer in this folder, a Pooling"),
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "must pool one of lasttoken, cls, mean"),
        ("1_Pooling/config.json", {"pooling_mode_lasttoken": True, "include_prompt": False}, "instructions included"),
        ("1_Pooling/config.json", None, "not found, but modules.json names it; download the model again"),
    ],
)
def test_a_model_of_other_parts_is_refused(tmp_path: Path, file: str, change: object, message: str) -> None:
    path = write_qwen3_embedding(tmp_path) / file
    path.unlink() if change is None else path.write_text(json.dumps(change))
    with pytest.raises(ValueError, match=message):
        TextEmbedding.load(tmp_path)


@pytest.mark.parametrize(
    ("asked", "normalized", "told"),
    [("dot", False, True), ("dot", True, False), ("cosine", False, False), (None, False, False)],
)
def test_a_model_for_another_similarity_is_told(
    tmp_path: Path, asked: str | None, normalized: bool, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_qwen3_embedding(tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    modules = [one for one in modules if normalized or not one["type"].endswith("Normalize")]
    (folder / "modules.json").write_text(json.dumps(modules))
    settings = folder / "config_sentence_transformers.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"similarity_fn_name": asked}))
    TextEmbedding.load(folder)
    assert ("similarity_fn_name is 'dot', but vectors are compared by cosine" in caplog.text) == told


def test_no_text_is_longer_than_in_training(folder: Path, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    write_qwen3_embedding(tmp_path)
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 20}')
    text = "red flag blue " * 12
    theirs, ours = library.SentenceTransformer(str(tmp_path), device="cpu"), TextEmbedding.load(tmp_path)
    np.testing.assert_allclose(ours.encode_questions([text]), theirs.encode_query([text]), atol=1e-5)
    [windows] = ours.encode_passages([text])
    assert len(windows) > 1  # what is cut there is in others
    assert ours.fingerprint == embedding_fingerprint(tmp_path, 1024) == embedding_fingerprint(tmp_path, 20)
    assert ours.fingerprint != embedding_fingerprint(tmp_path, 19)


def test_the_default_prompt_is_neither_for_questions_nor_for_passages(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    write_qwen3_embedding(tmp_path)
    path, text = tmp_path / "config_sentence_transformers.json", "red flag"
    asked = {"prompts": {"retrieval": "blue "}, "default_prompt_name": "retrieval"}
    path.write_text(json.dumps(json.loads(path.read_text()) | asked))
    theirs, ours = library.SentenceTransformer(str(tmp_path), device="cpu"), TextEmbedding.load(tmp_path)
    np.testing.assert_allclose(ours.encode_questions([text]), theirs.encode_query([text]), atol=1e-5)
    [[passage]] = ours.encode_passages([text])
    [document] = theirs.encode_document([text])
    assert passage @ document / np.linalg.norm(passage.astype(np.float32)) > 0.999


def test_texts_in_lower_case_if_the_model_was_trained_so(tmp_path: Path) -> None:
    write_qwen3_embedding(tmp_path)
    text = "RED Flag Blue"
    kept = TextEmbedding.load(tmp_path)
    assert (kept.encode_questions([text]) != kept.encode_questions([text.lower()])).any()
    (tmp_path / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    lowered = TextEmbedding.load(tmp_path)
    np.testing.assert_array_equal(lowered.encode_questions([text]), lowered.encode_questions([text.lower()]))
    [[upper], [lower]] = lowered.encode_passages([text, text.lower()])
    np.testing.assert_array_equal(upper, lower)
    assert lowered.fingerprint == embedding_fingerprint(tmp_path, 1024) != kept.fingerprint
    library = pytest.importorskip("sentence_transformers")
    theirs = library.SentenceTransformer(str(tmp_path), device="cpu")
    np.testing.assert_allclose(lowered.encode_questions([text]), theirs.encode_query([text]), atol=1e-5)
