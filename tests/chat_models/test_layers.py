"""The layers around an answer, whole and streamed in pieces of any size."""

from __future__ import annotations

import pytest

from chat_models.layers import LayerFilter, bare

LAYERED = [
    (r"<answer>\boxed{Oskeby}</answer>", "Oskeby"),
    (r"<answer>$\boxed{\text{Oskeby}}$ [1]</answer><|im_end|>", "Oskeby [1]"),
    ("<|begin_of_box|>Oskeby<|end_of_box|>", "Oskeby"),
    ("<|START_RESPONSE|><answer>Oskeby</answer><|END_RESPONSE|>", "Oskeby"),
    ("<response>Oskeby</response>", "Oskeby"),
    ("Oskeby<|eot_id|>", "Oskeby"),
    ("Oskeby</s>", "Oskeby"),
    ("Oskeby <end_of_turn>\n", "Oskeby"),
    ("<answer><answer>Oskeby</answer></answer></s><|im_end|>", "Oskeby"),
    ("&lt;answer&gt;Oskeby&lt;/answer&gt;", "Oskeby"),
    ("**Oskeby** [1]", "Oskeby [1]"),
    ("Oskeby</answer>", "Oskeby"),
    ("Oskeby", "Oskeby"),
    ("5 < 7 and 2 ** 3 = 8", "5 < 7 and 2 ** 3 = 8"),
    ("**Bold** words in a sentence that goes on and on, for more than forty letters.", None),
    ("<b>Oskeby</b> [see there]", None),
    ("<answer>Oskeby</answer> or so, says the text", None),
]


@pytest.mark.parametrize(("text", "answer"), LAYERED)
def test_layers_come_off_whole_and_streamed(text: str, answer: str | None) -> None:
    answer = text if answer is None else answer
    assert bare(text) == answer
    for size in range(1, len(text) + 1):
        layers = LayerFilter()
        pieces = [layers.feed(text[at : at + size]) for at in range(0, len(text), size)]
        assert "".join([*pieces, layers.close(bare(text))]) == answer


def test_a_plain_answer_is_not_held_back() -> None:
    layers = LayerFilter()
    pieces = ("The", " line", " sails ", "to", " Oskeby", ".")
    assert [layers.feed(piece) for piece in pieces] == ["The", " line", " sails", " to", " Oskeby", "."]
