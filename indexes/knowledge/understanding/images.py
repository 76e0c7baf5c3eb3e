"""Finds the images that labeled values name: by what the values are, then by the names of their fields."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from indexes.knowledge.document import Heading
from indexes.knowledge.image_names import words_of
from indexes.knowledge.understanding.facts import label_of, parsed, plain, text_in, texts_in
from indexes.knowledge.understanding.fields import GUESSES, field_of, images_in, looks_like_image, usual_names
from indexes.knowledge.understanding.image_texts import NO_IMAGE, OF_OTHERS, Fields, IsImage, pictures_in
from indexes.knowledge.understanding.languages import words_of as word_list
from indexes.knowledge.understanding.settings import RIGHTS
from indexes.labeled_values import Names, folded

PARTS = "_parts"  # the key for the values of records that are parts of a record, such as its images
_AGENTS = re.compile(r"(?:person|people|organi[sz]ation|group|agent|company)$", re.IGNORECASE)
"""Types of agents that made, own or publish a thing; their portraits and logos do not show it."""
_OF_AGENTS = frozenset({"username", "login", "email", "firstname", "lastname", "familyname", "givenname", "surname"})
_IMAGE_TYPE = re.compile(r"(?:\w+:)?image(?:object|/[\w.+-]+)?", re.IGNORECASE)
"""Types and formats of objects that are an image: `image/jpeg`, `ImageObject`, `dctypes:Image`."""
_USUAL = frozenset(map(folded, GUESSES["image"]))
_CAPTIONS = frozenset(
    map(folded, (*GUESSES["title"], *GUESSES["text"], "caption", "alt", "alt_text", "legend", "figcaption"))
)
"""Names of fields for what an image shows."""
_IS_FILE = word_list("url src href path file filename contenturl large original full data")
"""Keys that make an object a file, rather than a part of the thing that has an image."""
_KINDS = ("type", "@type", "format", "medium", "mimeType", "mime_type", "encodingFormat")
_ADDRESSES = ("url", "contentUrl", "content_url", "@id", "id", "src", "href", "source", "identifier")
_PERSON = " (person)"  # ends the path of a field in an object that is a person
_SENTENCE = 60  # fewest characters of a text about the thing beside an image; photographers and views are shorter
_DEEPEST = 20
_BY_SIZE = (
    word_list("thumb thumbs thumbnail thumbnails small mini preview lowres tiny th sm xs"),
    word_list("medium md regular normal scaled resized"),
    word_list("large big full fullsize original originals orig hires hd lg xl"),
)
"""Words in names of fields, by the size of the image; one without such a word is between medium and large."""
_NO_THING = word_list("url src path link file").union(*_BY_SIZE)


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


def images_of(values: Mapping[str, Any], where: str, names: Names, fields: Fields) -> Images:
    """Returns the images that labeled values name: those of the field in `names`, or else of all that name any.

    Images in `fields.others`, and of objects that are persons, are left out unless there is no other. An object that
    describes an image gives its caption; of its other values, only objects and sentences are about the thing.

    Raises:
        ValueError: The value of the field in `names` has another type.
    """
    images = Images()
    if is_given := "image" in names:
        main, value = field_of(values, "image", names)
        pictures = {main: [(url, alt) for name in images_in(value, where, main) for url, alt in _split(name, fields)]}
        images.fields.add(main if main in values else main.rpartition(".")[0] or main)
    else:
        pictures = _by_field(values, fields, images)
        main = next((name for name in usual_names("image", tuple(values)) if pictures.get(name)), "")
        main = "" if main in fields.others else main
    later = {name: _place(name, main, fields) for name in pictures}
    chosen = sorted((name for name in pictures if later[name] < 3), key=later.__getitem__) or list(pictures)
    for url, caption in (picture for name in chosen for picture in pictures[name]):
        images.captions[url] = images.captions.get(url) or caption
    if len(images.captions) > 1 and not is_given:
        several = {name: [url for url, _ in pictures[name]] for name in chosen}
        images.captions = _one_per_image(images.captions, several, fields.is_image)
    for name in (name for name in values if name in images.fields and pictures):
        _describe(name, parsed(values[name]), images, fields)
    return images


def _place(name: str, main: str, fields: Fields) -> int:
    """Returns when the images of a field come: the main ones, others, smaller ones; 3 for those of other things."""
    if name in fields.others or name.endswith(_PERSON):
        return 3
    return 0 if name == main else 2 if _size_of(name) < 1 or OF_OTHERS.search(name) else 1


def _by_field(values: Mapping[str, Any], fields: Fields, images: Images) -> dict[str, list[tuple[str, str]]]:
    """Returns fields and the images in them, and adds those that hold nothing else to `images.fields`."""
    pictures, within = dict[str, list[tuple[str, str]]](), defaultdict[str, list[tuple[str, str]]](list)
    for name, value in values.items():
        value = parsed(value) if isinstance(value, str) and value[:1] == "[" else value
        if isinstance(value, str):
            named = _in_field(name, value, fields)
        elif isinstance(value, dict | list) and name != PARTS:
            named = [picture for text in _listed(name, value) for picture in _in_field(name, text, fields)]
        else:
            continue
        if named:
            images.fields.add(name)
        elif isinstance(value, dict):
            for path, url in _nested(name, value):
                within[path].append((url, ""))
        elif isinstance(value, str) and "<" in value:
            named = list(images_in_html(value))
        pictures |= {name: named} if named else {}
    pictures |= within
    if all(path.endswith(_PERSON) for path in pictures) and (url := _described(list(values.values()))):
        pictures[""] = [(url, "")]
    return pictures


def images_in_html(value: str) -> Iterator[tuple[str, str]]:
    """Yields the images in HTML with their captions."""
    if "<img" in value.lower():
        from indexes.knowledge.readers.html import parts_of_html  # needs an HTML parser, which other values do without

        for part in parts_of_html(value):
            for picture in () if isinstance(part, Heading) else part.pictures:
                yield picture.url, picture.caption or picture.alt


def _in_field(name: str, value: str, fields: Fields) -> list[tuple[str, str]]:
    """Returns the images that a text in a field names, [] if it is something else."""
    if pictures := pictures_in(value, fields.is_image):
        return pictures
    if not _is_usual(name) and name not in fields.images:
        return []
    names = [part for part in _parts(value) if re.search(r"[./]", part)]
    return [(part, "") for part in names if not NO_IMAGE.search(part) and "<" not in part]


@lru_cache(maxsize=1024)
def _is_usual(name: str) -> bool:
    return folded(re.sub(r"\s*\([^()]*\)$", "", name)) in _USUAL


def _parts(value: str) -> list[str]:
    return [part.strip() for part in re.split(r"[|\n]", value) if part.strip()]


def _split(value: str, fields: Fields) -> list[tuple[str, str]]:
    """Returns the images in the value of the field that `--map` names."""
    return pictures_in(value, fields.is_image) or list(images_in_html(value)) or [(part, "") for part in _parts(value)]


def _listed(name: str, value: Any) -> list[str]:
    """Returns the images in a list or an object, a cover first, [] if it also holds others."""
    items = value if isinstance(value, list) else [value]
    is_usual = folded(name) in _USUAL
    if items and all(isinstance(item, str) for item in items):
        return items if is_usual or all(map(pictures_in, items)) else []
    objects = [item for item in items if isinstance(item, dict) and not _is_person("", item)]
    if not objects or not (is_usual or (len(objects) == len(items) and all(map(_is_file, objects)))):
        return []
    objects.sort(key=lambda item: not re.search("cover|feature", str(item.get("name", "")), re.IGNORECASE))
    with suppress(ValueError):  # the value is something else
        return [url for item in objects for url in _in_base64(item) or images_in(item, "", name)]
    return []


def _in_base64(item: Mapping[str, Any]) -> list[str]:
    texts = (text for text in item.values() if isinstance(text, str) and len(text) > _SENTENCE)
    return [url for text in texts for url, _ in pictures_in(text) if url.startswith("data:")]


def _is_file(item: Mapping[str, Any]) -> bool:
    """Returns whether an object is an image, unlike a part of the thing that has an image."""
    return any(
        folded(str(key)) in _IS_FILE and isinstance(text, str) and pictures_in(text) for key, text in item.items()
    )


def _nested(name: str, value: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yields the images in objects within objects, with their paths; lists hold parts, whose images are others."""
    person = _PERSON if _is_person(name.rpartition(".")[2], value) else ""
    for key, item in value.items() if depth <= _DEEPEST else ():
        path = f"{name}.{key}"
        if isinstance(item, dict):
            yield from ((inner.removesuffix(person) + person, url) for inner, url in _nested(path, item, depth + 1))
            continue
        urls = [url for url, _ in pictures_in(item)] if isinstance(item, str) else _listed(str(key), item)
        yield from ((path + person, url) for url in urls)


