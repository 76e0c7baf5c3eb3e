"""Knowledge bases as they come: E-VQA's dict of articles and the project's own JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from indexes.sections import split_article
from retriever.types import Entity


def read_knowledge_base(path: Path, format: str | None = None) -> Iterator[Entity]:
    """Yields the entities of a knowledge base in the file's order.

    Args:
        path: The file.
        format: A key of `FORMATS`; by the file's extension when `None`.

    Raises:
        ValueError: An unknown format, or a row that does not fit its format. The message names file, entry and field.
        OSError: The file cannot be read.
    """
    reader = FORMATS.get(format or guess_format(path))
    if reader is None:
        raise ValueError(f"knowledge base format {format!r} is unknown: use one of {', '.join(FORMATS)}")
    seen: set[str] = set()
    for where, entity in reader(path):
        if not entity.id:
            raise ValueError(f"{where}: field 'id' is empty")
        if entity.id in seen:
            raise ValueError(f"{where}: field 'id': {entity.id!r} occurs a second time; every entity needs its own")
        seen.add(entity.id)
        yield entity


def guess_format(path: Path) -> str:
    """Returns the format that a file's extension stands for.

    Raises:
        ValueError: The extension says nothing.
    """
    try:
        return _EXTENSIONS[path.suffix.lower()]
    except KeyError:
        known = ", ".join(f"{extension} ({name})" for extension, name in _EXTENSIONS.items())
        raise ValueError(f"{path}: cannot tell the format by the extension; known: {known}. Name the format") from None


def _read_evqa(path: Path) -> Iterator[tuple[str, Entity]]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            articles = json.load(file, object_pairs_hook=_unique_keys)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(articles, dict):
        raise ValueError(f"{path}: expected one JSON object, url to entry, but found {_kind(articles)}")
    for url, entry in articles.items():
        where = f"{path}: entry {url!r}"
        _check_text(url, where, "id")
        titles = _texts(entry, "section_titles", where)
        texts = _texts(entry, "section_texts", where)
        if len(titles) != len(texts):
            raise ValueError(f"{where}: {len(titles)} 'section_titles' but {len(texts)} 'section_texts'")
        images = _texts(entry, "image_urls", where, required=False)
        entity = Entity(
            id=url,
            title=_text(entry, "title", where),
            sections=split_article(zip(titles, texts, strict=True)),
            image=(images[0] or None) if images else None,
            url=_text(entry, "url", where, required=False) or url,
        )
        yield where, entity


def _read_jsonl(path: Path) -> Iterator[tuple[str, Entity]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            where = f"{path}: line {number}"
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode("utf-8-sig"), object_pairs_hook=_unique_keys)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error
            id = _text(row, "id", where)
            where = f"{where} ({id!r})"
            pairs = []
            for position, section in enumerate(_list(row, "sections", where)):
                place = f"{where}: section {position}"
                pairs.append((_text(section, "title", place), _text(section, "text", place)))
            entity = Entity(
                id=id,
                title=_text(row, "title", where),
                sections=split_article(pairs),
                image=_text(row, "image", where, required=False) or None,
                url=_text(row, "url", where, required=False),
            )
            yield where, entity


FORMATS: dict[str, Callable[[Path], Iterator[tuple[str, Entity]]]] = {"evqa": _read_evqa, "jsonl": _read_jsonl}
"""Reader per format. A reader yields each entity with the place it stands at, for error messages."""

_EXTENSIONS = {".json": "evqa", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):  # json would keep the last one and drop the others without a word
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice in one object")
    return result


def _field(row: object, field: str, where: str, required: bool) -> Any:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: expected an object, but found {_kind(row)}")
    if row.get(field) is None and required:
        raise ValueError(f"{where}: field {field!r} is missing")
    return row.get(field)


def _text(row: object, field: str, where: str, required: bool = True) -> str:
    value = _field(row, field, where, required)
    return "" if value is None else _check_text(value, where, field)


def _list(row: object, field: str, where: str, required: bool = True) -> list[Any]:
    value = _field(row, field, where, required)
    if not isinstance(value, list | None):
        raise ValueError(f"{where}: field {field!r}: expected a list, but found {_kind(value)}")
    return value or []


def _texts(row: object, field: str, where: str, required: bool = True) -> list[str]:
    values = _list(row, field, where, required)
    return [_check_text(value, where, f"{field}[{position}]") for position, value in enumerate(values)]


def _check_text(value: object, where: str, field: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{where}: field {field!r}: expected text, but found {_kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # JSON can spell half a surrogate pair; no tokenizer takes it
        raise ValueError(f"{where}: field {field!r}: not valid Unicode ({error.reason})") from error
    return value


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
