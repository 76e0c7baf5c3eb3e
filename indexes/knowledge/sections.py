"""Sections of articles: splits texts into them, numbers them, puts them in order, and drops some by title."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from retriever.types import Entity, Section
from retriever.unspaced import count_words, first_words

WORDS = 250
"""Most words in a section of a text without headings: what step 2 can read. A Chinese character or a kana counts as a
word."""
LONGEST = 350
"""Most words in a section below a heading: what the models of step 3 can read, 512 tokens; a longer one is divided."""

FACTS = "Facts"  # title of the section with an entity's facts; it comes last, so that the others keep their numbers

DROPPED = (
    *("references", "notes", "notes and references", "references and notes", "general references", "footnotes"),
    *("explanatory notes", "endnotes", "citations", "sources", "works cited", "literature cited"),
    *("bibliography", "further reading", "see also", "external links", "references and external links"),
    *("einzelnachweise", "anmerkungen", "fußnoten", "weblinks", "siehe auch", "quellen", "literatur"),
    *("références", "notes et références", "liens externes", "voir aussi", "bibliographie", "articles connexes"),
    *("referencias", "notas", "notas y referencias", "enlaces externos", "véase también", "bibliografía"),
    *("referências", "ligações externas", "ver também", "bibliografia", "referències", "enllaços externs"),
    *("vegeu també",),
    *("note", "collegamenti esterni", "voci correlate", "altri progetti", "altri progetti e collegamenti"),
    *("referenties", "bronnen", "externe links", "externe link", "zie ook", "referenser", "källor", "externa länkar"),
    *("se även", "referanser", "eksterne lenker", "se også", "eksterne henvisninger", "aiheesta muualla", "lähteet"),
    *("przypisy", "linki zewnętrzne", "zobacz też", "externí odkazy", "související články", "külső hivatkozások"),
    *("jegyzetek", "források", "kaynakça", "liên kết ngoài"),
    *("pranala luar", "referensi", "lihat pula", "примечания", "ссылки", "литература", "см. также", "источники"),
    *("примітки", "посилання", "література", "див. також", "джерела", "παραπομπές", "εξωτερικοί σύνδεσμοι"),
    *("脚注", "出典", "参考文献", "関連項目", "外部リンク", "参考资料", "參考資料", "參考文獻", "外部链接", "外部連結"),
    *("参见", "參見", "각주", "외부 링크", "같이 보기", "참고 문헌", "المراجع", "مراجع", "وصلات خارجية", "انظر أيضا"),
    *("הערות שוליים", "קישורים חיצוניים", "לקריאה נוספת", "ראו גם", "منابع", "پیوند به بیرون", "جستارهای وابسته"),
)
"""Titles of sections with lists rather than prose, in lower case, from the largest Wikipedias."""

DROPPED_BY_REFERENCE = ("*external links*", "*references*")
"""The rule of the paper's code for E-VQA's files: any title that contains these words, even "Habitat preferences"."""


def title_rule(titles: Iterable[str]) -> Callable[[str], bool]:
    """Returns a function that tells whether to drop a section with a given title. Any text is matched by `*`."""
    patterns = ("".join(".*" if part == "*" else re.escape(part) for part in re.split(r"(\*)", t)) for t in titles)
    rule = re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or r"(?!)", re.IGNORECASE | re.DOTALL)
    return lambda title: rule.fullmatch(" ".join(title.split()).rstrip(":. ")) is not None


def without_lists(entity: Entity, dropped: Callable[[str], bool]) -> Entity:
    """Returns an entity without the sections whose title is `dropped`; text under the article's own title is kept."""
    kept = tuple(one for one in entity.sections if one.title == entity.title or not dropped(one.title))
    return entity if len(kept) == len(entity.sections) else replace(entity, sections=kept)


def divided(entity: Entity) -> Entity:
    """Returns an entity whose sections have at most `LONGEST` words; the parts of a longer one share its number."""
    if not any(_may_be_long(one.text) and count_words(one.text) > LONGEST for one in entity.sections):
        return entity
    parts = ((one, part) for one in entity.sections for part in parts_of(one.text, LONGEST))
    return replace(entity, sections=tuple(replace(one, text=part) for one, part in parts))


def _may_be_long(text: str) -> bool:
    """Returns whether a text can have more than `LONGEST` words; much faster than counting them."""
    if len(text) <= LONGEST:
        return False
    unspaced = (len(text.encode(errors="replace")) - len(text)) / 2  # at most; each takes three bytes or more
    return len(text) / 2 + unspaced > LONGEST


