"""Trains a WordPiece tokenizer that transformers can load."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import BertWordPieceTokenizer
from tokenizers.models import WordPiece
from transformers import PreTrainedTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def train_tokenizer(texts: Iterable[str], vocab_size: int, max_tokens: int) -> PreTrainedTokenizerFast:
    """Returns a lower-casing WordPiece tokenizer with at most `vocab_size` pieces; it spells unknown words out.

    Equal texts give equal ids: the library numbers some pieces by a hash that differs from process to process.
    """
    wordpiece = BertWordPieceTokenizer(lowercase=True)
    alphabet = [chr(c) for c in range(33, 127)]
    wordpiece.train_from_iterator(
        texts,
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=SPECIAL,
        initial_alphabet=alphabet,
        limit_alphabet=200,
        show_progress=False,
    )
    pieces = [*SPECIAL, *sorted(wordpiece.get_vocab().keys() - set(SPECIAL))]
    wordpiece._tokenizer.model = WordPiece({piece: id for id, piece in enumerate(pieces)}, unk_token="[UNK]")
    wordpiece.enable_padding(pad_id=0, pad_token="[PAD]")
    return PreTrainedTokenizerFast(
        tokenizer_object=wordpiece._tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=max_tokens,
    )
