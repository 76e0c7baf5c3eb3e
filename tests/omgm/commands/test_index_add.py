"""`omgm index add`: where it finds images, what `--prune` removes, and whose entities are replaced."""

from __future__ import annotations

import json
import os
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexes.live.articles import SERVICE
from indexes.live.index import LiveIndex
from indexes.live.pruning import Gaps, Origins
from omgm import parts
from omgm.__main__ import main
from retriever.types import Entity
from tests.fakes.live import painting
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index

MODELS = {"encoder": FakeEncoder, "fusion": FakeFusion, "summarizer": FakeSummarizer}
Write = Callable[..., Path]


class Case:
    """A folder for knowledge bases, and an index of one of them."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.index, self._capsys = folder, folder / "index", capsys

    def build(self, kb: Path) -> None:
        made: dict[str, Any] = {name: model() for name, model in MODELS.items()}
        build_index(kb, kb if kb.is_dir() else kb.parent, self.index, candidates="combined", **made)

    def add(self, *arguments: str | Path) -> tuple[dict[str, Any], str]:
        """Adds a knowledge base in a copy of the index; returns the report for JSON and the one for people."""
        copy = self.folder / "copy"
        outputs = []
        for more in (("--json",), ()):
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(self.index, copy)
            self._capsys.readouterr()
            assert main(["index", "add", "--index", str(copy), *map(str, arguments), *more]) == 0
            outputs.append(self._capsys.readouterr().out)
        return json.loads(outputs[0]), outputs[1]

    def keep(self) -> None:
        """Makes the copy of the last `add` the index."""
        shutil.rmtree(self.index)
        (self.folder / "copy").rename(self.index)

    def ids(self) -> list[str]:
        opened = LiveIndex.open(self.folder / "copy")
        return sorted(opened.entity(row).id for row in opened.rows())


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Case:
    for name, model in MODELS.items():
        monkeypatch.setattr(parts, f"build_{name}", lambda profile, cache=None, model=model: model())
    return Case(tmp_path, capsys)


def rows_of(folder: Path, cups: dict[int, str], start: int) -> list[dict[str, str]]:
    (folder / "img").mkdir(parents=True, exist_ok=True)
    for number in cups:
        painting(start + number).save(folder / "img" / f"{number}.png")
    return [
        {
            "id": str(number),
            "title": title,
            "image": f"img/{number}.png",
            "text": f"The {title} lies in {number + start}.",
        }
        for number, title in cups.items()
    ]


def csv(folder: Path, cups: dict[int, str], start: int = 0, name: str = "t") -> Path:
    lines = [",".join(row.values()) for row in rows_of(folder, cups, start)]
    (folder / f"{name}.csv").write_text("\n".join(["id,title,image,text", *lines]) + "\n", encoding="utf-8")
    return folder / f"{name}.csv"


def jsonl(folder: Path, cups: dict[int, str], start: int = 0, name: str = "t") -> Path:
    lines = [json.dumps(row) for row in rows_of(folder, cups, start)]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / f"{name}.jsonl"


def notes(folder: Path, names: dict[int, str], start: int = 0) -> Path:
    for row in rows_of(folder, names, start):
        (folder / row["title"]).parent.mkdir(exist_ok=True)
        text = f"# {row['title']}\n\n{row['text']} ![](/{row['image']})\n"
        (folder / f"{row['title']}.md").write_text(text, encoding="utf-8")
    return folder


CUPS = {1: "Red cup", 2: "Blue cup", 3: "Old cup"}
VAULT = {1: "fish/Cod", 2: "fish/Eel", 3: "tree/Ash", 4: "tree/Oak"}


@pytest.mark.parametrize("write", [csv, jsonl])
def test_images_are_looked_for_beside_a_table(case: Case, write: Write) -> None:
    kb = write(case.folder / "cups", CUPS)
    case.build(kb)
    kb.write_text(kb.read_text().replace("lies in 3", "stands in 33"))
    report, _ = case.add(kb)
    assert (report["replaced"], report["unchanged"], report["images_kept"], report["replaced_from"]) == (1, 2, 0, {})
    more = write(case.folder / "more", {4: "Green cup", 5: "Tall cup"}, 7)
    (more.parent / "img" / "5.png").unlink()
    report, said = case.add(more)
    assert (report["added"], report["images_missing"]) == (2, 1)
    assert "1 image missing, the first of 5: 1 x " in said
    opened = LiveIndex.open(case.folder / "copy")
    assert [opened.image_path(opened.row_of(id) or 0) is not None for id in "45"] == [True, False]


@pytest.mark.parametrize("write", [csv, jsonl])
def test_a_row_that_a_whole_table_no_longer_has_is_removed(case: Case, write: Write) -> None:
    kb = write(case.folder / "cups", CUPS)
    case.build(kb)
    report, said = case.add(write(kb.parent, {1: "Red cup"}), "--prune")
    assert (report["pruned"], report["stay"]) == (2, {}) and "2 entities removed: not in" in said
    report, _ = case.add(write(case.folder / "later", {1: "Red cup", 3: "Old cup"}, 0, "july"), "--prune")
    assert (report["pruned"], case.ids()) == (1, ["1", "3"])
    report, said = case.add(write(kb.parent, {1: "Red cup", 3: "Old cup"}), "--prune", "--skip", "3")
    assert (report["pruned"], case.ids()) == (0, ["1", "2", "3"])
    assert "2 entities not removed, such as '2': --only and --skip leave others out; prune without them" in said


def test_only_the_knowledge_base_that_had_an_entity_removes_it(case: Case) -> None:
    cups, plates = csv(case.folder / "cups", CUPS), csv(case.folder / "more", {3: "Flat plate", 4: "New plate"}, 9)
    case.build(cups)
    report, said = case.add(plates)
    assert report["replaced_from"] == {"t": [1, "3"]}
    assert "1 entity replaced that came from another knowledge base, t: '3'" in said
    case.keep()
    assert case.add(plates)[0]["unchanged"] == 2
    report, said = case.add(csv(plates.parent, {4: "New plate"}, 9), "--prune")
    assert (report["pruned"], case.ids()) == (1, ["1", "2", "4"])
    assert "2 entities not removed, such as '1': from another knowledge base, t" in said
    report, _ = case.add(csv(cups.parent, {1: "Red cup"}), "--prune")
    assert (report["pruned"], case.ids()) == (1, ["1", "3", "4"])
    assert list(report["stay"]) == ["from another knowledge base, more/t.csv"]
    case.keep()
    assert main(["index", "compact", "--index", str(case.index)]) == 0
    report, _ = case.add(csv(plates.parent, {3: "Flat plate"}, 9), "--prune")
    assert (report["pruned"], case.ids()) == (1, ["1", "3"])


def emptied(vault: Path) -> None:
    for note in vault.glob("tree/*.md"):
        note.write_text("")


def damaged(vault: Path) -> None:
    (vault / "tree" / "Oak.md").write_bytes(b"# Oak\n\n\xff\xfe abc")


def untitled(vault: Path) -> None:
    (vault / "tree" / "Oak.md").write_text("---\nid: oak\n---\n")


def linked(vault: Path) -> None:
    (vault / "tree").rename(vault.parent / "elsewhere")
    (vault / "tree").symlink_to(vault.parent / "elsewhere")


def unmounted(vault: Path) -> None:
    linked(vault)
    (vault.parent / "elsewhere").rename(vault.parent / "gone")


def outvoted(vault: Path) -> None:
    (vault / "rows.jsonl").write_text(
        "".join(f'{{"id": "r{n}", "title": "R{n}", "text": "Row {n}."}}\n' for n in range(99))
    )


def in_english(vault: Path) -> None:
    for name in ("Cod", "Eel"):
        (vault / "en").mkdir(exist_ok=True)
        (vault / "en" / f"{name}.md").write_text(f"# {name}\n\nAn English {name}.\n")
        (vault / "en" / f"{name}.md").with_suffix(".de.md").write_text(f"# {name}\n\nEin deutscher {name}.\n")


@pytest.mark.parametrize(
    ("change", "flags"),
    [
        (lambda vault: None, ["--only", "fish/*"]),
        (lambda vault: None, ["--only", "fish"]),
        (lambda vault: None, ["--skip", "tree/*"]),
        (emptied, []),
        (damaged, ["--max-bad", "0.5"]),
        (untitled, []),
        (linked, []),
        (unmounted, []),
        (outvoted, []),
        (in_english, []),
    ],
)
def test_what_is_still_in_a_folder_is_never_removed(
    case: Case, change: Callable[[Path], None], flags: list[str]
) -> None:
    vault = notes(case.folder / "vault", VAULT)
    case.build(vault)
    change(vault)
    report, said = case.add(vault, "--prune", *flags)
    assert report["pruned"] == 0 and set(VAULT.values()) <= set(case.ids()), said
    count = sum(number for number, _ in report["stay"].values())
    assert count == report["not_in_file"]
    assert all(f"{reason}" in said for reason in report["stay"])


@pytest.mark.parametrize("other", [None, in_english, emptied])
def test_a_note_that_is_gone_is_removed_whatever_else_was_left_out(
    case: Case, other: Callable[[Path], None] | None
) -> None:
    vault = notes(case.folder / "vault", VAULT)
    case.build(vault)
    (vault / "fish" / "Cod.md").unlink()
    shutil.copy(vault / "img" / "1.png", vault / "fish" / "Cod.png")
    if other is not None:
        other(vault)
        (vault / "en" / "Cod.md").unlink(missing_ok=True)
    report, _ = case.add(vault, "--prune")
    assert report["pruned"] == 1 and "fish/Cod" not in case.ids()


def test_adding_a_file_of_articles_from_a_folder_adds_its_own_alone(case: Case) -> None:
    folder = case.folder / "articles"
    csv(folder, CUPS, name="a")
    article = {"id": "kettle", "title": "Kettle", "sections": [{"title": "Kettle", "text": "It is old."}]}
    (folder / "b.jsonl").write_text(json.dumps(article) + "\n")
    case.build(folder)
    (folder / "b.jsonl").write_text(json.dumps({**article, "title": "Tea kettle"}) + "\n")
    report, said = case.add(folder / "b.jsonl")
    assert (report["replaced"], report["unchanged"], report["added"]) == (1, 0, 0), said


@pytest.mark.parametrize("part", [0, 1])
def test_adding_one_of_two_tables_about_the_same_things_loses_nothing_of_the_other(case: Case, part: int) -> None:
    folder = case.folder / "tables"
    tables = [csv(folder, CUPS, name="a"), jsonl(folder, CUPS, name="b")]
    text = tables[1].read_text(encoding="utf-8").replace('"text": "', '"weight": "300 g", "text": "')
    tables[1].write_text(text, encoding="utf-8")
    case.build(folder)
    report, said = case.add(tables[part])
    assert (report["unchanged"], report["added"], len(case.ids())) == (3, 0, 3), said
    tables[1].write_text(text.replace("300 g", "400 g"), encoding="utf-8")
    assert case.add(tables[part])[0]["replaced"] == 3
    opened = LiveIndex.open(case.folder / "copy")
    for row in opened.rows():
        said = "\n".join(section.text for section in opened.entity(row).sections)
        assert "400 g" in said and "300 g" not in said


@pytest.mark.slow
@pytest.mark.parametrize("write", [csv, jsonl])
@pytest.mark.parametrize("beside", [{}, VAULT])
def test_the_rows_of_a_folder_of_tables_stay_unless_all_of_it_was_read(
    case: Case, write: Write, beside: dict[int, str]
) -> None:
    folder = notes(case.folder / "tables", beside, 20)
    first = write(folder, {11: "Red cup", 12: "Blue cup"}, name="a")
    second = write(folder, {12: "Green cup", 13: "Tall cup"}, name="b")  # rows of two tables with the same number
    case.build(folder)
    count = len(beside)
    assert case.add(folder)[0]["unchanged"] == 4 + count
    for part in (first, second):
        report, said = case.add(part, "--prune")
        assert (report["pruned"], report["unchanged"], len(case.ids())) == (0, 2, 4 + count), said
    for content, why in (
        ("", "empty"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "git lfs pull"),
    ):
        second.write_text(content)
        report, said = case.add(folder, "--prune")
        assert report["pruned"] == 0 and why in said
    write(folder, {12: "Green cup"}, name="b")
    assert case.add(folder, "--prune")[0]["pruned"] == 1
    second.unlink()
    assert case.add(folder, "--prune")[0]["pruned"] == 2


def test_names_in_another_form_of_unicode_are_the_same_ids(case: Case) -> None:
    vault = notes(case.folder / "vault", {1: "Bär", 2: "Café/Été", 3: "Fox"})
    case.build(vault)
    other = case.folder / "other" / "vault"
    for path in sorted(vault.rglob("*")):
        target = other / unicodedata.normalize("NFD", path.relative_to(vault).as_posix())
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            target.write_bytes(path.read_bytes())
    report, _ = case.add(other, "--prune")
    assert (report["added"], report["replaced"], report["unchanged"], report["pruned"]) == (0, 0, 3, 0)
    note = other / unicodedata.normalize("NFD", "Bär.md")
    os.truncate(note, 0)
    assert case.add(other, "--prune")[0]["pruned"] == 0
    note.unlink()
    assert case.add(other, "--prune")[0]["pruned"] == 1
    case.keep()
    assert main(["index", "remove", "--index", str(case.index), unicodedata.normalize("NFD", "Café/Été")]) == 0


def test_an_index_of_a_part_says_so(case: Case) -> None:
    vault = notes(case.folder / "vault", VAULT)
    case.build(vault)
    report, said = case.add(vault / "fish" / "Cod.md", "--prune")
    assert report["pruned"] == 0 and len(case.ids()) == 4
    assert f"3 entities not removed, such as 'fish/Eel': only {vault / 'fish' / 'Cod.md'} was read" in said


def test_what_is_no_file_stays_if_the_reading_was_not_complete(case: Case) -> None:
    vault = notes(case.folder / "vault", VAULT)
    case.build(vault)
    opened = LiveIndex.open(case.index)
    origins = Origins(vault, opened)
    for row in opened.rows():
        origins.add(opened.entity(row), row)
    lost = Gaps(lost="1 bad entry")
    for id in ("fish/Hake", "zoo#fox", "../x", "/etc/passwd"):
        assert origins.why_kept(Entity(id, "A thing", ()), Gaps()) == ""
    assert "files are still there" in origins.why_kept(Entity("fish/Cod#tail", "Tail", ()), Gaps())
    assert origins.why_kept(Entity("Hake", "Hake", ()), lost) == ""
    origins.add(Entity("row 7", "Row", ()), None)
    assert origins.why_kept(Entity("Hake", "Hake", ()), lost) == "1 bad entry"
    assert "put through the service" in origins.why_kept(Entity("Hake", "Hake", (), source=SERVICE), Gaps())
