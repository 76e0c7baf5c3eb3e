from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from indexes.knowledge.knowledge_base import guess_format, hash_knowledge_base
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.understanding.facts import plain
from indexes.knowledge.understanding.fields import unique_keys
from indexes.knowledge.gone.json_rows import read_rows
from indexes.knowledge.ledger import Ledger as Losses
from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.inspection import inspect_knowledge_base, text_lines
from indexes.knowledge.sources import find_image, find_main, open_images
from retriever.types import ArticleImage, Section
from tests.fakes.images import write_image
from tests.fakes.reading import facts, read, texts, written


def test_objects_of_a_list_with_names_in_several_languages_and_no_text(tmp_path: Path) -> None:
    row = {
        "id": 1,
        "name": {"japanese": "キツネ", "english": "Fox", "french": "Renard"},
        "kinds": ["Land", "Red"],
        "base": {"HP": 45, "Attack": 4.0},
        "isWild": True,
        "homepage": "https://a.example/fox",
        "empty": None,
        "none": "N/A",
    }
    (fox,) = read(written(tmp_path / "kb.json", [row]))
    assert (fox.id, fox.title, fox.names) == ("1", "Fox", ("キツネ", "Renard"))
    assert facts(fox) == ["Kinds: Land, Red", "Base, HP: 45", "Base, attack: 4", "Is wild: yes", "None: N/A"]


def test_long_values_and_lists_of_described_things_are_sections(tmp_path: Path) -> None:
    row = {
        "name": "Fox",
        "desc": "<p>It is <b>red</b>.</p><h2>Den</h2><p>A hole.</p>",
        "how_it_hunts": "word " * 60,
        "calls": [{"name": "Bark", "desc": "At night."}, {"name": "Scream", "desc": "In winter."}],
        "words": {"de": {"name": "Fuchs"}, "fr": {"name": "Renard"}},
        "kin": [{"id": 3, "name": "Wolf"}, {"id": 4, "name": "Dog"}],
    }
    (fox,) = read(written(tmp_path / "kb.json", [row]))
    assert fox.sections == (
        Section("Fox", "It is red.", 0),
        Section("Den", "A hole.", 1),
        Section("How it hunts", ("word " * 60).strip(), 2),
        Section("Calls", "Bark: At night.\nScream: In winter.", 3),
        Section("Facts", "Words: Fuchs, Renard\nKin: Wolf, Dog", 4),
    )


@pytest.mark.parametrize(
    "value",
    [
        {"about": "Animals.", "version": 3, "animals": [{"name": "Fox", "img": "f.png"}, {"name": "Hen"}]},
        {"data": {"results": [{"name": "Fox", "img": "f.png"}, {"name": "Hen"}]}},
        {"Fox": {"img": "f.png", "legs": 4}, "Hen": {"legs": 2}},
        {"type": "FeatureCollection", "features": [
            {"type": "Feature", "properties": {"name": "Fox", "img": "f.png"}, "geometry": {"coordinates": [1, 2]}},
            {"type": "Feature", "properties": {"name": "Hen"}, "geometry": None}]},
    ],
    ids=["list", "nested", "mapping", "geojson"],
)  # fmt: skip
def test_an_object_that_holds_the_rows(tmp_path: Path, value: Any) -> None:
    path = written(tmp_path / "kb.json", value)
    assert guess_format(path) == "jsonl"
    fox, hen = read(path)
    assert (fox.id, fox.title, fox.image) == ("Fox", "Fox", "f.png") and hen.title == "Hen"


def test_a_folder_with_an_object_per_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    work = {"title": "Fox", "thumbnailUrl": "http://a.example/f.jpg", "makers": [{"name": "Ann"}, {"name": "Bob"}]}
    written(tmp_path / "a" / "1.json", work)
    written(tmp_path / "a" / "2.json", [{"id": 7, "title": "Hen"}, {"id": 8, "title": "Elk"}])
    assert guess_format(tmp_path) == "jsonl"
    fox, hen, elk = read(tmp_path)
    assert (fox.id, fox.image, hen.id, elk.id) == ("a/1", "http://a.example/f.jpg", "7", "8")
    assert facts(fox) == ["Makers: Ann, Bob"]
    before = hash_knowledge_base(tmp_path, "jsonl")
    (tmp_path / "a" / "3.json").write_text("{")
    assert hash_knowledge_base(tmp_path, "jsonl") != before
    with pytest.raises(ValueError, match=r"3\.json: Expecting property name"):
        read(tmp_path)


