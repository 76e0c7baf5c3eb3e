"""Links between the repository's Markdown pages have existing targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.paths import ROOT

GLOBS = (
    "*.md",
    "docs/*.md",
    "weights/*/*.md",
    "generators/*/*.md",
    "pretraining/demo/*.md",
    "docker/*.md",
    "tests/*/*.md",
)
PAGES = sorted(page for glob in GLOBS for page in ROOT.glob(glob))
LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")


def text_of(page: Path) -> str:
    """Returns a page without its code, which may contain lookalikes of links and headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", lambda code: re.sub(r"[\[\]]", "", code[0]), text)


def anchors(text: str) -> set[str]:
    """Returns the anchors that GitHub generates for the headings of a page."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *$", text, flags=re.MULTILINE):
        words = LINK.sub("", heading).lower()
        anchor = base = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = 0
        while anchor in found:
            number += 1
            anchor = f"{base}-{number}"
        found.add(anchor)
    return found


def broken(page: Path) -> list[str]:
    """Returns the relative links of a page whose file or heading does not exist."""
    missing = []
    for link in LINK.findall(text_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(text_of(target))):
            missing.append(link)
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {link.partition("#")[0] for link in LINK.findall(text_of(index))}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - linked == {index.name}


def test_the_documentation_stays_small() -> None:
    """A README that is read to its end, and no page for what another one says."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 850
    pages = [page.read_text(encoding="utf-8").split() for page in (ROOT / "docs").glob("*.md")]
    assert len(pages) <= 20 and sum(map(len, pages)) <= 30_000
    assert max(path.stat().st_size for path in (ROOT / "docs").glob("*.gif")) <= 2_000_000


def test_what_counts_as_broken(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page, of `code` & more\n## Twice\n## Twice\n[a](#a-page-of-code--more) [b](other.md#end) [c](#twice-1)\n"
        "```sh\n# Not a heading [x](nowhere.md)\n```\n`[y](nowhere.md)` [z](https://example.org)\n"
        "[d](none.md) [e](other.md#no) [f](#not-a-heading)\n"
    )
    (tmp_path / "other.md").write_text("# End\n")
    assert broken(page) == ["none.md", "other.md#no", "#not-a-heading"]
