"""Wiki6M, the Wikipedia that OVEN and InfoSeek were made from: one page per line, with its text in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from indexes.formats.fields import text
from indexes.formats.jsonl import read_lines
from indexes.sections import split_article, split_text
from retriever.types import ArticleImage, Entity


def read_wiki6m(path: Path) -> Iterator[tuple[str, Entity]]:
    """Yields the pages of `Wiki6M_ver_1_0.jsonl`, also compressed, with their places; ids are Wikidata's.

    The summary is the first section, under the page's title. The rest of the content follows, divided at headings
    (`== Title ==`) if it has any, otherwise into groups of paragraphs of up to `indexes.sections.WORDS` words.

    Raises:
        ValueError: A line does not fit; the message names it.
    """
    for where, row in read_lines(path):
        id = text(row, "wikidata_id", where)
        where = f"{where} ({id!r})"
        title = text(row, "wikipedia_title", where)
        image = text(row, "wikipedia_image_url", where, required=False) or None
        summary = text(row, "wikipedia_summary", where, required=False).strip()
        content = text(row, "wikipedia_content", where, required=False).strip()
        rest = content.removeprefix(summary)
        lead = [(title, summary)] if summary and (rest != content or not content) else []
        entity = Entity(
            id=id,
            title=title,
            sections=split_article([*lead, *split_text(title, rest if lead else content)]),
            image=image,
            url=f"https://en.wikipedia.org/wiki/{quote(title.replace(' ', '_'), safe=_SAFE)}",
            images=() if image is None else (ArticleImage(image, 0 if lead or content else None),),
        )
        yield where, entity


_SAFE = "/:;@!$*(),~"
"""Characters that Wikipedia does not encode in the path of a page."""
