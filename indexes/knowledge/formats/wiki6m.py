"""Wiki6M, the Wikipedia that OVEN and InfoSeek were made from: one page per line, with its text in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from indexes.knowledge.formats.fields import text
from indexes.knowledge.formats.json_rows import read_rows
from indexes.knowledge.formats.outline import split_article
from indexes.knowledge.formats.reading import Reading
from indexes.knowledge.formats.skipped import Entry, attempt
from indexes.knowledge.sections import split_text
from retriever.types import ArticleImage, Entity


def read_wiki6m(path: Path, reading: Reading) -> Iterator[Entry]:
    """Yields the pages of `Wiki6M_ver_1_0.jsonl`, also compressed, with their places; ids are Wikidata's.

    The summary is the first section, under the page's title. The rest of the content follows, divided at headings
    (`== Title ==`) if it has any, otherwise into groups of paragraphs of up to `WORDS` words
    (`indexes.knowledge.sections`).

    Raises:
        ValueError: The file cannot be read at all.
    """
    for where, row in read_rows(path):
        if isinstance(row, ValueError):
            yield where, row
            continue
        id = row.get("wikidata_id") if isinstance(row, dict) else None
        place = f"{where} ({id!r})" if isinstance(id, str) else where
        yield attempt(place, partial(_entity, row, place, reading))


def _entity(row: Any, where: str, reading: Reading) -> Entity:
    names = reading.names
    id = text(row, names.get("id", "wikidata_id"), where)
    title = text(row, names.get("title", "wikipedia_title"), where)
    image = text(row, names.get("image", "wikipedia_image_url"), where, required=False) or None
    summary = text(row, "wikipedia_summary", where, required=False).strip()
    content = text(row, names.get("text", "wikipedia_content"), where, required=False).strip()
    rest = content.removeprefix(summary)
    lead = [(title, summary)] if summary and (rest != content or not content) else []
    url = text(row, names["url"], where, required=False) if "url" in names else ""
    return Entity(
        id=id,
        title=title,
        sections=split_article([*lead, *split_text(title, rest if lead else content)], title, reading.losses),
        image=image,
        url=url or f"https://en.wikipedia.org/wiki/{quote(title.replace(' ', '_'), safe=_SAFE)}",
        images=() if image is None else (ArticleImage(image, 0 if lead or content else None),),
    )


_SAFE = "/:;@!$*(),~"
"""Characters that Wikipedia does not encode in the path of a page."""