def test_a_title_of_another_name_is_that_of_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "kb.csv"
    path.write_text("code,Airport name,City\nA1,Adak,Adak Island\nB2,,Bend\n")
    with pytest.raises(ValueError, match=r"line 3: field 'Airport name' is missing; .*; it has code, City"):
        read(path)
    path.write_text("Art,Länge\nFuchs,70\n")
    assert [entity.title for entity in read(path)] == ["Fuchs"]
    path.write_text("Länge,Breite\n70,20\n")
    with pytest.raises(ValueError, match=r"line 2: no title; .*, pass --map title=NAME; it has Länge"):
        read(path)


def test_a_category_is_no_title(tmp_path: Path) -> None:
    emoji = [("🦊", "fox face"), ("🐔", "hen"), ("🦉", "owl")]
    rows = [{"emoji": sign, "description": words, "category": "Animals"} for sign, words in emoji]
    found = read(written(tmp_path / "emoji.json", rows))
    assert [one.title for one in found] == ["fox face", "hen", "owl"]
    assert found[0].sections == (Section("Facts", "Emoji: 🦊\nCategory: Animals", 0),)
    rows = [{"group": "Birds", "species": one} for one in ("Hen", "Owl")]
    assert [one.title for one in read(written(tmp_path / "birds.json", rows))] == ["Hen", "Owl"]
    rows = [{"group": "Birds", "kind": one} for one in ("Hen", "Hen")]  # nothing differs
    assert [one.title for one in read(written(tmp_path / "hens.json", rows))] == ["Birds", "Birds"]


def test_the_title_is_a_field_that_most_rows_have(tmp_path: Path) -> None:
    rows = [{"currency.AFN.name": "Afghani", "country": "Afghanistan"}, {"country": "Albania"}, {"country": "Algeria"}]
    assert [one.title for one in read(written(tmp_path / "kb.json", rows))] == ["Afghanistan", "Albania", "Algeria"]


def test_rows_without_ids_may_have_the_same_title(tmp_path: Path) -> None:
    path = tmp_path / "kb.csv"
    path.write_text("Title,Artist\nUntitled,Ann\nUntitled,Bob\n")
    first, second = read(path)
    assert (first.id, second.id, second.title) == ("Untitled", "Untitled (2)", "Untitled")


def test_images_in_columns_of_any_name_and_in_lists(tmp_path: Path) -> None:
    path = tmp_path / "kb.csv"
    path.write_text(
        'name,view,tags\nFox,a/fox.JPG?v=1,"[\'red\', \'wild\']"\nHen,"hen 1.png, hen 2.png","[""white""]"\n'
    )
    fox, hen = read(path)
    assert (fox.image, hen.image, hen.images) == ("a/fox.JPG?v=1", "hen 1.png", (ArticleImage("hen 2.png"),))
    assert facts(fox) == ["Tags: red, wild"] and facts(hen) == ["Tags: white"]
    sizes = {"small": "s.png", "large": "https://a.example/l.png"}
    (elk,) = read(written(tmp_path / "kb.json", [{"name": "Elk", "image": sizes, "cover": "Hardcover"}]))
    assert elk.image == "https://a.example/l.png" and facts(elk) == ["Cover: Hardcover"]


def test_the_title_is_recognized_behind_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "kb.jsonl"
    path.write_text('{"Airport name": \n{"Code": "BRN", "Airport name": "Bern"}\n')
    (bern,) = read_knowledge_base(path, skipped=SkippedEntries(1))
    assert bern.title == "Bern"


