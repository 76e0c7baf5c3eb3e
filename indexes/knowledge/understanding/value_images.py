"""Finds the images that labeled values name: by what the values are, then by the names of their fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from indexes.knowledge.understanding.facts import leaves, parsed, plain, text_in, texts_in, words_within
from indexes.knowledge.understanding.field_sizes import one_per_image, size_of
from indexes.knowledge.understanding.fields import (
    GUESSES,
    Names,
    field_of,
    folded,
    images_in,
    looks_like_image,
    usual_names,
)
from indexes.knowledge.understanding.image_texts import NO_IMAGE, OF_OTHERS, Fields, images_in_html, pictures_in
from indexes.knowledge.understanding.translations import LeftOut

RIGHTS = re.compile(
    r"licen[cs]es?(?:url|name|link|text)?|rights(?:url|statement)?|usagerights|copyright(?:notice)?|termsofuse"
    r"|lizenz|licencia|licenza"
)
"""Names of fields about the data, not about the thing, as by `folded`."""
_AGENTS = re.compile(r"(?:person|people|organi[sz]ation|group|agent|company)$", re.IGNORECASE)
"""Types of agents that made, own or publish a thing; their portraits and logos do not show it."""
_OF_AGENTS = frozenset({"username", "login", "email", "firstname", "lastname", "familyname", "givenname", "surname"})
_IMAGE_TYPE = re.compile(r"(?:\w+:)?image(?:object|/[\w.+-]+)?", re.IGNORECASE)
"""Types and formats of objects that are an image: `image/jpeg`, `ImageObject`, `dctypes:Image`."""
_ALSO_WORDS = frozenset(("logo", "cover", "poster", "banner", "thumb", "artwork", "file", "media"))
"""Names of fields for an image whose value may be something else, such as `oil-on-canvas`."""
_STEM = re.compile(r"(?!\d+$)[\w-]*[\d_-][\w-]*")  # a file's name without its extension, as words rarely are
_USUAL = frozenset(map(folded, GUESSES["image"]))
_CAPTIONS = frozenset(
    map(folded, (*GUESSES["title"], *GUESSES["text"], "caption", "alt", "alt_text", "alttext", "legend", "figcaption"))
)
"""Names of fields for what an image shows."""
_IS_FILE = frozenset(
    ("url", "src", "href", "path", "file", "filename", "contenturl", "large", "original", "full", "data")
)
"""Keys that make an object a file, rather than a part of the thing that has an image."""
_KINDS = ("type", "@type", "format", "medium", "mimeType", "mime_type", "encodingFormat")
_ADDRESSES = ("url", "contentUrl", "content_url", "@id", "id", "src", "href", "source", "identifier")
_PERSON = " (person)"  # ends the path of a field in an object that is a person
_DETAILS = "details of images"
_SENTENCE = 60
"""Fewest characters of a text about the thing beside an image; photographers, views and places are shorter."""
_DEEPEST = 20
PARTS = "_parts"  # the key for the values of records that are parts of a record, such as its images


@dataclass(slots=True)
class Images:
    """The images that labeled values name.

    Attributes:
        captions: Their paths or URLs, the main one first, those of smaller copies last, each with its caption.
        fields: The fields that hold nothing else; one inside an object is written with dots.
        said: What else is said beside them, with the names of the fields.
    """

    captions: dict[str, str] = field(default_factory=dict)
    fields: set[str] = field(default_factory=set)
    said: list[tuple[str, Any]] = field(default_factory=list)


def images_of(values: Mapping[str, Any], where: str, names: Names, fields: Fields, left_out: LeftOut) -> Images:
    """Returns the images that labeled values name: those of the field in `names`, or else of all that name any.

    Images in `fields.others`, and of objects that are persons, are left out unless there is no other. An object that
    describes an image gives its caption; of its other values, only objects and sentences are about the thing.

    Raises:
        ValueError: The value of the field in `names` has another type.
    """
    images = Images()
    if "image" in names:
        main, value = field_of(values, "image", names)
        pictures = {main: [(url, alt) for name in images_in(value, where, main) for url, alt in _split(name, fields)]}
        images.fields.add(main if main in values else main.rpartition(".")[0] or main)
    else:
        pictures = dict(_by_field(values, where, fields, images, left_out))
        main = next((name for name in usual_names("image", tuple(values)) if pictures.get(name)), "")
        main = "" if main in fields.others else main
    taken = {url for several in pictures.values() for url, _ in several}
    left_out += [("images of parts", url) for url in _of_parts(values) if url not in taken]
    if not pictures:
        return images
    later = {name: _place(name, main, fields) for name in pictures}
    chosen = sorted((name for name in pictures if later[name] < 3), key=later.__getitem__) or list(pictures)
    for name in [name for name in pictures if name not in chosen]:
        reason = f"images of people who made it ({name.removesuffix(_PERSON)})"
        left_out += [(reason, url) for url, _ in pictures[name]]
    captions: dict[str, str] = {}
    for name in chosen:
        for url, caption in pictures[name]:
            captions[url] = captions.get(url) or caption
    images.captions = captions
    if len(captions) > 1 and "image" not in names:
        several = {name: [url for url, _ in pictures[name]] for name in chosen}
        images.captions = one_per_image(captions, several, fields.is_image, left_out)
    for name in (name for name in values if name in images.fields):
        _describe(name, parsed(values[name]), where, images, fields, left_out)
    return images


def _place(name: str, main: str, fields: Fields) -> int:
    """Returns when the images of a field come: the main ones, others, smaller ones; 3 for those of other things."""
    if name in fields.others or name.endswith(_PERSON):
        return 3
    return 0 if name == main else 2 if size_of(name) < 1 or OF_OTHERS.search(name) else 1


def _by_field(
    values: Mapping[str, Any], where: str, fields: Fields, images: Images, left_out: LeftOut
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yields fields and the images in them, and adds those that hold nothing else to `images.fields`."""
    objects: list[tuple[str, Any]] = []
    empty = True
    for name, value in values.items():
        if name == PARTS:
            continue
        value = parsed(value) if isinstance(value, str) and value[:1] == "[" else value
        if isinstance(value, str):
            pictures = _in_field(name, value, fields)
            if not pictures and "<img" in value.lower():
                pictures = list(images_in_html(value))
                empty &= not pictures
                yield name, pictures
                continue
        elif isinstance(value, Mapping | list):
            named = {text: _in_field(name, text, fields) for text in _listed(name, value, where)}
            pictures = [picture for several in named.values() for picture in several]
            if pictures:
                left_out += [("names and types of files", text) for text in named if not named[text]]
            else:
                objects.append((name, value))
        else:
            continue
        if pictures:
            images.fields.add(name)
            empty = False
            yield name, pictures
    for name, value in objects:
        for path, url in _nested(name, value):
            empty &= path.endswith(_PERSON)
            yield path, [(url, "")]
    if empty and (url := _described(list(values.values()))):
        yield "", [(url, "")]


