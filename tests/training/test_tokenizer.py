from __future__ import annotations

from training.tokenizer import SPECIAL, train_tokenizer


def test_ids_do_not_depend_on_the_process() -> None:
    tokenizer = train_tokenizer(["the flag of a land", "the area of the land"] * 2, 120, 16)
    ids = tokenizer.get_vocab()
    assert sorted(ids, key=ids.__getitem__) == [*SPECIAL, *sorted(ids.keys() - set(SPECIAL))]
    assert tokenizer.convert_ids_to_tokens(tokenizer("The land?")["input_ids"]) == ["the", "land", "?"]
