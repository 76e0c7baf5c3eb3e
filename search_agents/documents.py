"""Documents of the web as text, at a bounded cost, and the chunks of long texts that fit a question.

They are HTML, plain text, JSON, CSV, feeds and PDF, in any encoding.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import numpy as np

from indexes.html_source import INVISIBLE, decode_html, parse, remove
from indexes.knowledge.readers.html import plain_html
from retriever.models.bm25 import BM25

_FEW_ELEMENTS, _MOST_ELEMENTS = 20_000, 200_000
"""Up to the first, the main text of a page is looked for; beyond the second, the rest of a page is not read."""
_LARGE = 500_000
"""Bytes of a page from which one extractor is enough; the others take half of the time."""
_FEED_PARTS = ("title", "link", "description", "summary", "content", "encoded", "pubdate", "published", "updated")
_PDF_PAGES = 100
_SHORT = 1500
"""Most characters of a notice in place of a page."""
_INVISIBLE_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?:\.0*)?(?![.\d])", re.IGNORECASE
)
_INVISIBLE_CHARACTERS = re.compile("[\u00ad\u200b\u2060-\u2064\u202a-\u202e\u2066-\u206f\ufeff\U000e0000-\U000e007f]")
_NOTICES = {
    "asks for JavaScript": re.compile(r"\bjavascript\b", re.IGNORECASE),
    "asks whether a person is reading": re.compile(
        r"captcha|\byou are (?:a )?human\b|\bnot a robot\b|checking your browser|just a moment\.\.\.", re.IGNORECASE
    ),
    "asks for consent to cookies": re.compile(
        r"(?:\bcookies?\b.*){3}|\bcookie (?:consent|wall)\b", re.IGNORECASE | re.DOTALL
    ),
}
"""What a short page says that stands in place of the one that was asked for."""


@dataclass(frozen=True, slots=True)
class WebDocument:
    """A document of the web as it was sent.

    Attributes:
        content: Its bytes.
        content_type: The server's `Content-Type`, "" if it sent none.
        is_cut: Whether its end is missing.
        may_keep: Whether its server lets it be kept for the next question.
    """

    content: bytes
    content_type: str = ""
    is_cut: bool = False
    may_keep: bool = True

    @property
    def media_type(self) -> str:
        """The type without parameters, in lower case."""
        return self.content_type.partition(";")[0].strip().lower()

    @property
    def charset(self) -> str:
        """The character set that the server names, "" if none."""
        found = re.search(r"charset\s*=\s*[\"']?\s*([\w.:-]+)", self.content_type, re.IGNORECASE)
        return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The text of a document, without what no reader sees, its title, and what was not read, "" if all was."""

    title: str
    text: str
    note: str = ""


def text_of(document: WebDocument, url: str) -> DocumentText:
    """Reads a document.

    Raises:
        ValueError: It contains no text, is of a kind that has none, or needs an extra that is not installed.
    """
    content, kind = document.content, document.media_type
    note = "The page was sent too slowly; its end is missing." if document.is_cut else ""
    if content[:1024].lstrip().startswith(b"%PDF-"):
        found = _read_pdf(content, url)
    else:
        source = decode_html(content, document.charset)
        if _is_binary(source[:1000]):
            named = "/" in kind and not re.search(r"^text/|xml|json", kind)
            raise ValueError(f"{url} is not an HTML page but {kind if named else 'binary data'}")
        start = source[:1000].lstrip().lower()
        if kind in ("application/rss+xml", "application/atom+xml") or re.search(r"<(?:rss|feed|rdf:rdf)\b", start):
            found = _read_feed(source, url)
        elif start.startswith("<") or kind in ("text/html", "application/xhtml+xml"):
            found = _read_html(source, url)
        else:
            found = DocumentText(_name(url), source)
    text = _INVISIBLE_CHARACTERS.sub("", found.text).strip()
    if not any(map(str.isalnum, text)):
        raise ValueError(f"{url} holds no text")
    title = " ".join(_INVISIBLE_CHARACTERS.sub("", found.title).split())[:300]
    return DocumentText(title or url, text, " ".join(filter(None, (note, found.note))))


def _is_binary(start: str) -> bool:
    """Returns whether the beginning of what was decoded as text has control characters that texts do not have."""
    return re.search(r"[\0-\x08\x0e-\x1a]", start) is not None


def _name(url: str) -> str:
    return PurePosixPath(unquote(urlsplit(url).path)).name


