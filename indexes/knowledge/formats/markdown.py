"""A folder of Markdown files with their images: one article per file."""

from __future__ import annotations

import logging
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from indexes.knowledge.formats import front_matter
from indexes.knowledge.formats.embeds import is_drawing, part_of, without_drawing
from indexes.knowledge.formats.encodings import BEGINNING, encoding_of, not_utf8
from indexes.knowledge.formats.facts import as_sections, plain, plain_title, short_values
from indexes.knowledge.formats.fields import Names, field_of, looks_like_image, string_of
from indexes.knowledge.formats.html_text import Heading, Image, Piece
from indexes.knowledge.formats.includes import with_included
from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.markdown_text import is_icon, note_name, parse
from indexes.knowledge.formats.note_files import article_files, as_words, common_names, named_by, with_line_breaks
from indexes.knowledge.formats.outline import outlined, split_article
from indexes.knowledge.formats.page_images import BADGE, photos_first, source_of
from indexes.knowledge.formats.reading import Entry, Reading, SeenHashes, attempt
from indexes.knowledge.formats.row_images import row_images
from indexes.knowledge.formats.selection import in_same_languages
from indexes.knowledge.formats.site_markup import Note, without_site_markup
from indexes.knowledge.ids import hash_id
from indexes.knowledge.image_files import ImageFiles
from indexes.knowledge.image_keys import OWN_FILE
from retriever.types import ArticleImage, Entity

logger = logging.getLogger(__name__)

_VALUE = re.compile(r"([^\W\d][\w -]{0,40}: )([^\n:]{1,400})")
"""A line with a label and a value."""

_SAMPLE, _FEWEST = 60, 6


def read_markdown(path: Path, reading: Reading) -> Iterator[Entry]:
    """Yields the articles of the Markdown files under a folder, sorted by path; without any, of its text files.

    A heading of any level begins a section. An image belongs to its section; the first image is the main one, unless
    the front matter names another. Title, id and URL come from the front matter. Without them, the title is the heading
    above all others, or else the name of the file or its folder, and the id is the path without extension.

    Raises:
        ValueError: The folder contains no Markdown file.
    """
    files = article_files(path)
    if not files:
        raise ValueError(f"{path}: no Markdown file (*.md) in this folder")
    every, files = files, list(filter(reading.has_file, files))
    beside = in_same_languages(every, files, path)
    names, losses = reading.names, reading.losses
    notes = _Notes(path, beside, reading, ImageFiles(path))
    shared = notes.shared_by(files) | (notes.shared_by(beside) if beside is not every else frozenset())
    ids, unseen = SeenHashes(), set(names)
    for file in files:
        losses.at(str(file))
        where, entry = attempt(str(file), partial(notes.read, file, shared, reading))
        if isinstance(entry, Entity):
            unseen -= {field for field in unseen if notes.has(field)}
            if not entry.sections and entry.image is None:
                losses.leave_out("notes without text and image", unit="files")
                continue  # only settings
            if not ids.add(hash_id(entry.id)):
                entry = replace(entry, id=posixpath.splitext(file.relative_to(path).as_posix())[0])
        yield where, entry
    for field in sorted(unseen):
        logger.warning("%s: --map %s=%s: no front matter has it", path, field, names[field])


def _listed(lines: Sequence[str]) -> str:
    """Returns lines as a text; values with the same label in a row, such as places, become one list."""
    found: list[str] = []
    for line in lines:
        old, new = (_VALUE.fullmatch(one) for one in (found[-1] if found else "", line))
        if old is not None and new is not None and old[1] == new[1]:
            found[-1] += f"; {new[2]}"
        else:
            found.append(line)
    return "\n".join(found)


