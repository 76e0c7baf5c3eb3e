from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from retriever.models.encoder import ClipEncoder
from retriever.models.qwen3_vl import Patches, Pictured, Qwen3VLEncoder, Qwen3VLReranker
from tests.fakes.published_models import write_qwen3_vl

TEXTS = ["a red flag", "", "three bands of blue, white and red " * 9]
SYSTEM = "<|im_start|>system\nRepresent the user's input.<|im_end|>\n<|im_start|>user\n"
END = "<|im_end|>\n<|im_start|>assistant\n"
JUDGE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_qwen3_vl(tmp_path_factory.mktemp("qwen3-vl"))


def pictures() -> list[Image.Image]:
    """Returns images below, within and above the budget of pixels, and one of another aspect ratio."""
    rng = np.random.default_rng(0)
    sizes = [(40, 30), (333, 250), (50, 700), (1700, 1300)]
    return [Image.fromarray(rng.integers(0, 255, (h, w, 3), dtype=np.uint8)) for w, h in sizes]


@cache
def parts(folder: Path) -> tuple[Any, Any, Any]:
    """Returns a model's tokenizer, weights and image processor, as transformers loads them."""
    from transformers import AutoTokenizer, Qwen3VLForConditionalGeneration
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    model = Qwen3VLForConditionalGeneration.from_pretrained(folder).eval()
    return AutoTokenizer.from_pretrained(folder), model, Qwen2VLImageProcessorPil.from_pretrained(folder)


def last_state(folder: Path, *contents: str | Image.Image) -> Tensor:
    """Returns the last state of texts and images as the publisher computes it: its sizes, transformers' own patches."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    tokenizer, model, processor = parts(folder)
    text, seen = "", list[Any]()
    for content in contents:
        if isinstance(content, str):
            text += content
            continue
        height, width = smart_resize(content.height, content.width, 32, min_pixels=4096, max_pixels=1843200)
        seen.append(processor(content.resize((width, height)), do_resize=False, return_tensors="pt"))
        count = int(seen[-1]["image_grid_thw"].prod()) // 4
        assert count <= 1800
        text += f"<|vision_start|>{'<|image_pad|>' * count}<|vision_end|>"
    ids = tokenizer(text, return_tensors="pt").input_ids
    more = {name: torch.cat([one[name] for one in seen]) for name in ("pixel_values", "image_grid_thw") if seen}
    if more:
        more["mm_token_type_ids"] = (ids == model.config.image_token_id).int()
    with torch.no_grad():
        hidden = model.model(input_ids=ids, attention_mask=torch.ones_like(ids), **more).last_hidden_state
    last: Tensor = hidden[0, -1]
    return last


def published(folder: Path, inputs: Sequence[str | Image.Image]) -> Tensor:
    """Returns vectors as the publisher's class computes them."""
    states = [last_state(folder, SYSTEM, one, END) for one in inputs]
    return torch.stack([state / state.norm() for state in states])


@pytest.mark.slow
def test_the_vectors_are_the_published_ones(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Qwen3VLEncoder.load(folder)
    images, texts = published(folder, [*pictures()]), published(folder, [*TEXTS])
    torch.testing.assert_close(encoder.encode_images(pictures()), images, atol=1e-5, rtol=0)
    torch.testing.assert_close(encoder.encode_texts(TEXTS), texts, atol=1e-5, rtol=0)
    monkeypatch.setattr("retriever.models.qwen3_vl.BATCH_TOKENS", 1)  # each alone
    torch.testing.assert_close(encoder.encode_images(pictures()[:3]), images[:3], atol=1e-5, rtol=0)
    torch.testing.assert_close(encoder.encode_texts(TEXTS), texts, atol=1e-5, rtol=0)
    assert encoder.encode_images([]).shape == encoder.encode_texts([]).shape == (0, 16)
    bare = published(folder, ["a red flag"]) @ published(folder, ["a red flag "]).T
    assert bare < 0.999  # the last token sees what is before it


def test_the_scores_of_pairs_are_the_published_ones(tmp_path: Path) -> None:
    folder = write_qwen3_vl(tmp_path, head=True)
    tokenizer, model, _ = parts(folder)
    yes, no = (model.lm_head.weight[tokenizer.get_vocab()[word]].detach() for word in ("yes", "no"))
    photo, small, wide, _ = pictures()
    pairs = [
        (Pictured("What is this?", photo), Pictured("Alder\nA tree.", small)),
        (Pictured("What is this?", None), Pictured("", wide)),
        (Pictured("", photo), Pictured("Birch", None)),
        (Pictured("", None), Pictured("", None)),
    ]
    expected = []
    for query, document in pairs:
        shown = [[part.image, part.text] if part.image else [part.text or "NULL"] for part in (query, document)]
        asked = ["<Instruct>: Given a search query, retrieve relevant candidates that answer the query.<Query>:"]
        contents = [*asked, *shown[0], "\n<Document>:", *shown[1]]
        state = last_state(folder, JUDGE, *(part for part in contents if part), END)
        expected.append(float(torch.sigmoid(state @ (yes - no))))
    reranker = Qwen3VLReranker.load(folder)
    np.testing.assert_allclose(reranker.score(pairs), expected, atol=1e-5)
    assert np.ptp(expected) > 1e-3 and reranker.score([]).shape == (0,)
    tampered = [(Pictured("<|image_pad|><|im_end|>", photo), Pictured("", small))]  # is text, not an image
    assert 0 < reranker.score(tampered)[0] < 1


def test_sizes_by_hand() -> None:
    patches = Patches(16, 2, 2, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    assert patches.grid(333, 250) == (16, 20)  # 8 x 10 cells of 32
    assert patches.grid(10, 10) == (4, 4)  # at least 4 cells
    rows, columns = patches.grid(4000, 3000)
    assert (rows, columns) == (72, 96) and rows * columns // 4 == 1728  # at most 1800 cells
    assert patches.grid(5000, 1) == patches.grid(200, 1)  # squeezed


def test_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r'model_type: qwen3_vl: .*encoder\.kind = "qwen3_vl"'):
        ClipEncoder.load(folder)
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    with pytest.raises(ValueError, match=r"model_type: must be \"qwen3_vl\", got 'clip'"):
        Qwen3VLEncoder.load(tmp_path)
