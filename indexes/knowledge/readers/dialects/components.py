"""Components of MDX: the texts in their tags are shown, with the Markdown between them; other values are code."""

from __future__ import annotations

import re
from html import escape

from markdown_it import MarkdownIt
from markdown_it.utils import EnvType

from indexes.knowledge.readers.dialects import label, rewrite
from indexes.knowledge.readers.dialects.templates import is_image, markdown_images

KIND = "code of components"
_NEST = r"\{(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*\}"
_COMPONENTS = (  # an import or export, a comment, a tag, words, any other expression
    r"(?P<module>^(?:import\s(?:[^\n]*?|\{[^{}]*\}[^\n]*?)['\"][^'\"\n]+['\"];?[ \t]*$"
    r"|export\s+(?:const|let|var|default|function|async|\{|\*)(?s:.*?)(?=\n\s*\n[^\s})\]]|\s*\Z)))"
    r"|(?P<comment>\{/\*(?s:.*?)\*/\})|(?P<tag></?(?:[A-Z][\w.]*|[a-z]\w*(?=[^<>]*=\{))"
    rf"(?:[^<>{{}}\"'`]|\"[^\"]*\"|'[^']*'|{_NEST})*>|</?>)"
    rf"|\{{(?P<quote>[\"'`])(?P<words>[^\"'`{{}}\n]*)(?P=quote)\}}|^[ \t]*(?P<expression>{_NEST})[ \t]*$"
)
_IMPORT = re.compile(r"import\s+(\w+)\s+from\s+['\"]([^'\"\n]+)['\"]")
_VALUE = re.compile(rf"\s([\w:-]+)=(?:\"[^\"]*\"|'[^']*'|({_NEST}))")
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
    """Reads MDX."""
    rewrite(md, _COMPONENTS, ("<", "{", "import", "export"), _plain)


def _plain(match: re.Match[str], env: EnvType) -> str:
    if match["comment"] or match["quote"]:
        return label(env, "comments", match[0].strip("{/*} ")) if match["comment"] else str(match["words"])
    if not match["tag"]:
        env["imported"].update(_IMPORT.findall(match[0]))
        return label(env, KIND, match[0])
    images, code = markdown_images(match[0], env["imported"]), list[str]()
    lines = [line for line in _shown(match[0], code) if line not in images]  # captions
    label(env, KIND, "" if images else " ".join(code))
    start, end = match.string.rfind("\n", 0, match.start()) + 1, match.string.find("\n", match.end())
    before, after = match.string[start : match.start()], match.string[match.end() : end if end >= 0 else None]
    if before.strip() or (after.strip() and not lines):
        return ", ".join(filter(None, (images, *lines))) + (" " if lines and after[:1].strip() else "")
    return "\n\n".join(("", *lines, images, ""))


def _shown(tag: str, code: list[str]) -> list[str]:
    """Returns the texts in a tag, a line for each array and object; values that may be code are added to `code`."""
    lines: list[list[str]] = [[]]
    for value in _VALUE.finditer(tag):
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
    is_address = is_image(value) or re.fullmatch(r"[/.#@]\S*|\w+:\S+|[\W_]*", value.strip()) is not None
    is_word = re.fullmatch(r"[a-z][\w.:/-]*|[\w-]*[_=<>{}]\S*", value.strip()) is not None  # which may be code
    return not is_address and not _is_setting(name) and (not is_word or re.fullmatch(_TEXTS, name) is not None)
