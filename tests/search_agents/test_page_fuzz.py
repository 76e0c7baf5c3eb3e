"""Damaged pages, feeds and PDFs: text or a `ValueError` that says why, never another exception."""

from __future__ import annotations

import random

import pytest

from search_agents.documents import WebDocument, text_of
from tests.search_agents.test_documents import TEXTS, page, pdf

pytest.importorskip("trafilatura", reason="needs the extra agents")

CASES = 100
"""Mutations of each kind."""
PIECES = [
    b"<",
    b">",
    b"</p>",
    b"<!--",
    b"-->",
    b"<![CDATA[",
    b"&#x110000;",
    b"&amp",
    b"\x00",
    b"\xff\xfe",
    b"%PDF-1.4",
    b"obj",
]
FEED = (
    b"<?xml version='1.0' encoding='utf-8'?><rss version='2.0'><channel><title>News</title><item><title>Mill</title>"
    b"<link>https://a/1</link><description>&lt;p&gt;In &lt;b&gt;1987&lt;/b&gt;.&lt;/p&gt;</description></item>"
    b"</channel></rss>"
)
KINDS = {
    "html": [
        (page(title, text).encode(charset), f"text/html; charset={charset}") for charset, (title, text) in TEXTS.items()
    ],
    "feed": [(FEED, "application/rss+xml"), (FEED, "text/xml")],
    "pdf": [(pdf("The mill opened in 1987."), "application/pdf")],
}


def mutated(random_: random.Random, content: bytes) -> bytes:
    """Returns a document with one to eight damages."""
    for _ in range(random_.randint(1, 8)):
        at, end = sorted(random_.choices(range(len(content) + 1), k=2))
        content = random_.choice(
            [
                content[:at] + content[end:],
                content[:end],
                content[:at] + random_.choice(PIECES) * random_.randint(1, 200) + content[at:],
                content[:at] + content[at:end] * random_.randint(2, 20) + content[end:],
                content[:at] + bytes(random_.randrange(256) for _ in range(8)) + content[at + 8 :],
                content[:at] + content[at:end][::-1] + content[end:],
            ]
        )[:100_000]
    return content


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_documents(kind: str) -> None:
    if kind == "pdf":
        pytest.importorskip("pypdf", reason="needs the extra pdf")
    read = 0
    for case in range(CASES):
        random_ = random.Random(case)
        content, content_type = random_.choice(KINDS[kind])
        damaged = mutated(random_, content)
        try:
            found = text_of(WebDocument(damaged, random_.choice([content_type, ""])), "https://web/page")
        except ValueError as error:
            assert "https://web/page" in str(error)
        else:
            read += 1
            assert found.text.strip() and found.title
    assert read > 3
