"""Tags of templates: Liquid and Jinja (`{% %}`), Hugo's shortcodes (`{{< >}}`), ERB, macros, and tags in braces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.utils import EnvType

from indexes.knowledge.image_names import IMAGE_SUFFIXES
from indexes.knowledge.readers.dialects import label, rewrite

_TAGS = (  # what only looks like a tag; tags, macros with arguments and Handlebars comments; texts and variables
    r"\{%-?\s*raw\s*-?%\}(?P<literal>(?s:.*?))\{%-?\s*endraw\s*-?%\}"
    r"|(?P<tag>\{%(?s:.*?)%\}|\{\{[<%](?s:.*?)[>%]\}\}|<%(?s:.*?)%>"
    r"|(?<![\w}^_\\$])\{\{(?:!(?s:.*?)|[#/>^&]?[A-Za-z][\w./-]*\s(?!\s*[|}])(?:[^{}]|\{[^{}]*\})*)\}\}"
    r"|\{[a-z][\w-]*(?:\s+[\w-]+=\"(?:[^\"\\]|\\.)*\")+\s*/?\}|\{[a-z][\w-]*\s+end\})"
    r"|(?P<output>\{\{-?\s*(?:(?P<quote>[\"'])(?P<words>[^\n]*?)(?P=quote)|(?<=\s)[A-Za-z_]\w*|[A-Za-z_]\w*\.[\w.]+)"
    r"(?:\s*\|[^{}]*)?\s*-?\}\})"
)
_VALUE = re.compile(r"(?:([\w-]+)\s*[=:]\s*)?(?:\"([^\"\n]*)\"|'([^'\n]*)'|\{(\w+)\})|([\w-]+)=([^\s\"'>%{}]+)")
_COPIES = re.compile(r"link|href|srcset|thumb\w*|poster|full\w*|large|dark\w*|placeholder", re.IGNORECASE)
_CAPTION = re.compile(r"\b(?:caption|alt|title)\s*[=:]\s*(?:%Q\{([^{}]*)\}|\"([^\"]*)\"|'([^']*)')")


def plugin(md: MarkdownIt) -> None:
    """Replaces tags that name images by these: `{{< figure src="fox.jpg" caption="A fox" >}}`; others are labeled."""
    rewrite(md, _TAGS, ("{%", "{{", "<%", '="', " end}"), _plain)


def _plain(match: re.Match[str], env: EnvType) -> str:
    if match["literal"] is None and not match["words"]:
        image = markdown_images(match["tag"] or "", {})
        return image or label(env, "template tags", match[0])
    return str(match["words"] or match["literal"])


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
        words = " ".join(re.sub(r"[][`<>]", "", next(filter(None, caption.groups()), "")).split()) if caption else ""
        written.append(f"![{words}]({re.sub(r'[ <>()]', lambda sign: quote(sign[0]), path)})")  # <> would be a tag
    return " ".join(written)


def is_image(value: str) -> bool:
    """Returns whether a value names an image."""
    return re.split(r"[?#]", value.strip().lower())[0].endswith(IMAGE_SUFFIXES) or value.startswith("embedded:")
