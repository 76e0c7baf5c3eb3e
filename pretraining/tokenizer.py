"""Trains a WordPiece tokenizer that also transformers can load."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from tokenizers import BertWordPieceTokenizer
from tokenizers.models import WordPiece

from retriever.models.text_tokenizer import CLASS, TextTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ALPHABET = 200  # number of letters; the most frequent ones are kept


def train_tokenizer(texts: Iterable[str], vocab_size: int, max_tokens: int) -> TextTokenizer:
    """Trains a lower-casing WordPiece tokenizer with at most `vocab_size` pieces; it spells out unknown words.

    Equal texts give equal pieces and ids. The library alone would not ensure that: it numbers letters inside words in
    hash order, which differs between runs, and breaks ties between pairs of pieces by these numbers.
    """
    texts = list(texts)
    wordpiece = BertWordPieceTokenizer(lowercase=True)
    words = Counter(
        word
        for text in texts
        for word, _ in wordpiece.pre_tokenizer.pre_tokenize_str(wordpiece.normalizer.normalize_str(text))
    )
    letters = Counter(dict.fromkeys(map(chr, range(33, 127)), math.inf))
    for word, count in words.items():
        for letter in word:
            letters[letter] += count
    alphabet = sorted(letters, key=lambda letter: (-letters[letter], letter))[:ALPHABET]
    inside = {f"##{letter}" for letter in alphabet}
    unused = inside - {f"##{letter}" for word in words for letter in word[1:]}
    # Special tokens are numbered first, in the order given.
    wordpiece.train_from_iterator(
        texts,
        vocab_size=vocab_size + len(unused),
        min_frequency=2,
        special_tokens=[*SPECIAL, *sorted(alphabet), *sorted(inside)],
        initial_alphabet=alphabet,
        limit_alphabet=ALPHABET,
        show_progress=False,
    )
    pieces = [*SPECIAL, *sorted(wordpiece.get_vocab().keys() - set(SPECIAL) - unused)]
    wordpiece = BertWordPieceTokenizer(lowercase=True)  # in which no letter is special
    wordpiece._tokenizer.model = WordPiece({piece: id for id, piece in enumerate(pieces)}, unk_token="[UNK]")
    names = zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True)
    settings = {"tokenizer_class": CLASS, "model_max_length": max_tokens, **dict(names)}
    wordpiece._tokenizer.add_special_tokens(SPECIAL)
    return TextTokenizer(wordpiece._tokenizer, settings)
