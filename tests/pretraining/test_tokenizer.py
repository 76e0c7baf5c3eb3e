from __future__ import annotations

from pretraining.tokenizer import SPECIAL, train_tokenizer


def test_ids_do_not_depend_on_the_process() -> None:
    tokenizer = train_tokenizer(["the flag of a land", "the area of the land"] * 2, 120, 16)
    ids = tokenizer.backend.get_vocab()
    assert sorted(ids, key=ids.__getitem__) == [*SPECIAL, *sorted(ids.keys() - set(SPECIAL))]
    words = [tokenizer.backend.id_to_token(id) for id in tokenizer("The land?")["input_ids"]]
    assert words == ["the", "land", "?"]


def test_equal_texts_give_equal_pieces() -> None:
    """Ties between pairs of pieces are broken alphabetically, not by hash."""
    texts = [" ".join(f"{a}{b}{c}{a}" for a in "abcd" for b in "efgh" for c in "ijkl")] * 2
    drawn = {tuple(train_tokenizer(texts, 150, 16).backend.get_vocab().items()) for _ in range(5)}
    assert len({frozenset(pieces) for pieces in drawn}) == 1
    assert len(dict(next(iter(drawn)))) == 150