def _in_field(name: str, value: str, fields: Fields) -> list[tuple[str, str]]:
    """Returns the images that a text in a field names, [] if it is something else."""
    if pictures := pictures_in(value, fields.is_image):
        return pictures
    usual = folded(re.sub(r"\s*\([^()]*\)$", "", name)) in _USUAL
    if not usual and name not in fields.images:
        return []
    parts = [part.strip() for part in re.split(r"[|\n]", value) if part.strip()]
    stems = usual and folded(name) not in _ALSO_WORDS
    names = [part for part in parts if re.search(r"[./]", part) or (stems and _STEM.fullmatch(part))]
    return [(part, "") for part in names if not NO_IMAGE.search(part) and "<" not in part]


def _split(value: str, fields: Fields) -> list[tuple[str, str]]:
    """Returns the images in the value of the field that `--map` names."""
    parts = [part.strip() for part in re.split(r"[|\n]", value) if part.strip()]
    return pictures_in(value, fields.is_image) or list(images_in_html(value)) or [(part, "") for part in parts]


def _listed(name: str, value: Any, where: str) -> list[str]:
    """Returns the images in a list or an object, a cover first, [] if it also holds others."""
    items = value if isinstance(value, list) else [value]
    usual = folded(name) in _USUAL
    if items and all(isinstance(item, str) for item in items):
        return items if usual or all(map(pictures_in, items)) else []
    objects = [item for item in items if isinstance(item, Mapping) and not _is_person("", item)]
    if not objects or not (usual or (len(objects) == len(items) and all(map(_is_file, objects)))):
        return []
    objects.sort(key=lambda item: not re.search("cover|feature", str(item.get("name", "")), re.IGNORECASE))
    with suppress(ValueError):  # the value is something else
        return [url for item in objects for url in _bytes_in(item) or images_in(item, where, name)]
    return []


