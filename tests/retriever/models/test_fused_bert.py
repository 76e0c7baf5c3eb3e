"""`FusedBert` against `Bert`: padded or not, in any batch, in every precision."""

from __future__ import annotations

import pytest
import torch

from retriever.models import fused_bert
from retriever.models.bert import Bert, BertConfig
from retriever.models.fused_bert import STEP, FusedBert

LENGTHS = [7, 1, STEP, STEP + 1, 40, 7, 2 * STEP]


@pytest.fixture(scope="module")
def model() -> Bert:
    torch.manual_seed(0)
    return Bert(BertConfig(50, 32, 2, 4, 64, max_position_embeddings=40)).eval()


def texts() -> tuple[list[list[int]], list[list[int]]]:
    generator = torch.Generator().manual_seed(1)
    ids = [torch.randint(1, 50, (length,), generator=generator).tolist() for length in LENGTHS]
    return ids, [[0] * (length // 3) + [1] * (length - length // 3) for length in LENGTHS]


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.06), (torch.int8, 0.1), (None, 1e-5)]
)
def test_gives_what_the_model_gives_alone(model: Bert, dtype: torch.dtype | None, tolerance: float) -> None:
    ids, types = texts()
    fused = FusedBert(model, dtype)
    for own_types in (None, types):
        outputs = fused(ids, own_types)
        for number, output in enumerate(outputs):
            kinds = None if own_types is None else torch.tensor([own_types[number]])
            with torch.inference_mode():
                [expected] = model(torch.tensor([ids[number]]), None, kinds)
            assert output.shape == expected.shape
            assert float((output - expected).abs().max()) < tolerance
            [alone] = fused([ids[number]], None if own_types is None else [own_types[number]])
            assert torch.allclose(alone, output, atol=tolerance / 10)


def test_vectors_are_normalized_means(model: Bert) -> None:
    ids, _ = texts()
    with torch.inference_mode():
        means = torch.stack([model(torch.tensor([row]))[0].mean(0) for row in ids])
    vectors = FusedBert(model).vectors(ids)
    assert torch.allclose(vectors, torch.nn.functional.normalize(means, dim=1), atol=1e-5)
    assert FusedBert(model).vectors([]).shape == (0, 32)


def test_many_texts_take_several_passes(model: Bert, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, types = texts()
    fused = FusedBert(model)
    together = fused(ids, types)
    monkeypatch.setattr(fused_bert, "TOKENS", 40)
    for one, other in zip(together, fused(ids, types), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_has_the_weights_of_its_construction(model: Bert) -> None:
    changed = Bert(model.config).eval()
    changed.load_state_dict(model.state_dict())
    fused = FusedBert(changed)
    [before] = fused([[3, 4, 5]])
    with torch.no_grad():
        for name, parameter in changed.named_parameters():
            if "encoder." in name:
                parameter.mul_(2)
    assert torch.equal(fused([[3, 4, 5]])[0], before)
