"""What is kept or left out is counted by difference: each word and picture of a document, with a reason."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexes.account import summary_of, warning_of
from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.document import Block, Cell, Document, Heading, Picture, Table
from indexes.knowledge.inspection import table_of
from indexes.knowledge.ledger import MOST_REASONS, OTHER, Ledger, Reason, words_in
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.understanding.tables import table_lines
from retriever.types import ArticleImage, Entity, Section
from retriever.unspaced import count_words
from tests.fakes.made_articles import FORMS as FORMS_OF_SOURCES
from tests.fakes.made_articles import Words, written

PARTS = ["paragraph", "heading", "table", "list", "links", "definition", "comment", "code", "drawing", "quote", "html"]
PARTS += ["bold", "note", "aside"]


def entity_of(*texts: str, title: str = "Fox", images: tuple[ArticleImage, ...] = ()) -> Entity:
    return Entity("fox", title, tuple(Section(title, text, n) for n, text in enumerate(texts)), images=images)


def account_of(document: Document, entity: Entity | None, *reasons: Reason, images: tuple[Reason, ...] = ()) -> Any:
    ledger = Ledger("kb")
    ledger.count(document, entity, reasons, images, "kb/a.md")
    return ledger.to_json()


def lost(account: Any) -> dict[str, int]:
    return {loss["reason"]: loss["count"] for loss in account["left_out"]}


def kept_and_source(document: Document, entity: Entity | None) -> tuple[int, int]:
    words = account_of(document, entity)["words"]
    return words["kept"], words["source"]


@given(st.lists(st.text(alphabet="ab é\u2013\n\t漢ひก한हи😀", max_size=12)))
def test_words_are_counted_as_by_their_definition(texts: list[str]) -> None:
    assert words_in(texts) == sum(map(count_words, texts))


def test_what_an_entity_repeats_is_no_source() -> None:
    head = tuple(Cell(name, header=True) for name in ("Part", "Height", "Age"))
    table = Table((head, *[(Cell("Nave"), Cell("8 m"), Cell("9"))] * 9))
    document = Document([Heading(2, "Care"), Heading(3, "Diet"), Block("It eats mice."), Heading(3, "Sleep"), table])
    lines = "\n".join(table_lines(table.rows))
    sections = (Section("Care: Diet", "It eats mice.", 0), Section("Care: Sleep", lines, 1))
    assert kept_and_source(document, Entity("a", "Church", sections)) == (45, 45)


FORMS: list[tuple[Document, str]] = [
    (Document([Block("A fox/dog, Leeds\u2013Bradford; and mice.")]), "A fox / dog, leeds bradford and (mice)"),
    (Document([Block("mice birds")]), "mice,birds"),
    (Document(values={"text": "<p>It <b>runs</b>.</p><script>x = 1</script>"}), "It runs."),
    (Document(values={"text": "**It** [runs](https://x.example/a)&nbsp;far."}), "It runs far."),
    (Document([Heading(1, "Fox"), Block("Text.")], {"title": "Fox", "name": "fox"}), "Text."),
    (Document(values={"weight": 6.0, "wild": True, "seen": None, "page": "https://x.example"}), "Weight: 6"),
    (Document(values={"file": "iVBORw0KGgo" * 20, "image": {"src": "a.jpg", "width": 640}}), "Facts"),
    (Document([Block("高さは十米。")]), "高さは十米。"),
]


@pytest.mark.parametrize(("document", "text"), FORMS)
def test_forms_of_the_same_words(document: Document, text: str) -> None:
    account = account_of(document, entity_of(text, images=(ArticleImage("a.jpg"),)))
    assert account["left_out"] == [] and account["words"]["kept"] == account["words"]["source"]
    assert "kept 100.0 %" in summary_of(account)


def test_all_means_all() -> None:
    text = " ".join(f"word{number}" for number in range(5000))
    account = account_of(Document([Block(f"{text} end")]), entity_of(text))
    assert account["words"] == {"source": 5001, "kept": 5000}
    assert summary_of(account) == "kept 99.9 % of 5,001 words; left out: other words 1 word in 1 place, e.g. a.md: end"
    assert warning_of(account) == ""  # so few
    unread = {"reason": "files *.rst: convert them", "unit": "files", "count": 9, "places": 1, "example": "a.rst"}
    assert "; files *.rst: convert them 9 files" in warning_of({**account, "left_out": [*account["left_out"], unread]})


def test_a_document_that_is_left_out_counts_for_its_reason() -> None:
    document = Document([Heading(1, "License"), Block("One two.", (Picture("a.png"),))])
    account = account_of(document, None, ("licenses", ""))
    assert (account["words"], lost(account)) == ({"source": 3, "kept": 0}, {"licenses": 3})
    assert lost(account_of(document, None, ("navigation", ""))) == {"navigation": 3}
    assert account_of(document, None, ("navigation", ""))["words"] == {"source": 0, "kept": 0}


def test_articles_that_readers_yield() -> None:
    whole = Entity("a", "A", (Section("A", "a b", 0), Section("Past", "c d e", 1), Section("External links", "f g", 2)))
    ledger = Ledger("kb.json")
    reasons = [("sections titled External links", "External links\nf g")]
    ledger.count(whole, Entity("a", "A", whole.sections[:2]), reasons, [], "kb.json: entry 1 ('a')")
    ledger.count(whole, None, [("entries", "")], [], "kb.json: entry 2 ('b')")
    assert ledger.to_json()["words"] == {"source": 20, "kept": 6}  # with the titles of sections
    assert lost(ledger.to_json()) == {"sections titled External links": 4, "entries": 10}
    assert ledger.left_out["sections titled External links"].example == "entry 1 ('a'): f g"


def test_pictures_are_counted_by_name() -> None:
    pictures = tuple(
        map(Picture, ("../a/fox.jpg", "fox-300x200.jpg", "icon.svg", "den.png?x=1", "data:image/png;base64,AA"))
    )
    document = Document([Block("Text.", pictures), Block("", (Picture("ad.gif"),), kind="advertisements")])
    entity = entity_of("Text.", images=(ArticleImage("a/fox.jpg"),))
    account = account_of(document, entity, images=(("icons", "img/icon.svg"),))
    losses = {loss["reason"]: (loss["count"], loss["unit"], loss["example"]) for loss in account["left_out"]}
    assert losses == {
        "icons": (1, "images", "a.md: img/icon.svg"),
        "advertisements": (1, "images", "a.md: ad.gif"),
        "other images": (2, "images", "a.md: den.png?x=1"),
    }
    assert warning_of(account).startswith("kept 100.0 % of 1 word; left out: other images 2 images, e.g. a.md: den.png")
    inside = entity_of("Text.", images=(*entity.images, ArticleImage("embedded:a.md#1.png"), ArticleImage("den.png")))
    assert lost(account_of(document, inside)) == {"other images": 1, "advertisements": 1}
    assert lost(
        account_of(Document(values={"photos": ["b/x.jpg", "y.jpg"]}), entity_of(images=(ArticleImage("x.jpg"),)))
    ) == {"other images": 1}


def test_captions_are_words() -> None:
    pictures = Picture("a.jpg", "An alternative", "A red fox"), Picture("b.jpg", "The den"), Picture("c.jpg", "below")
    document = Document([Block("What stands below.", pictures)])
    images = (ArticleImage("a.jpg", 0, "A red fox"), ArticleImage("b.jpg"), ArticleImage("c.jpg"))
    account = account_of(document, entity_of("What stands below.", images=images))
    assert (account["words"], lost(account)) == ({"source": 8, "kept": 6}, {"other words": 2})


def test_the_account_as_text() -> None:
    ledger = Ledger("kb")
    ledger.count(
        Document([Block("a b c d"), Block("x y", kind="navigation")]), entity_of("a b"), [("ends", "d")], [], "kb/a.md"
    )
    ledger.leave_out("entries that cannot be used", "kb/b.md", 3, "entities")
    account = ledger.to_json()
    assert account == {
        "words": {"source": 4, "kept": 2},
        "pictures": {"files": 0, "found": 0, "rule": ""},
        "left_out": [
            {"reason": "entries that cannot be used", "unit": "entities", "count": 3, "places": 1, "example": "b.md"},
            {"reason": "navigation", "unit": "furniture", "count": 2, "places": 1, "example": "a.md: x y"},
            {"reason": "ends", "unit": "words", "count": 1, "places": 1, "example": "a.md: d"},
            {"reason": "other words", "unit": "words", "count": 1, "places": 1, "example": "a.md: c"},
        ],
    }
    assert warning_of(account) == summary_of(account)
    assert summary_of(account) == (
        "kept 50.0 % of 4 words; left out: entries that cannot be used 3 entities, e.g. b.md; navigation 2 words in "
        "1 place, e.g. a.md: x y; ends 1 word in 1 place, e.g. a.md: d; other words 1 word in 1 place, e.g. a.md: c"
    )
    assert [line.split() for line in table_of(account)][1:3] == [
        ["entries", "that", "cannot", "be", "used", "3", "entities", "1", "b.md"],
        ["navigation", "2", "furniture", "1", "a.md:", "x", "y"],
    ]


def test_the_number_of_reasons_is_limited() -> None:
    ledger = Ledger("kb")
    ledger.leave_out("copies", "kb.csv: line 3")
    assert ledger.left_out.pop("copies").example == "kb.csv: line 3"  # a file that is called like the folder
    for number in range(MOST_REASONS + 5):
        ledger.leave_out(f"files of kind {number}", "x", 2, "files")
    losses = ledger.to_json()["left_out"]
    assert len(losses) == MOST_REASONS + 1 and (losses[-1]["reason"], losses[-1]["count"]) == (OTHER, 10)


def test_values_may_be_nested_deeply() -> None:
    value: Any = "end"
    for _ in range(5000):
        value = [value]
    assert kept_and_source(Document(values={"a": value}), entity_of("end")) == (1, 1)


def test_the_name_of_a_file_within_values_is_no_image() -> None:
    resource = {"data": "embedded:en.enex#1.png", "width": 256, "details": {"file-name": "basalt.png"}}
    document = Document(values={"title": "Basalt", "text": "It is hard.", "resource": resource})
    account = account_of(document, entity_of("It is hard.", images=(ArticleImage("embedded:en.enex#1.png"),)))
    assert account["words"] == {"source": 4, "kept": 3} and lost(account) == {"other words": 1}  # "Basalt"
    listed = Document(values={"title": "Basalt", "photos": "1.png, more/2.png"})
    images = (ArticleImage("1.png"), ArticleImage("more/2.png"))
    assert lost(account_of(listed, entity_of("Basalt", images=images))) == {}


@pytest.mark.parametrize("form", FORMS_OF_SOURCES)
@pytest.mark.parametrize("seed", range(3))
def test_each_word_of_a_source_is_kept_or_counted(tmp_path: Path, form: str, seed: int) -> None:
    words = Words(seed)
    articles = [words.article(number, PARTS) for number in range(8)]
    path = written(tmp_path / "kb", form, articles)
    ledger = Ledger(str(path))
    entities = list(read_knowledge_base(path, ledger=ledger))
    account = ledger.to_json()
    source = [word for article in articles for word in article.words]
    texts = [text for one in entities for section in one.sections for text in (section.title, section.text)]
    texts += [image.caption for one in entities for image in one.images]
    kept = set(re.findall(r"\w+", " ".join(texts)))
    missing = [word for word in source if re.sub(r"\W", "", word) not in kept]
    assert len(entities) == len(articles)
    assert account["words"]["kept"] == len(source) - len(missing), missing
    counts = [
        sum(one["count"] for one in account["left_out"] if one["unit"] == unit) for unit in ("words", "furniture")
    ]
    assert account["words"]["source"] == account["words"]["kept"] + counts[0] and sum(counts) == len(missing)


def test_what_reading_leaves_out_is_counted(tmp_path: Path) -> None:
    row = {"title": "A", "section_titles": ["A", "Past", "External links"], "section_texts": ["a b", "c d e", "f g"]}
    path = tmp_path / "kb.json"
    path.write_text(json.dumps({"a": row, "b": {"title": "B"}}))
    ledger = Ledger(str(path))
    assert len(list(read_knowledge_base(path, skipped=SkippedEntries(1), ledger=ledger))) == 1
    assert ledger.to_json()["words"] == {"source": 10, "kept": 6}  # with the titles of sections
    assert {reason: (loss.unit, loss.count, loss.example[:21]) for reason, loss in ledger.left_out.items()} == {
        "sections titled External links": ("words", 4, "entry 1 ('a'): f g"),
        "entries that cannot be used": ("entities", 1, "entry 2 ('b'): field "),
    }


def test_few_bad_entries_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def count(good: int, bad: int, share: float = 0.01) -> int:
        lines = [json.dumps({"id": str(number), "title": "t", "sections": []}) for number in range(good)]
        (tmp_path / "kb.jsonl").write_text("\n".join(lines[:5] + ["{broken"] * bad + lines[5:]) + "\n")
        return len(list(read_knowledge_base(tmp_path / "kb.jsonl", skipped=SkippedEntries(share))))

    with caplog.at_level(logging.WARNING):
        assert (count(99, 1), count(20, 5), count(0, 3, 1)) == (99, 20, 0)
    assert "1 of 100 entries skipped (1 %): " in caplog.text and "kb.jsonl: line 6: Expecting" in caplog.text
    with pytest.raises(ValueError, match=r"6 of 105 entries cannot be used, more than 1 %: .*line 6: .*--max-bad 0.06"):
        count(99, 6)
    with pytest.raises(ValueError, match=r"kb\.jsonl: line 6: Expecting property name"):
        count(99, 1, 0)
    with pytest.raises(ValueError, match=r"100 of the first 105 entries cannot be used"):  # it is not read to its end
        count(10, 5000)
    for share in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="max_bad must be between 0 and 1"):
            SkippedEntries(share)
