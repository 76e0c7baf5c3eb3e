"""Finds the fields of labeled values by their names, and checks the types of the project's own formats.

A missing field or a value of another type is a `ValueError` that names the place, the field and the type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from indexes.image_paths import IMAGE_SUFFIXES
from indexes.labeled_values import Names, folded, kind, value_at

_GUESSES = {
    "id": "id _id @id pk object_id uuid guid slug handle accession_number object_number",
    "title": """
        title title_info name display_name label full_name common_name headline heading term word object_name
        object_title item_name product_name titel titre título titulo titolo nombre nom nome naam bezeichnung
        название имя заголовок タイトル 名前 名称 标题 標題 العنوان الاسم""",
    "url": "url link permalink page_url web_url source_url wikipedia_url wikipedia",
    "image": """
        image image_url image_src img img_url image_link image_path images primary_image main_image photo photo_url
        photos picture picture_url pictures gallery logo cover cover_image hero_image featured_image og_image poster
        poster_url poster_path banner thumbnail thumbnail_url thumb sprite sprites artwork file_name file media
        bild foto imagen imagem immagine afbeelding изображение фото 画像 写真 图片 圖片 الصورة صورة""",
    "text": """
        text content body body_html description abstract summary extract overview biography bio desc long_description
        short_description definition about plot synopsis blurb intro introduction excerpt article full_description
        main_text full_text beschreibung inhalt texte texto testo contenu contenido descripción descripcion descrição
        descrizione beschrijving описание текст содержание 説明 本文 描述 简介 正文 الوصف النص descriptions""",
}
GUESSES = {field: tuple(names.split()) for field, names in _GUESSES.items()}
"""Names under which an entity's field is looked up, unless `--map` names another; case, spaces, `_` and `-` are ignored
(`folded`). The first one with a value is used."""
SIZES = (
    *("url", "src", "href", "path", "image", "file", "original", "full", "hires", "large", "big", "official-artwork"),
    *("front_default", "default", "regular", "medium", "small", "thumbnail", "value"),
)
"""Keys of an object that describes an image, or has it in several sizes, in order of preference."""
_IMAGE_NAME = re.compile(rf"[^<>\"\n]+(?:{'|'.join(map(re.escape, IMAGE_SUFFIXES))})(?:[?#]\S*)?", re.IGNORECASE)
_BYTES = ("data:image/", "embedded:")  # beginnings of the addresses of images that are in a file themselves
_LONGEST_LIST, _DEEPEST = 30, 10  # fields that a message lists, and levels of objects that it looks into

_BESIDE = re.compile(r"\s*\([^()]*\)$")
_BESIDE_LD = re.compile(rf"^[A-Za-z][\w.-]*:(?=\w)|{_BESIDE.pattern}")
"""What the name of a field has beside the usual one."""

NO_IMAGES = "none"
"""The value for `--map image=…` with which entities have only the images that they name, even if there are none."""


def image_pattern(names: Names) -> str:
    """Returns the rule that `--map image=…` gives instead of a field, such as `{id}*`, "" if it gives none."""
    value = names.get("image", "")
    return value if value == NO_IMAGES or re.search(r"[{*]", value) else ""


def without_pattern(names: Names) -> Names:
    """Returns names of fields without a rule for images."""
    return {field: name for field, name in names.items() if field != "image"} if image_pattern(names) else names


def field_of(values: Mapping[str, Any], field: str, names: Names) -> tuple[str, Any]:
    """Returns the name of a field in labeled values and its value, which is `None` if there is no such field.

    The name is that of `names`, or else the first of the usual ones (`GUESSES`) that has a value. If there is both a
    title and a name, it is the name, since the title is then a person's rank or an epithet.
    """
    if field in names:
        name = names[field]
        return name, value_at(values, name)
    filled = [name for name in usual_names(field, tuple(values)) if values.get(name) not in (None, "", [], {})]
    if not filled:
        return field, None
    if [folded(name) for name in filled[:2]] == ["title", "name"]:
        title, name = (values[key] for key in filled[:2])
        if isinstance(title, str) and isinstance(name, str) and not _is_code(name, title):
            return filled[1], name
    return filled[0], values[filled[0]]


def _is_code(name: str, title: str) -> bool:
    """Returns whether a name is an identifier: `acme-rocket` for "Acme Rocket 2", `item-12`, `1984.21`, `ACTMCL`."""
    if re.search(r"\s", name):
        return False
    if re.fullmatch("[A-Z]{3,8}", name):
        return not title.isupper()
    words = re.split(r"[-_./]", name.lower())
    says_the_same = folded(name) == folded(title) or (name.islower() and all(word in title.lower() for word in words))
    return says_the_same or (name == name.lower() and re.search(r"[\d_]", name) is not None)


@lru_cache(maxsize=1024)
def usual_names(field: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the keys of labeled values that may be a field, likeliest first; `Body (HTML)` may be `body`.

    So may `dc:body` in JSON-LD; elsewhere, as in OpenStreetMap, what is before a colon is no mere namespace.
    """
    beside = _BESIDE_LD if "@type" in keys or "@context" in keys else _BESIDE
    by_name = {folded(beside.sub("", key)): key for key in reversed(keys)}
    by_name |= {folded(key): key for key in reversed(keys)}
    names = (guess if guess in keys else by_name.get(folded(guess)) for guess in GUESSES[field])
    return tuple(dict.fromkeys(name for name in names if name is not None))


