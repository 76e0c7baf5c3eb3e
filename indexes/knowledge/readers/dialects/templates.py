"""Tags of templates (Liquid, Jinja, Hugo's shortcodes, ERB, macros) and components of MDX: the texts that they show.

Images that a tag names are images, and values of a component that are texts are its words; the rest is labeled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.utils import EnvType

from indexes.image_paths import IMAGE_SUFFIXES
from indexes.knowledge.readers.dialects import label, rewrite

_TAGS = (  # what only looks like a tag; tags, and macros with arguments; texts and variables
    r"\{%-?\s*raw\s*-?%\}(?P<literal>(?s:.*?))\{%-?\s*endraw\s*-?%\}"
    r"|(?P<tag>\{%(?s:.*?)%\}|\{\{[<%](?s:.*?)[>%]\}\}|<%(?s:.*?)%>"
    r"|(?<![\w}^_\\$])\{\{[#/>^&]?[A-Za-z][\w./-]*\s(?!\s*[|}])(?:[^{}]|\{[^{}]*\})*\}\})"
    r"|\{\{-?\s*(?:(?P<quote>[\"'])(?P<words>[^\n]*?)(?P=quote)|(?<=\s)[A-Za-z_]\w*|[A-Za-z_]\w*\.[\w.]+)"
    r"(?:\s*\|[^{}]*)?\s*-?\}\}"
)
_VALUE = re.compile(r"(?:([\w-]+)\s*[=:]\s*)?(?:\"([^\"\n]*)\"|'([^'\n]*)'|\{(\w+)\})|([\w-]+)=([^\s\"'>%{}]+)")
_COPIES = re.compile(r"link|href|srcset|thumb\w*|poster|full\w*|large|dark\w*|placeholder", re.IGNORECASE)
_CAPTION = re.compile(r"\b(?:caption|alt|title)\s*[=:]\s*(?:\"([^\"]*)\"|'([^']*)')")

_NEST = r"\{(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*\}"
_COMPONENTS = (  # an import or export, a comment, a tag, words, any other expression
    r"(?P<module>^(?:import\s(?:[^\n]*?|\{[^{}]*\}[^\n]*?)['\"][^'\"\n]+['\"];?[ \t]*$"
    r"|export\s+(?:const|let|var|default|function|async|\{|\*)(?s:.*?)(?=\n\s*\n[^\s})\]]|\s*\Z)))"
    r"|(?P<comment>\{/\*(?s:.*?)\*/\})|(?P<tag></?(?:[A-Z][\w.]*|[a-z]\w*(?=[^<>]*=\{))"
    rf"(?:[^<>{{}}\"'`]|\"[^\"]*\"|'[^']*'|{_NEST})*>|</?>)"
    rf"|\{{(?P<quote>[\"'`])(?P<words>[^\"'`{{}}\n]*)(?P=quote)\}}|^[ \t]*(?P<expression>{_NEST})[ \t]*$"
)
_IMPORT = re.compile(r"import\s+(\w+)\s+from\s+['\"]([^'\"\n]+)['\"]")
_PROPERTY = re.compile(rf"\s([\w:-]+)=(?:\"[^\"]*\"|'[^']*'|({_NEST}))")
_TEXT = r"\"([^\"]*)\"|'([^']*)'|`([^`$]*)`"
_LITERAL = re.compile(rf"(?:[\"']?([\w:-]+)[\"']?\s*[=:]\s*)?(?:{_TEXT}|(?<![\w.])(\d[\d.,]*)(?!\w))|([\[\]{{}}])")
_LABELS = (
    r"(?i)label|name|term|key|\w*title|heading|header|question|year|date|step|subject|property"  # of the next text
)
_TEXTS = rf"{_LABELS}|value|text|desc\w*|caption|answer|definition|summary|content|"
_SETTINGS = (
    r"(?i)class|style|id|type|variant|kind|size|colou?r|icon\w*|href|to|src\w*|url|link|target|rel|lang|language|slot|theme"
    r"|layout|align\w*|client.*|data-.*|on[a-z]+|\w+(class|name|id|color|icon|path|url)|path|file|code|width|height"
)


def plugin(md: MarkdownIt) -> None:
    """Replaces tags that name images by these: `{{< figure src="fox.jpg" caption="A fox" >}}`; others are labeled."""
    rewrite(md, _TAGS, ("{%", "{{", "<%"), _plain)


def components_plugin(md: MarkdownIt) -> None:
    """Replaces the tags of MDX's components by the texts and images in them; other code is labeled."""
    rewrite(md, _COMPONENTS, ("<", "{", "import", "export"), _component)