def test_images_called_like_the_rows(tmp_path: Path) -> None:
    write_image(tmp_path / "images" / "001.png", "black", 80)
    write_image(tmp_path / "thumbs" / "001.png", "black", 80)
    write_image(tmp_path / "images" / "Red_Fox.png", "black", 80)
    rows = [{"id": 1, "name": "Hen"}, {"id": 2, "name": "Red fox"}, {"id": 3, "name": "Elk"}]
    found = inspect_knowledge_base(written(tmp_path / "kb.json", rows))
    assert [one.image for one in found.specimens] == ["images/001.png", "images/Red_Fox.png", None]
    assert (found.named, found.found) == (2, 2)
    write_image(tmp_path / "images" / "1-10.png", "black", 80)
    rows = [{"id": "11-0", "name": "Ewe"}, {"id": 110, "name": "Hen"}, {"id": "1.10", "name": "Cat"}]
    found = inspect_knowledge_base(written(tmp_path / "kb.json", rows))
    assert [one.image for one in found.specimens] == [None, None, "images/1-10.png"]


def test_an_image_called_like_the_row_goes_before_another_of_a_common_name(tmp_path: Path) -> None:
    for name in ("icon.png", "citroen.png", "logos/elk.png", "gone.png", "hen.png"):
        write_image(tmp_path / name, "black", 80)
    rows = [
        {"name": "Citroën", "source": "https://e.example/assets/icon.png"},
        {"name": "Elk", "source": "https://e.example/logos/elk.png"},
        {"name": "Hen", "image": "gone.png"},  # as the row says
        {"name": "Gone", "image": "https://e.example/wiki/File:Gone.svg"},  # a page about the image
        {"name": "Icon", "image": "https://e.example/assets/icon.png"},
        {"name": "Owl", "image": "https://e.example/assets/icon.png"},
    ]
    found = inspect_knowledge_base(written(tmp_path / "kb.json", rows))
    images = ["citroen.png", "logos/elk.png", "gone.png", "gone.png", "icon.png", "icon.png"]
    assert [one.image if one.problem is None else None for one in found.specimens] == images
    assert (found.named, found.found) == (6, 6)


def test_an_image_named_without_its_extension(tmp_path: Path) -> None:
    for name in ("stamps/poland-1935.jpg", "hard-cover.png"):
        write_image(tmp_path / name, "black", 80)
    rows = [
        {"name": "Scouts", "image": "poland-1935"},
        {"name": "Lost", "image": "poland-1954", "year": 1954},
        {"name": "Book", "cover": "hard-cover"},  # what it is, not what shows it
        {"name": "Post", "image": 17, "text": "An id."},
    ]
    source = open_images(tmp_path, tmp_path / "kb.json", "jsonl")
    entities = list(read(written(tmp_path / "kb.json", rows)))
    assert [one.image for one in entities] == ["poland-1935", "poland-1954", None, None]
    assert source is not None
    assert [find_main(source, one) for one in entities] == ["stamps/poland-1935.jpg", None, None, None]
    assert entities[2].sections[0].text == "Cover: hard-cover"


def test_parts_of_a_description_keep_their_names(tmp_path: Path) -> None:
    rows = [
        {"name": "Bolete", "description": {"cap": "<p>Whitish.</p>", "stem": "Red.", "notes": ""}},
        {"name": "Cep", "description": {"fr": "Brun.", "en": "Brown."}},
        {"name": "Elm", "description": {"type": "/type/text", "value": "A tree."}},
    ]
    bolete, cep, elm = read(written(tmp_path / "kb.json", rows))
    assert [(one.title, one.text) for one in bolete.sections] == [
        ("Facts", "Description, cap: Whitish.\nDescription, stem: Red.")
    ]
    assert cep.sections[0].text == "Brown." and elm.sections[0].text == "A tree."


def test_a_value_that_all_rows_share_stays(tmp_path: Path) -> None:
    colors = {name: {"usage": "background of every sign, as the regulation says " * 2} for name in ("red", "blue")}
    rows = [{"name": f"Sign {number}", "colors": colors, "license": "NLOD"} for number in range(11)]
    signs = read(written(tmp_path / "kb.json", rows))
    assert all([section.title for section in sign.sections] == ["Colors"] for sign in signs)  # without the license


