"""A text is truncated at a token boundary of the model's own tokenizer, and the result is a prefix of the text."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from chat_models.context import cut_characters, token_cut

PROSE = "The Café of Zürich — built in 1848 — serves 😀 to all.\nIt is old, and it is  loved; naïve people wonder. " * 3


def saved(folder: Path, tokenizer: Tokenizer) -> Path:
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_words(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(2)  # a saved limit of the tokenizer's own must not matter
    cut = token_cut(saved(tmp_path, tokenizer))
    assert cut("Mount Vell, 12 km.", 6) == ("Mount Vell, 12 km.", False)  # 6: Mount Vell , 12 km .
    assert cut("Mount Vell, 12 km.", 5) == ("Mount Vell, 12 km", True)
    assert cut("Mount Vell, 12 km.", 3) == ("Mount Vell,", True)
    assert cut("  Mount Vell", 1) == ("  Mount", True)
    assert cut("", 1) == ("", False)


def test_a_character_is_never_split(tmp_path: Path) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    cut = token_cut(saved(tmp_path, tokenizer))  # without merges a token is a byte: 1 + 2 + 4 + 1
    text = "aé😀b"
    expected = {1: "a", 2: "a", 3: "aé", 4: "aé", 6: "aé", 7: "aé😀"}
    assert {limit: cut(text, limit)[0] for limit in expected} == expected
    assert cut(text, 8) == (text, False)
    assert cut("😀", 3) == ("", True)


@pytest.mark.parametrize("kind", ["byte-level", "metaspace"])
def test_trained_tokenizers_never_go_over(tmp_path: Path, kind: str) -> None:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    if kind == "byte-level":  # LLaMA-3, Qwen
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    else:  # Mistral, Vicuna
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([PROSE.replace("😀", "")], trainer)
    cut = token_cut(saved(tmp_path, tokenizer))
    whole = len(tokenizer.encode(PROSE, add_special_tokens=False).ids)
    assert cut(PROSE, whole) == (PROSE, False)
    shorter = 0
    for limit in range(1, whole):
        text, was_cut = cut(PROSE, limit)
        count = len(tokenizer.encode(text, add_special_tokens=False).ids) if text else 0
        assert was_cut and PROSE.startswith(text) and count <= limit
        shorter += limit - count
    assert shorter <= 2 * whole  # little is lost


def test_not_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.json does not exist; set tokenizer to a model"):
        token_cut(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"tokenizer\.json cannot be read"):
        token_cut(tmp_path)


def test_characters() -> None:
    assert cut_characters("Mount Vell is high", 5) == ("Mount Vell is high", False)
    assert cut_characters("Mount Vell is high", 4) == ("Mount Vell is", True)  # 16 characters would end in "hi"
    assert cut_characters("Mount Vell is a hill", 4) == ("Mount Vell is a", True)
    assert cut_characters("Llanfairpwllgwyngyll", 2) == ("Llanfair", True)
    assert cut_characters("The cat sleeps", 2) == ("The cat", True)


def test_characters_beyond_ascii_count_as_tokens() -> None:
    recipe = "1. " + "土豆" * 50 + " 5 g"  # 3 ASCII characters, 100 Chinese ones, 4 ASCII ones
    assert cut_characters(recipe, 102) == (recipe, False)  # 100 + 7 / 4
    assert cut_characters(recipe, 101) == ("1. " + "土豆" * 50, True)
    assert cut_characters(recipe, 61) == ("1. " + "土豆" * 30, True)  # not back to the space after "1."