def _is_person(name: str, value: Mapping[str, Any]) -> bool:
    kinds = (kind for key in _KINDS if key in value for kind in texts_in(value[key]))
    by_name = OF_OTHERS.search(name) is not None and any(folded(str(key)) in ("name", "title") for key in value)
    return by_name or any(map(_AGENTS.search, kinds)) or any(folded(str(key)) in _OF_AGENTS for key in value)


def _described(value: Any, depth: int = 0) -> str:
    """Returns the address of the first object whose type or format marks it as an image, as in IIIF and feeds."""
    if isinstance(value, list) and depth < _DEEPEST:
        return next(filter(None, (_described(item, depth + 1) for item in value if not isinstance(item, str))), "")
    if not isinstance(value, dict) or depth >= _DEEPEST:
        return ""
    kinds = [kind for name in _KINDS if name in value for kind in texts_in(value[name])]
    if any(map(_IMAGE_TYPE.fullmatch, kinds)):
        return next((text for name in _ADDRESSES for text in texts_in(value.get(name)) if re.search("[./]", text)), "")
    return "" if any(map(_AGENTS.search, kinds)) else _described(list(value.values()), depth + 1)


def _describe(name: str, value: Any, images: Images, fields: Fields) -> None:
    """Adds the captions in the objects of a field, and what else they say."""
    said: list[Any] = []
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, dict):
            continue
        url = next((url for text in _listed("image", item) for url, _ in _split(text, fields)), "")
        caption, more = image_words(item)
        if url in images.captions:
            images.captions[url] = images.captions[url] or caption
        said += [next(iter(more.values())) if len(more) == 1 else more] if more else []
    images.said += [(name, said)] if said else []


