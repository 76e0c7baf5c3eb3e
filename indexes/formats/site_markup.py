"""Removes what site generators and note apps add to Markdown, before parsing: tags, admonitions, properties, MDX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from urllib.parse import quote

from indexes.formats.directives import without_directives
from indexes.formats.fields import looks_like_image
from indexes.images import IMAGE_SUFFIXES

_PARTS = {
    # a role, as in MyST: {ref}`The fox <fox>`
    "role": r"\{(?P<kind>[A-Za-z][\w:+.-]*)\}(?P<mark>`+)(?P<content>[^`\n]+)(?P=mark)",
    "code": r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n]*\n(?s:.*?)(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?P<ticks>`+)(?!`)(?s:(?:(?!\n[ \t]*\n).)+?)(?<!`)(?P=ticks)(?!`)",
    # Liquid and Jinja tags, Hugo shortcodes, and ERB
    "tag": r"\{%(?s:.*?)%\}|\{\{[<%](?s:.*?)[>%]\}\}|<%(?s:.*?)%>",
    # the output of Liquid and the like: a text, or a variable whose value is unknown here
    "output": r"\{\{-?\s*(?:(?P<quote>[\"'])(?P<words>[^\n]*?)(?P=quote)|(?<=\s)[A-Za-z_]\w*|[A-Za-z_]\w*\.[\w.]+)"
    r"(?:\s*\|[^{}]*)?\s*-?\}\}",
    # a macro with arguments, as in note apps and wikis, or a Handlebars comment
    "macro": r"(?<![\w}^_\\$])\{\{(?:!(?s:.*?)|[#/>^&]?[A-Za-z][\w./-]*\s(?:[^{}]|\{[^{}]*\})*)\}\}",
    # a tag in single braces
    "braced": r"\{[a-z][\w-]*(?:\s+[\w-]+=\"(?:[^\"\\]|\\.)*\")+\s*/?\}|\{[a-z][\w-]*\s+end\}",
    # a property, as in Logseq and Dataview
    "property": r"^(?P<lead>[ \t]*(?:[-*][ \t]+)?)(?P<key>[A-Za-z][\w.-]*)::(?:[ \t]+(?P<value>[^\n]*))?$",
    # an admonition; its title is kept
    "container": r"^[ \t]*:{3,}[ \t]*(?:\{[^{}\n]*\}[ \t]*|[\w-]+(?:\[(?P<label>[^\]\n]*)\])?"
    r"(?:\{[^{}\n]*\})?[ \t]*(?P<title>[^\n{}]*))?$",
    # a reference to a bibliography
    "citation": r"\[-?@[\w:.#$%&+?~/-]+[^\[\]\n]*\](?![\[(:])",
    # a MyST target or comment
    "target": r"^\([\w:./ -]+\)=[ \t]*$|^%[ \t][^\n]*$",
    "abbreviation": r"^[ \t]*\*\[[^\]\n]+\]:[^\n]*$|^[ \t]*--8<--[^\n]*$",
}
_MDX = {
    "module": r"^(?:import\s[^\n]*?['\"][^'\"\n]+['\"];?|export\s+(?:const|let|default|function)\b[^\n]*)$",
    "comment": r"\{/\*(?s:.*?)\*/\}",
    "source": r"(?<=\ssrc=)\{[^{}\n]*\}",
    "component": r"</?[A-Z][\w.]*(?:[^<>{}\"']|\"[^\"]*\"|'[^']*'|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*>",
}
_MARKUP, _MARKUP_OF_MDX = (
    re.compile("|".join(f"(?P<{name}>{part})" for name, part in parts.items()), re.MULTILINE)
    for parts in (_PARTS, _PARTS | _MDX)
)
_HIDDEN_PROPERTIES = re.compile(
    r"id|collapsed|heading|title|alias(?:es)?|tags|icon|public|template.*|exclude-.*|filters|query-.*|logseq\..*|background-color|hl-.*|ls-.*"
    r"|card-.*|cssclass(?:es)?|created|updated"
)
"""Properties of notes that are settings, in lower case."""
_IMPORTED = re.compile(r"^import\s+(\w+)\s+from\s+['\"]([^'\"\n]+)['\"]", re.MULTILINE)
_VALUE = re.compile(r"(?:[\w-]+\s*[=:]\s*)?(?:\"([^\"\n]*)\"|'([^'\n]*)'|\{(\w+)\})|[\w-]+=([^\s\"'>%{}]+)")
_CAPTION = re.compile(r"\b(?:caption|alt|title)\s*[=:]\s*(?:%Q\{([^{}]*)\}|\"([^\"]*)\"|'([^']*)')")
_ROLE_TARGET = re.compile(r"\s*<[^<>]*>$|^[~!]")
_BLOCK = re.compile(r"(?:!!!|\?\?\?\+?|===\+?)[ \t]+(?:[\w -]*?)(?:\"(.*)\")?[ \t]*$")
_WIDTH = 4


def without_site_markup(text: str, components: bool = False) -> str:
    """Returns plain CommonMark; code is left unchanged.

    A tag that names an image becomes the image: `{{< figure src="fox.jpg" caption="A fox" >}}` is `![A fox](fox.jpg)`.

    Args:
        text: The text, without front matter.
        components: Whether the text is MDX, in which tags whose name begins with a capital letter are components.
    """
    imported = {}
    if components:
        imported = {name: path for name, path in _IMPORTED.findall(text) if path.lower().endswith(IMAGE_SUFFIXES)}
    if any(mark in text for mark in ("!!! ", "??? ", "???+ ", '=== "')):
        text = "\n".join(_opened(text.split("\n")))
    text = without_directives(text)
    return (_MARKUP_OF_MDX if components else _MARKUP).sub(partial(_plain, imported=imported), text)


def _plain(found: re.Match[str], imported: Mapping[str, str]) -> str:
    """Replaces a piece of markup: an admonition becomes its title, a tag its image; code is left unchanged."""
    if found["code"] is not None:
        return found[0]
    if found["role"] is not None:
        return "" if "cite" in found["kind"] else _ROLE_TARGET.sub("", found["content"])
    if found["output"] is not None:
        return found["words"] or ""
    if found["property"] is not None:
        value = re.sub(_PARTS["macro"], "", found["value"] or "").strip()
        if not value or _HIDDEN_PROPERTIES.fullmatch(found["key"].lower()):
            return str(found["lead"])
        label = found["key"].replace("-", " ").replace("_", " ")
        return f"{found['lead']}<br>{label[:1].upper()}{label[1:]}: {value}  "  # a line of its own
    if found["container"] is not None:
        return f"\n{found['label'] or found['title'] or ''}\n"
    parts = found.groupdict()
    if parts.get("source") is not None:  # the source of an HTML image: an imported name, or `require('./fox.jpg')`
        return f'"{next(_images(found[0], imported), "")}"'
    return _image(found[0], imported) if parts.get("module") is None else ""


def _image(tag: str, imported: Mapping[str, str]) -> str:
    """Returns the image that a tag names, "" if it names none."""
    value = next(_images(tag, imported), None)
    if value is None:
        return ""
    caption = _CAPTION.search(tag)
    words = " ".join(next(filter(None, caption.groups()), "").split()) if caption else ""
    target = re.sub(r"[\s<>()]", lambda sign: quote(sign[0]), value)  # instead of <>, which would be a tag inside HTML
    return f"![{re.sub(r'[][`<>]', '', words)}]({target})"


def _images(tag: str, imported: Mapping[str, str]) -> Iterator[str]:
    for values in _VALUE.findall(tag):
        value = imported.get(values[2]) or values[0] or values[1] or values[3]
        if looks_like_image(value):
            yield value


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