class _Notes:
    """The notes in a folder."""

    def __init__(self, folder: Path, files: Sequence[Path], reading: Reading, images: ImageFiles) -> None:
        self._folder, self._reading, self._images = folder, reading, images
        self._is_vault = (folder / ".obsidian").is_dir()  # in which a note's title is its file name
        self._files = {note_name(file.name): file for file in reversed(files)}
        self._named = frozenset(self._files)
        self._common = common_names(files)
        self._settings: dict[str, Any] = {}
        self._fields: list[tuple[str, str]] = []

    def has(self, field: str) -> bool:
        """Returns whether the most recently read note has a field in its front matter."""
        return field_of(self._settings, field, self._reading.names)[1] is not None

    def shared_by(self, files: Sequence[Path]) -> frozenset[str]:
        """Returns the lines of links that at least half of a sample of notes share; none for fewer than six notes."""
        counts: Counter[str] = Counter()
        files = files[:: max(len(files) // _SAMPLE, 1)]
        for file in files if len(files) >= _FEWEST and not self._reading.keep_navigation else ():
            with suppress(ValueError):  # reported when it is read
                pieces = self._pieces(file, _text_of(file), Losses())
                counts.update({one.text for one in pieces if isinstance(one, Piece) and one.is_links})
        return frozenset(line for line, count in counts.items() if line and count >= max(len(files) / 2, 3))

    def read(self, file: Path, shared: frozenset[str], reading: Reading) -> Entity:
        """Returns the article in a file, without the lines in `shared`.

        Raises:
            ValueError: The file cannot be read, or is not UTF-8.
        """
        name = file.relative_to(self._folder).as_posix()
        text, losses, names = _text_of(file), reading.losses, reading.names
        losses.at(str(file), text)
        pieces = self._pieces(file, text, losses)
        settings = self._settings
        if is_drawing(settings) and not any(isinstance(one, Piece) and one.text for one in pieces):
            return Entity(posixpath.splitext(name)[0], "", ())
        title = front_matter.without_links(plain_title(_setting(settings, "title", str(file), names)))
        first = _title_heading(pieces)
        called = named_by(name, self._folder.resolve().name, self._common)
        if not title and self._is_vault and any(map(str.isalpha, called)):
            title = called
        elif not title:
            title = as_words(called) if first is None else pieces[first].text
        lead = title if first is None else pieces[first].text
        sections: list[tuple[int, str, list[str]]] = [(0, lead, [])]
        found: list[ArticleImage] = []
        for number, piece in enumerate(pieces):
            if isinstance(piece, Heading):
                if number != first:
                    sections.append((piece.level, piece.text, []))
                continue
            if piece.text in shared:
                losses.leave_out("navigation", piece.text)
            elif piece.text:
                sections[-1][2].append(piece.text)
            for target, caption in filter(None, map(_link, piece.images)):
                url = self._images.path_of(target, name)
                if "//" in url and BADGE.search(url):
                    losses.leave_out("badges", url, unit="images")
                elif url:
                    found.append(ArticleImage(url, len(sections) - 1, caption))
        texts = outlined([(level, heading, _listed(lines)) for level, heading, lines in sections], losses)
        used = []
        if not any(text.strip() for _, text in texts):  # a page with only a description
            texts[0] = title, plain(_setting(settings, "text", str(file), names))
            used = [field_of(settings, "text", names)[0]]
        shown = row_images(settings, str(file), names, losses)
        named = {self._images.path_of(one, name): said for one, said in shown.captions.items() if _is_image(one)}
        given = list(named) or [self._images.path_of(one, name) for one in front_matter.resources_in(settings)]
        keys = (key for key in settings if key.lower() in ("alias", "aliases"))
        aliases = {key: others for key in keys if (others := list(_aliases(settings[key])))}
        facts = list(front_matter.facts_in(settings, {*used, *aliases, *shown.fields}, names, losses))
        facts += [
            fact
            for field, value in (*self._fields, *shown.texts)
            for fact in front_matter.property_facts(field, value, losses)
        ]
        inside = [image.url for image in found]
        main = next(iter(photos_first([*given, *inside])), None)
        more = [one for one in given if one not in inside and (one != main or named.get(one))]
        found += [ArticleImage(one, None, named.get(one, "")) for one in more]
        return Entity(
            id=_setting(settings, "id", str(file), {"id": "id"} | dict(names)) or posixpath.splitext(name)[0],
            title=title,
            sections=split_article([*texts, *as_sections(facts, losses)], title, losses),
            image=main,
            url=_setting(settings, "url", str(file), names),
            images=tuple(found),
            names=tuple(chain.from_iterable(aliases.values())),
            named_after=((OWN_FILE, name), *short_values(settings)),
        )

    def _pieces(self, file: Path, text: str, losses: Losses) -> list[Heading | Piece]:
        """Returns the parts of a note, and keeps its settings and the properties in its text."""
        self._settings, body = front_matter.split_front_matter(text)
        brought: dict[Path, set[int]] = {file: set(range(text.count("\n") + 1))}

        def embedded(target: str) -> str:
            name, _, part = target.partition("#")
            other = self._files.get(note_name(name)) if name.strip() else file
            text = ""
            if other is not None:
                settings, body = front_matter.split_front_matter(_text_of(other))
                body = without_drawing(settings, body, Losses())
                text = part_of(body, part, brought.setdefault(other, set()))
            losses.leave_out("embedded notes that are missing or repeat", "" if text else target)
            return text

        note = Note(losses, embedded)
        body = with_included(without_drawing(self._settings, body, losses), file, self._folder, losses)
        text = without_site_markup(body, note, components=file.suffix.lower() == ".mdx")
        self._fields = [(name, " ".join(map(_words, parse(value, Losses())))) for name, value in note.fields]
        return parse(text, losses, self._named, indented_code=file.suffix.lower() != ".mdx")


def _words(piece: Heading | Piece) -> str:
    return " ".join(piece.text.split())


def _is_image(named: str) -> bool:
    return looks_like_image(named) or "://" in named


def _link(image: Image) -> tuple[str, str] | None:
    """Returns the target of an image and its caption, `None` for an icon."""
    given = image.attributes
    target = source_of(given)
    if not target or is_icon(given.get("width") or given.get("height") or ""):
        return None
    return target, image.caption or " ".join((given.get("alt") or "").split())


def _text_of(file: Path) -> str:
    try:
        content = file.read_bytes()
        text = content.decode(encoding_of(content[:BEGINNING]))
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        return with_line_breaks(text) if file.suffix.lower() == ".txt" else text
    except UnicodeDecodeError as error:
        raise not_utf8(f"{file}: byte {error.start}", file, error) from error
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from error


def _setting(settings: dict[str, Any], field: str, where: str, names: Names) -> str:
    """Returns a text from the front matter; "" for other values, which may be meant for other programs."""
    name, value = field_of(settings, field, names)
    if isinstance(value, str | int) and not isinstance(value, bool):
        return " ".join(string_of(value, where, name).split())
    return ""


def _aliases(value: Any) -> Iterator[str]:
    """Yields the aliases of a note, which are a list or separated by commas, as in Obsidian."""
    aliases = value.split(",") if isinstance(value, str) else value
    for alias in aliases if isinstance(aliases, list) else ():
        if isinstance(alias, str) and alias.strip():
            yield " ".join(alias.split())


def _title_heading(pieces: list[Heading | Piece]) -> int | None:
    """Returns the position of the heading that is the article's title: the first one, if it is above all others.

    A first-level heading before any text is the title even if other first-level headings follow.
    """
    headings = [(number, piece.level) for number, piece in enumerate(pieces) if isinstance(piece, Heading)]
    if not headings:
        return None
    number, level = headings[0]
    if not any(map(str.isalnum, pieces[number].text)):  # a template, whose words are elsewhere
        return None
    leads = not any(isinstance(piece, Piece) and piece.text for piece in pieces[:number])
    highest = [one for _, one in headings].count(level) == 1 and level == min(one for _, one in headings)
    return number if (level == 1 and leads) or (highest and (leads or level == 1)) else None
