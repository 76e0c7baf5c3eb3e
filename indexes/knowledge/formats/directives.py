"""Directives in Markdown: `{note}` of MyST and Jupyter Book, and code cells of Quarto and R Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.text_tables import comma_rows, listed_rows, pipe_table

_OPENED = re.compile(r"[ \t]*(`{3,}|~{3,}|:{3,})[ \t]*\{(?:\.(?=list-table))?([A-Za-z][\w:+.-]*)([^{}\n]*)\}[ \t]*(.*)")
_DRAWN_BLOCK = re.compile(r"[ \t]*(:{3,})[ \t]*(\w+)[ \t]*")
"""A drawing, as in Azure's wikis; other blocks of this form are admonitions."""
_ADMONITION = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*ad-[\w-]+[ \t]*")
"""An admonition, as in Obsidian, whose options are lines `title: …`."""
_SAID = re.compile(r"[ \t]*(title|collapse|icon|color):[ \t]*(.*)", re.IGNORECASE)
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_OPTION = re.compile(r"[ \t]*(?::([\w-]+):|#\|[ \t]*([\w.-]+):)[ \t]*(.*)")
_MORE = re.compile(r"[ \t]*#\|[ \t]*(.*)")
"""A line that continues an option of a cell."""
_CODE = frozenset(
    {"code", "code-block", "code-cell", "sourcecode", "prompt", "doctest", "parsed-literal", "math"}
    | {"r", "python", "julia", "bash", "sh", "sql", "ojs", "rcpp", "stan", "js", "css", "mermaid", "dot"}
)
"""Directives that contain code, and the languages that name code cells."""
DRAWN = frozenset(
    {"mermaid", "dataview", "dataviewjs", "excalidraw", "compressed-json", "plantuml", "puml", "dot", "graphviz", "d2"}
    | {"tikz", "query", "tasks", "chart", "button", "base", "leaflet", "ditaa", "kanban", "meta-bind"}
)
"""Languages of code that note apps and sites draw or run."""
_TABLES = {"list-table": listed_rows, "csv-table": comma_rows}
_HIDDEN = re.compile(
    r"toctree|contents|tableofcontents|bibliography|include|literalinclude|index|raw|eval-rst|graphviz|auto\w+|glue"
)
"""Directives whose content is elsewhere or not shown to readers."""
_UNSEEN = re.compile(r"\b(?:echo|include)\s*[=:]\s*false\b", re.IGNORECASE)
_DRAWN = re.compile(r"include_graphics\(\s*[\"']([^\"'\n]+)[\"']")
_CAPTION = re.compile(r"fig\.cap\s*=\s*\"([^\"\n]*)\"")


def without_directives(text: str, losses: Losses) -> str:
    """Returns Markdown with each directive replaced by what it shows: a text and its title, an image, a table, code."""
    has_any = any(mark in text for mark in ("{", ":::", "```ad-", "~~~ad-"))
    return "\n".join(_opened(text.split("\n"), losses)) if has_any else text


def _opened(lines: list[str], losses: Losses) -> Iterator[str]:
    number = 0
    while number < len(lines):
        found, fence = _OPENED.fullmatch(lines[number]), _FENCE.match(lines[number])
        drawn, said = _DRAWN_BLOCK.fullmatch(lines[number]), _ADMONITION.fullmatch(lines[number])
        fence = drawn if drawn and drawn[2].lower() in DRAWN else fence
        mark = found[1] if found else fence[1] if fence else ""
        end = _end(lines, number, mark) if mark else number
        if found is not None:
            indent = len(lines[number]) - len(lines[number].lstrip())
            body = (line[min(indent, len(line) - len(line.lstrip())) :] for line in lines[number + 1 : end])
            yield from _shown(found, list(body), losses)
        elif fence is not None and fence is drawn:
            yield from (f"```{drawn[2]}", *lines[number + 1 : end], "```")
        elif said is not None:
            yield from _admonition(lines[number + 1 : end], losses)
        else:
            yield from lines[number : end + 1]
        number = end + 1


def _end(lines: list[str], start: int, mark: str) -> int:
    """Returns the number of the line that closes a fence, or the number of lines if none does."""
    closed = re.compile(rf"[ \t]*{mark[0]}{{{len(mark)},}}\s*")
    return next((number for number in range(start + 1, len(lines)) if closed.fullmatch(lines[number])), len(lines))


def _shown(found: re.Match[str], body: list[str], losses: Losses) -> Iterator[str]:
    """Yields the lines of Markdown that a directive shows."""
    name, settings, argument = found[2].lower(), found[3], found[4].strip()
    options, key = dict[str, str](), ""
    while body and (option := _OPTION.fullmatch(body[0]) or _MORE.fullmatch(body[0])):
        key = next(filter(None, option.groups()[:-1]), key)
        options[key] = f"{options.get(key, '')} {option.groups()[-1]}".strip(" |>\"'")
        body = body[1:]
    if name in ("figure", "image"):
        caption = options.get("alt") or next(filter(None, map(str.strip, body)), "")
        yield from ("", _image(argument, caption), "", *_opened(body, losses))
    elif name in _TABLES:
        rows = _TABLES[name](body)
        given = options.get("header-rows", "")
        head = int(given) if given.isdecimal() else int(not any(map(str.isdigit, "".join(rows[0] if rows else []))))
        yield from ("", argument, *pipe_table(rows, head))
    elif name in _CODE or settings.strip():
        hidden = _UNSEEN.search(" ".join((settings, *(f"{key}: {value}" for key, value in options.items()))))
        losses.leave_out("code that pages hide", "\n".join(body) if hidden else "")
        yield from () if hidden else (f"```{name if name in DRAWN else ''}", *body, "```")
        caption = options.get("fig-cap") or next(iter(_CAPTION.findall(settings)), "")
        yield from (f"\n{_image(path, caption)}\n" for path in _DRAWN.findall("\n".join(body)))
    elif not _HIDDEN.fullmatch(name):
        title = argument if any(map(str.isalpha, argument)) else ""  # the argument of a grid is its number of columns
        yield from ("", title, "", *_opened(body, losses), "")
    else:
        losses.leave_out("directives without text", "\n".join(body))


def _admonition(body: list[str], losses: Losses) -> Iterator[str]:
    """Yields the title and the text of an admonition."""
    title = ""
    while body and (option := _SAID.fullmatch(body[0])):
        is_title = option[1].lower() == "title"
        title = option[2] if is_title else title
        losses.leave_out("settings", "" if is_title else option[2])
        body = body[1:]
    yield from ("", title, "", *_opened(body, losses), "")


def _image(path: str, caption: str) -> str:
    return f"![{re.sub(r'[][`]', '', caption)}](<{path}>)"
