"""JSON that is read piece by piece: the same values as those of Python's parser, and errors that name the place."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes import json_streams
from indexes.json_streams import has_lines, read_items, read_members, read_parts, read_values
from retriever.strict_json import unique_keys

numbers = st.integers() | st.floats(allow_nan=False) | st.just(10**40)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text() | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150)
@given(
    items=st.lists(values, max_size=5),
    chunk=st.integers(1, 40),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
    indent=st.sampled_from([None, 1]),
)
def test_values_are_those_of_json_however_they_are_cut(
    tmp_path_factory: pytest.TempPathFactory, items: list[Any], chunk: int, encoding: str, indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("json") / "a.json"
    members = {f"key {number}": item for number, item in enumerate(items)}

    def written(value: Any) -> Path:
        path.write_bytes(json.dumps(value, indent=indent).encode(encoding))
        return path

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_streams, "CHUNK", chunk)
        assert list(read_items(written(items))) == list(enumerate(items, start=1))
        assert dict(read_members(written(members))) == members
        parts = list(read_parts(path))
        assert [value for key, number, value in parts if number == 0] == [
            one for one in items if not isinstance(one, list)
        ]
        path.write_bytes("\n".join(json.dumps(item) for item in items).encode(encoding))
        assert [value for _, value in read_values(path)] == items


def test_not_a_number_is_read_as_python_writes_it(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[NaN, -Infinity, {"a": 1e400}]')
    assert repr(list(read_items(tmp_path / "a.json"))) == "[(1, nan), (2, -inf), (3, {'a': inf})]"


MESSAGES: list[tuple[Callable[[Path], Iterable[Any]], str, str]] = [
    (
        read_items,
        '// mine\n[{"title": "Fox"}]',
        "line 1: expected a list, but found a comment, which JSON does not have",
    ),
    (read_items, "[{'title': 'Fox'}]", "item 1: line 1: text in single quotes, which JSON does not have"),
    (read_items, '[{"title": "Fox",}]', "item 1: line 1: a comma before '}', which JSON does not allow; remove it"),
    (read_items, '[{"title": "Fox"},\n]', "after item 1: line 2: a comma before ']', which JSON does not allow"),
    (read_items, '[{"title": "Fox"}\n\n{}]', r"after item 1: line 3: expected ',' or ']', but found an object"),
    (read_items, '[{"title": "Foxe', "item 1: line 1: Unterminated string.*at the file's end: is it cut short"),
    (read_items, "[1] 2", "after item 1: line 1: expected nothing after the list, but found '2'"),
    (read_items, '[{"a": 1, "a": 2}]', "item 1: line 1: the key 'a' occurs twice in one object"),
    (read_items, "[" * 200_000, "item 1: line 1: nested too deeply"),
    (read_members, "[]", "line 1: expected one JSON object, id to entry, but found a list"),
    (read_members, '{"a": 1, 2: 3}', r"after entry 1 \('a'\): line 1: expected the key of entry 2, but found '2'"),
    (read_members, '{"a" 1}', r"entry 1 \('a'\): line 1: expected ':' after the key, but found '1'"),
    (read_values, '{"a": 1}\n{"a": x}', "value 2: line 2: Expecting value"),
]


@pytest.mark.parametrize(("read", "text", "message"), MESSAGES)
def test_what_is_no_json_is_called_by_its_name(
    tmp_path: Path, read: Callable[[Path], Iterable[Any]], text: str, message: str
) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=r"a\.json: " + message):
        list(read(tmp_path / "a.json"))


def test_another_encoding_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes('[\n"Fuchs",\n"Füchse in München"]'.encode("latin-1"))
    with pytest.raises(ValueError, match=r"a\.json: line 3: not UTF-8 .* iconv --from-code WINDOWS-1252"):
        list(read_items(tmp_path / "a.json"))


@pytest.mark.slow
def test_a_line_of_any_length_takes_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with path.open("w") as file:
        file.write("{" + ", ".join(f'"{number}": {json.dumps("x" * 1000)}' for number in range(40_000)) + "}")
    tracemalloc.start()
    assert sum(len(value) for _, value in read_members(path)) == 40_000_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 << 20


def test_lines_are_told_by_the_name_or_by_the_first_line(tmp_path: Path) -> None:
    for name, text, expected in [
        ("a.jsonl", "", True),
        ("a.ndjson.gz.txt", "[", False),
        ("a.json", '{"a": 1}\n{"a": 2}', True),
        ("a.json", '{"a": 1},\n{"a": 2}', True),
        ("a.json", '{"a": 1}\n', False),
        ("a.json", '{\n"a": 1}', False),
    ]:
        (tmp_path / name).write_text(text)
        assert has_lines(tmp_path / name) == expected


def test_a_key_given_twice_is_found_in_linear_time() -> None:
    keys = [str(number) for number in range(200_000)]
    with pytest.raises(ValueError, match="the key '7' occurs twice"):
        unique_keys([(key, 0) for key in [*keys, "7"]])
