"""Wordings of prompts: templates with named places, filled with texts and images in the order of the template.

The published wordings are data of their repositories and papers; `omgm download --prompts` stores them here, outside of
this project.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from chat_models.messages import Message, image_part, text_part
from retriever.files import cache_folder, read_object

Wordings = Mapping[str, str]
"""Templates by name; a place is a name in braces, such as `{question}`."""
Value = str | Sequence[str | Image.Image]
"""What stands in a place: a text, or texts and images in their order."""

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class PublishedPrompts:
    """The published prompts of a paper, which are not part of this project.

    Attributes:
        name: What `omgm download --prompts` calls them.
        required: The templates that there must be, with the places that each must have.
        optional: Templates that only the paper has, so that they may be missing.
    """

    name: str
    required: Mapping[str, frozenset[str]]
    optional: frozenset[str] = frozenset()


def fill(template: str, values: Mapping[str, Value]) -> Message:
    """Returns a user message: a template with its places filled, images between the texts where the template has them.

    Texts that fill a place are never searched for places themselves. Parts of white space alone are left out.

    Raises:
        ValueError: The template has a place without a value.

    Example:
        >>> fill("Q: {question}", {"question": "Why {x}?"})
        {'role': 'user', 'content': 'Q: Why {x}?'}
    """
    parts: list[str | Image.Image] = []
    for number, piece in enumerate(_PLACE.split(template)):
        if number % 2 and piece not in values:
            raise ValueError(f"a prompt has the place {{{piece}}}; known are {', '.join(sorted(values))}")
        value: Value = values[piece] if number % 2 else piece
        for one in [value] if isinstance(value, str) else value:
            if isinstance(one, str) and parts and isinstance(parts[-1], str):
                parts[-1] += one
            else:
                parts.append(one)
    kept = [one for one in parts if not isinstance(one, str) or one.strip()]
    if all(isinstance(one, str) for one in kept):
        return {"role": "user", "content": "".join(one for one in kept if isinstance(one, str))}
    content = [text_part(one) if isinstance(one, str) else image_part(one) for one in kept]
    return {"role": "user", "content": content}


def check(prompts: PublishedPrompts, found: Wordings, where: str) -> Wordings:
    """Returns wordings if they are all of the published ones.

    Raises:
        ValueError: A template or one of its places is missing; the message names it.
    """
    for name, places in prompts.required.items():
        if not found.get(name, "").strip():
            raise ValueError(f"{where}: the prompt {name!r} is missing; there are {', '.join(sorted(found)) or 'none'}")
        if missing := sorted(places - set(_PLACE.findall(found[name]))):
            raise ValueError(f"{where}: the prompt {name!r} lacks the place {{{missing[0]}}}")
    known = {*prompts.required, *prompts.optional}
    if unknown := sorted(found.keys() - known):
        raise ValueError(f"{where}: unknown prompt {unknown[0]!r}; known are {', '.join(sorted(known))}")
    return found


def folder() -> Path:
    """Returns the folder of the published wordings: `omgm/prompts` in the user's cache folder."""
    return cache_folder() / "prompts"


def stored(prompts: PublishedPrompts) -> Wordings | None:
    """Returns the published wordings, `None` if they were not downloaded.

    Raises:
        ValueError: The file is damaged.
    """
    path = folder() / f"{prompts.name}.json"
    if not path.is_file():
        return None
    found = read_object(path).get("prompts")
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise ValueError(f"{path}: not what `omgm download --prompts {prompts.name}` wrote; run it again")
    return check(prompts, found, str(path))


def as_text(found: Wordings) -> str:
    """Returns wordings as one text, for a run's identity."""
    return json.dumps(dict(sorted(found.items())), ensure_ascii=False)
