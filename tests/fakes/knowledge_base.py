"""A small knowledge base with many irregularities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image

from tests.fakes.plans import build_index

FLAGS: dict[str, list[str]] = {"France": ["blue", "white", "red"], "Ireland": ["green", "white"], "Plain": ["yellow"]}
"""Entities with an image: vertical bands."""


def entry(title: str, sections: dict[str, str], image: str | None) -> dict[str, Any]:
    """Returns an article in E-VQA's format."""
    url = f"https://e.example/wiki/{title}"
    return {
        "title": title,
        "url": url,
        "section_titles": list(sections),
        "section_texts": list(sections.values()),
        "image_urls": [] if image is None else [image],
        "image_reference_descriptions": [] if image is None else [f"Flag of {title}"],
        "image_section_indices": [] if image is None else [0],
    }


def write_kb(folder: Path) -> tuple[Path, Path]:
    """Writes an E-VQA knowledge base of seven entities and its images; returns both paths."""
    articles = [
        entry(
            "France",
            {
                "France": "The flag is blue white and red. More.",
                "References": "[1]",
                "Area": "It covers 643,801 km².",
            },
            "https://e.example/images/flag/France.png",
        ),
        entry("Words", {"Words": "Black and yellow. No picture."}, None),
        entry(
            "Ireland", {"Ireland": "The flag is green and white. More."}, "https://e.example/images/flag/Ireland.png"
        ),
        entry("Empty", {}, "https://e.example/images/flag/Plain.png"),
        entry("Lost", {"Lost": "Red. The picture is lost."}, "https://e.example/images/flag/Lost.png"),
        entry("Broken", {"Broken": "Blue. The picture is broken."}, "https://e.example/images/flag/Broken.png"),
        entry("Plain", {"Plain": "All yellow.", "Use": "None."}, "https://e.example/images/flag/Plain.png"),
    ]
    kb = folder / "kb.json"
    kb.write_text(json.dumps({article["url"]: article for article in articles}), encoding="utf-8")
    images = folder / "images"
    (images / "flag").mkdir(parents=True)
    for name, colors in FLAGS.items():
        flag = Image.new("RGB", (600, 400))
        width = 600 // len(colors)
        for band, color in enumerate(colors):
            flag.paste(color, (band * width, 0, (band + 1) * width, 400))
        flag.save(images / "flag" / f"{name}.png")
    (images / "flag" / "Broken.png").write_text("no image")
    return kb, images


def build_small_index(folder: Path, **changes: Any) -> Path:
    """Builds an index of `write_kb`'s knowledge base with fake models; returns its folder.

    `changes` are arguments of `build_index`.
    """
    kb, images = write_kb(folder)
    build_index(kb, images, folder / "index", **changes)
    return folder / "index"
