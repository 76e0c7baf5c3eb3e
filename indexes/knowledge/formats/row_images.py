"""Finds the images that a row or an object names, in the usual fields or in others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from indexes.knowledge.formats.facts import RIGHTS, parsed, plain, text_in, texts_in, words_within
from indexes.knowledge.formats.fields import GUESSES, Names, folded, images_in, images_of, looks_like_image
from indexes.knowledge.formats.losses import Losses

_AGENTS = re.compile(r"(?:person|people|organi[sz]ation|group|agent|company)$", re.IGNORECASE)
"""Types of agents that made, own or publish a thing; their portraits and logos do not show it."""
_IMAGE_TYPE = re.compile(r"(?:\w+:)?image(?:object|/[\w.+-]+)?", re.IGNORECASE)
"""Types and formats of objects that are an image: `image/jpeg`, `ImageObject`, `dctypes:Image`."""
_OF_OTHERS = re.compile(
    r"author|creator|user|owner|photographer|artist|editor|avatar|profile|icon|favicon|placeholder", re.IGNORECASE
)
"""Names of fields for images that do not show the thing itself."""
_SMALL = re.compile(r"thumb|small|mini|preview|icon|low_?res|tiny", re.IGNORECASE)
"""Names of fields for smaller copies of images."""
_NO_IMAGE = re.compile(r"\.(?:pdf|mp3|mp4|ogg|wav|webm|mov|zip|html?|md|txt|json|csv|docx?|glb|obj|stl)$", re.I)
"""Endings of files of other kinds, which a field such as "filename" may name."""
_USUAL = frozenset(map(folded, GUESSES["image"]))
_CAPTIONS = frozenset(
    map(folded, (*GUESSES["title"], *GUESSES["text"], "caption", "alt", "alt_text", "alttext", "legend", "figcaption"))
)
"""Names of fields for what an image shows."""
_DETAILS = "details of images"
_SENTENCE = 60
"""Fewest characters of a text about the thing beside an image; photographers, views and places are shorter."""
_WIKI_LINK = re.compile(r"!?\[\[([^\[\]|]+)(?:\|[^\[\]]*)?\]\]")
_DEEPEST = 20
_KINDS = ("type", "@type", "format", "medium", "mimeType", "mime_type", "encodingFormat")
_ADDRESSES = ("url", "contentUrl", "content_url", "@id", "id", "src", "href", "source")


class RowImages(NamedTuple):
    """The images of a row.

    Attributes:
        captions: Their paths or URLs, the main one first, those of smaller copies last, each with its caption.
        fields: The fields that hold nothing else; one inside an object is written with dots.
        texts: What else is said beside them, with the names of the fields.
    """

    captions: dict[str, str]
    fields: set[str]
    texts: list[tuple[str, Any]]


def row_images(row: Mapping[str, Any], where: str, names: Names, losses: Losses) -> RowImages:
    """Returns the images of a row: those of the field in `names`, or else of the usual fields and of all that name one.

    Portraits of those who made or describe a thing are not its images, unless there is no other. An object that
    describes an image gives its caption; of its other values, only objects and sentences are about the thing.
    """
    values = {name: parsed(value) for name, value in row.items()}
    main, found = images_of(values, where, names)
    found = [image for one in found for image in _split(one) if "image" in names or not _NO_IMAGE.search(image)]
    images, fields = {main: found} if found else {}, set[str]()
    if found:
        fields.add(main if main in row else main.rpartition(".")[0] or main)
    for name, value in values.items() if "image" not in names else ():
        listed = _listed(name, value, where) if name != main else []
        if listed and all(map(looks_like_image, listed)):
            fields.add(name)
            if not _OF_OTHERS.search(name):
                images[name] = listed
    if not images and "image" not in names:
        others = [image for name in fields for image in _listed(name, values[name], where)]
        images[""] = others or list(filter(None, [_described(list(row.values()))]))
    ordered = sorted(images, key=lambda name: name != main and _SMALL.search(name) is not None)
    captions = dict.fromkeys((image for name in ordered for image in images[name]), "")
    texts = list[tuple[str, Any]]()
    for name in (name for name in row if name in fields):
        said = list[Any]()
        for one in _objects(values[name]):
            of = next((image for url in _listed(name, one, where) for image in _split(url)), "")
            caption, more = image_words(one, losses)
            if of in captions and not captions[of]:
                captions[of] = caption
                losses.keep(caption)
            else:
                losses.leave_out(_DETAILS, caption)
            said += [next(iter(more.values())) if len(more) == 1 else more] if more else []
        texts += [(name, said)] if said else []
    return RowImages(captions, fields, texts)


def image_words(image: Mapping[str, Any], losses: Losses) -> tuple[str, dict[str, Any]]:
    """Returns the caption in an object or a row that describes an image, and other fields about the thing."""
    said, more = list[str](), dict[str, Any]()
    for name, value in image.items():
        text = value if isinstance(value, str) else ""
        if looks_like_image(text) or re.match(r"\w*://", text):
            continue
        is_prose = len(text) >= _SENTENCE and " " in text and not RIGHTS.fullmatch(folded(str(name)))
        if folded(str(name)) in _CAPTIONS:
            said.append(" ".join(plain(text_in(value)).split()))
        elif is_prose or any(_objects(value)):
            more[name] = value
        else:
            losses.leave_out(_DETAILS, words_within(value))
    return " ".join(dict.fromkeys(filter(None, said))), more


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yields the objects in a value or a list of values."""
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, Mapping):
            yield one


def _listed(name: str, value: Any, where: str) -> list[str]:
    """Returns the images in the value of a field, [] if it also holds others."""
    given = value if isinstance(value, list) else [value]
    if given and all(isinstance(one, str) for one in given):
        return [image for one in given for image in _split(one)]
    if folded(name) not in _USUAL or not any(isinstance(one, Mapping) for one in given):
        return []
    with suppress(ValueError):  # the value is something else
        return [image for one in images_in(value, where, name) for image in _split(one)]
    return []


def _described(value: Any, depth: int = 0) -> str:
    """Returns the address of the first object whose type or format marks it as an image, as in IIIF and feeds."""
    if isinstance(value, list) and depth < _DEEPEST:
        return next(filter(None, (_described(one, depth + 1) for one in value)), "")
    if not isinstance(value, Mapping) or depth >= _DEEPEST:
        return ""
    kinds = [kind for name in _KINDS for kind in texts_in(value.get(name))]
    if any(map(_IMAGE_TYPE.fullmatch, kinds)):
        return next((one for name in _ADDRESSES for one in texts_in(value.get(name)) if re.search("[./]", one)), "")
    return "" if any(map(_AGENTS.search, kinds)) else _described(list(value.values()), depth + 1)


def _split(value: str) -> list[str]:
    """Returns the images that a text names.

    They are separated by `|` or new lines, or by commas, semicolons or spaces if each part is an image.
    """
    value = _WIKI_LINK.sub(r"\1", value.strip())
    if value[:1] == value[-1:] and value[:1] in ("'", '"'):
        value = value[1:-1].strip()
    parts = [part.strip() for part in re.split(r"[|\n]", value)]
    if len(parts) == 1:
        lists = ([part.strip() for part in re.split(sign, value)] for sign in (r"[;,]\s*", r"\s+"))
        parts = next((listed for listed in lists if len(listed) > 1 and all(map(looks_like_image, listed))), parts)
    return [part for part in parts if part]
