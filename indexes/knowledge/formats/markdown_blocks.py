"""Blocks that CommonMark does not know: tables of lines and lists, and directives of MyST, Quarto and R Markdown."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from indexes.knowledge.formats.losses import Losses

_RULE = re.compile(r"[ \t]*\+(?:[-=:]{2,}\+)+[ \t]*")
_DASHES = re.compile(r"[ \t]*(?:-{2,}|={2,})(?:[ \t]+(?:-{2,}|={2,}))+[ \t]*")
_LONG_RULE = re.compile(r"[ \t]*-{8,}[ \t]*")  # the first and the last line of a multiline table
_PIPES = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:[|+][ \t]*:?-+:?[ \t]*)+\|?[ \t]*")
"""The line below the header of a pipe table; Org and kramdown write `+` in it."""
_PIPE = re.compile(r"(?<!\\)\|")


def with_pipe_tables(text: str) -> str:
    """Returns a text with its grid tables (`+---+---+`), simple and multiline tables (`---- ----`) as pipe tables.

    Rows of pipe tables with more cells than the header get names without words, since CommonMark would drop the cells.
    """
    if not ("+-" in text or "|-" in text or "-|" in text or re.search(r"[-=|][ \t]+[-=|:]", text)):
        return text
    return "\n".join(_rewritten(text.split("\n")))


def _rewritten(lines: list[str]) -> Iterator[str]:
    number, fenced = 0, False
    while number < len(lines):
        line = lines[number]
        fenced ^= _FENCE.match(line) is not None
        follows = lines[number + 1] if number + 1 < len(lines) else ""
        end, rows = number, list[str]()
        if fenced:
            pass
        elif _RULE.fullmatch(line):
            end = _first(lines, number, lambda one: not one.lstrip().startswith(("+", "|")))
            rows = list(_of_grid(lines[number:end]))
        elif "|" in line and _PIPES.fullmatch(follows) and not _PIPES.fullmatch(line):
            end = _first(lines, number, lambda one: "|" not in one)
            rows = [*_widened(lines[number:end]), *([""] if end < len(lines) and lines[end].strip() else [])]
        elif _LONG_RULE.fullmatch(line) and (end := _end_of_multiline(lines, number)):
            rows = list(_of_multiline(lines[number + 1 : end - 1]))
        elif _DASHES.fullmatch(line) or (line.strip() and _DASHES.fullmatch(follows)):
            end = _first(lines, number + 2, lambda one: not one.strip())
            rows = list(_of_columns(lines[number:end]))
        end = max(end, number + 1)
        yield from rows or lines[number:end]
        number = end


def _first(lines: Sequence[str], start: int, is_end: Callable[[str], bool]) -> int:
    return next((number for number in range(start, len(lines)) if is_end(lines[number])), len(lines))


def _widened(lines: list[str]) -> list[str]:
    """Returns a pipe table with a header as wide as its widest row."""
    width, widest = len(_cells(lines[0])), max(len(_cells(line)) for line in lines)
    more = widest - width
    if not more and "+" not in lines[1]:
        return lines
    head = lines[0].rstrip() + ("" if lines[0].rstrip().endswith("|") else " |") + "  |" * more
    return [head, "|" + " --- |" * widest, *lines[2:]]


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    return _PIPE.split(line.removesuffix("|") if not line.endswith("\\|") else line)


def _of_grid(lines: Sequence[str]) -> Iterator[str]:
    """Yields the pipe table of a grid table; the rows above a line of `=` are its header.

    A cell that spans rows is part of each of them.
    """
    columns = [place for place, sign in enumerate(lines[0]) if sign == "+"]
    rows, cells, head = list[list[list[str]]](), [list[str]() for _ in columns[1:]], 0
    for line in lines[1:]:
        ruled = [set(line[start + 1 : end]) <= set("-=:") and line[start + 1 : end] for start, end in pairwise(columns)]
        if any(ruled):
            rows.append(cells)
            cells = [list[str]() if is_ruled else cell for cell, is_ruled in zip(cells, ruled, strict=True)]
            head = len(rows) if "=" in line else head
        if not all(ruled):
            starts = [place for place in columns[:-1] if line[place : place + 1] in ("|", "+")]
            for start, end in zip(starts, [*starts[1:], columns[-1]], strict=True):
                if not ruled[columns.index(start)]:
                    cells[columns.index(start)].append(line[start + 1 : end].strip())
    rows += [cells] if any(map(any, cells)) else []
    yield from pipe_table([[" ".join(cell) for cell in row] for row in rows if any(map(any, row))], head)


def _end_of_multiline(lines: Sequence[str], start: int) -> int:
    """Returns the number of the line after a multiline table that begins with a long rule, 0 if there is none."""
    names = _first(lines, start + 1, lambda one: not one.strip() or _DASHES.fullmatch(one) is not None)
    if names == start + 1 or names == len(lines) or not lines[names].strip():
        return 0
    end = _first(lines, names + 1, lambda one: _LONG_RULE.fullmatch(one) is not None)
    return end + 1 if end < len(lines) else 0


def _of_multiline(lines: Sequence[str]) -> Iterator[str]:
    """Yields the pipe table of a multiline table, whose rows are separated by empty lines."""
    names = _first(lines, 0, lambda one: _DASHES.fullmatch(one) is not None)
    edges = [0, *(found.start() for found in re.finditer(r"-+", lines[names]))][2:]
    rows = [list[str](), *([list[str]()] if names else [])]
    for number, line in enumerate(lines):
        if number == names or not line.strip():
            rows += [list[str]()] if number > names else []
            continue
        rows[-1 if number > names else 0].append(line)
    places = [*pairwise([0, *edges, None])]
    yield from pipe_table(
        [[" ".join(line[start:end].strip() for line in row) for start, end in places] for row in rows if row], 1
    )


def _of_columns(lines: Sequence[str]) -> Iterator[str]:
    """Yields the pipe table of a simple table, whose columns are as wide as the dashes below or above its header."""
    ruled = [number for number, line in enumerate(lines) if _DASHES.fullmatch(line)]
    spans = [(found.start(), found.end()) for found in re.finditer(r"[-=]+", lines[ruled[0]])]
    edges = [0, *(start for start, _ in spans[1:]), None]
    rows = [
        [line[start:end].strip() for start, end in pairwise(edges)]
        for number, line in enumerate(lines)
        if number not in ruled
    ]
    head = 1 if ruled[0] == 1 or (len(ruled) > 2 and ruled[1] == 2) else 0
    if len(rows) > head and 2 * len(lines[ruled[0]]) > max(map(len, lines)):  # otherwise, it is a rule in a text
        yield from pipe_table(rows, head)


def listed_rows(lines: Sequence[str]) -> list[list[str]]:
    """Returns the rows of a list of lists, as in `list-table` of MyST: `* - cell`, and `  - cell` for the next one."""
    rows: list[list[str]] = []
    for line in lines:
        if (found := re.match(r"[ \t]*[*-][ \t]+-(?:[ \t]+|$)(.*)", line)) is not None:
            rows.append([found[1]])
        elif rows and (found := re.match(r"[ \t]+-(?:[ \t]+|$)(.*)", line)) is not None:
            rows[-1].append(found[1])
        elif rows and line.strip():
            rows[-1][-1] += f" {line.strip()}"
    return rows


def comma_rows(lines: Sequence[str]) -> list[list[str]]:
    """Returns the rows of comma-separated values."""
    return [row for row in csv.reader(line.strip() for line in lines) if row]


def pipe_table(rows: Sequence[Sequence[str]], head: int) -> Iterator[str]:
    """Yields the lines of a pipe table, with empty lines around it. The first `head` rows are its header."""
    width = max(map(len, rows), default=0)
    if not width:
        return
    above = [
        " ".join(filter(None, (row[column].strip() for row in rows[:head] if column < len(row))))
        for column in range(width)
    ]
    yield ""
    for number, row in enumerate([above, *rows[head:]]):
        cells = (re.sub(r"(?<!\\)\|", r"\\|", " ".join(cell.split())) for cell in row)
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{' --- |' * width}"
    yield ""


_OPENED = re.compile(r"[ \t]*(`{3,}|~{3,}|:{3,})[ \t]*\{(?:\.(?=list-table))?([A-Za-z][\w:+.-]*)([^{}\n]*)\}[ \t]*(.*)")
_DRAWN_BLOCK = re.compile(r"[ \t]*(:{3,})[ \t]*(\w+)[ \t]*")
"""A drawing, as in Azure's wikis; other blocks of this form are admonitions."""
_ADMONITION = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*ad-[\w-]+[ \t]*")
"""An admonition, as in Obsidian, whose options are lines `title: …`."""
_SAID = re.compile(r"[ \t]*(title|collapse|icon|color):[ \t]*(.*)", re.IGNORECASE)
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_OPTION = re.compile(r"[ \t]*(?::([\w-]+):|#\|[ \t]*([\w.-]+):)[ \t]*(.*)")
_MORE = re.compile(r"[ \t]*#\|[ \t]*(.*)")  # a line that continues an option of a cell
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
