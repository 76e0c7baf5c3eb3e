"""Front matter as editors and exporters write it: the same title, image and facts in every form."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.readers.front_matter import split_front_matter
from indexes.knowledge.ledger import Ledger as Losses
from retriever.types import Entity
from tests.fakes.reading import read, texts

FIELDS = "title: The Tower\nimage: img/cover.png\nheight: 40 m\n"
BODY = "\n# Heading one\n\nThe tower is high.\n"
PLAIN = f"---\n{FIELDS}---\n{BODY}"
SAME = {
    "plain": PLAIN,
    "mark": f"\ufeff{PLAIN}",
    "two marks": f"\ufeff\ufeff{PLAIN}",
    "CRLF": PLAIN.replace("\n", "\r\n"),
    "CR": PLAIN.replace("\n", "\r"),
    "empty line": f"\n \n{PLAIN}",
    "comment": f"<!-- exported -->\n\n{PLAIN}",
    "indented": "---\n" + "".join(f"  {line}\n" for line in FIELDS.splitlines()) + f"---\n{BODY}",
    "tabs": "---\ntitle:\tThe Tower\nimage:\timg/cover.png\nheight:\t40 m\n---\n" + BODY,
    "dots": f"---\n{FIELDS}...\n{BODY}",
    "unclosed": f"---\n{FIELDS}{BODY}",
    "JSON": '{"title": "The Tower", "image": "img/cover.png", "height": "40 m"}\n' + BODY,
    "JSON in lines": ';;;\n{"title": "The Tower", "image": "img/cover.png", "height": "40 m"}\n;;;\n' + BODY,
    "TOML": '+++\ntitle = "The Tower"\nimage = "img/cover.png"\nheight = "40 m"\n+++\n' + BODY,
    "YAML by name": PLAIN.replace("---", "---yaml", 1),
    "JSON by name": '---json\n{"title": "The Tower", "image": "img/cover.png", "height": "40 m"}\n---\n' + BODY,
    "TOML by name": '---toml\ntitle = "The Tower"\nimage = "img/cover.png"\nheight = "40 m"\n---\n' + BODY,
    "linked title": "---\ntitle: [[The Tower]]\nimage: ![[cover.png]]\nheight: [[x|40 m]]\n---\n" + BODY,
    "Zola": '+++\ntitle = "The Tower"\n[extra]\nimage = "img/cover.png"\nheight = "40 m"\n+++\n' + BODY,
    "wiki link": "---\ntitle: The Tower\nimage: [[cover.png]]\nheight: 40 m\n---\n" + BODY,
    "embedded": '---\ntitle: The Tower\ncover: "![[cover.png]]"\nheight: 40 m\n---\n' + BODY,
    "Hugo": "---\ntitle: The Tower\nresources:\n- src: a.png\n- src: img/cover.png\n  name: cover\nheight: 40 m\n---\n"
    + BODY,
    "nested": "---\ntitle: The Tower\nimage:\n  url: img/cover.png\n  alt: x\nheight: 40 m\n---\n" + BODY,
    "header": "Title: The Tower\nImage: img/cover.png\nHeight: 40 m\n" + BODY,
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be", "utf-32"])
def test_every_form_of_unicode_is_read_alike(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "note.md").write_bytes(PLAIN.replace("40 m", "40 m høyt").encode(encoding))
    (entity,) = read(tmp_path)
    assert texts(entity) == [("Heading one", "The tower is high."), ("Facts", "Height: 40 m høyt")]


@pytest.mark.parametrize("form", SAME)
def test_every_form_is_read_alike(tmp_path: Path, form: str) -> None:
    (tmp_path / "img").mkdir()
    (tmp_path / "img" / "cover.png").touch()
    (tmp_path / "note.md").write_bytes(SAME[form].encode())
    (entity,) = read(tmp_path)
    assert (entity.title, entity.image) == ("The Tower", "img/cover.png")
    assert texts(entity) == [("Heading one", "The tower is high."), ("Facts", "Height: 40 m")]


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("title: The Tower: a guide", "title", "The Tower: a guide"),
        ("author: @ann", "author", "@ann"),
        ("made by: [[Ann]], [[Bob]]", "made by", "[[Ann]], [[Bob]]"),
        ("share: 50 % # of all", "share", "50 %"),
        ("title: 1984", "title", "1984"),
        ("id: 007", "id", "007"),
        ("code: NA", "code", "NA"),
        ("surname: Null", "surname", "Null"),
        ("score: '-'", "score", "-"),
        ("gone: null", "gone", None),
        ("gone: ~", "gone", None),
        ("gone: .nan", "gone", None),
        ("more:\n\tlegs: 4", "more", {"legs": "4"}),
        ("kin:\n  - [[Wolf]]\n  - Dog", "kin", ["[[Wolf]]", "Dog"]),
    ],
)
def test_values_that_yaml_reads_otherwise(line: str, key: str, value: object) -> None:
    settings, rest = split_front_matter(f"---\nbefore: 1\n{line}\nafter: [a, b]\n---\nText\n")
    assert settings[key] == value and settings["after"] == ["a", "b"] and rest == "Text\n"


def test_settings_that_are_not_yaml_are_read_line_by_line() -> None:
    text = '---\nsaid: "He said "hi""\nand left\nempty:\nname: \'Fox\'\n---\nText\n'
    assert split_front_matter(text) == ({"said": 'He said "hi"\nand left', "empty": "", "name": "Fox"}, "Text\n")


@pytest.mark.parametrize(
    "text", ["{ not JSON }\nText", '{"a": 1} and more', "---\nA rule.\n", "----\ntitle: x\n----\n"]
)
def test_what_is_no_front_matter(text: str) -> None:
    assert split_front_matter(text) == ({}, text)


def facts(folder: Path, settings: str, text: str = "Text.") -> tuple[Entity, Losses]:
    folder.mkdir()
    (folder / "note.md").write_text(f"---\n{settings}\n---\n{text}\n")
    losses = Losses(str(folder))
    (entity,) = read_knowledge_base(folder, ledger=losses)
    return entity, losses


def test_other_names_are_kept_and_not_counted_as_left_out(tmp_path: Path) -> None:
    entity, losses = facts(tmp_path / "a", 'Aliases: ["Alp cheese", Old]\nalias: Wheel, Round\naliases:')
    assert entity.names == ("Alp cheese", "Old", "Wheel", "Round") and not losses.left_out
    entity, losses = facts(tmp_path / "b", "alias: {no: name}")
    assert entity.names == () and losses.left_out["settings of site generators"].count == 1


def test_an_authors_own_keys_are_facts_and_settings_are_counted(tmp_path: Path) -> None:
    own = "category: mammal\nstatus: rare\ntype: animal\ninfo:\n  legs: 4\ndescription: A tale.\nweight: 5 kg"
    entity, losses = facts(tmp_path / "a", f"{own}\nlayout: post\nlicense: CC0\norder: 3\nsee: b/c.md\ndraft: true")
    assert texts(entity) == [
        ("note", "Text."),
        ("Facts", "Category: mammal\nStatus: rare\nType: animal\nInfo, legs: 4\nDescription: A tale.\nWeight: 5 kg"),
    ]
    assert losses.left_out["settings of site generators"].count == 4  # post, CC0, 3 and yes
    assert losses.left_out["addresses and file names"].example == "note.md:12: b/c.md"
    assert losses.to_json()["words"] == {"source": 9, "kept": 9}
    long = " ".join(["word"] * 60)
    entity, _ = facts(tmp_path / "b", f"story: {long}")
    assert texts(entity) == [("note", "Text."), ("Story", long)]


def test_what_yaml_writes_is_read_back(tmp_path: Path) -> None:
    values = {"title": "A: b # c", "age": "007", "kin": ["x, y", "z: 1"], "note": "two\nlines", "on": "'quoted' \"q\""}
    entity, _ = facts(tmp_path / "a", yaml.safe_dump(values).rstrip())
    assert entity.title == "A: b # c"
    assert texts(entity) == [
        ("A: b # c", "Text."),
        ("Note", "two\nlines"),
        ("Facts", "Age: 007\nKin: x, y; z: 1\nOn: 'quoted' \"q\""),
    ]


def test_hugos_build_options_are_settings(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("+++\ntitle = 'A'\nrating = 9\nbuild.render = 'never'\n+++\nText.")
    (tmp_path / "b.md").write_text("---\ntitle: B\nbuild: 1967\n---\nText.")
    found = {one.title: one.sections[-1].text for one in read_knowledge_base(tmp_path)}
    assert found == {"A": "Rating: 9", "B": "Build: 1967"}


def test_a_template_that_is_no_yaml(tmp_path: Path) -> None:
    text = "---\nkinds:\n  - Owls\n  - Birds\nseen: {{date}}\nby: {% who %}\n---\nHoots.\n"
    settings, body = split_front_matter(text)
    assert settings == {"kinds": ["Owls", "Birds"], "seen": "{{date}}", "by": "{% who %}"} and body == "Hoots.\n"
