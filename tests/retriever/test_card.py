from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from retriever.card import MARKER, NOT_RECORDED, escaped, make_card, table, write_card


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.93125, "0.9313"),
        (1e-05, "1e-05"),
        (191000, "191,000"),
        (True, "true"),
        (None, "null"),
        ([1, "a"], r'\[1, "a"\]'),
        ("a|b\n# <script>c</script>", r"a\|b \# \<script\>c\</script\>"),
        ("[x](y) `z` **w** \\", r"\[x\](y) \`z\` \*\*w\*\* \\"),
    ],
)
def test_values_are_escaped(value: object, text: str) -> None:
    assert escaped(value) == text


def test_tables() -> None:
    assert table({"a|b": 1.5}, ("n", "v")) == "| n | v |\n| --- | --- |\n| a\\|b | 1.5 |"
    assert table(None) == table({}) == NOT_RECORDED
    assert table("some *flags*") == r"some \*flags\*"


def test_a_card() -> None:
    front = {"license": 'x: "y" # z', "tags": ["a: b", "- c"], "base_model": None, "datasets": []}
    text = make_card(front, "org/na_me", [("", "What."), ("Use", "Thus.")])
    assert text.split("---\n", 2)[2] == f"\n{MARKER}\n\n# org/na\\_me\n\nWhat.\n\n## Use\n\nThus.\n"
    data: Any = ModelCard(text).data
    assert data.to_dict() == {"license": 'x: "y" # z', "tags": ["a: b", "- c"]}


def test_only_a_generated_card_is_replaced(tmp_path: Path) -> None:
    write_card(tmp_path, make_card({}, "first", []))
    write_card(tmp_path, make_card({}, "second", []))
    card = tmp_path / "README.md"
    assert "# second" in card.read_text()
    card.write_text(card.read_text().replace(MARKER, "By hand."))
    write_card(tmp_path, make_card({}, "third", []))
    assert "# second" in card.read_text()
