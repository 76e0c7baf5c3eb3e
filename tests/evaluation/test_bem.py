"""BEM with a tiny random BERT: from safetensors, and as ONNX of a BERT implemented here from its definition."""

from __future__ import annotations

import json
import math
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import retriever  # noqa: F401
from evaluation.bem import Bem, cut, load_bem

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "red", "blue", "what", "color", "?", ",", "##s", "is", "it"]
TRIPLES = [
    ("red", "blue", "what color is it?"),
    ("blue", "red", "what color is it?"),
    ("a", "a b c", "what?"),
    ("Reds, blues", "red , blue", "what colors"),
    ("zebra", "a", "it"),
    ("", "a", "it"),
]


def bert(folder: Path, types: int = 3) -> None:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(  # type: ignore[call-arg]  # transformers sets num_labels from keywords
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
        type_vocab_size=types,
        num_labels=2,
        initializer_range=0.6,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")


class Definition(nn.Module):
    """BERT with a classifier on its pooled first token, as Devlin et al. define it; padding is token 0."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, input_ids: Tensor, segment_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        w, base = self.weights, "bert.embeddings."
        places = torch.cumsum(torch.ones_like(input_ids), 1) - 1
        x = w[base + "word_embeddings.weight"][input_ids] + w[base + "token_type_embeddings.weight"][segment_ids]
        x = self.norm(x + w[base + "position_embeddings.weight"][places], base + "LayerNorm")
        seen = (attention_mask if attention_mask is not None else input_ids) != 0
        hidden = torch.where(seen, 0.0, -1e9)[:, None, None, :]
        for layer in range(2):
            at = f"bert.encoder.layer.{layer}."
            q, k, v = (
                self.linear(x, at + f"attention.self.{name}").unflatten(2, (2, 8)).transpose(1, 2)
                for name in ("query", "key", "value")
            )
            mixed = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(8) + hidden, dim=-1) @ v
            mixed = self.linear(mixed.transpose(1, 2).flatten(2), at + "attention.output.dense")
            x = self.norm(x + mixed, at + "attention.output.LayerNorm")
            inner = self.linear(x, at + "intermediate.dense")
            inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
            x = self.norm(x + self.linear(inner, at + "output.dense"), at + "output.LayerNorm")
        return self.linear(torch.tanh(self.linear(x[:, 0], "bert.pooler.dense")), "classifier")

    def linear(self, x: Tensor, name: str) -> Tensor:
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def norm(self, x: Tensor, name: str) -> Tensor:
        centered = x - x.mean(-1, keepdim=True)
        scale = torch.sqrt((centered * centered).mean(-1, keepdim=True) + 1e-12)
        return centered / scale * self.weights[name + ".weight"] + self.weights[name + ".bias"]


def definition(folder: Path) -> Definition:
    from safetensors.torch import load_file

    return Definition(load_file(folder / "model.safetensors"))


def export(folder: Path, out: Path, masked: bool = False, width: int | None = None) -> None:
    """Writes the same model to `out` as ONNX, without a mask input (like the published one) or with it."""
    pytest.importorskip("onnx")
    out.mkdir(exist_ok=True)
    ids = torch.randint(1, len(WORDS), (2, width or 9))
    inputs = (ids, ids % 3, torch.ones_like(ids))[: 3 if masked else 2]
    names = ["input_ids", "segment_ids", "attention_mask"][: len(inputs)]
    axes = {name: {0: "rows"} if width else {0: "rows", 1: "tokens"} for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter without further dependencies is deprecated
        torch.onnx.export(
            definition(folder), inputs, out / "model.onnx", dynamo=False, input_names=names, dynamic_axes=axes
        )
    (out / "vocab.txt").write_text("\n".join(WORDS) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bem")
    bert(path)
    return path


def test_the_input_is_candidate_reference_question(folder: Path) -> None:
    ids = torch.tensor([[2, 7, 13, 3, 8, 3, 9, 10, 11, 3]])  # [CLS] red ##s [SEP] blue [SEP] what color ? [SEP]
    segment_ids = torch.tensor([[0, 0, 0, 0, 1, 1, 2, 2, 2, 2]])
    wanted = torch.softmax(definition(folder)(ids, segment_ids), dim=-1)[0, 1]
    found = load_bem(folder).score([("Reds", "blue", "What color?")])
    assert found == pytest.approx([float(wanted)], abs=1e-5)
    marks = definition(folder)(torch.tensor([[2, 1, 1, 1, 3, 8, 3, 3]]), torch.tensor([[0, 0, 0, 0, 0, 1, 1, 2]]))
    typed = load_bem(folder).score([("[SEP]", "blue", "")])  # three unknown words: typed text is no special token
    assert typed == pytest.approx([float(torch.softmax(marks, dim=-1)[0, 1])], abs=1e-5)
    assert abs(found[0] - load_bem(folder).score([("blue", "Reds", "What color?")])[0]) > 1e-3


def test_a_pair_classifier_has_reference_and_question_in_one_segment(tmp_path: Path) -> None:
    bert(tmp_path, types=2)
    ids = torch.tensor([[2, 7, 3, 8, 3, 9, 3]])
    wanted = torch.softmax(definition(tmp_path)(ids, torch.tensor([[0, 0, 0, 1, 1, 1, 1]])), dim=-1)[0, 1]
    assert load_bem(tmp_path).score([("red", "blue", "what")]) == pytest.approx([float(wanted)], abs=1e-5)


@pytest.mark.parametrize(
    ("labels", "equivalent"),
    [
        (("LABEL_0", "LABEL_1"), 1),
        (("not_equivalent", "Equivalent"), 1),
        (("correct", "incorrect"), 0),
        (("0", "1"), 1),
    ],
)
def test_the_class_that_the_configuration_calls_equivalent_counts(
    folder: Path, tmp_path: Path, labels: tuple[str, str], equivalent: int
) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {str(number): label for number, label in enumerate(labels)}
    (tmp_path / "config.json").write_text(
        json.dumps(config | {"label2id": {label: n for n, label in enumerate(labels)}})
    )
    second = load_bem(folder).score(TRIPLES)
    assert load_bem(tmp_path).score(TRIPLES) == pytest.approx(second if equivalent else 1 - second, abs=1e-6)


def test_classes_without_a_known_name_are_an_error(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"id2label": {"0": "good", "1": "bad"}}))
    with pytest.raises(
        ValueError, match='id2label must call the class of equivalent answers "equivalent", got good, bad'
    ):
        load_bem(tmp_path)


def test_batched_is_single(folder: Path) -> None:
    bem = load_bem(folder)
    together = bem.score(TRIPLES)
    assert together == pytest.approx([float(bem.score([triple])[0]) for triple in TRIPLES], abs=1e-6)
    assert len(set(np.round(together, 4))) == len(TRIPLES)
    assert bem.equivalent(TRIPLES) == [score >= 0.5 for score in together]
    assert bem.score([]).shape == (0,)
    assert len(bem.fingerprint) == 16 and bem.fingerprint == load_bem(folder).fingerprint


@pytest.mark.parametrize(("masked", "width"), [(True, None), (False, None), (False, 24)])
def test_onnx_is_safetensors(folder: Path, tmp_path: Path, masked: bool, width: int | None) -> None:
    export(folder, tmp_path, masked, width)
    bem = load_bem(tmp_path)
    assert bem.width == (width or (None if masked else 512))
    if bem.width == 512:  # the tiny model has 40 places, the published one 512
        bem.width = 40
    assert bem.score(TRIPLES) == pytest.approx(load_bem(folder).score(TRIPLES), abs=1e-5)


def test_what_is_too_long_is_cut_not_refused(folder: Path) -> None:
    bem = load_bem(folder)
    assert bem.longest == 40
    # 36 tokens besides the four special ones: only the candidate, the longest part, is truncated
    long = bem.score([("a " * 500, "b", "what color ?")])
    assert long == pytest.approx(bem.score([("a " * 32, "b", "what color ?")]), abs=1e-6)
    assert bem.score([("a " * 500, "b " * 500, "c " * 500)]) == pytest.approx(
        bem.score([("a " * 12, "b " * 12, "c " * 12)]), abs=1e-6
    )


def test_the_longest_parts_are_cut_first() -> None:
    assert cut([[1, 2], [3], []], 3) == [[1, 2], [3], []]
    assert cut([[1] * 9, [2] * 5, [3]], 9) == [[1] * 4, [2] * 4, [3]]
    assert cut([[1] * 3, [2] * 3, [3] * 3], 7) == [[1] * 2, [2] * 2, [3] * 3]


def test_rows_of_like_length_share_a_batch() -> None:
    seen: list[tuple[int, int]] = []

    def logits(ids: np.ndarray, segment_ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        seen.append(ids.shape)
        assert (mask.sum(1) == (ids != 0).sum(1)).all()
        return np.stack([np.zeros(len(ids)), np.log(ids.astype(float).sum(1))], axis=1).astype(np.float32)

    bem = Bem(lambda texts: [[5] * len(text) for text in texts], logits, marks=(2, 3))
    triples = [("x" * n, "", "") for n in (400, 1, 396, 2)] * 20
    sums = [2 + 3 * 3 + 5 * len(candidate) for candidate, _, _ in triples]
    assert bem.score(triples) == pytest.approx([s / (1 + s) for s in sums], abs=1e-6)
    assert sum(rows for rows, _ in seen) == 80 and max(rows * width for rows, width in seen) <= 8192
    assert seen[0][1] <= 6


def test_folders_that_are_none(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ValueError, match=r"no vocab\.txt"):
        load_bem(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    with pytest.raises(ValueError, match=r"neither model\.onnx nor"):
        load_bem(tmp_path)
    (tmp_path / "vocab.txt").write_text("[UNK]\nred\n")
    with pytest.raises(ValueError, match=r"\[CLS\] or \[SEP\] is missing"):
        load_bem(tmp_path)


def test_a_model_of_another_kind(tmp_path: Path) -> None:
    from transformers import BertConfig, BertModel

    small: dict[str, Any] = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    BertModel(BertConfig(vocab_size=len(WORDS), **small)).save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    with pytest.raises(ValueError, match=r"missing: classifier\.bias, classifier\.weight"):
        load_bem(tmp_path)


def test_an_onnx_model_of_another_kind(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    make, floats = onnx.helper, onnx.TensorProto.FLOAT
    graph = make.make_graph(
        [make.make_node("Identity", ["pixels"], ["out"])],
        "other",
        [make.make_tensor_value_info("pixels", floats, [1, 2])],
        [make.make_tensor_value_info("out", floats, [1, 2])],
    )
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9), tmp_path / "model.onnx")
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    with pytest.raises(ValueError, match="its inputs are pixels; BEM needs input_ids"):
        load_bem(tmp_path)
