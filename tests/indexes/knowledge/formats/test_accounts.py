"""Each word of a source is kept, or counted as left out: in every format, for articles of made-up words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from indexes.knowledge.formats import read_knowledge_base
from indexes.knowledge.formats.losses import Losses
from tests.fakes.made_articles import FORMS, Words, written

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
    entities = list(read_knowledge_base(path, losses=losses))
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
