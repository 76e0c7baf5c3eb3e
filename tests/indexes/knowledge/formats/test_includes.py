"""Files that notes include."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.ledger import Ledger as Losses

PART = """---
kind: part
---
Soak the beans.
Boil them.
<!-- #region end -->
Salt them.
<!-- #endregion end -->
"""
WHOLE = "Soak the beans. Boil them. Salt them."


def included(folder: Path, text: str, name: str = "dish.md", losses: Losses | None = None) -> str:
    (folder / "parts").mkdir()
    (folder / "parts" / "beans.md").write_text(PART)
    (folder / "_includes").mkdir()
    (folder / "_includes" / "note.md").write_text("Serve warm.")
    (folder / name).write_text(f"# Dish\n\n{text}\n")
    found = {one.id: one for one in read_knowledge_base(folder, ledger=losses)}
    return "\n".join(one.text for one in found["dish"].sections)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("{{#include parts/beans.md}}", WHOLE),
        ("{{#include ./parts/beans.md:1}}", "Soak the beans."),
        ("{{#include parts/beans.md:2:2}}", "Boil them."),
        ("{% include note.md size='large' %}", "Serve warm."),
        ("{% include_relative parts/beans.md %}", WHOLE),
        ('{{% include "/parts/beans.md" %}}', WHOLE),
        ("{{< include parts/beans.md >}}", WHOLE),
        ("<!--@include: @/parts/beans.md#end-->", "Salt them."),
        ('--8<-- "parts/beans.md:end"', "Salt them."),
        ("{!parts/beans.md!}", WHOLE),
        ("```{include} parts/beans.md\n:start-line: 0\n```", WHOLE),
        ("[!INCLUDE [beans](~/parts/beans.md)]", WHOLE),
        ("::include{file=parts/beans.md}", WHOLE),
        ("```text\n{{#include parts/beans.md:1}}\n```", "Soak the beans."),
    ],
)
def test_spellings(tmp_path: Path, written: str, text: str) -> None:
    assert included(tmp_path, written) == text


def test_a_part_of_a_page_of_components(tmp_path: Path) -> None:
    text = "import Beans from './parts/beans.md';\n\n<Beans size={2} />\n\nEat."
    assert included(tmp_path, text, "dish.mdx") == f"{WHOLE}\nEat."


def test_what_is_not_there_or_not_inside_is_counted(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("Secret.")
    folder, losses = tmp_path / "kb", Losses()
    folder.mkdir()
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    written = ("../secret.md", "link.md", "none.md", "dish.md", "parts/beans.md:lost")
    text = included(folder, "\n\n".join(f"{{{{#include {one}}}}}" for one in written) + "\n\nEat.", ledger=losses)
    assert text == "Eat." and losses.left_out["included files that are missing"].places == len(written)


def test_files_that_include_each_other_end(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A.\n\n" + "{{#include b.md}}\n" * 20)
    (tmp_path / "b.md").write_text("B.\n\n" + "{{#include a.md}}\n" * 20)
    found = list(read_knowledge_base(tmp_path))
    assert [one.title for one in found] == ["a", "b"] and len(found[0].sections) < 100
