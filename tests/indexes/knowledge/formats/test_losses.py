"""What is kept, left out or cannot be used is counted: each word of a source, in every format."""

from __future__ import annotations

import json
import logging
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.ledger import MOST_REASONS, OTHER, Losses, summary_of, table_of, warning_of, words_in
from indexes.knowledge.bad_entries import SeenHashes, SkippedEntries
from retriever.types import Entity, Section
from retriever.unspaced import count_words
from tests.fakes.made_articles import FORMS, Words, written


@given(st.lists(st.text(alphabet="ab é\u2013\n\t漢ひก한हи😀", max_size=12)))
def test_words_are_counted_as_by_their_definition(texts: list[str]) -> None:
    assert words_in(texts) == sum(map(count_words, texts))


def test_each_word_is_kept_or_left_out() -> None:
    losses = Losses("kb")
    losses.at("kb/a.md", "# Fox\n\nOne two.\nBuy now!\n\nBuy now!\n")
    losses.leave_out("repeated items", "Buy now!")
    losses.leave_out("repeated items", "Buy now!")
    losses.leave_out("navigation", "One two.")
    losses.leave_out("badges", "b.svg", unit="images")
    losses.leave_out("templates", "")  # nothing
    losses.keep_entity(Entity("a", "Fox", (Section("Fox", "One two.", 0), Section("Diet", "Part: A; Part: B", 1))))
    losses.repeat(1)  # a column's name
    assert losses.to_json() == {
        "words": {"source": 10, "kept": 6},
        "pictures": {"files": 0, "found": 0, "rule": ""},
        "left_out": [
            {"reason": "repeated items", "unit": "words", "count": 4, "places": 2, "example": "a.md:4: Buy now!"},
            {"reason": "navigation", "unit": "furniture", "count": 2, "places": 1, "example": "a.md:3: One two."},
            {"reason": "badges", "unit": "images", "count": 1, "places": 1, "example": "a.md: b.svg"},
        ],
    }
    assert summary_of(losses.to_json()) == (
        "kept 60.0 % of 10 words; left out: repeated items 4 words in 2 places, e.g. a.md:4: Buy now!; "
        "navigation 2 words in 1 place, e.g. a.md:3: One two.; "
        "badges 1 image, e.g. a.md: b.svg"
    )
    assert [line.split() for line in table_of(losses.to_json())][1:] == [
        ["repeated", "items", "4", "words", "2", "a.md:4:", "Buy", "now!"],
        ["navigation", "2", "furniture", "1", "a.md:3:", "One", "two."],
        ["badges", "1", "images", "1", "a.md:", "b.svg"],
    ]


def test_a_build_speaks_of_many_words_and_of_any_image_or_entity() -> None:
    losses = Losses()
    losses.keep("word " * 98)
    losses.leave_out("templates", "two words")
    losses.leave_out("navigation", "ten words " * 5)
    assert not warning_of(losses.to_json())
    losses.leave_out("templates", "one")
    assert warning_of(losses.to_json()).startswith("kept 97.0 % of 101 words; left out: navigation 10 words in 1 place")
    for unit in ("images", "entities"):
        losses = Losses()
        losses.leave_out("things", "x", unit=unit)
        assert warning_of(losses.to_json())


def test_the_number_of_reasons_is_limited() -> None:
    losses = Losses()
    for number in range(MOST_REASONS + 5):
        losses.leave_out(f"template {number}", "two words")
    found = losses.to_json()["left_out"]
    assert len(found) == MOST_REASONS + 1
    assert (found[-1]["reason"], found[-1]["count"]) == (OTHER, 10)


def test_dropped_sections_and_unusable_entries_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "kb.json"
    row = {"title": "A", "section_titles": ["A", "Past", "External links"], "section_texts": ["a b", "c d e", "f g"]}
    path.write_text(json.dumps({"a": row, "b": {"title": "B"}}))
    losses = Losses(str(path))
    assert len(list(read_knowledge_base(path, skipped=SkippedEntries(1), ledger=losses))) == 1
    assert losses.to_json()["words"] == {"source": 10, "kept": 6}  # with the titles of sections
    assert [(one["reason"], one["unit"], one["count"]) for one in losses.to_json()["left_out"]] == [
        ("sections titled External links", "words", 4),
        ("entries that cannot be used", "entities", 1),
    ]
    assert losses.left_out["sections titled External links"].example == "entry 1 ('a'): f g"
    again = tmp_path / "rows.jsonl"
    again.write_text('{"id": "x", "title": "X", "text": "one two"}\n{"id": "x", "title": "Y", "text": "three"}\n')
    losses = Losses(str(again))
    assert len(list(read_knowledge_base(again, skipped=SkippedEntries(1), ledger=losses))) == 1
    assert losses.to_json()["words"] == {"source": 3, "kept": 2}