def test_an_image_in_any_folder_if_no_other_has_its_name(tmp_path: Path) -> None:
    for name, color in {"flags/fr.png": "blue", "flags/de.png": "red", "maps/de.png": "black"}.items():
        write_image(tmp_path / "images" / name, color, 80)
    rows = [
        {"name": "France", "flag": "fr.png"},
        {"name": "Spain", "flag": "old/fr.png"},
        {"name": "Italy", "flag": "https://a.example/fr.png"},
        {"name": "Germany", "flag": "de.png"},
    ]
    source = open_images(tmp_path / "images", written(tmp_path / "kb.json", rows), "jsonl")
    assert source is not None
    found = [find_main(source, entity) for entity in read(tmp_path / "kb.json")]
    assert found == ["flags/fr.png", "flags/fr.png", None, None]
    lines = "\n".join(text_lines(inspect_knowledge_base(tmp_path / "kb.json", tmp_path / "images")))
    assert "fr.png of Italy (no file of this name, but similar ones: flags/fr.png); " in lines
    assert "de.png of Germany (the name of 2 files: flags/de.png, maps/de.png); omgm kb images downloads" in lines


def test_an_object_of_names_by_their_codes_or_of_explanations(tmp_path: Path) -> None:
    countries = {
        "AD": "Andorra",
        "NA": "Namibia",
        "TZ": "Tanzania, United Republic of",
        "BO": "Bolivia (Plurinational State of)",
    }
    found = read(written(tmp_path / "countries.json", countries))
    assert [(one.id, one.title) for one in found] == list(countries.items())
    write_image(tmp_path / "na.png", "black", 80)
    inspected = inspect_knowledge_base(tmp_path / "countries.json")
    assert [one.image for one in inspected.specimens] == [None, "na.png", None, None]
    words = {"Fox": "A red animal that lives in dens.", "Hen": "A bird that lays eggs."}
    fox, hen = read(written(tmp_path / "words.json", words))
    assert (fox.id, fox.title, hen.id, hen.title) == ("Fox", "Fox", "Hen", "Hen")
    assert fox.sections == (Section("Fox", "A red animal that lives in dens.", 0),)


def test_a_pointer_of_git_lfs(tmp_path: Path) -> None:
    path = tmp_path / "kb.csv"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(ValueError, match=r"kb\.csv: is a Git LFS pointer, .* git lfs pull"):
        guess_format(path)


def test_a_table_as_excel_writes_unicode(tmp_path: Path) -> None:
    path = tmp_path / "kb.csv"
    path.write_bytes("Titel\tFoto\n狐\ta.png\n".encode("utf-16"))
    (fox,) = read(path)
    assert (fox.title, fox.image) == ("狐", "a.png")


def test_lists_of_sentences_and_of_parts_with_commas(tmp_path: Path) -> None:
    steps = ["Heat the oven, then wait.", "Bake it. " * 30]
    row = {"title": "Pie", "parts": ["1 cup butter, soft", "2 eggs"], "steps": steps, "kinds": ["sweet", "baked"]}
    (pie,) = read(written(tmp_path / "a.json", [row]))
    assert pie.sections[0] == Section("Steps", f"{steps[0]}\n{steps[1].strip()}", 0)
    assert facts(pie) == ["Parts: 1 cup butter, soft; 2 eggs", "Kinds: sweet, baked"]


