"""Reference pages are complete."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from operator import attrgetter

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from indexes.store.columns import all_files
from indexes.store.manifest import MANIFEST
from omgm.settings import Profile
from tests.docs.settings_page import PAGE, written
from tests.paths import ROOT

DOCS = ROOT / "docs"


def settings(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields the dotted name of every profile setting, with its default as written in the tables."""
    for name, field in model.model_fields.items():
        part = field.annotation
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield from settings(part, f"{prefix}{name}.")
        else:
            yield prefix + name, default_of(field)


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default in ("", None):
        return "none"
    step = attrgetter("kind")
    return field.default if isinstance(field.default, str) else json.dumps(field.default, default=step)


def documented(page: str) -> dict[str, str]:
    """Returns the first two columns of every table with rows of "| `setting` | default | meaning |"."""
    text = (DOCS / page).read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| ([^|]*) \| [^|]+ \|$", text, re.MULTILINE)
    return {name: default.strip("`") for name, default in rows}


def test_every_setting_is_documented_with_its_default() -> None:
    assert documented("settings.md") == dict(settings(Profile))


def test_the_tables_of_settings_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page) == page, "write them with: python -m tests.docs.settings_page"


def test_every_file_of_an_index_is_documented() -> None:
    text = (DOCS / "data-formats.md").read_text(encoding="utf-8")
    section = text.partition("## Index")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    assert set(re.findall(r"`([^`]+)`", " ".join(rows))) == {MANIFEST, *all_files(), "images/<row>.jpg"}
