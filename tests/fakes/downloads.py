"""Images to download from a fake web, and helpers to inspect the result."""

from __future__ import annotations

import json
from pathlib import Path

import pillow_heif

from retriever.images import encoded
from tests.fakes.images import bomb_png, noise
from tests.fakes.web import FakeWeb
from tests.paths import contents

FILES = {f"{number}.jpg": encoded(noise(number), "JPEG") for number in range(40)}
FILES["big.bmp"] = encoded(noise(1, 400, 400), "BMP")  # 480 054 bytes
FILES["bomb.png"] = bomb_png()
FILES["thin.png"] = encoded(noise(3, 1000, 5))
pillow_heif.register_heif_opener()
FILES["phone.heic"] = encoded(noise(4), "HEIF")
FILES["cut.png"] = encoded(noise(2, 200, 200))[:3000]


def missing_reasons(folder: Path) -> dict[str, str]:
    """Returns the reason why each URL is missing."""
    lines = (folder / ".omgm/missing.jsonl").read_text().splitlines()
    return {row["url"]: row["reason"] for row in map(json.loads, lines)}


def downloaded(folder: Path) -> dict[str, bytes]:
    """Returns every image under `folder` by its relative path, even while images are being written."""
    return contents(folder, without=".omgm")


def write_kb_of(urls: list[str], path: Path) -> Path:
    """Writes a knowledge base with an entity for each image; returns its path."""
    entries = {
        f"https://example.org/wiki/{number}": {
            "title": f"Entity {number}",
            "section_titles": ["A"],
            "section_texts": ["Text."],
            "image_urls": [url],
        }
        for number, url in enumerate(urls)
    }
    path.write_text(json.dumps(entries))
    return path


def fetch_command(web: FakeWeb, kb: Path, images: Path) -> list[str]:
    """Returns the arguments of an `omgm kb images` that gives up quickly."""
    return [
        *("kb", "images", "--kb", str(kb), "--images", str(images), "--contact", "test@example.org", "--json"),
        *("--allow-private", web.place, "--per-second", "100", "--retries", "1", "--timeout", "1"),
    ]