def _read_html(source: str, url: str) -> DocumentText:
    """Reads a page: its main text, or all of its text if it has too many elements to look for the main one.

    Raises:
        ValueError: It has no text, or only a notice.
    """
    try:
        from trafilatura import bare_extraction
        from trafilatura.settings import Document
    except ImportError as error:
        raise ValueError("web pages need the extra agents: pip install 'omgm[agents]'") from error
    note, end = "", _end_of_elements(source)
    if end < len(source):
        source, note = source[:end], f"The page was read up to its element {_MOST_ELEMENTS}."
    tree = parse(source)
    title = _title_of(tree)
    hints = " ".join(node.text() for node in tree.css("noscript"))
    remove([node for node in tree.css("[style]") if _INVISIBLE_STYLE.search(node.attributes.get("style") or "")])
    remove(tree.css(INVISIBLE))
    seen = tree.html or ""
    if len(tree.css("*")) > _FEW_ELEMENTS:
        text = plain_html(seen)
    else:
        document = bare_extraction(seen, url=url, include_comments=False, fast=len(source) > _LARGE)
        text = (document.text or "") if isinstance(document, Document) else ""
    if len(text) < _SHORT:
        for meaning, pattern in _NOTICES.items():
            if pattern.search(f"{title} {text if text.strip() else hints}") and len(text.split()) < 120:
                raise ValueError(f"{url} holds no text that can be read: it {meaning}; a screenshot may show more")
    return DocumentText(title, text, note)


def _end_of_elements(source: str) -> int:
    """Returns where the part of a page ends that is read."""
    for count, found in enumerate(re.finditer(r"<[A-Za-z]", source)):
        if count == _MOST_ELEMENTS:
            return found.start()
    return len(source)


def _title_of(tree: Any) -> str:
    titles = (node.text() for node in (*tree.css("head title"), *tree.css("h1")))
    shared = (
        node.attributes.get("content") or "" for node in tree.css("meta[property='og:title'], meta[name='og:title']")
    )
    return next((title for title in (*titles, *shared) if title.strip()), "")


def _read_feed(source: str, url: str) -> DocumentText:
    """Reads the entries of RSS or Atom.

    Raises:
        ValueError: It is not well-formed, or it declares entities.
    """
    if "<!ENTITY" in source:
        raise ValueError(f"{url} is a feed that declares entities, which are not read")
    try:
        root = ElementTree.fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", source))
    except ElementTree.ParseError as error:
        raise ValueError(f"{url} is a damaged feed: {error}") from error
    title = next((one.text or "" for one in root.iter() if _tag(one) == "title"), "")
    entries = [one for one in root.iter() if _tag(one) in ("item", "entry")]
    return DocumentText(title, "\n\n".join("\n".join(_entry(one)) for one in entries[:1000]))


def _entry(entry: ElementTree.Element) -> Iterator[str]:
    for part in entry:
        words = part.get("href") or part.text or ""
        if _tag(part) in _FEED_PARTS and (text := plain_html(words).strip()):
            yield text


def _tag(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2].lower()


def _read_pdf(content: bytes, url: str) -> DocumentText:
    """Reads the text of a PDF.

    Raises:
        ValueError: It cannot be read, or the extra `pdf` is not installed.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError as error:
        raise ValueError(
            f"{url} is a PDF, not an HTML page; reading it needs the extra pdf: pip install 'omgm[pdf]'"
        ) from error
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # its warnings name no file
    try:
        reader = PdfReader(io.BytesIO(content))
        pages = len(reader.pages)
        text = "\n\n".join(page.extract_text() for page in reader.pages[:_PDF_PAGES])
        title = (reader.metadata.title if reader.metadata else None) or _name(url)
    except (PyPdfError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise ValueError(f"{url} is a damaged PDF: {type(error).__name__}: {str(error)[:200]}") from error
    note = f"Only the first {_PDF_PAGES} of {pages} pages were read." if pages > _PDF_PAGES else ""
    return DocumentText(title, text, note)


CHUNK_CHARACTERS = 1200
"""About 200 words, 300 tokens."""
MAX_CHARACTERS = 4_000_000
"""Maximum characters of a page that are read, about a million tokens."""
_BREAK = re.compile(r"\n\s*\n|\n|(?<=[.!?。])\s")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a text, with its start and end in characters."""

    text: str
    start: int
    end: int


def chunks_of(text: str, size: int = CHUNK_CHARACTERS) -> list[Chunk]:
    """Cuts a text at the ends of paragraphs and sentences; sentences longer than `size` characters are cut too.

    Example:
        >>> chunks_of("One. Two. Three.", size=9)
        [Chunk(text='One. Two.', start=0, end=9), Chunk(text='Three.', start=10, end=16)]
    """
    text = text[:MAX_CHARACTERS]
    ends = [match.start() for match in _BREAK.finditer(text)]
    chunks: list[Chunk] = []
    start, next_end = 0, 0
    while start < len(text):
        limit, end = start + size, len(text)
        if limit < len(text):
            best = -1
            while next_end < len(ends) and ends[next_end] <= limit:
                best = ends[next_end]
                next_end += 1
            end = best if best > start else limit
        stripped = text[start:end].strip()
        if stripped:
            at = text.index(stripped, start)
            chunks.append(Chunk(stripped, at, at + len(stripped)))
        start = end
    return chunks


def best_chunks(question: str, chunks: Sequence[Chunk], limit: int) -> list[Chunk]:
    """Returns the `limit` best chunks for a question by BM25, best first; ties keep the order of the text."""
    [scores] = BM25().score([question], [[chunk.text for chunk in chunks]])
    order = np.argsort(-scores, kind="stable")[:limit]
    return [chunks[at] for at in order]
