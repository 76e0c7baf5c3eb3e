"""Tokenizers without transformers give the same ids as with it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from retriever.models.text_tokenizer import TextTokenizer, load_tokenizer, padded

WEIGHTS = Path(__file__).resolve().parents[3] / "weights" / "embedded"
TEXTS = [
    "",
    "   ",
    "What is the capital of this country?",
    "ZÜRICH — Straße, naïve café, Ελλάδα, 東京は日本の首都です, العربية 🇯🇵",
    "[PAD][UNK] [SEP]x[MASK] [CLS]",
    "a\tb\nc\u00a0d\u200be\ufeff \x00 \ue000",
    "supercalifragilistic" * 12,
    "1,234.56 m² 10^6 it's don't " * 40,
]


@pytest.mark.parametrize("part", ["encoder", "fusion"])
@pytest.mark.parametrize("settings", [{}, {"truncation": True, "max_length": 9}, {"add_special_tokens": False}])
def test_ids_are_those_of_transformers(part: str, settings: dict[str, Any]) -> None:
    ours, theirs = load_tokenizer(WEIGHTS / part), AutoTokenizer.from_pretrained(WEIGHTS / part)
    assert isinstance(ours, TextTokenizer)
    assert ours(TEXTS, **settings)["input_ids"] == theirs(TEXTS, **settings)["input_ids"]
    assert ours(TEXTS[3], **settings)["input_ids"] == theirs(TEXTS[3], **settings)["input_ids"]
    assert (len(ours), ours.pad_token_id, ours.unk_token_id) == (len(theirs), theirs.pad_token_id, theirs.unk_token_id)


def test_padding_is_that_of_transformers() -> None:
    ours, theirs = load_tokenizer(WEIGHTS / "fusion"), AutoTokenizer.from_pretrained(WEIGHTS / "fusion")
    ids, mask = padded(ours(TEXTS)["input_ids"], ours.pad_token_id)
    expected = theirs(TEXTS, padding=True, return_tensors="pt")
    assert ids.equal(expected["input_ids"]) and mask.equal(expected["attention_mask"])


def test_rows_are_padded_on_the_right() -> None:
    ids, mask = padded([[5, 6], [], [7]], 9, 3)
    assert ids.tolist() == [[5, 6, 9], [9, 9, 9], [7, 9, 9]]
    assert mask.tolist() == [[1, 1, 0], [0, 0, 0], [1, 0, 0]]
    assert padded([], 0)[0].shape == padded([], 0)[1].shape == (0, 0)


def test_threads_with_other_limits_do_not_disturb_each_other() -> None:
    tokenizer = load_tokenizer(WEIGHTS / "encoder")

    def longest(limit: int) -> int:
        return max(map(len, tokenizer(TEXTS, truncation=True, max_length=limit)["input_ids"]))

    with ThreadPoolExecutor(8) as pool:
        limits = [3, 5, 8, 13] * 50
        assert list(pool.map(longest, limits)) == limits


def test_saved_files_are_read_by_transformers_too(tmp_path: Path) -> None:
    loaded = load_tokenizer(WEIGHTS / "encoder")
    loaded.save_pretrained(tmp_path)
    expected = loaded(TEXTS)["input_ids"]
    assert load_tokenizer(tmp_path)(TEXTS)["input_ids"] == expected
    theirs: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(tmp_path)
    assert theirs(TEXTS)["input_ids"] == expected and theirs.mask_token == "[MASK]"


def test_truncation_follows_its_side(tmp_path: Path) -> None:
    loaded = load_tokenizer(WEIGHTS / "encoder")
    loaded.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"truncation_side": "left"}))
    whole = loaded(TEXTS[2])["input_ids"]
    assert load_tokenizer(tmp_path)(TEXTS[2], truncation=True, max_length=2)["input_ids"] == whole[-2:]


def test_a_tokenizer_without_padding_is_refused(tmp_path: Path) -> None:
    load_tokenizer(WEIGHTS / "encoder").save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pad_token": "<pad>"}))
    with pytest.raises(ValueError, match=r"pad_token: must be a token of tokenizer\.json, got '<pad>'"):
        load_tokenizer(tmp_path)
