"""Which files and entries are read: patterns, one of several languages, and pages about a site."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexes.knowledge.ledger import Ledger
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.selection import other_languages, site_pages
from tests.fakes.reading import written

DOCUSAURUS = "i18n/fr/docusaurus-plugin-content-docs/current/fox.md"


@pytest.mark.parametrize(
    ("paths", "others"),
    [
        (["fox.html", "de/fox.html", "fr/fox.html"], {"de/fox.html": "de", "fr/fox.html": "fr"}),
        (["en/fox.html", "de/fox.html"], {"de/fox.html": "de"}),
        (["es/fox.html", "es/hen.html", "de/fox.html"], {"de/fox.html": "de"}),  # most pages
        (["docs/fox.md", "docs/de/fox.md", "docs/de/hen.md"], {"docs/de/fox.md": "de"}),  # the hen is only there
        (["fox.md", "fox.de.md", "fox.pt-br.md"], {"fox.de.md": "de", "fox.pt-br.md": "pt-br"}),
        (["docs/fox.md", DOCUSAURUS], {DOCUSAURUS: "fr"}),
        (["en/a.md", "en/b.md", "en/c.md", "fr-FR/a.md"], {"fr-FR/a.md": "fr-fr"}),  # most is not translated
        (["it/server.md", "it/router.md", "fox.md"], {}),  # the department, not the language
        (["no/a.md", "no/b.md", "no/c.md", "a.md"], {}),  # a third in common
        (["fox.min.html", "v1.2/fox.html", "us/fox.html"], {}),
        (["a/de.json", "a/en.json", "b/de.json", "b/en.json"], {"a/de.json": "de", "b/de.json": "de"}),
        (["lands/de.md", "lands/fr.md", "lands/it.md"], {}),  # things, in one folder
        (["logos/ko-fi/a.md", "logos/te/a.md", "logos/ibm/a.md", "logos/3m/a.md", "logos/bp/a.md"], {}),  # companies
        (["bash/ps.md", "bash/tr.md", "bash/ls.md", "bash/cat.md", "sh/ps.md", "sh/tr.md", "sh/cp.md", "sh/dd.md"], {}),
        ([], {}),
    ],
)
def test_one_of_several_languages(paths: list[str], others: dict[str, str]) -> None:
    assert other_languages(paths) == others


def test_lists_and_pages_about_a_site() -> None:
    things = ["fish/angelfish/index.html", "fish/about-face.html", "ore/index.md", "contact-lens.md"]
    pages = [
        "index.html",
        "fish/index.html",
        "keyboards/_index.md",
        "about.html",
        "privacy-policy/index.html",
        "404.html",
    ]
    assert site_pages([*things, *pages, "keyboards/lily.md"]) == set(pages)


def notes(folder: Path) -> Path:
    for name in ("animals/fox", "animals/hen", "plants/iris", "about", "de/animals/fox", "drafts/elk"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text(f"# {name}\n\nWords about it.\n")
    return folder


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        ({}, ["about", "animals/fox", "animals/hen", "drafts/elk", "plants/iris"]),
        ({"only": "animals/*"}, ["animals/fox", "animals/hen"]),
        ({"only": "animals\nplants"}, ["animals/fox", "animals/hen", "plants/iris"]),
        ({"only": "de/*"}, ["de/animals/fox"]),
        ({"only": "animals/*", "skip": "*/hen*"}, ["animals/fox"]),
        ({"skip": "drafts\npages"}, ["animals/fox", "animals/hen", "plants/iris"]),
    ],
)
def test_chosen_notes(tmp_path: Path, names: dict[str, str], ids: list[str]) -> None:
    ledger = Ledger()
    assert [one.id for one in read_knowledge_base(notes(tmp_path), names=names, ledger=ledger)] == ids
    assert sum(loss.count for loss in ledger.left_out.values() if loss.unit == "entities") == 6 - len(ids)
    assert "words" not in {loss.unit for loss in ledger.left_out.values()}  # what is not read is not counted in words


def test_chosen_rows(tmp_path: Path) -> None:
    kb = written(
        tmp_path / "kb.json", [{"id": f"{kind}-{n}", "name": f"{kind} {n}"} for kind in ("a", "b") for n in (1, 2)]
    )
    assert [one.id for one in read_knowledge_base(kb, names={"only": "a-*", "skip": "*-2"})] == ["a-1"]
    for name in ("bottles", "glasses"):
        (tmp_path / "data").mkdir(exist_ok=True)
        written(tmp_path / "data" / f"{name}.json", [{"id": f"{name}{n}", "name": f"{name} {n}"} for n in (1, 2)])
    found = read_knowledge_base(tmp_path / "data", names={"only": "bottles.json"})
    assert [one.id for one in found] == ["bottles1", "bottles2"]


def test_files_in_linked_folders_are_counted(tmp_path: Path) -> None:
    kb = notes(tmp_path / "kb")
    notes(tmp_path / "more")
    (kb / "linked").symlink_to(tmp_path / "more")
    (kb / "again").symlink_to(kb / "animals")  # read where they are
    ledger = Ledger()
    assert len(list(read_knowledge_base(kb, names={"only": "animals/*"}, ledger=ledger))) == 2
    ((count, example),) = [(one.count, one.example) for reason, one in ledger.left_out.items() if "linked" in reason]
    assert count == 6 and example.startswith("linked leads to ")


@pytest.mark.parametrize("suffix", [".md", ".html"])
def test_one_article_reads_as_among_all(tmp_path: Path, suffix: str) -> None:
    link = '<p><a href="/join">Join our club</a></p>' if suffix == ".html" else "\n[Join our club](/join)\n"
    for number in range(8):
        text = f"<h1>Fox {number}</h1><p>It is {number} years old.</p>{link}"
        text = text if suffix == ".html" else f"# Fox {number}\n\nIt is {number} years old.\n{link}"
        for folder in ("", "de/", "fr/"):
            (tmp_path / folder).mkdir(exist_ok=True)
            own = text.replace("Join our club", f"{folder}club") if folder else text
            (tmp_path / f"{folder}fox{number}{suffix}").write_text(own, encoding="utf-8")
    for pattern, language in (("fox3*", ""), ("de/fox3*", "de/"), ("de/*", "de/")):
        found = {one.id: one for one in read_knowledge_base(tmp_path, names={"only": pattern})}
        [fox] = [one for id, one in found.items() if id.startswith(f"{language}fox3")]
        assert [one.text for one in fox.sections] == ["It is 3 years old."], pattern


def test_rows_in_one_of_several_languages(tmp_path: Path) -> None:
    for language, name in (("en", "Loon"), ("de", "Seetaucher")):
        (tmp_path / language).mkdir()
        (tmp_path / language / "birds.json").write_text(f'[{{"name": "{name}"}}]')
        (tmp_path / language / "birds.xml").write_text(f"<birds><bird><name>{name}</name><id>1</id></bird></birds>")
    for format in ("jsonl", "xml"):
        ledger = Ledger()
        assert [one.title for one in read_knowledge_base(tmp_path, format, ledger=ledger)] == ["Loon"]
        assert any("pages in de" in reason for reason in ledger.left_out)
        found = read_knowledge_base(tmp_path, format, names={"only": "de/*"})
        assert [one.title for one in found] == ["Seetaucher"]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("de/loon.md", "de/*"), ("docs/de-CH/loon.md", "*/de-CH/*"), ("docs/loon.de.md", "*.de.*"), ("a/de.md", "*/de.*")],
)
def test_the_option_for_another_language_reads_it(tmp_path: Path, name: str, pattern: str) -> None:
    other = name.replace("de-CH/", "").replace("de/", "").replace(".de", "").replace("/de.", "/en.")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/de.md").touch()  # a second file that is called after its language
    for one in (name, other):
        (tmp_path / one).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / one).write_text(f"# {one}\n\nA bird.\n")
    ledger = Ledger()
    assert [one.title for one in read_knowledge_base(tmp_path, ledger=ledger)] == [other]
    (reason,) = [one for one in ledger.left_out if "another language" in one]
    assert f"(--only '{pattern}' reads them)" in reason
    found = read_knowledge_base(tmp_path, names={"only": pattern})
    assert [one.title for one in found] == [name]
