"""Third-party archives, fetched by `tests/fetch_archives.sh` (`make test-archives`); skipped without them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from indexes.image_source import find_main
from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.sources import open_images
from tests.fakes.reading import read
from tests.paths import ROOT

ARCHIVES = Path(os.environ.get("OMGM_ARCHIVES", ROOT / "artifacts" / "archives"))
SUITE, KIWIX = ARCHIVES / "zim-testing-suite" / "data", ARCHIVES / "kiwix-js" / "tests" / "zims"
RAY_CHARLES = KIWIX / "legacy-ray-charles" / "wikipedia_en_ray_charles_2015-06.zimaa"

pytestmark = pytest.mark.skipif(not SUITE.is_dir(), reason="needs archives by others: tests/fetch_archives.sh")
NO_TEXT = re.compile(r"\[\d+\]|\[edit\]|This article is issued from|Creative Commons", re.IGNORECASE)


def files(pattern: str) -> list[Path]:
    found = sorted(SUITE.glob(pattern)) if SUITE.is_dir() else []
    return found or [SUITE / "none.zim"]


@pytest.mark.parametrize("path", files("*/invalid.*.zim"), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_damage_is_named_or_does_no_harm(path: Path) -> None:
    try:
        list(read_knowledge_base(path, "zim", skipped=SkippedEntries(1)))
    except ValueError as error:
        assert path.name in str(error)


@pytest.mark.parametrize("path", files("*/wikibooks_be_all_nopic_2017-02.zim"), ids=lambda path: path.parent.name)
def test_wikibooks_whole_and_split(path: Path) -> None:
    whole = read(path, "zim")
    assert len(whole) >= 60
    assert read(next(path.parent.glob(f"{path.stem}_*.zimab")), "zim") == whole
    assert not any(NO_TEXT.search(section.text) for entity in whole for section in entity.sections)


def test_ray_charles() -> None:
    found = {entity.title: entity for entity in read(RAY_CHARLES, "zim")}
    assert len(found) == 84
    source = open_images(None, RAY_CHARLES, "zim")
    assert source is not None
    assert sum(find_main(source, entity) is not None for entity in found.values()) == 61
    assert "All the lonely people" in found["Eleanor Rigby"].names
    assert not any(NO_TEXT.search(section.text) for entity in found.values() for section in entity.sections)


def test_a_crawl_has_neither_navigation_nor_badges() -> None:
    found = read(KIWIX / "tonedear" / "tonedear.com_en_2024-09.zim", "zim")
    assert len(found) == 11 and not any(entity.image for entity in found)
    texts = [section.text for entity in found for section in entity.sections]
    assert len(set(texts)) == len(texts) and not any("App Store" in text for text in texts)
