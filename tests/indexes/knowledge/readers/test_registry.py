"""Readers by their names; tests/docs/test_strangers.py adds one from another package."""

from __future__ import annotations

import pytest

from indexes.knowledge.readers.registry import reader_named


def test_an_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="format 'docx' is unknown; use one of zim, epub, evqa, infoseek"):
        reader_named("docx")
