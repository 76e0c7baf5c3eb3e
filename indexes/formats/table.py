"""CSV and TSV files: one entity per row, such as those that describe a folder of images."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

from indexes.formats.fields import GUESSES, Names, field_of
from indexes.formats.html import FACTS
from indexes.formats.skipped import Entry, attempt
from indexes.formats.streams import opened
from indexes.sections import split_article, split_text
from retriever.types import ArticleImage, Entity

_DELIMITERS = ",;\t|"
_LONGEST = 1 << 27


def read_table(path: Path, names: Names) -> Iterator[Entry]:
    """Yields the rows of a `.csv` or `.tsv` file with a header, also compressed, with their places.

    Columns are those of an entity (`GUESSES`), several images separated by `|`; without an id, the title is the id. The
    other columns become lines `column: value` of a section "Facts".

    Raises:
        ValueError: The file has no header, is not UTF-8, or is damaged.
    """
    csv.field_size_limit(_LONGEST)  # Python's own limit is 128 KB
    with opened(path) as file:
        try:
            lines = io.TextIOWrapper(cast(io.BufferedReader, file), encoding="utf-8-sig", newline="")
            header = lines.readline()
            delimiter = max(_DELIMITERS, key=header.count)
            columns = next(csv.reader([header], delimiter=delimiter), [])
            if not any(columns):
                raise ValueError(f"{path}: has no header; its first line must name the columns")
            rows = csv.reader(lines, delimiter=delimiter, strict=True)
            for row in rows:
                if row:
                    where = f"{path}: line {rows.line_num + 1}"
                    yield attempt(where, partial(_entity, columns, row, where, names))
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not UTF-8 ({error.reason}); convert the file") from error
        except csv.Error as error:
            raise ValueError(f"{path}: after line {rows.line_num}: {error}") from error


def _entity(columns: list[str], values: list[str], where: str, names: Names) -> Entity:
    if len(values) > len(columns):
        raise ValueError(f"{where}: {len(values)} values, but the header has {len(columns)} columns")
    return entity_of(dict(zip(columns, values, strict=False)), where, names)


def entity_of(row: dict[str, str], where: str, names: Names) -> Entity:
    """Returns the entity in a row of a table.

    Raises:
        ValueError: It has no title.
    """
    row = {column: value.strip() for column, value in row.items()}
    found = {field: field_of(row, field, names) for field in GUESSES}
    fields = {field: str(value or "") for field, (_, value) in found.items()}
    title = fields["title"]
    if not title:
        raise ValueError(f"{where}: no title; if its column has another name, pass --map title=NAME")
    used = {name for name, _ in found.values()}
    facts = "\n".join(f"{column}: {value}" for column, value in row.items() if value and column not in used)
    images = [image.strip() for image in fields["image"].split("|") if image.strip()]
    return Entity(
        id=fields["id"] or title,
        title=title,
        sections=split_article([*split_text(title, fields["text"]), (FACTS, facts)]),
        image=images[0] if images else None,
        url=fields["url"],
        images=tuple(map(ArticleImage, images[1:])),
    )