def test_the_longest_list_of_an_object_is_read_as_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexes.knowledge.gone.streams.CHUNK", 4096)
    rows = [{"title": f"Fox {number}", "text": "word " * 40} for number in range(4000)]
    value = {"info": {"title": "Foxes"}, "kinds": [1, 2], "rows": rows, "none": [], "few": rows[:2]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(value, indent=0))
    tracemalloc.start()
    count = sum(1 for _ in read_rows(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 4000 and peak < path.stat().st_size / 3
    assert [entity.title for entity in read(path)[:2]] == ["Fox 0", "Fox 1"]


def test_a_list_inside_an_object_that_is_longer_than_others(tmp_path: Path) -> None:
    value = {"few": [{"title": "Hen"}], "data": {"rows": [{"title": "Fox"}, {"title": "Wolf"}]}}
    assert [entity.title for entity in read(written(tmp_path / "a.json", value))] == ["Fox", "Wolf"]


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"id": "x\ud83d"}, "field 'id'"),
        ({"url": "x\ud83d"}, "field 'url'"),
        ({"image": "x\ud83d.jpg"}, "field 'image'"),
        ({"names": ["x\ud83d"]}, "field 'names'"),
        ({"names": ["x\ud83d"], "sections": []}, "field 'names'"),
        ({"images": ["x.jpg", "x\ud83d.jpg"]}, "field 'images'"),
        ({"text": "cut in an emoji: \ud83d"}, "section 'Fox'"),
        ({"color": "red \ud83d"}, "section 'Facts'"),
        ({"col\udca9or": "red"}, "section 'Facts'"),
    ],
)
def test_half_of_a_surrogate_pair_makes_an_entry_unusable(tmp_path: Path, row: dict[str, Any], place: str) -> None:
    path = tmp_path / "kb.json"
    path.write_text(json.dumps([{"id": "fox", "name": "Fox", "title": "Fox"} | row, {"name": "Owl"}]))
    skipped = SkippedEntries(0.5)
    assert [entity.title for entity in read_knowledge_base(path, skipped=skipped)] == ["Owl"]
    assert [one["reason"] for one in skipped.listed] == [f"{place}: not valid Unicode (surrogates not allowed)"]


def test_a_line_nested_too_deeply_is_skipped_in_json_lines_and_named_elsewhere(tmp_path: Path) -> None:
    deep = '{"title": "Deep", "text": ' + "[" * 100_000 + "]" * 100_000 + "}"
    for name in ("kb.jsonl", "kb.json"):
        (tmp_path / name).write_text(f'{deep}\n{{"title": "Fox"}}\n')
    skipped = SkippedEntries(0.5)
    assert [entity.title for entity in read_knowledge_base(tmp_path / "kb.jsonl", skipped=skipped)] == ["Fox"]
    assert "nested too deeply" in skipped.listed[0]["reason"]
    with pytest.raises(ValueError, match=r"kb\.json: .*byte .*nested too deeply"):
        read(tmp_path / "kb.json")


def test_objects_by_their_keys_inside_another_object(tmp_path: Path) -> None:
    pages = {"12": {"pageid": 12, "title": "Fox", "extract": "Red."}, "7": {"title": "Owl", "extract": "Grey."}}
    value = {"batchcomplete": "", "query": {"normalized": [{"from": "fox", "to": "Fox"}], "pages": pages}}
    found = [(one.id, one.title, one.sections[0].text) for one in read(written(tmp_path / "answer.json", value))]
    assert found == [("12", "Fox", "Red."), ("7", "Owl", "Grey.")]


def test_yaml_as_a_file_and_as_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "animals.yml"
    file.write_text("- name: Fox\n  born: 2022-10-13\n  mass: 8.70\n- name: Owl\n  code: 007\n  mute: no\n")
    fox, owl = read(file)
    assert (facts(fox), facts(owl)) == (["Born: 2022-10-13", "Mass: 8.70"], ["Code: 007", "Mute: no"])
    folder = tmp_path / "animals"
    folder.mkdir()
    (folder / "fox.yaml").write_text("name: Fox\nimage: fox.png\n")
    (folder / "owl.yaml").write_text("name: [Owl\n")
    assert guess_format(folder) == guess_format(file) == "jsonl"
    skipped = SkippedEntries(1)
    (fox,) = read_knowledge_base(folder, skipped=skipped)
    assert (fox.id, fox.title, fox.image) == ("fox", "Fox", "fox.png")
    reason = "line 2: not YAML (did not find expected ',' or ']')"
    assert skipped.listed == [{"place": "owl.yaml", "reason": reason}]
    file.write_text(f"- name: {'[' * 5000}{']' * 5000}\n")
    with pytest.raises(ValueError, match=r"animals\.yml: .*not YAML.*(too many levels|maximum nesting depth)"):
        read(file)