def _plain(match: re.Match[str], env: EnvType) -> str:
    if match["literal"] is not None or match["words"]:
        return str(match["words"] or match["literal"])
    return _images_in(match["tag"] or "", {}) or label(env, "template tags", match[0])


def _images_in(tag: str, imported: Mapping[str, str]) -> str:
    """Returns the images that a tag names as Markdown; `imported` has paths of images by the names of variables."""
    images = dict[str, int]()
    for match in _VALUE.finditer(tag):
        key, first, second, variable, bare, other = match.groups()
        paths = (imported.get(variable) or first or second or other or "").split(",")
        if all(map(_is_image, paths)) and not (images and _COPIES.fullmatch(key or bare or "")):
            images = {path.strip(): match.start() for path in paths} | images
    written = []
    for path, place in sorted(images.items(), key=lambda image: image[1]):
        end = min((other for other in images.values() if other > place), default=len(tag))
        caption = _CAPTION.search(tag, place if len(images) > 1 else 0, end)
        words = " ".join(re.sub(r"[][`<>]", "", caption[1] or caption[2] or "").split()) if caption else ""
        written.append(f"![{words}]({re.sub(r'[ <>()]', lambda sign: quote(sign[0]), path)})")  # <> would be a tag
    return " ".join(written)


def _is_image(value: str) -> bool:
    return re.split(r"[?#]", value.strip().lower())[0].endswith(IMAGE_SUFFIXES) or value.startswith("embedded:")


def _component(match: re.Match[str], env: EnvType) -> str:
    if match["comment"] or match["quote"]:
        return label(env, "comments", match[0].strip("{/*} ")) if match["comment"] else str(match["words"])
    if not match["tag"]:
        env["imported"].update(_IMPORT.findall(match[0]))
        return label(env, "code of components", match[0])
    images, code = _images_in(match[0], env["imported"]), list[str]()
    lines = [line for line in _shown(match[0], code) if line not in images]  # captions
    label(env, "code of components", "" if images else " ".join(code))
    start, end = match.string.rfind("\n", 0, match.start()) + 1, match.string.find("\n", match.end())
    before, after = match.string[start : match.start()], match.string[match.end() : end if end >= 0 else None]
    if before.strip() or (after.strip() and not lines):
        return ", ".join(filter(None, (images, *lines))) + (" " if lines and after[:1].strip() else "")
    return "\n\n".join(("", *lines, images, ""))


def _shown(tag: str, code: list[str]) -> list[str]:
    """Returns the texts in a tag, a line for each array and object; values that may be code are added to `code`."""
    lines: list[list[str]] = [[]]
    for value in _PROPERTY.finditer(tag):
        if value[2] and (_is_setting(value[1]) or re.search(r"=>|\w\(", re.sub(_TEXT, "", value[2]))):
            code.append(value[2])
            continue
        for name, *texts, number, bracket in _LITERAL.findall(value[0]):
            text = "".join(texts) or number
            if bracket:
                lines.append([])
            elif not _is_text(name, text):
                code.append(text)
            else:
                is_label = not lines[-1] and re.fullmatch(_LABELS, name)
                text = re.sub(r"([\\`*_\[\]|~])", r"\\\1", escape(" ".join(text.split()), False))
                lines[-1].append(f"{text}: " if is_label else f"{text}, ")
        code += re.findall(r"[^\W\d][\w.]*(?![\w.]*\s*[:=])", _LITERAL.sub("", value[2] or ""))
    return ["".join(line)[:-2] for line in lines if line]


def _is_setting(name: str) -> bool:
    return re.fullmatch(_SETTINGS, name) is not None and re.fullmatch(_TEXTS, name) is None


def _is_text(name: str, value: str) -> bool:
    is_address = _is_image(value) or re.fullmatch(r"[/.#@]\S*|\w+:\S+|[\W_]*", value.strip()) is not None
    is_word = re.fullmatch(r"[a-z][\w.:/-]*|[\w-]*[_=<>{}]\S*", value.strip()) is not None  # which may be code
    return not is_address and not _is_setting(name) and (not is_word or re.fullmatch(_TEXTS, name) is not None)
