"""Pictures to download, and what a download leaves."""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.fakes.small_web import SmallWeb


def noise(seed: int, width: int = 40, height: int = 30) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def encoded(image: Image.Image, format: str = "JPEG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def bomb_png() -> bytes:
    """A PNG whose header declares 60 000 x 60 000 pixels."""
    content = bytearray(encoded(noise(0), "PNG"))
    content[16:24] = (60_000).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(bytes(content[12:29])).to_bytes(4, "big")
    return bytes(content)


FILES = {f"{number}.jpg": encoded(noise(number)) for number in range(40)}
FILES["big.bmp"] = encoded(noise(1, 400, 400), "BMP")  # 480 054 bytes
FILES["bomb.png"] = bomb_png()
FILES["cut.png"] = encoded(noise(2, 200, 200), "PNG")[:3000]


def missing_reasons(folder: Path) -> dict[str, str]:
    lines = (folder / ".omgm/missing.jsonl").read_text().splitlines()
    return {row["url"]: row["reason"] for row in map(json.loads, lines)}


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and ".omgm" not in file.parts)
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def write_kb(path: Path, urls: list[str]) -> Path:
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


def fetch_command(web: SmallWeb, kb: Path, images: Path) -> list[str]:
    return [
        *("images", "fetch", "--kb", str(kb), "--images", str(images), "--contact", "test@example.org", "--json"),
        *("--allow-private", web.place, "--per-second", "100", "--retries", "1", "--timeout", "1"),
    ]
