"""Section passages, and captions cleaned as by BLIP-2, worked out by hand; texts of similar length share a batch."""

from __future__ import annotations

import pytest

from retriever.texts import blip_caption, by_length, section_passage


def test_a_passage_has_its_headings() -> None:
    expected = "# Wiki Article: Acer\n## Section Title: Growth\nIt grows.\nSlowly."
    assert section_passage("Acer", "Growth", "It grows.\nSlowly.") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How TALL is it?", "how tall is it?"),  # a question mark stays
        ("about 0.5 m", "about 0 5 m"),
        ('.!"()*#:;~', ""),  # everything that is removed
        ("it's a red-blue, old_flag & 50%", "it's a red-blue, old_flag & 50%"),  # characters that are kept
        ("(one)  two   three", "one two three"),
        ("one\n\ntwo", "one two"),  # two spaces of any kind become one,
        ("one\ntwo\tthree", "one\ntwo\tthree"),  # a single one stays as it is
        ("title.\ntext", "title text"),
        ("  at both ends  \n", "at both ends"),
        ("ends with a line\n", "ends with a line"),
        ("ÉCOLE Straße", "école straße"),
        ("", ""),
    ],
)
def test_captions(text: str, expected: str) -> None:
    assert blip_caption(text) == expected


def test_a_caption_has_at_most_512_words() -> None:
    words = [f"w{i}" for i in range(600)]
    assert blip_caption(" ".join(words)) == " ".join(words[:512])
    assert blip_caption("a b c d", max_words=2) == "a b"


def test_a_passage_as_the_fusion_encoder_reads_it() -> None:
    passage = section_passage("Acer (tree)", "Growth", "Up to 2.5 m.")
    assert blip_caption(passage) == "wiki article acer tree section title growth\nup to 2 5 m"


def test_a_batch_stays_within_the_budget() -> None:
    assert by_length([4, 4, 4, 4], 12) == [[0, 1, 2], [3]]  # 3 rows of 4 fill it
    assert by_length([5, 30, 4, 5, 9], 15) == [[2, 0, 3], [4], [1]]  # one that exceeds the budget gets its own batch


def test_nothing_makes_no_batch() -> None:
    assert by_length([], 15) == []
