from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from indexes.ids import hash_id
from indexes.parts.layout import parts_in, read_part
from indexes.parts.split import split_index
from indexes.store.index import Index
from retriever.types import Entity
from tests.fakes.live import World, article
from tests.paths import contents

ARTICLES = [
    *(article(f"e{number}", further=number % 3, sections=1 + number % 3) for number in range(20)),
    article("none", image=None),
    Entity("kb/bare", "Bare", (), names=("Empty", "Nothing")),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"), ARTICLES, image_keys=3, section_images=True)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_each_entity_is_in_the_part_of_its_id_with_all_that_is_stored_of_it(world: World, parts: int) -> None:
    whole = Index.open(world.index)
    folders = [*split_index(world.index, parts, world.folder / f"in {parts}")]
    assert [folder.name for folder in folders] == [f"{number}-of-{parts}" for number in range(1, parts + 1)]
    seen = []
    for number, folder in enumerate(folders):
        part = Index.open(folder, verify=True)
        positions = np.load(folder / "positions.npy")
        assert [*positions] == [row for row in range(22) if hash_id(whole.entity(row).id) % parts == number]
        for row, position in enumerate(positions.tolist()):
            assert part.entity(row) == whole.entity(position) and part.summary(row) == whole.summary(position)
            spans = part.token_rows(row), whole.token_rows(position)
            for one, other in zip(part.stored_tokens(spans[0]), whole.stored_tokens(spans[1]), strict=True):
                assert np.array_equal(one, other)
            assert len(part.section_rows(row)) == len(whole.section_rows(position))
            paths = part.image_path(row), whole.image_path(position)
            assert [path and path.read_bytes() for path in paths[:1]] == [
                path and path.read_bytes() for path in paths[1:]
            ]
        seen += positions.tolist()
    assert sorted(seen) == [*range(22)]
    assert (
        sum(Index.open(folder).manifest.counts.further_keys for folder in folders) == whole.manifest.counts.further_keys
    )


def test_parts_of_parts_are_those_of_the_whole_byte_for_byte(world: World, tmp_path: Path) -> None:
    for count in (1, 2, 3):
        assert len([*split_index(world.index, count, tmp_path / f"of whole {count}")]) == count
    for before, count in ((1, 3), (2, 3), (3, 2), (3, 1)):
        out = tmp_path / f"{count} of {before}"
        assert len([*split_index(tmp_path / f"of whole {before}", count, out)]) == count
        assert contents(out) == contents(tmp_path / f"of whole {count}")
    whole, joined = contents(world.index), contents(tmp_path / "of whole 1" / "1-of-1")
    assert [name for name in whole if joined[name] != whole[name]] == []
    assert sorted(joined.keys() - whole.keys()) == ["part.json", "positions.npy", "whole.json"]


def test_a_killed_split_continues_and_parts_are_never_mixed(world: World, tmp_path: Path) -> None:
    next(iter(split_index(world.index, 2, tmp_path)))
    (tmp_path / "2-of-2.partial").mkdir()
    (tmp_path / "2-of-2.partial" / "tokens.npy").touch()
    with pytest.raises(ValueError, match=r"needs all parts of one index, has 1-of-2"):
        parts_in(tmp_path)
    assert len([*split_index(world.index, 2, tmp_path)]) == 2
    assert [path.name for path in parts_in(tmp_path)] == ["1-of-2", "2-of-2"] and parts_in(world.index) == []
    other = World(tmp_path / "other", ARTICLES[:4])
    with pytest.raises(ValueError, match=r"1-of-2: holds something else; remove it, or name another folder"):
        next(iter(split_index(other.index, 2, tmp_path)))
    assert read_part(other.index) is None