def test_a_folder_per_object_with_its_images_and_its_title_in_an_object(tmp_path: Path) -> None:
    strings = {"name": {"ar-EG": "سور", "en-GB": "Wall"}}
    for name in ("wall", "gate"):
        write_image(tmp_path / name / "photo.png", "black", 80)
        written(
            tmp_path / name / "it.json", {"id": name, "strings": strings, "images": [{"path": "photo.png", "x": 1}]}
        )
    gate, wall = read(tmp_path)
    assert (wall.id, wall.title, wall.names, wall.image) == ("wall", "Wall", ("سور",), "wall/photo.png")
    assert find_image(tmp_path, gate.image or "") == tmp_path / "gate" / "photo.png"


def test_words_that_look_like_missing_values_are_values(tmp_path: Path) -> None:
    table = "code,title,text,iso,group\n1,Nan,Nan is a town.,TH,Null\n2,NA,NA is sodium.,,B\n"
    table += "3,None,None is a village.,NA,-\n"
    (tmp_path / "kb.csv").write_text(table)
    found = read(tmp_path / "kb.csv")
    assert [one.title for one in found] == ["Nan", "NA", "None"]
    assert [facts(one) for one in found] == [
        ["Code: 1", "Iso: TH", "Group: Null"],
        ["Code: 2", "Group: B"],  # an empty cell is missing
        ["Code: 3", "Iso: NA", "Group: -"],
    ]
    rows = '[{"title": "None", "a": "nan", "b": null, "c": NaN, "d": "N/A", "e": ""}]'
    (tmp_path / "kb.json").write_text(rows)
    assert facts(read(tmp_path / "kb.json")[0]) == ["A: nan", "D: N/A"]


def test_what_is_left_out_of_rows_is_counted(tmp_path: Path) -> None:
    row = {
        "title": "Fox",
        "text": "A red fox.",
        "home": "https://a.example/fox",
        "maker": {"name": "Ann Potter", "id": "p 7"},
        "numbers": list(range(40)),
        "words": [f"w{number}" for number in range(40)],
        "deep": {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": "far down"}}}}}}}},
        "twice": ["one", "one"],
        "license": "CC0 as is",
        "_v": "3",
    }
    losses = Losses()
    (fox,) = read_knowledge_base(written(tmp_path / "kb.json", [row]), ledger=losses)
    assert facts(fox) == ["Maker: Ann Potter", f"Words: {', '.join(f'w{n}' for n in range(40))}", "Twice: one"]
    assert {name: loss.count for name, loss in losses.left_out.items()} == {
        "addresses and ids": 1 + 2,
        "long lists of numbers": 40,
        "values nested too deeply": 2,
        "repeated items": 1,
        "licenses and rights": 3,
        "settings": 1,
    }
    kept = 3 + 2 + 40 + 1
    assert losses.to_json()["words"] == {"source": kept + 3, "kept": kept}  # far down, one


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("<I>", "<I>"),
        ("<a>: The Anchor element", "<a>: The Anchor element"),
        ("<br>", "<br>"),
        ("<i>Felis  catus</i>", "Felis catus"),
        ('<span class="x">Apple', "Apple"),
        ("Red<br>apple", "Red apple"),
        ("R&amp;D", "R&D"),
    ],
)
def test_tags_that_are_words_of_a_title_stay(tmp_path: Path, written: str, title: str) -> None:
    path = tmp_path / "kb.jsonl"
    path.write_text(json.dumps({"title": written, "text": "Some text."}) + "\n")
    assert [one.title for one in read(path)] == [title]
    note = tmp_path / "notes" / "one.md"
    note.parent.mkdir()
    note.write_text(f"---\ntitle: {json.dumps(written)}\n---\n\nSome text.\n")
    assert [one.title for one in read(note.parent)] == [title]


