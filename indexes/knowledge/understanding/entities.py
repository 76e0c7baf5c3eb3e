"""Makes the entity of a document: its title, sections, facts and images; what is left out is said with its reason."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from indexes.knowledge.bad_entries import NoThing
from indexes.knowledge.document import Document, Heading, Part, Table
from indexes.knowledge.embedded import embedded_name, is_embedded_image
from indexes.knowledge.identity import is_whole_file, note_title
from indexes.knowledge.image_rules import OWN_FILE, OWN_TABLE
from indexes.knowledge.sections import split_article, split_text
from indexes.knowledge.understanding.articles import Article, Context, Reason, is_wiki
from indexes.knowledge.understanding.facts import as_sections, facts_of
from indexes.knowledge.understanding.fields import looks_like_image
from indexes.knowledge.understanding.furniture import (
    AROUND,
    edges,
    title_of,
    without_furniture,
)
from indexes.knowledge.understanding.values import Understood, fields_listed, understood
from retriever.types import Entity


@dataclass(slots=True)
class Meaning:
    """The entity of a document, and what of the document is not in it, unless it is the `is_whole` entry."""

    entity: Entity
    words: list[Reason] = field(default_factory=list)
    images: list[Reason] = field(default_factory=list)
    is_whole: bool = False


def meaning_of(document: Document, place: str, path: str, context: Context) -> Meaning | ValueError:
    """Returns the entity of a document, or why there is none.

    Args:
        document: The document.
        place: Its place, for messages.
        path: The path of its file in the knowledge base.
        context: What is known of its source.
    """
    is_page, is_file = document.is_page, is_whole_file(place, path)
    try:
        values = _of_page(document, context) if is_page else understood(document.values, context.shape, place)
    except ValueError as error:
        return error
    words = list(values.left_out)
    parts = list(_own_parts(document, is_page, context, words))
    lead = None if is_page else _title_heading(parts)
    title = values.title or (title_of(document, context.furniture) if is_page else document.title)
    if not title and lead is not None:
        title = _text(parts[lead])
    if not title:
        title = _name_of(document, values, path, context, is_file=is_file)
    if not title:
        named = context.shape.names.get("title")
        missing = f"field {named!r} is missing" if named else "no title"
        fields = fields_listed(document.values)
        return NoThing(f"{place}: {missing}; if it has another name, pass --map title=NAME; it has {fields}")
    article = Article(document, document.base or path, title, context, words)
    article.read(parts, lead)
    sections = article.sections()
    if not any(text.strip() for _, text in sections):
        sections[:1] = [pair for _, text in values.text for pair in split_text(title, text)]
    else:
        sections += values.text  # what a note says of itself beside its text
    facts = as_sections(values.facts, context.shape.sections)
    written = [(_named(url, path, context, bool(parts)), caption) for url, caption in values.images]
    return Meaning(
        Entity(
            id=values.id or document.id,
            title=title,
            sections=split_article([*sections, *facts]),
            image=article.main([url for url, _ in written]),
            url=values.url or document.url,
            images=article.all_images(written),
            names=tuple(dict.fromkeys(name for name in (*values.names, *document.names) if name and name != title)),
            named_after=((OWN_FILE if is_file else OWN_TABLE, path), *values.named_after),
        ),
        words,
        [*article.left_out, *values.left_out],
    )


def _of_page(document: Document, context: Context) -> Understood:
    """Returns what the values of a page say: those of an infobox are facts; others are named by `--map`."""
    named = {field: document.settings.get(name, "") for field, name in context.shape.names.items()}
    facts = [fact for name, value in document.values.items() for fact in facts_of(name, value)]
    image = named.get("image", "")
    return Understood(
        id=named.get("id", ""),
        title=named.get("title", ""),
        url=named.get("url", ""),
        facts=facts,
        images=[(image, "")] if image else [],
    )


def _own_parts(document: Document, is_page: bool, context: Context, words: list[Reason]) -> list[Part]:
    """Returns the parts of a document that belong to its thing; the others are added to `words`."""
    kinds = AROUND if context.keep_navigation else frozenset()
    kept: list[Part] = []
    for part in document.parts:
        if isinstance(part, Heading) or not part.kind or part.kind in kinds:
            kept.append(part)
        else:
            words.append((part.kind, _text(part)))
    if context.keep_navigation:
        return kept
    if is_page and not is_wiki(document):
        start, end = edges(kept)
        words += [("navigation", _text(part)) for part in (*kept[:start], *kept[end:])]
        kept = kept[start:end]
    title = (title_of(document, context.furniture) or document.id) if is_page else ""
    marked = list(without_furniture(kept, title, context.furniture))
    words += [(kind, _text(part)) for part, kind in marked if kind]
    return [part for part, kind in marked if not kind]


def _text(part: Part) -> str:
    if isinstance(part, Table):
        return "\n".join(" ".join(cell.text for cell in row) for row in part.rows)
    return part.text


def _title_heading(parts: Sequence[Part]) -> int | None:
    """Returns the number of the heading that is a note's title: the first one, if it is above all others.

    A first-level heading before any text is the title even if other first-level headings follow.
    """
    levels = [(number, part.level) for number, part in enumerate(parts) if isinstance(part, Heading)]
    if not levels or not any(map(str.isalnum, _text(parts[levels[0][0]]))):
        return None
    number, level = levels[0]
    leads = not any(_text(part) for part in parts[:number])
    highest = [other for _, other in levels].count(level) == 1 and level == min(other for _, other in levels)
    return number if (level == 1 and leads) or (highest and (leads or level == 1)) else None


def _name_of(document: Document, values: Understood, path: str, context: Context, *, is_file: bool) -> str:
    """Returns what a document without a title is called: its key, or its file if it says something itself."""
    if not is_file:
        return PurePosixPath(document.id).stem if looks_like_image(document.id) else document.id
    says_something = document.is_page or document.parts or context.shape.is_note or values.text or values.images
    return note_title(path, context.folder, context.common) if says_something else ""


def _named(url: str, path: str, context: Context, is_article: bool) -> str:
    """Returns the path of an image that a value names, seen from the document's file."""
    if url.startswith("data:") or is_embedded_image(url):
        return embedded_name(path, url)
    if is_article:
        return context.resolve(url, path)
    folder = posixpath.dirname(path)
    if not folder or "//" in url or url.startswith(("/", "embedded:")):
        return url
    return posixpath.normpath(f"{folder}/{url}")
