"""A folder is the union of its files: readers, groups, copies, and what is named as not read."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.folder import UNION, contents_of
from indexes.knowledge.groups import Groups
from indexes.knowledge.ledger import Ledger
from indexes.knowledge.reading import read_knowledge_base
from retriever.types import Entity
from tests.fakes.images import write_image

NAMES = ("Brass Lantern", "Copper Kettle", "Tin Whistle", "Iron Stove")


def text(name: str) -> str:
    return f"The {name.lower()} was bought at a fair and hangs in the kitchen beside the door."


def slug(name: str) -> str:
    return name.lower().replace(" ", "-")


def rows(folder: str = "img") -> list[dict[str, str]]:
    return [{"name": name, "description": text(name), "image": f"{folder}/{slug(name)}.png"} for name in NAMES]


def put(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def images(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, color in zip(NAMES, ("red", "green", "blue", "white"), strict=True):
        write_image(folder / f"{slug(name)}.png", color, side=200)


def read(kb: Path, **names: str) -> dict[str, Entity]:
    return {entity.title: entity for entity in read_knowledge_base(kb, names=names)}


def left_out(kb: Path) -> dict[str, int]:
    ledger = Ledger(str(kb))
    list(read_knowledge_base(kb, ledger=ledger))
    return {loss["reason"]: loss["count"] for loss in ledger.to_json()["left_out"]}


def as_json(folder: Path) -> None:
    put(folder / "things.json", json.dumps(rows()))


def as_lines(folder: Path) -> None:
    put(folder / "things.jsonl", "\n".join(map(json.dumps, rows())))


def as_csv(folder: Path) -> None:
    lines = [f'{row["name"]},"{row["description"]}",{row["image"]}' for row in rows()]
    put(folder / "things.csv", "\n".join(["name,description,image", *lines]))


def as_yaml(folder: Path) -> None:
    for row in rows():
        put(folder / f"{slug(row['name'])}.yml", "".join(f"{key}: {value}\n" for key, value in row.items()))


def as_xml(folder: Path) -> None:
    things = "".join(
        f"<thing>{''.join(f'<{key}>{value}</{key}>' for key, value in row.items())}</thing>" for row in rows()
    )
    put(folder / "things.xml", f"<things>{things}</things>")


def as_pages(folder: Path) -> None:
    for row in rows():
        body = f"<h1>{row['name']}</h1><p>{row['description']}</p><img src='/{row['image']}' width=300 height=300>"
        put(folder / f"{slug(row['name'])}.html", f"<html><title>{row['name']}</title><body>{body}</body></html>")


def as_notes(folder: Path) -> None:
    for row in rows():
        put(folder / f"{slug(row['name'])}.md", f"# {row['name']}\n\n{row['description']}\n\n![](/{row['image']})\n")


def as_database(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(folder / "things.sqlite") as database:
        database.execute("create table things (id integer primary key, name text, description text, image text)")
        values = [(row["name"], row["description"], row["image"]) for row in rows()]
        database.executemany("insert into things (name, description, image) values (?, ?, ?)", values)
    database.close()


CATALOGS = [as_json, as_lines, as_csv, as_yaml, as_xml, as_pages, as_notes, as_database]


@pytest.mark.parametrize("write", CATALOGS)
def test_a_catalog_is_read_whatever_stands_beside_it(tmp_path: Path, write) -> None:  # type: ignore[no-untyped-def]
    write(tmp_path / "data")
    images(tmp_path / "img")
    alone = read(tmp_path)
    assert set(alone) == set(NAMES)
    put(tmp_path / "README.md", "# An app\n\nIt shows things.\n")
    put(tmp_path / "CHANGELOG.md", "# Changes\n\nNone.\n")
    put(tmp_path / "package.json", '{"name": "app", "version": "1.0.0", "description": "An app that shows things."}')
    put(tmp_path / "src/tslint.json", json.dumps({"rules": {"whitespace": {"name": "nospace"}}}))
    put(tmp_path / "app.json", json.dumps({"expo": {"name": "app", "icon": "icon.png"}}))
    put(
        tmp_path / "ios/Assets.xcassets/AppIcon.appiconset/Contents.json",
        '{"images": [{"name": "20x20", "text": "x"}]}',
    )
    put(tmp_path / "android/app/src/main/res/values/strings.xml", '<r><s name="app">An app</s><s name="b">B</s></r>')
    put(tmp_path / "config/storage.yml", "test:\n  name: Disk\n  text: here\n")
    put(tmp_path / "test/fixtures/things.yml", "one:\n  name: Dress\n  text: of silk\n")
    put(tmp_path / "_data/navigation.yml", "- name: Home\n  text: begin\n")
    put(tmp_path / "mosquitto/config/password.txt", "ann:$7$101$zEGafqJt")
    put(tmp_path / "credentials.txt", "The password is tulip.")
    put(tmp_path / "public/404.html", "<h1>Not here</h1><p>You may have mistyped the address.</p>")
    put(tmp_path / "src/app/home.component.html", "<h1>Home</h1><p>Welcome to all things.</p>")
    put(tmp_path / "render.yaml", "services:\n  - name: api\n    text: serves\n")
    put(tmp_path / "prompt.md", "# Remarks\n\nHow these were written down: in the evening.\n")
    put(tmp_path / "web/index.html", "<html><title>App</title><body><div id=root></div></body></html>")
    page = "<html><body>{{ thing.name }} {% block text %}{% endblock %}</body></html>"
    put(tmp_path / "web/templates/thing.html", page)
    put(tmp_path / "papers/letter.docx", b"PK")
    beside = read(tmp_path)
    assert {title: beside[title] for title in NAMES} == alone
    assert set(beside) == {*NAMES, "Remarks"}
    reasons = left_out(tmp_path)
    assert reasons["settings of programs"] == 9 and reasons["accounts and secrets"] == 2
    assert sum(count for reason, count in reasons.items() if "*.docx" in reason and "pandoc" in reason) == 1


def test_a_readme_is_an_entity_where_nothing_else_is(tmp_path: Path) -> None:
    put(tmp_path / "README.md", "# Lantern\n\nIt is made of brass.\n")
    assert list(read(tmp_path)) == ["Lantern"]


def test_tables_with_the_same_numbers_keep_both(tmp_path: Path) -> None:
    for table in ("cats", "dogs"):
        put(tmp_path / f"{table}.csv", f"id,title,text\n1,One of {table},It sleeps.\n2,Two of {table},It eats.\n")
    entities = read_knowledge_base(tmp_path)
    assert [entity.id for entity in entities] == ["1", "2", "dogs.csv#1", "dogs.csv#2"]


def test_copies_in_another_folder_are_left_out(tmp_path: Path) -> None:
    as_json(tmp_path / "src")
    as_json(tmp_path / "dist")
    assert len(list(read_knowledge_base(tmp_path))) == len(NAMES)
    assert left_out(tmp_path)["copies of entities in other files"] == len(NAMES)


def test_things_that_say_the_same_are_no_copies_if_their_author_tells_them_apart(tmp_path: Path) -> None:
    said = {"title": "Tower of the fire brigade", "license": "CC BY-SA 4.0", "text": "It was seen from the river."}
    for photo in "ab":  # a file beside each photograph
        put(tmp_path / "photos" / f"{photo}.json", json.dumps(said))
    put(tmp_path / "first.json", json.dumps({"t1": said, "t2": {**said, "title": "Bridge"}}))
    put(tmp_path / "second.json", json.dumps({"t3": said, "t4": {**said, "title": "Gate"}}))
    ids = [entity.id for entity in read_knowledge_base(tmp_path)]
    assert sorted(ids) == ["photos/a", "photos/b", "t1", "t2", "t3", "t4"]


def test_one_bad_entry_is_not_the_end_of_a_small_table(tmp_path: Path) -> None:
    rows = "".join(f"{n},Thing {n},Text.\n" for n in range(19))
    table = put(tmp_path / "t.csv", f"id,title,text\n{rows}a,b,c,d\n")
    skipped = SkippedEntries()
    assert len(list(read_knowledge_base(table, skipped=skipped))) == 19
    assert (skipped.count, skipped.total) == (1, 20)
    with pytest.raises(ValueError, match="line 21: 4 values"):
        list(read_knowledge_base(table, skipped=SkippedEntries(0)))


def test_groups_are_named_with_the_flag_that_leaves_them_out(tmp_path: Path) -> None:
    as_yaml(tmp_path / "data")
    images(tmp_path / "img")
    for name in "abc":
        put(tmp_path / f"docs/{name}.md", f"# Page {name}\n\nHow to use the app.\n")
    groups = Groups()
    list(groups.counting(read_knowledge_base(tmp_path, groups=groups)))
    assert [(one.pattern, one.entities, one.with_image) for one in groups.all()] == [("data/*", 4, 4), ("docs/*", 3, 0)]
    assert any("--skip 'docs/*'" in line for line in groups.notes())
    assert set(read(tmp_path, skip="docs/*")) == set(NAMES)


def test_data_in_a_program_is_named(tmp_path: Path) -> None:
    as_notes(tmp_path)
    things = "\n".join(f"  {{\n    name: 'Thing {n}',\n    text: 'It is blue.',\n  }}," for n in range(40))
    put(tmp_path / "src/things.js", f"export const things = [\n{things}\n];\n")
    put(tmp_path / "src/Things.kt", f"val things = listOf(\n{things}\n)\n")
    code = "import { things } from './things';\nfor (const thing of things) {\n  draw(thing);\n}\n"
    put(tmp_path / "src/app.js", code)
    assert [count for reason, count in left_out(tmp_path).items() if "*.kt" in reason] == [1]
    assert set(read(tmp_path)) == {*NAMES, *(f"Thing {n}" for n in range(40))}


def test_a_folder_of_documents_only_says_how_to_convert_them(tmp_path: Path) -> None:
    put(tmp_path / "a.docx", b"PK")
    with pytest.raises(ValueError, match=r"1 files \*.docx: a document; convert it to Markdown, as with: pandoc"):
        list(read_knowledge_base(tmp_path))


def test_only_one_reader_reads_with_a_format(tmp_path: Path) -> None:
    as_json(tmp_path)
    put(tmp_path / "note.md", "# A note\n\nIt has words.\n")
    assert contents_of(tmp_path).format == UNION
    assert [entity.title for entity in read_knowledge_base(tmp_path, "markdown")] == ["A note"]
    assert {entity.title for entity in read_knowledge_base(tmp_path, "jsonl")} == set(NAMES)


def test_generated_pages_are_named(tmp_path: Path) -> None:
    as_notes(tmp_path / "notes")
    as_pages(tmp_path / "notes/_site")
    as_json(tmp_path / "notes/_site")
    assert left_out(tmp_path)["pages that a site generator made from others"] == 1 + len(NAMES)
    assert set(read(tmp_path / "notes/_site")) == set(NAMES)  # where nothing else is


def test_settings_and_secrets_are_no_entities_where_nothing_else_is(tmp_path: Path) -> None:
    put(tmp_path / "package.json", '{"name": "app", "version": "1.0.0", "description": "An app that shows things."}')
    put(tmp_path / "passwords.txt", "ann:tulip")
    put(tmp_path / "data.sql", "INSERT INTO things VALUES (1);")
    with pytest.raises(ValueError, match=r"nothing is read in this folder, but it has 1 files \*\.sql: a dump of"):
        read(tmp_path)


def test_what_is_like_a_template_or_a_setting_is_read(tmp_path: Path) -> None:
    put(tmp_path / "wiki/things.json", json.dumps([{"name": "Elk", "text": "It is {{convert|2|m}} high. {% if %}"}]))
    put(tmp_path / "01/manifest.json", json.dumps({"label": "Jug", "summary": "It is blue.", "thumbnail": "jug.png"}))
    put(tmp_path / "app/src/main/res/raw/birds.json", json.dumps([{"name": "Owl", "text": "It hunts at night."}]))
    put(tmp_path / "notes/security.md", "# Security\n\nA guard at a gate.\n")
    put(tmp_path / "parts/components.json", json.dumps([{"name": "Resistor", "text": "It resists."}]))
    put(tmp_path / "data/search.json", "---\nlayout: none\n---\n[{% for page in site.pages %}{}{% endfor %}]")
    put(tmp_path / "Templates/bird.md", "# {{title}}\n\nWhere it lives and what it eats.\n")
    put(tmp_path / "pages/bird.html", "<h1><%= bird %></h1><p>Where it lives and what it eats.</p>")
    put(tmp_path / "_data/config-nav.csv", "name,page\nHome,/index.html\n")
    put(tmp_path / "parts/_category_.yml", "label: Parts\nposition: 3\n")
    put(tmp_path / "photos.zip", b"PK\x03\x04")
    put(tmp_path / "i18n/en.yaml", "- id: home\n  title: Home\n- id: next\n  title: Next\n")
    put(tmp_path / "data/social.toml", '[[icons]]\nid = "mail"\nurl = "mailto:%s"\n')
    assert set(read(tmp_path)) == {"Elk", "Jug", "Owl", "Security", "Resistor"}
    reasons = left_out(tmp_path)
    assert reasons["templates and parts of pages"] == 3 and reasons["settings of programs"] == 2
    assert [count for reason, count in reasons.items() if "*.zip" in reason and "unpack" in reason] == [1]


def test_pointers_of_git_lfs_are_named(tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    table = put(tmp_path / "kb/things.csv", pointer)
    for kb in (table, tmp_path / "kb"):
        with pytest.raises(ValueError, match="git lfs pull"):
            list(read_knowledge_base(kb))
    as_notes(tmp_path / "kb/notes")
    assert set(read(tmp_path / "kb")) == set(NAMES)
    assert [count for reason, count in left_out(tmp_path / "kb").items() if "git lfs pull" in reason] == [1]


def test_a_folder_of_nothing_but_records_without_titles_lists_their_fields(tmp_path: Path) -> None:
    nested = "<what><kind>Jug</kind><names><first>Jug {0}</first><second>Pot</second></names></what>"
    records = "".join(f"<record><recordId>R{n}</recordId>{nested.format(n)}</record>" for n in range(3))
    put(tmp_path / "kb" / "x.xml", f"<records>{records}</records>")
    with pytest.raises(ValueError, match=r"x\.xml: <record> 1: no title; .* it has recordId, what\.kind, what\.names"):
        read(tmp_path / "kb")
    assert [*read(tmp_path / "kb", title="what.names.first")] == ["Jug 0", "Jug 1", "Jug 2"]
    put(tmp_path / "kb" / "things.csv", "title,made\nFox,1890\n")
    assert [*read(tmp_path / "kb")] == ["Fox"]
    assert left_out(tmp_path / "kb")["entries without a title; if it has another name, pass --map title=NAME"] == 3