def parts_of(text: str, most: int = WORDS) -> Iterator[str]:
    """Yields the parts of a text: as many paragraphs, sentences or else words as have at most `WORDS` words together.

    A text of up to `most` words is one part.
    """
    if len(text) <= most or count_words(text) <= most:
        yield text.strip()
        return
    part, words = "", 0
    for unit in _units(text, _ENDS):
        size = count_words(unit)
        if part and words + size > WORDS:
            yield part.strip()
            part, words = "", 0
        part, words = part + unit, words + size
    if part.strip():
        yield part.strip()


def _units(text: str, ends: Sequence[re.Pattern[str]]) -> Iterator[str]:
    """Yields the lines of a text, divided into sentences, words or characters where they are too long for a section."""
    if not ends:
        while count_words(text) > WORDS:
            start = first_words(text, WORDS)
            yield start
            text = text[len(start) :]
        yield text
        return
    places = [0, *(match.end() for match in ends[0].finditer(text)), len(text)]
    for piece in (text[start:end] for start, end in pairwise(places) if end > start):
        yield from _units(piece, ends[1:]) if count_words(piece) > WORDS else [piece]


_SENTENCE_END = re.compile(
    r"[.!?\u2026\u061f\u06d4\u0964\u0965][\"'\u201d\u2019)\]]*\s+|[\u3002\uff01\uff1f][\u201d\u2019\u300d\u300f]*"
)
_ENDS = (re.compile(r"\n"), _SENTENCE_END, re.compile(r"\s+"))


def split_text(title: str, text: str) -> Iterator[tuple[str, str]]:
    """Yields (title, text) of the sections of an article that is a single text.

    A line `== Title ==` begins a section; deeper headings stay in its text. Text before the first one becomes a section
    under the article's title. Text without such lines is divided into sections of at most `WORDS` words, each under the
    article's title: between paragraphs, or else between sentences.
    """
    parts = _HEADING.split(text.strip())
    if len(parts) > 1:
        names = [title, *(name.strip() or title for name in parts[1::2])]
        yield from ((name, body.strip()) for name, body in zip(names, parts[::2], strict=True) if body)
        return
    lines = "\n".join(line.strip() for line in text.splitlines() if line.strip())
    yield from ((title, part) for part in parts_of(lines) if part)


_HEADING = re.compile(r"^==[ \t]*([^=\n].*?)[ \t]*==[ \t]*$", re.MULTILINE)


def split_article(sections: Iterable[tuple[str, str]]) -> tuple[Section, ...]:
    """Returns the sections (title, text) that have text, each with its position among all of them."""
    return tuple(Section(title, text, index) for index, (title, text) in enumerate(sections) if text.strip())


def without_below(
    sections: Iterable[tuple[int, str, str]], dropped: Callable[[str], bool]
) -> Iterator[tuple[str, str]]:
    """Yields (title, text) of each section (level, title, text), empty for those below one whose title is `dropped`.

    One of these without text is empty, too.
    """
    inside = 0
    for level, title, text in sections:
        if inside and level > inside:
            yield "", ""
        else:
            inside = level if level > 1 and dropped(title) else 0
            yield (title, text) if text.strip() or not inside else ("", "")


def outlined(sections: Sequence[tuple[int, str, str]]) -> list[tuple[str, str]]:
    """Returns (title, text) of each section of an outline, with what headings without text say.

    A heading without text is put before the titles of those below it ("Care: Diet"). If there are none below it, it is
    a line of the section that it is in. The first section, (level, title, text), is above all others.
    """
    above, path = [0] * len(sections), [0]
    for number in range(1, len(sections)):
        while len(path) > 1 and sections[path[-1]][0] >= sections[number][0]:
            path.pop()
        above[number] = path[-1]
        path.append(number)
    parents, texts = set(above), [[text] if text.strip() else [] for _, _, text in sections]
    for number in range(1, len(sections)):
        if sections[number][1] and not texts[number] and number not in parents:
            texts[above[number]].append(sections[number][1])
    result, groups = list[tuple[str, str]](), [""] * len(sections)
    for number, (_, title, _) in enumerate(sections):
        group = groups[above[number]] if number else ""
        title = f"{group}: {title}" if group else title
        is_line = number > 0 and number not in parents and not texts[number]
        if not texts[number] and number in parents and number:
            groups[number] = title
        result.append(("", "") if is_line or groups[number] else (title, "\n".join(texts[number])))
    return result