def looks_like_image(value: str) -> bool:
    """Returns whether a text is the name or the URL of an image, or an image itself as a `data:` address."""
    if value.startswith(_BYTES):
        return True
    return "." in value and len(value) < 2048 and _IMAGE_NAME.fullmatch(value.strip()) is not None


def fields_listed(values: Mapping[str, Any]) -> str:
    """Lists the names of non-empty fields for a message, as `--map` accepts them: dots lead into objects."""
    names = list(dict.fromkeys(_paths(values)))
    return ", ".join(names[:_LONGEST_LIST]) + (", …" if len(names) > _LONGEST_LIST else "")


def _paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict) and path.count(".") < _DEEPEST:
        for name, inner in value.items():
            if not str(name).startswith("_"):
                yield from _paths(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for item in value:
            yield from _paths(item, path)
    elif value not in (None, "", [], [""]):
        yield path


def images_in(value: object, where: str, field: str) -> list[str]:
    """Returns the URLs or paths in the value of an image field: text, an object with `url` or `path`, or a list.

    Raises:
        ValueError: The value has another type.
    """
    if isinstance(value, list | tuple):
        return [name for item in value for name in images_in(item, where, field)]
    if isinstance(value, dict):
        words = {str(key): item for key, item in value.items() if isinstance(item, str) and item}
        choices = [value[key] for key in SIZES if value.get(key) and isinstance(value[key], str | dict)]
        choices += [text for text in words.values() if looks_like_image(text)]
        choices += [text for key, text in words.items() if "://" in text and re.search("image|img|photo|picture", key)]
        return images_in(choices[0], where, field) if choices else []
    name = "" if value is None else check_text(value, where, field).strip()
    return [name] if name else []


def text(row: object, field: str, where: str, required: bool = True) -> str:
    """Returns a text field, "" if it is absent or null and not required.

    Raises:
        ValueError: The field is missing or has another type.
    """
    value = _field(row, field, where, required)
    return "" if value is None else check_text(value, where, field)


def items(row: object, field: str, where: str, required: bool = True) -> list[Any]:
    """Returns a list field, [] if it is absent or null and not required; raises as `text`."""
    value = _field(row, field, where, required)
    if not isinstance(value, list | None):
        raise ValueError(f"{where}: field {field!r}: expected a list, but found {kind(value)}")
    return value or []


def texts(row: object, field: str, where: str, required: bool = True) -> list[str]:
    """Returns a field that is a list of texts, [] if it is absent or null and not required; raises as `text`."""
    values = items(row, field, where, required)
    return [check_text(value, where, f"{field}[{position}]") for position, value in enumerate(values)]


def check_text(value: object, where: str, field: str) -> str:
    """Returns a text; raises as `text`, also for unpaired surrogates, which JSON can express but no tokenizer takes."""
    if not isinstance(value, str):
        raise ValueError(f"{where}: field {field!r}: expected text, but found {kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{where}: field {field!r}: not valid Unicode ({error.reason})") from error
    return value


def check_position(value: object, where: str, field: str) -> int | None:
    """Returns a section's number, or `None` for null; raises as `text`."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError(f"{where}: field {field!r}: expected a whole number, but found {kind(value)}")
    return value


def _field(row: object, field: str, where: str, required: bool) -> Any:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: expected an object, but found {kind(row)}")
    if row.get(field) is None and required:
        raise ValueError(f"{where}: field {field!r} is missing")
    return row.get(field)