def test_entries_of_a_file_in_a_folder_with_lists_in_them(tmp_path: Path) -> None:
    kept = {"parts": [{"name": "Mast", "number": 2}, {"name": "Keel", "number": 1}]}
    boats = {"sloop": {"name": "Sloop", "about": "One mast.", **kept}, "yawl": {"name": "Yawl", **kept}}
    (tmp_path / "boats.json").write_text(json.dumps(boats))
    (tmp_path / "raft.json").write_text(json.dumps({"name": "Raft"}))
    keys = {name: {"hull": 1, "spars": [{"name": "Mast"}, {"name": "Boom"}]} for name in ("Ketch", "Brig", "Cog")}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    found = [(one.id, one.title) for one in read(tmp_path)]
    assert found[:2] == [("sloop", "Sloop"), ("yawl", "Yawl")] and found[-1] == ("raft", "Raft")
    assert found[2:-1] == [(name, name) for name in keys]


def test_a_file_whose_title_is_null_is_no_list_of_what_it_holds(tmp_path: Path) -> None:
    maker = {"maker": [{"full_name": "Ida Kiln"}, {"full_name": "Otto Kiln"}]}
    (tmp_path / "1.json").write_text(json.dumps({"id": "1", "title": "Jug", **maker}))
    (tmp_path / "2.json").write_text(json.dumps({"id": "2", "title": None, **maker}))
    skipped = SkippedEntries(1)
    assert [one.title for one in read_knowledge_base(tmp_path, skipped=skipped)] == ["Jug"]
    assert [one["place"] for one in skipped.listed] == ["2.json ('2')"] and "no title" in skipped.listed[0]["reason"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<p>A Stack<Plate> holds plates</p>", "A Stack<Plate> holds plates"),
        ("Dict<Str, List<Int>> is <b>nested</b>", "Dict<Str, List<Int>> is nested"),
        ("if a<b and c>d<br>then stop", "if a<b and c>d\nthen stop"),
        ("0<p<1 is a <i>chance</i>", "0<p<1 is a chance"),
        ("Hello <your name>,<br/>the <em> tag, <em>really</em>", "Hello <your name>,\nthe <em> tag, really"),
        ("<my-card>A card</my-card><o:p>x</o:p><other>y</other><b>z</b>", "A card\nx\ny\nz"),
        ("<!-- a <b> --> <i>left</i> <!-- open <i>", "left"),
    ],
)
def test_what_only_looks_like_a_tag_is_text(text: str, words: str) -> None:
    assert plain(text) == words


def test_names_of_fields_in_museums_and_of_wikidata(tmp_path: Path) -> None:
    path = tmp_path / "kb.csv"
    path.write_text("Object ID,Object Name,Title,Artist Display Name\n1,Jug,Blue Jug,Ida\n2,Bowl,,Otto\n")
    assert [(one.id, one.title) for one in read(path)] == [("1", "Blue Jug"), ("2", "Bowl")]
    said = {"en": {"language": "en", "value": "Loon"}, "de": {"language": "de", "value": "Seetaucher"}}
    about = {"de": {"language": "de", "value": "ein Vogel"}, "en": {"language": "en", "value": "a bird"}}
    (entity,) = read(
        written(tmp_path / "kb.json", [{"id": "Q7", "type": "item", "labels": said, "descriptions": about}])
    )
    assert (entity.title, entity.names, texts(entity)[0]) == ("Loon", ("Seetaucher",), ("Loon", "a bird"))
    marked = [{"file": f"{n}.jpg", "caption": f"A loon on lake {n}", "labels": ["bird"]} for n in range(3)]
    assert [one.title for one in read(written(tmp_path / "kb.json", marked))][:1] == ["A loon on lake 0"]
    feature = {"type": "Feature", "geometry": {}, "properties": {"name": "Old mill", "built": 1803}}
    (entity,) = read(written(tmp_path / "kb.geojson", {"type": "FeatureCollection", "features": [feature]}))
    assert facts(entity) == ["Built: 1803"]


def test_a_key_given_twice_is_named_among_many() -> None:
    keys = [*map(str, range(300_000)), "299999"]  # not sought for each key anew
    with pytest.raises(ValueError, match="the key '299999' occurs twice"):
        unique_keys([(key, 0) for key in keys])