def image_words(image: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns the caption in an object or a row that describes an image, and other fields about the thing."""
    said, more = list[str](), dict[str, Any]()
    for name, value in image.items():
        text = value if isinstance(value, str) else ""
        if looks_like_image(text) or re.match(r"\w*://", text):
            continue
        is_prose = len(text) >= _SENTENCE and " " in text and not RIGHTS.fullmatch(folded(str(name)))
        if folded(str(name)) in _CAPTIONS:
            caption = " ".join(plain(text_in(value)).split())
            said += [] if looks_like_image(caption) else [caption]
        elif is_prose or any(isinstance(item, dict) for item in (value if isinstance(value, list) else [value])):
            more[name] = value
    return " ".join(dict.fromkeys(filter(None, said))), more


@lru_cache(maxsize=1024)
def _size_of(field: str) -> float:
    """Returns the size that the name of a field says: 0 for small images, 1.5 if it says nothing, 2 for large ones."""
    words = words_of(label_of(field))
    return next((float(size) for size, names in enumerate(_BY_SIZE) if not names.isdisjoint(words)), 1.5)


@lru_cache(maxsize=1024)
def _thing(field: str) -> str:
    """Returns the name of a field without words for sizes: "" for `thumbnailUrl`, `front` for `front_large`."""
    return " ".join(word for word in words_of(label_of(field)) if word not in _NO_THING)


def _one_per_image(
    captions: Mapping[str, str], fields: Mapping[str, Sequence[str]], is_image: IsImage
) -> dict[str, str]:
    """Returns images with their captions, each in its largest size that is there, and by one of its paths.

    Fields that name one image in several sizes, `thumbnail`, `medium` and `large`, name one image.
    """
    by_field = {urls[0]: name for name, urls in fields.items() if len(urls) == 1}
    main = _thing(next(iter(by_field.values()), ""))
    things = {url: _thing(name) or main for url, name in by_field.items()}  # `thumbnail` is that of the main image
    sized = {things[url] for url, name in by_field.items() if _size_of(name) != 1.5}
    groups: dict[tuple[bool, str], list[str]] = {}
    for url in captions:
        is_sized = things.get(url) in sized
        groups.setdefault((is_sized, things[url] if is_sized else _shortest(url, captions)), []).append(url)
    kept: dict[str, str] = {}
    for urls in groups.values():
        best = max(urls, key=lambda url: (is_image(url), _size_of(by_field.get(url, "")))) if len(urls) > 1 else urls[0]
        kept[best] = captions[best] or next(filter(None, (captions[url] for url in urls)), "")
    return kept


def _shortest(url: str, urls: Iterable[str]) -> str:
    """Returns the shortest of the paths that an address ends with, such as `2023/fox.jpg`."""
    ends = (other for other in urls if url.endswith(f"/{other}") and ("/" in other or "//" in url))
    return min(ends, key=len, default=url)
