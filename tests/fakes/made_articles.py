"""Articles of made-up words, each of which occurs once, written in every format that has text.

What a reader of the page sees can so be told from what an index holds, word by word.
"""

from __future__ import annotations

import csv
import html
import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import yaml


@dataclass
class Made:
    """An article: its title, and (kind, content) of each part. All words of the parts are in `words`."""

    title: str
    parts: list[tuple[str, Any]]
    words: list[str] = field(default_factory=list)


class Words:
    """Makes words that occur once."""

    def __init__(self, seed: int) -> None:
        self.chance, self._count = random.Random(seed), 0

    def some(self, least: int, most: int, into: list[str]) -> str:
        """Returns some words, and adds them to a list."""
        found = []
        for _ in range(self.chance.randint(least, most)):
            self._count += 1
            found.append(f"w{self._count}x")
        into += found
        return " ".join(found)

    def article(self, number: int, kinds: list[str]) -> Made:
        """Returns an article with parts of some kinds."""
        made = Made(f"Title{number}", [])
        for _ in range(self.chance.randint(2, 7)):
            kind = self.chance.choice(kinds)
            made.parts.append((kind, self._part(kind, made.words)))
        made.parts.append(("paragraph", self.some(3, 9, made.words) + "."))
        return made

    def _part(self, kind: str, into: list[str]) -> Any:
        if kind == "table":
            columns, rows = self.chance.randint(2, 4), self.chance.randint(1, 3)
            table = [[self.some(1, 2, into) for _ in range(columns)] for _ in range(rows + 1)]
            for row in table[1:]:
                if self.chance.random() < 0.3:
                    empty = self.chance.randrange(1, columns)
                    for word in row[empty].split():
                        into.remove(word)
                    row[empty] = ""
            return table
        if kind in ("list", "links"):
            return [self.some(1, 4, into) for _ in range(self.chance.randint(2, 4))]
        if kind == "definition":
            return self.some(1, 2, into), self.some(1, 5, into)
        if kind == "heading":
            return self.some(1, 3, into), self.some(3, 9, into)
        return self.some(3, 9, into)


def markdown(made: Made) -> str:
    """Writes an article as Markdown."""
    lines = [f"# {made.title}", ""]
    for kind, content in made.parts:
        if kind == "heading":
            lines += [f"## {content[0]}", "", f"{content[1]}."]
        elif kind == "table":
            rows = [f"| {' | '.join(row)} |" for row in content]
            lines += [rows[0], f"|{' --- |' * len(content[0])}", *rows[1:]]
        elif kind == "list":
            lines += [f"- {one}" for one in content]
        elif kind == "links":
            lines += [f"[{one}](a.md)" for one in content]
        elif kind == "definition":
            lines += [content[0], f": {content[1]}"]
        else:
            form = {"comment": "%%{}%%", "code": "```python\n{}\n```", "drawing": "```mermaid\n{}\n```"}
            form |= {"quote": "> {}", "html": "<div><p>{}</p></div>", "bold": "**{}**", "note": "text[^1]\n\n[^1]: {}"}
            lines.append(form.get(kind, "{}").format(content))
            made.words += ["text"] if kind == "note" else []
        lines.append("")
    return "\n".join(lines)


