"""Images with a uniform border are also keys without it, in builds and live changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from indexes.live.drafts import DraftEditor
from indexes.store.index import Index
from retriever.borders import RULE, trim
from tests.fakes.live import World, article, as_row, painting
from tests.fakes.models import FakeEncoder

OPTIONS: dict[str, Any] = {"candidates": "image", "tokens": "float16", "image_keys": 3, "trim_borders": True}


def card(seed: int = 3) -> Image.Image:
    """Returns a painting in the middle of a white card."""
    image = Image.new("RGB", (300, 260), "white")
    image.paste(painting(seed), (86, 66))
    return image


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World.at(tmp_path, **OPTIONS)
    card().save(world.images / "card.png")
    painting(4).save(world.images / "whole.png")
    return world


def keys(index: Index, image: Image.Image) -> float:
    """Returns how similar the best entity is to an image."""
    scores, _ = index.search(FakeEncoder().encode_images([image]), 1)
    return float(scores[0, 0])


def test_an_image_is_a_key_as_it_is_and_within_its_border(world: World) -> None:
    articles = [article("a", image="card.png", sections=2, further=1), article("b")]
    index = world.build(articles, world.index)
    counts, inputs = index.manifest.counts, index.manifest.inputs
    # the card, what is within it, and the further image; their tokens follow those of the sections
    assert (counts.further_keys, counts.image_tokens, inputs.borders) == (2, 3 + 1, RULE)
    assert len(index.token_rows(0)) == 2 + 3
    assert [keys(index, image) for image in (card(), trim(card()))] == pytest.approx([1, 1], abs=1e-3)
    for changed in ({"image_keys": 1}, {"trim_borders": False}):
        world.options = OPTIONS | changed
        whole = world.build(articles, world.folder / "-".join(changed))
        assert whole.manifest.inputs.borders == "none" and keys(whole, trim(card())) < 0.99


def test_an_index_without_such_keys_is_built_again_only_if_it_is_replaced(world: World) -> None:
    world.options = OPTIONS | {"trim_borders": False}
    articles = [article("a", image="card.png")]
    world.build(articles, world.index)
    world.options = dict(OPTIONS)
    with pytest.raises(ValueError, match=f'borders was not given and is now "{RULE}"'):
        world.build(articles, world.index)
    world.options["overwrite"] = True
    assert world.build(articles, world.index).manifest.inputs.borders == RULE


@pytest.mark.parametrize(("old", "new"), [("card.png", "whole.png"), ("whole.png", "card.png")])
def test_the_key_within_a_border_goes_with_its_image(world: World, old: str, new: str) -> None:
    before, after = (article("a", image=name, further=1) for name in (old, new))
    world.build([before, article("b")], world.index)
    editor = world.editor()
    row = as_row(after)
    draft = DraftEditor(editor).draft({key: row[key] for key in ("id", "title", "image", "sections")}, ["image"])
    assert draft.complete(Image.open(world.images / new).convert("RGB")) == []  # the further image stays
    draft.put()
    changed = editor.index
    fresh = world.build([after, article("b")], world.folder / "fresh")
    number = changed.row_of("kb/a")
    assert number is not None
    np.testing.assert_allclose(changed.stored(number).keys, fresh.keys.of(0), atol=1e-3)
    tokens = [changed.gather([changed.token_rows(number)]), fresh.gather([fresh.token_rows(0)])]
    assert torch.equal(tokens[0].values, tokens[1].values)
    editor.close()