def test_entries_that_are_not_read_leave_no_words(tmp_path: Path) -> None:
    rows = [
        {"id": id, "title": f"Hen {n}", "Egg weight": "60 g", "Eggs a year": n, "rights": "CC0 by us"}
        for id, n in ((1, 200), (2, 150), (2, 140), (3, 90))
    ]
    path = tmp_path / "hens.json"
    path.write_text(json.dumps([*rows, {"id": 4, "Egg weight": "50 g"}]))
    losses = Losses(str(path))
    names = {"only": "[12]"}
    assert len(list(read_knowledge_base(path, names=names, skipped=SkippedEntries(1), ledger=losses))) == 2
    found = losses.to_json()  # 60, g and the number of eggs of each
    assert found["words"] == {"source": 9, "kept": 6}
    assert {one["reason"]: (one["count"], one["places"]) for one in found["left_out"]} == {
        "text of entries that cannot be used": (3, 1),
        "entries that cannot be used": (1, 1),
        "licenses and rights": (9, 3),
        "entities other than those of --only": (2, 2),
    }


@pytest.mark.parametrize("text", ["", "  \n"])
def test_nothing_is_no_word(text: str) -> None:
    assert words_in([text]) == words_in([]) == 0


def write_rows(path: Path, good: int, bad: int) -> Path:
    lines = [json.dumps({"id": str(number), "title": "t", "sections": []}) for number in range(good)]
    path.write_text("\n".join(lines[:5] + ["{broken"] * bad + lines[5:]) + "\n")
    return path


def test_one_percent_of_bad_entries_is_accepted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_rows(tmp_path / "kb.jsonl", 99, 1)
    with caplog.at_level(logging.WARNING):
        assert len(list(read_knowledge_base(path))) == 99
    assert "1 of 100 entries skipped (1 %): " in caplog.text and "kb.jsonl: line 6: Expecting" in caplog.text
    message = r"kb\.jsonl: 2 of 101 entries cannot be used, more than 1 %: .*line 6: .*; .*line 7: .*--max-bad"
    with pytest.raises(ValueError, match=message):
        list(read_knowledge_base(write_rows(path, 99, 2)))
    assert len(list(read_knowledge_base(path, skipped=SkippedEntries(0.02)))) == 99
    with pytest.raises(ValueError, match=r"kb\.jsonl: line 6: Expecting property name"):
        list(read_knowledge_base(path, skipped=SkippedEntries(0)))


def test_a_share_of_all_entries_is_told_in_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    list(read_knowledge_base(write_rows(tmp_path / "kb.jsonl", 0, 3), skipped=SkippedEntries(1)))
    assert "3 of 3 entries skipped (100 %): " in caplog.text


def test_a_hopeless_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "kb.jsonl", 10, 5000)
    with pytest.raises(ValueError, match=r"100 of the first 105 entries cannot be used"):
        list(read_knowledge_base(path))


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_is_between_0_and_1(share: float) -> None:
    with pytest.raises(ValueError, match="max_bad must be between 0 and 1"):
        SkippedEntries(share)


def test_seen_hashes_against_a_set() -> None:
    draw = random.Random(0)
    known: set[int] = set()
    seen = SeenHashes()
    for _ in range(20_000):
        value = draw.choice([draw.randrange(-(2**63), 2**63), draw.randrange(2, 5000)])
        assert seen.add(value) == (value not in known)
        known.add(value)


KINDS = ["paragraph", "heading", "table", "list", "links", "definition", "comment", "code", "drawing", "quote", "html"]
KINDS += ["bold", "note", "aside"]
UNITS = ("words", "furniture")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(6))
def test_each_word_is_kept_or_counted(tmp_path: Path, form: str, seed: int) -> None:
    words = Words(seed)
    articles = [words.article(number, KINDS) for number in range(8)]
    path = written(tmp_path / "kb", form, articles)
    losses = Losses(str(path))
    entities = list(read_knowledge_base(path, ledger=losses))
    ledger = losses.to_json()
    source = [word for one in articles for word in one.words]
    assert len(entities) == len(articles)
    texts = [text for one in entities for section in one.sections for text in (section.title, section.text)]
    texts += [image.caption for one in entities for image in one.images]
    kept = set(re.findall(r"\w+", " ".join(texts)))
    lost = [word for word in source if re.sub(r"\W", "", word) not in kept]
    assert ledger["words"]["kept"] == len(source) - len(lost), lost
    counts = {unit: sum(one["count"] for one in ledger["left_out"] if one["unit"] == unit) for unit in UNITS}
    assert ledger["words"]["source"] == ledger["words"]["kept"] + counts["words"]
    assert sum(counts.values()) == len(lost)
    assert all(one["places"] >= 1 and one["example"] for one in ledger["left_out"])
