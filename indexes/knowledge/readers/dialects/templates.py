"""Tags of templates: Liquid and Jinja (`{% %}`), Hugo's shortcodes (`{{< >}}`), ERB (`<% %>`), and macros."""

from __future__ import annotations

import re
from collections.abc import Mapping
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


def plugin(md: MarkdownIt) -> None:
    """Replaces tags that name images by these: `{{< figure src="fox.jpg" caption="A fox" >}}`; others are labeled."""
    rewrite(md, _TAGS, ("{%", "{{", "<%"), _plain)


def _plain(match: re.Match[str], env: EnvType) -> str:
    if match["literal"] is not None or match["words"]:
        return str(match["words"] or match["literal"])
    return markdown_images(match["tag"] or "", {}) or label(env, "template tags", match[0])


def markdown_images(tag: str, imported: Mapping[str, str]) -> str:
    """Returns the images that a tag names as Markdown; `imported` has paths of images by the names of variables."""
    images = dict[str, int]()
    for match in _VALUE.finditer(tag):
        key, first, second, variable, bare, other = match.groups()
        paths = (imported.get(variable) or first or second or other or "").split(",")
        if all(map(is_image, paths)) and not (images and _COPIES.fullmatch(key or bare or "")):
            images = {path.strip(): match.start() for path in paths} | images
    written = []
    for path, place in sorted(images.items(), key=lambda image: image[1]):
        end = min((other for other in images.values() if other > place), default=len(tag))
        caption = _CAPTION.search(tag, place if len(images) > 1 else 0, end)
        words = " ".join(re.sub(r"[][`<>]", "", caption[1] or caption[2] or "").split()) if caption else ""
        written.append(f"![{words}]({re.sub(r'[ <>()]', lambda sign: quote(sign[0]), path)})")  # <> would be a tag
    return " ".join(written)


def is_image(value: str) -> bool:
    """Returns whether a value names an image."""
    return re.split(r"[?#]", value.strip().lower())[0].endswith(IMAGE_SUFFIXES) or value.startswith("embedded:")
