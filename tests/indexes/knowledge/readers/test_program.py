"""Lists of things in programs are read as the same lists in JSON are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.knowledge.readers.json_rows import JSON_ROWS
from indexes.knowledge.readers.program import PROGRAM
from indexes.knowledge.reading import read_knowledge_base
from tests.fakes.documents import rows

PRODUCTS = """
import { formatPrice } from '../utils';
import mug from "./img/mug.png";
const lamp = require('./img/lamp.png');

/** All that we sell: it's not much. */
export const products: Product[] = [
  { id: 1, name: 'Mug', "price": 4.50, image: mug, tags: ['blue', "clay",], isNew: true },
  {
    id: 2,
    name: "Potter's lamp", // hand-made
    price: formatPrice(20),
    image: lamp,
    text: `It is of
brass.`,
  },
  { id: 3, name: 'Kettle', image: require('./img/kettle.png'), price: -1, color: null, /* no tags */ },
] as const;

export default products;
"""
TEXT = "It is of\nbrass."
MUG, LAMP, KETTLE = (
    {"id": 1, "name": "Mug", "price": 4.5, "image": "./img/mug.png", "tags": ["blue", "clay"], "isNew": True},
    {
        "id": 2,
        "name": "Potter's lamp",
        "price": "formatPrice(20)",
        "image": "./img/lamp.png",
        "text": "It is of\nbrass.",
    },
    {"id": 3, "name": "Kettle", "image": "./img/kettle.png", "price": -1, "color": None},
)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["products.js", "products.mjs", "products.jsx", "products.ts", "products.tsx"])
def test_the_things_of_a_program(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, PRODUCTS)
    assert PROGRAM.recognizes(path, b"")
    assert rows(PROGRAM, path) == [MUG, LAMP, KETTLE]


THINGS = '[{name: "Fox", text: "It is red."}, {name: "Hen", text: "It is brown."}]'


@pytest.mark.parametrize(
    "text",
    [
        f"module.exports = {THINGS}",
        f"export default {{ animals: {THINGS} }};",
        f"const data = {{ zoo: {{ animals: {THINGS} }} }}; export default data",
        'const animals = { a: {name: "Fox", text: "It is red."}, b: {name: "Hen", text: "It is brown."} };',
        f"const a = {THINGS}, b = [1, 2];",
    ],
)
def test_layouts(tmp_path: Path, text: str) -> None:
    assert [row["name"] for row in rows(PROGRAM, written(tmp_path / "a.js", text))] == ["Fox", "Hen"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("app.js", "for (const one of things) { draw({ name: one, text: 'a' }); }\n" * 20),
        ("theme.config.js", f"export default {THINGS}"),
        ("a.min.js", f"export default {THINGS}"),
        ("types.d.ts", f"export default {THINGS}"),
        ("menu.ts", "export const menu = [{ path: '/a', icon: 'home' }, { path: '/b', icon: 'list' }];"),
        ("sizes.js", "export default { small: 1, large: 2 }"),
        ("codes.js", "export const codes = ['a', 'b', 'c'];"),
        ("broken.js", "export const a = [{ name: 'x', text: "),
        ("page.jsx", f"const A = {THINGS};\nexport default () => <ul>{{A.map(show)}}</ul>;\n" + "// -\n" * 90),
    ],
)  # fmt: skip
def test_programs_without_things_are_not_read(tmp_path: Path, name: str, text: str) -> None:
    assert not PROGRAM.recognizes(written(tmp_path / name, text), b"")


def test_a_single_program_without_things_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"app\.js: no reader recognizes its content; name the format with --kb-format"
    ):
        list(read_knowledge_base(written(tmp_path / "app.js", "run();")))


def test_dependencies_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    assert not PROGRAM.recognizes(written(tmp_path / "node_modules" / "a.js", PRODUCTS), b"")


WORDS = st.text("abcXYZ äé\u6f22'\"`\\/{}[]:,;$", min_size=1, max_size=12).filter(str.strip)
VALUES = WORDS | st.integers(-(10**6), 10**6) | st.booleans() | st.none() | st.lists(WORDS, max_size=3)


@given(st.lists(st.fixed_dictionaries({"name": WORDS, "text": WORDS, "size": VALUES}), min_size=2, max_size=5))
@settings(max_examples=100, derandomize=True)
def test_json_in_a_program_is_read_as_json(
    tmp_path_factory: pytest.TempPathFactory, things: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("things")
    text = json.dumps(things, ensure_ascii=False)
    assert rows(PROGRAM, written(folder / "a.js", f"export default {text};")) == rows(
        JSON_ROWS, written(folder / "a.json", text)
    )


def test_a_quoted_word_is_no_imported_image(tmp_path: Path) -> None:
    text = "import mug from './mug.png'; import list from './list.js';\nexport default "
    things = '[{name: "Mug", kind: "mug", text: "Of clay."}, {name: "Cup", kind: list, text: "Of tin."}]'
    kinds = [row["kind"] for row in rows(PROGRAM, written(tmp_path / "a.js", text + things))]
    assert kinds == ["mug", "list"]


def test_values_nested_deeper_than_the_stack_are_no_things(tmp_path: Path) -> None:
    assert not PROGRAM.recognizes(written(tmp_path / "a.js", f"a = {'[' * 100_000}{']' * 100_000}"), b"")


def test_images_that_a_program_imports_are_those_of_its_things(tmp_path: Path) -> None:
    (tmp_path / "src" / "img").mkdir(parents=True)
    written(tmp_path / "src" / "products.ts", PRODUCTS)
    mug, lamp, kettle = read_knowledge_base(tmp_path)
    assert [one.image for one in (mug, lamp, kettle)] == [f"src/img/{name}.png" for name in ("mug", "lamp", "kettle")]
    assert lamp.sections[0].text == "It is of\nbrass."
