"""Components of MDX: what they show becomes text, with the Markdown between their tags; modules are labeled as code."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.utils import EnvType

from indexes.knowledge.readers.dialects import label, rewrite
from indexes.knowledge.readers.dialects.javascript import NEST, values_of
from indexes.knowledge.readers.dialects.literals import shown
from indexes.knowledge.readers.dialects.templates import markdown_images

KIND = "code of components"
_MODULE = (
    r"^(?:import\s(?:[^\n]*?|\{[^{}]*\}[^\n]*?)['\"][^'\"\n]+['\"];?[ \t]*$"
    r"|export\s+(?:const|let|var|default|function|async|\{|\*)(?s:.*?)(?=\n\s*\n[^\s})\]]|\s*\Z))"
)
_COMPONENTS = (
    rf"(?P<module>{_MODULE})|(?P<comment>\{{/\*(?s:.*?)\*/\}})"
    rf"|(?P<component></?[A-Z][\w.]*(?:[^<>{{}}\"'`]|\"[^\"]*\"|'[^']*'|{NEST})*>|</?>)"
    rf"|(?<=[\w\"'}}])(?P<attribute>\s[\w:-]+=)(?P<value>{NEST})(?=[^<>]*>)"  # of an element of HTML
    r"|\{(?P<quote>[\"'`])(?P<words>[^\"'`{}\n]*)(?P=quote)\}|^[ \t]*(?P<expression>" + NEST + r")[ \t]*$"
)
_IMPORT = re.compile(r"import\s+(\w+)\s+from\s+['\"]([^'\"\n]+)['\"]")


def plugin(md: MarkdownIt) -> None:
    """Reads MDX; indented lines are no code."""
    md.disable("code")
    rewrite(md, _COMPONENTS, ("<", "{", "import", "export"), _plain)


def _plain(match: re.Match[str], env: EnvType) -> str:
    if match["comment"]:
        return label(env, "comments", match[0].strip("{/*} "))
    if match["quote"]:
        return str(match["words"])
    if match["attribute"]:
        image = re.search(r"\]\((.*)\)\Z", markdown_images(f"src={match['value']}", env["imported"]))
        return f'{match["attribute"]}"{image[1]}"' if image else label(env, KIND, match[0])
    if not match["component"]:
        env["imported"].update(_IMPORT.findall(match[0]))
        return label(env, KIND, match[0])
    images, code = markdown_images(match[0], env["imported"]), list[str]()
    lines = [line for line in shown(values_of(match[0], code), code) if line not in images]  # captions
    label(env, KIND, "" if images else " ".join(code))
    start, end = match.string.rfind("\n", 0, match.start()) + 1, match.string.find("\n", match.end())
    before, after = match.string[start : match.start()], match.string[match.end() : end if end >= 0 else None]
    if before.strip() or (after.strip() and not lines):
        separator = " " if lines and after[:1].strip() else ""
        return ", ".join(filter(None, (images, *(line for line in lines if "\n" not in line)))) + separator
    return "\n\n".join(("", *lines, images, ""))
