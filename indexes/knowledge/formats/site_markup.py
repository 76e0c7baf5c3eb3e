"""Removes what site generators and note apps add to Markdown, before parsing: tags, admonitions, properties, MDX."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from urllib.parse import quote

from indexes.knowledge.formats.definitions import with_definitions
from indexes.knowledge.formats.fields import looks_like_image
from indexes.knowledge.formats.losses import Losses, words_in
from indexes.knowledge.formats.markdown_blocks import with_pipe_tables, without_directives
from indexes.knowledge.image_names import IMAGE_SUFFIXES

_PARTS = {
    # a role, as in MyST: {ref}`The fox <fox>`
    "role": r"\{(?P<kind>[A-Za-z][\w:+.-]*)\}(?P<mark>`+)(?P<content>[^`\n]+)(?P=mark)",
    # code of another format, as in Pandoc: HTML is shown
    "raw": r"(?P<quoted>`+)(?P<raw_text>[^`\n]+)(?P=quoted)\{=(?P<format>\w+)\}",
    "code": r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n]*\n(?s:.*?)(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?P<ticks>`+)(?!`)(?s:(?:(?!\n[ \t]*\n).)+?)(?<!`)(?P=ticks)(?!`)",
    # what only looks like a tag
    "literal": r"\{%-?\s*raw\s*-?%\}(?P<shown>(?s:.*?))\{%-?\s*endraw\s*-?%\}",
    # Liquid and Jinja tags, Hugo shortcodes, and ERB
    "tag": r"\{%(?s:.*?)%\}|\{\{[<%](?s:.*?)[>%]\}\}|<%(?s:.*?)%>",
    # the output of Liquid and the like: a text, or a variable whose value is unknown here
    "output": r"\{\{-?\s*(?:(?P<quote>[\"'])(?P<words>[^\n]*?)(?P=quote)|(?<=\s)[A-Za-z_]\w*|[A-Za-z_]\w*\.[\w.]+)"
    r"(?:\s*\|[^{}]*)?\s*-?\}\}",
    # a macro with arguments, as in note apps and wikis, or a Handlebars comment
    "macro": r"(?<![\w}^_\\$])\{\{(?:!(?s:.*?)|[#/>^&]?[A-Za-z][\w./-]*\s(?:[^{}]|\{[^{}]*\})*)\}\}",
    # a tag in single braces
    "braced": r"\{[a-z][\w-]*(?:\s+[\w-]+=\"(?:[^\"\\]|\\.)*\")+\s*/?\}|\{[a-z][\w-]*\s+end\}",
    # the text of another note, or of a part of it
    "embed": r"(?:^(?P<lead_in>[ \t]*(?:>[ \t]*)*(?:(?:[-*+]|\d+[.)])[ \t]+)?))?"
    r"!\[\[(?P<note>[^\[\]|\n]+)(?:\|[^\[\]\n]*)?\]\]",
    # a property within a text, as in Dataview
    "field": r"(?<![\w)\]])[(\[](?P<name>[*_]*[^\W\d_][\w /.°%*-]*)::[ \t]*"
    r"(?P<said>(?:[^()\[\]\n`]|`[^`\n]*`|\[\[[^\[\]\n]*\]\]|\[[^\[\]\n]*\]\([^()\n]*\)|\([^()\n]*\))*)[)\]]",
    # a footnote, which becomes a paragraph, and one within a text
    "footnote": r"^[ \t]*(?:[-*+][ \t]+)?\[\^[^\[\]\s]+\]:\s*",
    "inline_note": r"\^\[(?P<remark>[^\[\]\n]+)\]",
    # a property, as in Logseq and Dataview
    "property": r"^(?P<lead>[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+(?:\[[ xX]\][ \t]+)?)?)(?P<bold>[*_]{0,3})"
    r"(?P<key>[^\W\d_](?:(?:[\w /°%-]|\.(?! )|\([^()\n]*\)){0,40}(?<! ))?)"
    r"(?:(?P=bold)::|::(?P=bold))(?:[ \t]+(?P<value>[^\n]*))?$",
    # an admonition; its title is kept
    "container": r"^[ \t]*:{3,}[ \t]*(?:\{[^{}\n]*\}[ \t]*|[\w-]+(?:\[(?P<label>[^\]\n]*)\])?"
    r"(?:\{[^{}\n]*\})?[ \t]*(?P<title>[^\n{}]*))?$",
    # a reference to a bibliography
    "citation": r"\[-?@[\w:.#$%&+?~/-]+[^\[\]\n]*\](?![\[(:])",
    # a MyST target, and a comment
    "target": r"^\([\w:./ -]+\)=[ \t]*$|^[ \t]*--8<--[^\n]*$",
    "comment": r"^%[ \t][^\n]*$",
    "abbreviation": r"^[ \t]*\*\[[^\]\n]+\]:[^\n]*$",
}
_MDX = {
    "module": r"^(?:import\s[^\n]*?['\"][^'\"\n]+['\"];?|export\s+(?:const|let|default|function)\b[^\n]*)$",
    "comment": r"^%[ \t][^\n]*$|\{/\*(?s:.*?)\*/\}",
    "source": r"(?<=\ssrc=)\{[^{}\n]*\}",
    "component": r"</?[A-Z][\w.]*(?:[^<>{}\"']|\"[^\"]*\"|'[^']*'|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*>",
}
_SIGNS = {
    **{
        "role": ("}`",),
        "raw": ("`{=",),
        "literal": ("endraw",),
        "tag": ("{%", "{{", "<%"),
        "output": ("{{",),
        "macro": ("{{",),
    },
    **{"braced": ('="', " end}"), "embed": ("![[",), "field": ("::",), "footnote": ("[^",)},
    **{"inline_note": ("^[",), "property": ("::",), "container": (":::",), "citation": ("@",)},
    **{"target": (")=", "--8<--"), "comment": ("%", "{/*"), "abbreviation": ("*[",), "module": ("import", "export")},
    **{"source": ("src={",), "component": ("<",)},
}
"""What a text with a piece of markup has; others need not be searched for it."""


@cache
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    parts = _PARTS | _MDX
    return re.compile("|".join(f"(?P<{name}>{parts[name]})" for name in names), re.MULTILINE)


def _markup_in(text: str, components: bool) -> re.Pattern[str] | None:
    """Returns the pattern of code and of the markup that a text may have, `None` if it has none."""
    parts = _PARTS | _MDX if components else _PARTS
    names = tuple(name for name in parts if name == "code" or any(sign in text for sign in _SIGNS[name]))
    return _pattern(names) if len(names) > 1 else None


_LEFT_OUT = {
    **dict.fromkeys(("tag", "macro", "braced", "target"), "template tags"),
    **dict.fromkeys(("module", "component"), "code of components"),
    **{"citation": "citations", "comment": "comments", "abbreviation": "abbreviations"},
}
"""Markup that is not text, by what it is."""
_HIDDEN_PROPERTIES = re.compile(
    r"id|collapsed|heading|title|alias(?:es)?|tags|icon|public|template.*|exclude-.*|filters|query-.*|logseq\..*"
    r"|background-color|hl-.*|ls-.*|card-.*|cssclass(?:es)?|created|updated"
)
"""Properties of notes that are settings, in lower case."""
_IMPORTED = re.compile(r"^import\s+(\w+)\s+from\s+['\"]([^'\"\n]+)['\"]", re.MULTILINE)
_VALUE = re.compile(
    r"(?:(?P<key>[\w-]+)\s*[=:]\s*)?(?:\"([^\"\n]*)\"|'([^'\n]*)'|\{(\w+)\})|(?P<bare>[\w-]+)=([^\s\"'>%{}]+)"
)
_COPIES = re.compile(r"link|href|srcset|thumb\w*|poster|full\w*|large|dark\w*|placeholder", re.IGNORECASE)
"""Names of values for other copies of an image."""
_CAPTION = re.compile(r"\b(?:caption|alt|title)\s*[=:]\s*(?:%Q\{([^{}]*)\}|\"([^\"]*)\"|'([^']*)')")
_ROLE_TARGET = re.compile(r"\s*<[^<>]*>$|^[~!]")
_STRUCTURE = re.compile(r"\n[ \t]*\n|^[ \t]*(?:#{1,6}[ \t]|[-*+>|~`]|\d+[.)][ \t])", re.MULTILINE)
"""What makes a text more than a paragraph."""
_LINE_MARK = re.compile(r"[ \t]*(?:#{1,6}[ \t]|[-*+>][ \t]|\d+[.)][ \t])")
_BLOCK = re.compile(r"(?:!!!|\?\?\?\+?|===\+?)[ \t]+(?:[\w -]*?)(?:\"(.*)\")?[ \t]*$")
_WIDTH = 4


@dataclass(frozen=True, slots=True)
class Note:
    """What reading a note's markup needs, and what it yields besides the text.

    Attributes:
        losses: Counts what is left out.
        embedded: Returns the text of another note, or of a part of it, by its name.
        fields: The properties within the text: (name, value).
    """

    losses: Losses
    embedded: Callable[[str], str] = lambda name: ""
    fields: list[tuple[str, str]] = field(default_factory=list)


def without_site_markup(text: str, note: Note, components: bool = False) -> str:
    """Returns plain CommonMark; code is left unchanged.

    A tag that names an image becomes the image: `{{< figure src="fox.jpg" caption="A fox" >}}` is `![A fox](fox.jpg)`.
    In MDX, with `components`, tags whose name begins with a capital letter are components.
    """
    imported = {}
    if components:
        imported = {name: path for name, path in _IMPORTED.findall(text) if path.lower().endswith(IMAGE_SUFFIXES)}
    text = with_definitions(text)
    if any(mark in text for mark in ("!!! ", "??? ", "???+ ", '=== "')):
        text = "\n".join(_opened(text.split("\n")))
    text = with_pipe_tables(without_directives(text, note.losses))
    pattern = _markup_in(text, components)
    return text if pattern is None else pattern.sub(partial(_plain, note=note, imported=imported), text)


def _plain(found: re.Match[str], note: Note, imported: Mapping[str, str]) -> str:
    """Replaces a piece of markup: an admonition becomes its title, a tag its image; code is left unchanged."""
    kind, losses = str(found.lastgroup), note.losses
    if kind == "code":
        return found[0]
    if kind == "literal":
        return found["shown"]
    if kind == "role":
        losses.leave_out("citations", found["content"] if "cite" in found["kind"] else "")
        return "" if "cite" in found["kind"] else _ROLE_TARGET.sub("", found["content"])
    if kind == "output":
        losses.leave_out("template tags", "" if found["words"] else found[0])
        return found["words"] or ""
    if kind == "embed":
        name = found["note"].strip().rstrip("\\")
        paths = (name, name.partition("#")[0].strip())  # `#` may be in an image's name
        is_image = any(path.lower().endswith(IMAGE_SUFFIXES) for path in paths)
        return found[0] if is_image else _embedded(found, without_site_markup(note.embedded(name), note).strip("\n"))
    if kind == "raw":
        is_html = found["format"].startswith("html")
        losses.leave_out("code that pages hide", "" if is_html else found["raw_text"])
        return found["raw_text"] if is_html else ""
    if kind == "field":
        return _field(found, note)
    if kind == "footnote":
        return "\n"
    if kind == "inline_note":
        return f" ({found['remark']})"
    if kind == "property":
        value = re.sub(_PARTS["macro"], "", found["value"] or "").strip()
        if not value or _HIDDEN_PROPERTIES.fullmatch(found["key"].lower()):
            losses.leave_out("settings of notes", value)
            return found["lead"]
        losses.repeat(words_in([found["key"]]))
        return f"{found['lead']}<br>{_label(found['key'])}: {value}  "  # a line of its own
    if kind == "container":
        return f"\n{found['label'] or found['title'] or ''}\n"
    if kind == "source":  # the source of an HTML image: an imported name, or `require('./fox.jpg')`
        return f'"{next(_images(found[0], imported), (0, ""))[1]}"'
    image = _image(found[0], imported) if kind != "module" else ""
    losses.leave_out(_LEFT_OUT[kind], found[0] if not image and kind != "target" else "")
    return image


def _field(found: re.Match[str], note: Note) -> str:
    """Notes a property within a text; a line of properties alone is no text."""
    start, end = found.string.rfind("\n", 0, found.start()) + 1, found.string.find("\n", found.end())
    line = found.string[start : len(found.string) if end < 0 else end]
    value = found["said"].strip()
    if not value or _HIDDEN_PROPERTIES.fullmatch(found["name"].lower()):
        note.losses.leave_out("settings of notes", value)
        return ""
    name = found["name"].strip(" *_")
    note.fields.append((name, value))
    if not any(map(str.isalnum, re.sub(_PARTS["field"], "", line))):
        return ""
    note.losses.repeat(words_in([f"{name}: {value}"]))
    return f"({name}: {value})"


def _embedded(found: re.Match[str], text: str) -> str:
    """Returns the text of another note for its place: one paragraph is part of a line, or else a block of its own."""
    start, end = found.string.rfind("\n", 0, found.start()) + 1, found.string.find("\n", found.end())
    after = found.string[found.end() : len(found.string) if end < 0 else end]
    if found.string[start : found.start()].lstrip().startswith("|"):
        lines = (_LINE_MARK.sub("", line).strip() for line in text.split("\n"))  # in a cell
        return re.sub(r"(?<!\\)\|", r"\\|", ", ".join(filter(None, lines)))
    if _STRUCTURE.search(text):
        return f"\n\n{text}\n\n"
    return f"{found['lead_in'] or ''}{' '.join(text.split())}" if text or after.strip() else ""


def _label(name: str) -> str:
    name = name.replace("-", " ").replace("_", " ")
    return name[:1].upper() + name[1:]


def _image(tag: str, imported: Mapping[str, str]) -> str:
    """Returns the images that a tag names, "" if it names none; in a gallery, the caption of each follows it."""
    found = list(_images(tag, imported))
    ends = [*(place for place, _ in found[1:]), len(tag)]
    shown = list[str]()
    for number, (place, value) in enumerate(found):
        caption = _CAPTION.search(tag, 0 if len(found) == 1 else place, ends[number])
        words = " ".join(next(filter(None, caption.groups()), "").split()) if caption else ""
        # quoted instead of <>, which would be a tag inside HTML
        target = re.sub(r"[\s<>()]", lambda sign: quote(sign[0]), value)
        shown.append(f"![{re.sub(r'[][`<>]', '', words)}]({target})")
    return " ".join(shown)


def _images(tag: str, imported: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yields the images that a tag names, each once and without its copies, with their places in it."""
    named = set[str]()
    for found in _VALUE.finditer(tag):
        key, first, second, variable, bare, other = found.groups()
        value = imported.get(variable) or first or second or other or ""
        parts = [part.strip() for part in value.split(",")]
        is_copy = bool(named) and _COPIES.fullmatch(key or bare or "") is not None
        for one in parts if all(map(looks_like_image, parts)) else [value]:
            if looks_like_image(one) and one not in named and not is_copy:
                named.add(one)
                yield found.start(), one


def _opened(lines: list[str]) -> Iterator[str]:
    """Yields lines with the indented contents of admonitions and tabs as regular text."""
    open_at: list[int] = []
    fenced = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        while open_at and line.strip() and indent < open_at[-1] + _WIDTH:
            open_at.pop()
        line = line[min(indent, _WIDTH * len(open_at)) :]
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        found = None if fenced else _BLOCK.match(line.lstrip())
        if found is None:
            yield line
            continue
        open_at.append(indent)
        yield from ("", found[1] or "", "")
