"""Front matter as editors and exporters write it: the same settings in every form."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from indexes.knowledge.readers.front_matter import read_note, split_front_matter

FIELDS = "title: The Tower\nimage: img/cover.png\nheight: 40 m\n"
VALUES = {"title": "The Tower", "image": "img/cover.png", "height": "40 m"}
BODY = "\n# Heading one\n\nThe tower is high.\n"
PLAIN = f"---\n{FIELDS}---\n{BODY}"
JSON = '{"title": "The Tower", "image": "img/cover.png", "height": "40 m"}\n'
TOML = 'title = "The Tower"\nimage = "img/cover.png"\nheight = "40 m"\n'
BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 7))
SAME = {
    "plain": PLAIN,
    "mark": f"\ufeff{PLAIN}",
    "two marks": f"\ufeff\ufeff{PLAIN}",
    "CRLF": PLAIN.replace("\n", "\r\n"),
    "CR": PLAIN.replace("\n", "\r"),
    "empty line": f"\n \n{PLAIN}",
    "indented": "---\n" + "".join(f"  {line}\n" for line in FIELDS.splitlines()) + f"---\n{BODY}",
    "tabs": "---\ntitle:\tThe Tower\nimage:\timg/cover.png\nheight:\t40 m\n---\n" + BODY,
    "dots": f"---\n{FIELDS}...\n{BODY}",
    "unclosed": f"---\n{FIELDS}{BODY}",
    "JSON": JSON + BODY,
    "JSON in lines": f";;;\n{JSON};;;\n{BODY}",
    "TOML": f"+++\n{TOML}+++\n{BODY}",
    "YAML by name": PLAIN.replace("---", "---yaml", 1),
    "JSON by name": f"---json\n{JSON}---\n{BODY}",
    "TOML by name": f"---toml\n{TOML}---\n{BODY}",
    "Zola": '+++\ntitle = "The Tower"\n[extra]\nimage = "img/cover.png"\nheight = "40 m"\n+++\n' + BODY,
    "header": f"Title: The Tower\nImage: img/cover.png\nHeight: 40 m\n{BODY}",
}


@pytest.mark.parametrize("form", SAME)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be", "utf-32"])
def test_every_form_is_read_alike(tmp_path: Path, form: str, encoding: str) -> None:
    (tmp_path / "note.md").write_bytes(SAME[form].encode(encoding))
    settings, rest = read_note(tmp_path / "note.md")
    assert (settings, rest.strip()) == (VALUES, BODY.strip())


def test_a_comment_before_the_settings_stays() -> None:
    assert split_front_matter(f"<!-- exported -->\n\n{PLAIN}", "a.md") == (VALUES, f"<!-- exported -->\n{BODY}")


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("title: The Tower: a guide", "title", "The Tower: a guide"),
        ("author: @ann", "author", "@ann"),
        ("image: [[cover.png]]", "image", "[[cover.png]]"),
        ("image: ![[cover.png]]", "image", "![[cover.png]]"),
        ("made by: [[Ann]], [[Bob]]", "made by", "[[Ann]], [[Bob]]"),
        ("share: 50 % # of all", "share", "50 %"),
        ("title: 1984", "title", "1984"),
        ("id: 007", "id", "007"),
        ("year: 1949-06-08", "year", "1949-06-08"),
        ("weight: 1.50", "weight", "1.50"),
        ("code: NA", "code", "NA"),
        ("surname: Null", "surname", "Null"),
        ("gone: null", "gone", None),
        ("gone: ~", "gone", None),
        ("gone: .nan", "gone", None),
        ("more:\n\tlegs: 4", "more", {"legs": "4"}),
        ("kin:\n  - [[Wolf]]\n  - Dog", "kin", ["[[Wolf]]", "Dog"]),
        ("title: >-\n  Red\n  fox", "title", "Red fox"),
        ("seen: {{date}}", "seen", "{{date}}"),
        ("by: {% who %}", "by", "{% who %}"),
    ],
)
def test_values_are_as_written(line: str, key: str, value: object) -> None:
    settings, rest = split_front_matter(f"---\nbefore: 1\n{line}\nafter: [a, b]\n---\nText\n", "a.md")
    assert settings[key] == value and settings["after"] == ["a", "b"] and rest == "Text\n"


def test_dates_and_numbers_of_toml_and_json_are_as_written() -> None:
    text = "+++\nday = 1949-06-08\nat = 1949-06-08T07:00:00Z\nweight = 1.50\n[extra]\nlegs = 4\n+++\nText"
    day = {"day": "1949-06-08", "at": "1949-06-08T07:00:00+00:00", "weight": "1.50", "legs": 4}
    assert split_front_matter(text, "a.md") == (day, "Text")
    assert split_front_matter('{"a": 1.50}\nText', "a.md") == ({"a": "1.50"}, "\nText")


@pytest.mark.parametrize(
    "text",
    [
        "{ no JSON }\nText",
        '{"a": 1} and more',
        "---\nA rule.\n",
        "---\nA note.\n\n---\nMore.\n",
        "+++\nNo.\n+++\nText",
        "Color: red\n\nIt is red.\n",
    ],
)
def test_what_is_no_front_matter_is_text(text: str) -> None:
    assert split_front_matter(text, "a.md") == ({}, text)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('---\nname: Fox\nsaid: "He said "hi""\n---\n', "a.md: line 3: the front matter is not YAML: "),
        ("\n---\na: [b\n---\n", "a.md: line "),
        (f"---\ndeep: {'[' * 5000}{']' * 5000}\n---\n", "a.md: line 2: the front matter is not YAML: "),
        ("+++\na = 1\nb = \n+++\n", "a.md: line 3: the front matter is not TOML: "),
        (';;;\n{"a": 1,\n"b":}\n;;;\n', "a.md: line 3: the front matter is not JSON: "),
        (f"---\n{BOMB}---\n", "a.md: the front matter stands for more than 100,000 values"),
        ("---\na: &a [*a]\n---\n", "recursive"),
    ],
)
def test_broken_settings_are_an_error_that_names_the_line(settings: str, message: str) -> None:
    with pytest.raises(ValueError, match="front matter") as error:
        split_front_matter(f"{settings}Text.\n", "a.md")
    assert message in str(error.value)


TEXT = st.text(st.characters(exclude_categories=["Cc", "Cs", "Co", "Cn"], exclude_characters="\ufeff\u2028\u2029"))


@given(
    st.dictionaries(
        TEXT.filter(lambda key: key not in ("extra", "params", "taxonomies")), TEXT | st.lists(TEXT), min_size=1
    )
)
def test_what_yaml_writes_is_read_back(values: dict[str, object]) -> None:
    text = f"---\n{yaml.safe_dump(values, allow_unicode=True)}---\nText"
    assert split_front_matter(text, "a.md") == (values, "Text")
