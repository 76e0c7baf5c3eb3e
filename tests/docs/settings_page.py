"""Writes the tables of docs/settings.md, which are made from the code: `python -m tests.docs.settings_page`."""

from __future__ import annotations

import inspect
import json
import re

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from omgm.settings import GeneratorSettings, Profile, SummarizerSettings
from tests.paths import ROOT

PAGE = ROOT / "docs" / "settings.md"
MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """Returns the descriptions in the docstrings ("Attributes:") of a table of settings and of its base classes."""
    found: dict[str, str] = {}
    for part in reversed(model.__mro__):
        text = inspect.cleandoc(part.__dict__.get("__doc__") or "").partition("\nAttributes:\n")[2]
        for name, meaning in re.findall(r"^    (\w+): (.*(?:\n        .*)*)", text, re.MULTILINE):
            found[name] = " ".join(meaning.split())
    return found


def default_of(field: FieldInfo) -> str:
    """Returns the default of a setting as it is written in the tables."""
    if field.is_required():
        return "required"
    if field.default in ("", None):
        return "none"
    return f"`{field.default}`" if isinstance(field.default, str) else _number(field.default)


def _number(value: object) -> str:
    text = json.dumps(value, default=lambda step: step.kind)
    return text if isinstance(value, int | float) and not isinstance(value, bool) else f"`{text}`"


def table(name: str) -> str:
    """Returns the Markdown table of one part of a profile, or of its own settings for `profile`."""
    field = Profile.model_fields.get(name)
    model = Profile if field is None else field.annotation
    assert isinstance(model, type) and issubclass(model, BaseModel)
    prefix = "" if model is Profile else f"{name}."
    known = meanings(model)
    shared = meanings(SummarizerSettings) if model is GeneratorSettings else {}
    rows = ["| setting | default | meaning |", "| --- | --- | --- |"]
    for key, part in model.model_fields.items():
        if isinstance(part.annotation, type) and issubclass(part.annotation, BaseModel):
            continue
        meaning = f"as `summarizer.{key}`" if shared.get(key) == known[key] else known[key]
        rows.append(f"| `{prefix}{key}` | {default_of(part)} | {meaning} |")
    return "\n".join(rows) + "\n"


def written(page: str) -> str:
    """Returns the page with all of its tables made anew."""
    return MARKED.sub(lambda match: match[1] + table(match[2]) + match[3], page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
