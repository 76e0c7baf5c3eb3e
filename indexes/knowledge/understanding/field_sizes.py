"""Fields that name one image in several sizes, `thumbnail`, `medium` and `large`, name one image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from indexes.knowledge.image_keys import words_of
from indexes.knowledge.languages import words_of as word_list
from indexes.knowledge.understanding.facts import label_of
from indexes.knowledge.understanding.image_texts import IsImage
from indexes.knowledge.understanding.translations import LeftOut

_SIZES = (
    word_list("thumb thumbs thumbnail thumbnails small mini preview lowres tiny th sm xs"),
    word_list("medium md regular normal scaled resized"),
    word_list("large big full fullsize original originals orig hires hd lg xl"),
)
"""Words in names of fields, by the size of the image; one without such a word is between medium and large."""
_NEUTRAL = word_list("url src path link file")


@lru_cache(maxsize=1024)
def size_of(field: str) -> float:
    """Returns the size that the name of a field says: 0 for small images, 1.5 if it says nothing, 2 for large ones."""
    words = words_of(label_of(field))
    return next((float(size) for size, names in enumerate(_SIZES) if not names.isdisjoint(words)), 1.5)


@lru_cache(maxsize=1024)
def _thing(field: str) -> str:
    """Returns the name of a field without words for sizes: "" for `thumbnailUrl`, `front` for `front_large`."""
    return " ".join(word for word in words_of(label_of(field)) if word not in _NEUTRAL.union(*_SIZES))


def one_per_image(
    captions: Mapping[str, str], fields: Mapping[str, Sequence[str]], is_image: IsImage, left_out: LeftOut
) -> dict[str, str]:
    """Returns images with their captions, each in its largest size that is there, and by one of its paths.

    Args:
        captions: The images, in order, with their captions.
        fields: The images by field, the main field first.
        is_image: Whether the file of an image is there.
        left_out: Where the other sizes are added to.
    """
    by_field = {urls[0]: name for name, urls in fields.items() if len(urls) == 1}
    main = _thing(next(iter(by_field.values()), ""))
    things = {url: _thing(name) or main for url, name in by_field.items()}  # `thumbnail` is that of the main image
    sized = {things[url] for url, name in by_field.items() if size_of(name) != 1.5}
    groups: dict[tuple[bool, str], list[str]] = {}
    for url in captions:
        is_sized = things.get(url) in sized
        groups.setdefault((is_sized, things[url] if is_sized else _shortest(url, captions)), []).append(url)
    kept: dict[str, str] = {}
    for urls in groups.values():
        best = max(urls, key=lambda url: (is_image(url), size_of(by_field.get(url, "")))) if len(urls) > 1 else urls[0]
        left_out += [("other sizes of images", url) for url in urls if url != best]
        kept[best] = captions[best] or next(filter(None, (captions[url] for url in urls)), "")
    return kept


def _shortest(url: str, urls: Iterable[str]) -> str:
    """Returns the shortest of the paths that an address ends with, such as `2023/fox.jpg`."""
    ends = (other for other in urls if url.endswith(f"/{other}") and ("/" in other or "//" in url))
    return min(ends, key=len, default=url)