def page(made: Made) -> str:
    """Writes an article as an HTML page."""
    parts = [f"<h1>{made.title}</h1>"]
    for kind, content in made.parts:
        if kind == "heading":
            parts.append(f"<h2>{content[0]}</h2><p>{content[1]}.</p>")
        elif kind == "table":
            head, *rows = ("".join(f"<td>{cell}</td>" for cell in row) for row in content)
            head = head.replace("td>", "th>")
            parts.append(f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>")
        elif kind == "list":
            parts.append(f"<ul>{''.join(f'<li>{one}</li>' for one in content)}</ul>")
        elif kind == "links":
            parts.append(f"<nav>{''.join(f'<a href=a.html>{one}</a> ' for one in content)}</nav>")
        elif kind == "definition":
            parts.append(f"<dl><dt>{content[0]}</dt><dd>{content[1]}</dd></dl>")
        else:
            form = {"comment": '<div class="comments">{}</div>', "code": "<pre>{}</pre>", "drawing": "<math>{}</math>"}
            form |= {"quote": "<blockquote>{}</blockquote>", "html": "<div><p>{}</p></div>", "bold": "<b>{}</b>"}
            form |= {"note": "<sup class=reference>{}</sup>", "aside": "<section><p>{}</p></section>"}
            parts.append(form.get(kind, "<p>{}</p>").format(content))
    return f"<!DOCTYPE html><html><head><title>{made.title}</title></head><body>{''.join(parts)}</body></html>"


def wikitext(made: Made) -> str:
    """Writes an article as wikitext."""
    parts = []
    for kind, content in made.parts:
        if kind == "heading":
            parts.append(f"== {content[0]} ==\n{content[1]}.")
        elif kind == "table":
            head, *rows = content
            lines = [f"! {' !! '.join(head)}", *(f"|-\n| {' || '.join(row)}" for row in rows)]
            parts.append("\n".join(("{| class=wikitable", *lines, "|}")))
        elif kind in ("list", "links"):
            parts.append("\n".join(f"* {one}" for one in content))
        elif kind == "definition":
            made.words.append("lead.")
            parts.append(f"{{{{Infobox x|{content[0].split()[0]}={content[1]}}}}}\nlead.")
            made.words[:] = [word for word in made.words if word not in content[0].split()]  # a name is no text
        else:
            form = {"comment": "<ref>{}</ref>", "code": "<pre>{}</pre>", "drawing": "<math>{}</math>"}
            form |= {
                "quote": "{{{{quote|{}}}}}",
                "html": "<div>{}</div>",
                "bold": "'''{}'''",
                "note": "{{{{zork|{}}}}}",
            }
            form |= {"aside": "[[File:a.jpg|thumb|{}]]"}
            parts.append(form.get(kind, "{}").format(content))
    return "\n\n".join(parts)


def dump(articles: list[Made]) -> str:
    """Writes articles as a dump of MediaWiki."""
    pages = (
        f"<page><title>{one.title}</title><ns>0</ns><id>1</id><revision><id>1</id>"
        f"<text>{escape(wikitext(one))}</text></revision></page>"
        for one in articles
    )
    head = (
        "<siteinfo><base>https://w.example/wiki/Main</base><namespaces><namespace key='6'>File</namespace></namespaces>"
    )
    return f"<mediawiki>{head}</siteinfo>{''.join(pages)}</mediawiki>"


def rows(articles: list[Made]) -> Iterator[dict[str, Any]]:
    """Yields articles as rows: texts and facts by name."""
    for one in articles:
        row: dict[str, Any] = {"title": one.title}
        for number, (kind, content) in enumerate(one.parts):
            if kind == "table":
                row[f"f{number}"] = ", ".join(cell for line in content for cell in line if cell)
            elif kind in ("heading", "definition"):
                row[f"f{number}"] = " ".join(content)
            else:
                row[f"f{number}"] = ", ".join(content) if isinstance(content, list) else content
        yield row


def written(folder: Path, form: str, articles: list[Made]) -> Path:
    """Writes articles in a format, and returns the knowledge base."""
    folder.mkdir(parents=True, exist_ok=True)
    if form in ("markdown", "website"):
        write, suffix = (markdown, "md") if form == "markdown" else (page, "html")
        for one in articles:
            (folder / f"{one.title}.{suffix}").write_text(write(one), encoding="utf-8")
        return folder
    path = folder / {
        "mediawiki": "kb.xml",
        "csv": "kb.csv",
        "yaml": "kb.yml",
        "evqa": "kb.json",
        "xml": "rows.xml",
    }.get(form, "kb.jsonl")
    path.write_text(_FORMS[form](articles), encoding="utf-8")
    return path


def _csv(articles: list[Made]) -> str:
    found = list(rows(articles))
    names = list(dict.fromkeys(name for row in found for name in row))
    file = io.StringIO()
    table = csv.DictWriter(file, names)
    table.writeheader()
    table.writerows(found)
    return file.getvalue()


def _xml(articles: list[Made]) -> str:
    things = (
        "".join(f"<{name}>{html.escape(value)}</{name}>" for name, value in row.items()) for row in rows(articles)
    )
    return f"<things>{''.join(f'<thing>{thing}</thing>' for thing in things)}</things>"


def _evqa(articles: list[Made]) -> str:
    entries = {}
    for row in rows(articles):
        title = row.pop("title")
        entries[title] = {"title": title, "section_titles": [title] * len(row), "section_texts": list(row.values())}
    return json.dumps(entries)


def _wiki6m(articles: list[Made]) -> str:
    found = ((row.pop("title"), row) for row in rows(articles))
    return "".join(
        json.dumps({"wikidata_id": title, "wikipedia_title": title, "wikipedia_content": "\n".join(row.values())})
        + "\n"
        for title, row in found
    )


def _own(articles: list[Made]) -> str:
    found = ((row.pop("title"), row) for row in rows(articles))
    return "".join(
        json.dumps({"id": title, "title": title, "sections": [{"title": title, "text": text} for text in row.values()]})
        + "\n"
        for title, row in found
    )


_FORMS: dict[str, Callable[[list[Made]], str]] = {
    "mediawiki": dump,
    "csv": _csv,
    "xml": _xml,
    "evqa": _evqa,
    "wiki6m": _wiki6m,
    "own": _own,
    "jsonl": lambda articles: "".join(json.dumps(row) + "\n" for row in rows(articles)),
    "yaml": lambda articles: yaml.safe_dump(list(rows(articles))),
}
FORMS = ("markdown", "website", *_FORMS)