def _bytes_in(item: Mapping[str, Any]) -> list[str]:
    texts = (value for value in item.values() if isinstance(value, str) and len(value) > _SENTENCE)
    return [url for text in texts for url, _ in pictures_in(text) if url.startswith("data:")]


def _is_file(item: Mapping[str, Any]) -> bool:
    """Returns whether an object is an image, unlike a part of the thing that has an image."""
    return any(
        folded(str(key)) in _IS_FILE and isinstance(text, str) and pictures_in(text) for key, text in item.items()
    )


def _nested(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yields the images in objects within objects, with their paths; lists hold parts, whose images are others."""
    if not isinstance(value, Mapping) or depth > _DEEPEST:
        return
    person = _PERSON if _is_person(name.rpartition(".")[2], value) else ""
    for key, item in value.items():
        if isinstance(item, str):
            for url, _ in pictures_in(item):
                yield f"{name}.{key}{person}", url
        elif not isinstance(item, Mapping):
            yield from ((f"{name}.{key}{person}", url) for url in _listed(str(key), item, ""))
        else:
            for path, url in _nested(f"{name}.{key}", item, depth + 1):
                yield path if not person or path.endswith(person) else path + person, url


def _is_person(name: str, value: Mapping[str, Any]) -> bool:
    kinds = [kind for key in _KINDS for kind in texts_in(value.get(key))]
    by_name = OF_OTHERS.search(name) is not None and any(folded(str(key)) in ("name", "title") for key in value)
    return any(map(_AGENTS.search, kinds)) or by_name or any(folded(str(key)) in _OF_AGENTS for key in value)


def _of_parts(values: Mapping[str, Any]) -> Iterator[str]:
    """Yields the images that objects and lists name, the same more than once."""
    inner = [value for name, value in values.items() if isinstance(value, Mapping | list) and name != PARTS]
    for text in leaves(inner, objects=True) if inner else ():
        if isinstance(text, str) and looks_like_image(text) and not text.startswith("data:"):
            yield text


def _described(value: Any, depth: int = 0) -> str:
    """Returns the address of the first object whose type or format marks it as an image, as in IIIF and feeds."""
    if isinstance(value, list) and depth < _DEEPEST:
        return next(filter(None, (_described(item, depth + 1) for item in value)), "")
    if not isinstance(value, Mapping) or depth >= _DEEPEST:
        return ""
    kinds = [kind for name in _KINDS for kind in texts_in(value.get(name))]
    if any(map(_IMAGE_TYPE.fullmatch, kinds)):
        return next((text for name in _ADDRESSES for text in texts_in(value.get(name)) if re.search("[./]", text)), "")
    return "" if any(map(_AGENTS.search, kinds)) else _described(list(value.values()), depth + 1)


def _describe(name: str, value: Any, where: str, images: Images, fields: Fields, left_out: LeftOut) -> None:
    """Adds the captions in the objects of a field, and what else they say."""
    said: list[Any] = []
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, Mapping):
            continue
        url = next((url for text in _listed("image", item, where) for url, _ in _split(text, fields)), "")
        caption, more = image_words(item, left_out)
        if url in images.captions and not images.captions[url]:
            images.captions[url] = caption
        elif caption:
            left_out.append((_DETAILS, caption))
        said += [next(iter(more.values())) if len(more) == 1 else more] if more else []
    if said:
        images.said.append((name, said))


def image_words(image: Mapping[str, Any], left_out: LeftOut) -> tuple[str, dict[str, Any]]:
    """Returns the caption in an object or a row that describes an image, and other fields about the thing."""
    said, more = list[str](), dict[str, Any]()
    for name, value in image.items():
        text = value if isinstance(value, str) else ""
        if looks_like_image(text) or re.match(r"\w*://", text):
            continue
        is_prose = len(text) >= _SENTENCE and " " in text and not RIGHTS.fullmatch(folded(str(name)))
        if folded(str(name)) in _CAPTIONS:
            said.append(" ".join(plain(text_in(value)).split()))
        elif is_prose or any(isinstance(item, Mapping) for item in (value if isinstance(value, list) else [value])):
            more[name] = value
        elif words := words_within(value):
            left_out.append((_DETAILS, words))
    return " ".join(dict.fromkeys(filter(None, said))), more
