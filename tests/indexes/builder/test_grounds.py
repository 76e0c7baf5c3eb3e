"""Main images without a background: found on any background through a key of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from indexes.article_images import GROUNDS
from indexes.builder.grounds import COLORS, has_no_ground, key_vectors, on_grounds, section_tokens
from retriever.images import ALPHA, load_image, prepare_image
from tests.fakes.live import World, article
from tests.fakes.models import FakeEncoder, FakeFusion
from tests.fakes.plans import build_index
from tests.fakes.rows import write_jsonl


def sticker(size: int = 20, box: tuple[int, int, int, int] = (5, 5, 15, 15), alpha: int = 255) -> Image.Image:
    image = Image.new("RGBA", (size, size), (0, 0, 0, 0))
    image.paste((255, 0, 0, alpha), box)
    return image


def test_transparency_stays_beside_the_image() -> None:
    image = prepare_image(sticker())
    assert image.mode == "RGB" and image.getpixel((0, 0)) == (255, 255, 255)
    assert image.info[ALPHA].getpixel((0, 0)) == 0 and image.info[ALPHA].getpixel((7, 7)) == 255
    assert prepare_image(image) is image
    turned = sticker()
    turned.putpixel((0, 19), (0, 0, 255, 255))
    exif = turned.getexif()
    exif[0x0112] = 6  # rotated by 90 degrees: the lower left corner becomes the upper left
    assert prepare_image(turned).info[ALPHA].getpixel((0, 0)) == 255


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (sticker(), True),
        (sticker(box=(0, 0, 20, 20)), False),
        (sticker(box=(0, 0, 20, 19)), True),  # 5 % see-through
        (sticker(box=(5, 5, 8, 8)), False),  # hardly anything to be seen
        (Image.new("RGB", (20, 20)), False),
    ],
)
def test_an_image_has_no_ground_if_a_part_was_transparent(image: Image.Image, expected: bool) -> None:
    assert has_no_ground(prepare_image(image)) == expected


def test_each_ground_replaces_the_white() -> None:
    shown = on_grounds(prepare_image(sticker(alpha=51)))  # a fifth
    assert len(shown) == len(COLORS) == 9
    # a margin of 6 % of 10 pixels: from 4.4 to 15.6
    assert {image.size for image in shown} == {(12, 12)}
    assert [image.getpixel((0, 0)) for image in shown[:3]] == [(255, 255, 255), (0, 0, 0), (128, 128, 128)]
    assert [image.getpixel((6, 6)) for image in shown[:3]] == [(255, 204, 204), (51, 0, 0), (153, 102, 102)]


def test_the_key_is_the_normalized_mean() -> None:
    image = prepare_image(sticker())
    encoder = FakeEncoder()
    alone = encoder.encode_images([image]).numpy()
    mean = encoder.encode_images(on_grounds(image)).numpy().mean(axis=0)
    keys = key_vectors(encoder, [("a", f"{GROUNDS}a"), ()], [{"a": image}, {}])
    np.testing.assert_allclose(keys, [alone[0], mean / np.linalg.norm(mean)], rtol=1e-5)
    assert key_vectors(encoder, [()], [{}]).shape == (0, encoder.dimension)


def test_an_encoder_may_read_keys_in_its_own_way() -> None:
    class Mirror(FakeEncoder):
        def encode_keys(self, images: Sequence[Image.Image]) -> torch.Tensor:
            return -self.encode_images(images)

    image = Image.new("RGB", (8, 8), "blue")
    plain = key_vectors(FakeEncoder(), [("a",)], [{"a": image}])
    np.testing.assert_array_equal(key_vectors(Mirror(), [("a",)], [{"a": image}]), -plain)


def test_tokens_on_several_grounds_are_merged_with_those_on_white() -> None:
    fusion = FakeFusion(tokens=1)  # so that both tokens of a section become one
    image, blue = prepare_image(sticker()), Image.new("RGB", (20, 20), "blue")

    def unit(tokens: np.ndarray) -> np.ndarray:
        return np.asarray(tokens / np.linalg.norm(tokens, axis=-1, keepdims=True))

    def tokens(one: Image.Image, text: str) -> np.ndarray:
        return unit(fusion.encode([one], [text]).numpy())

    def expected(text: str) -> np.ndarray:
        mean = unit(np.mean([tokens(one, text) for one in on_grounds(image)], axis=0))
        return unit(tokens(image, text) + mean)

    views = [[blue], [image, *on_grounds(image)], [blue]]
    found = section_tokens(fusion, views, [["a"], ["b", "c"], ["d"]])
    np.testing.assert_allclose(
        found, np.concatenate([tokens(blue, "a"), expected("b"), expected("c"), tokens(blue, "d")]), rtol=1e-4
    )
    assert section_tokens(fusion, [], []).shape == (0, 1, 8)


def test_tokens_of_an_index(tmp_path: Path) -> None:
    """An entity whose main image has no background, beside one whose image has one, each with several sections."""
    world = World.at(tmp_path, image_keys=2)
    sticker(90, (10, 10, 80, 80)).save(world.images / "s.png")
    final = [article("a"), article("b", image="s.png", sections=3)]
    fresh = world.build(final, tmp_path / "fresh")
    assert fresh.manifest.stored_shape == (7, 32, 8)  # 2 and 3 sections, each followed by the main image alone
    world.options["image_keys"] = 1
    white = world.build(final, tmp_path / "white")
    sections = [*fresh.section_rows(0), *fresh.section_rows(1)]
    assert sections == [0, 1, 3, 4, 5]
    pairs = zip(fresh.tokens(np.array(sections)), white.tokens(np.arange(5)), strict=True)
    assert [torch.equal(one, other) for one, other in pairs] == [True, True, False, False, False]


def test_a_main_image_without_a_ground_has_one_more_key(tmp_path: Path) -> None:
    sticker(90, (10, 10, 80, 80)).save(tmp_path / "a.png")
    Image.new("RGB", (90, 90), "blue").save(tmp_path / "b.png")
    rows = [
        {"id": name, "title": name, "sections": [{"title": "", "text": "Text."}], "image": f"{name}.png"}
        for name in "ab"
    ]
    kb = write_jsonl(tmp_path / "kb.jsonl", *rows)

    def further_keys(image_keys: int) -> int:
        out = tmp_path / f"index{image_keys}"
        index = build_index(kb, tmp_path, out, candidates="combined", image_keys=image_keys)
        return index.manifest.counts.further_keys

    assert further_keys(1) == 0 and further_keys(2) == 1
    assert has_no_ground(load_image(tmp_path / "a.png"))
