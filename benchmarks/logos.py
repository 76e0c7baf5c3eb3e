r"""Writes a data set of logos: the topics in a checkout of github/explore, queried with changed copies of their images.

    python -m benchmarks.logos --topics explore/topics --out logos
    omgm build-index --kb logos/kb.jsonl --images logos/images --out logos/index
    omgm evaluate --no-answers --index logos/index --dataset plain --queries logos/card.jsonl \
        --query-images logos/queries --out logos/run

`card.jsonl` asks about logos on white, rotated by up to 10 degrees, scaled, on one color; `bare.jsonl` about logos with
the background removed, on one color or a made-up scene. All are JPEG. None of the topics are part of this project.
A flat folder of PNG files works, too, such as `png/` of walkxcode/dashboard-icons.
"""

from __future__ import annotations

import random
import shutil
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.frame import arguments
from omgm.demo.background import background
from retriever.files import write_lines

SIDE = 400  # longest side of a logo in pixels
QUESTION = "What is this used for?"


def bare(path: Path, rng: random.Random) -> Image.Image:
    """Returns a logo with its background removed, rotated, on one color or a scene."""
    logo = Image.open(path).convert("RGBA")
    logo.thumbnail((SIDE, SIDE))
    logo = logo.rotate(rng.uniform(-10, 10), expand=True, resample=Image.Resampling.BICUBIC)
    scale = rng.uniform(0.55, 1)
    size = (int(logo.width / scale), int(logo.height / scale))
    behind = Image.new("RGB", size, _color(rng)) if rng.random() < 0.5 else background(rng, size)
    behind.paste(logo, _place(rng, logo, behind), logo)
    return _jpeg(behind, rng)


def card(path: Path, rng: random.Random) -> Image.Image:
    """Returns a logo on white, rotated, on one color or on white."""
    logo = Image.open(path).convert("RGBA")
    logo.thumbnail((SIDE, SIDE))
    white = Image.new("RGBA", logo.size, "white")
    white.alpha_composite(logo)
    turned = white.convert("RGB").rotate(
        rng.uniform(-10, 10), expand=True, resample=Image.Resampling.BICUBIC, fillcolor="white"
    )
    scale = rng.uniform(0.6, 1)
    size = (int(turned.width / scale), int(turned.height / scale))
    behind = Image.new("RGB", size, _color(rng) if rng.random() < 0.7 else (255, 255, 255))
    behind.paste(turned, _place(rng, turned, behind))
    return _jpeg(behind, rng)


def _color(rng: random.Random) -> tuple[int, int, int]:
    return rng.randrange(256), rng.randrange(256), rng.randrange(256)


def _place(rng: random.Random, image: Image.Image, behind: Image.Image) -> tuple[int, int]:
    return rng.randint(0, behind.width - image.width), rng.randint(0, behind.height - image.height)


def _jpeg(image: Image.Image, rng: random.Random) -> Image.Image:
    file = BytesIO()
    image.save(file, "JPEG", quality=rng.randint(40, 90))
    return Image.open(file).convert("RGB")


def write(topics: Path, out: Path, most: int = 750, seed: int = 7) -> int:
    """Writes knowledge base, images and questions; returns the number of logos."""
    rng = random.Random(seed)
    images = sorted([*topics.glob("*/*.png"), *topics.glob("*.png")])
    stems = {path.stem for path in topics.glob("*.png")}
    different: dict[bytes, Path] = {}
    for path in images:
        if path.parent != topics or not _is_variant(path.stem, stems):
            different.setdefault(path.read_bytes(), path)
    files = sorted(different.values())
    rng.shuffle(files)
    files = files[:most]
    for folder in ("images", "queries"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    entities = []
    for path in files:
        name, article = _name(path, topics), path.parent / "index.md"
        text = article.read_text(encoding="utf-8", errors="replace") if article.exists() else ""
        parts = text.split("---", 2)
        text = parts[2].strip() if len(parts) == 3 else text
        shutil.copy(path, out / "images" / f"{name}{path.suffix}")
        section = {"title": name, "text": text or name}
        entities.append({"id": name, "title": name, "sections": [section], "image": f"{name}{path.suffix}"})
    write_lines(out / "kb.jsonl", entities)
    for change in (bare, card):
        questions = []
        for path in files:
            name = _name(path, topics)
            key = f"{change.__name__}_{name}"
            change(path, rng).save(out / "queries" / f"{key}.jpg", quality=92)
            questions.append({"id": key, "image": key, "question": QUESTION, "answers": ["-"], "entity": name})
        write_lines(out / f"{change.__name__}.jsonl", questions)
    return len(files)


def _name(path: Path, topics: Path) -> str:
    return path.stem if path.parent == topics else path.parent.name


def _is_variant(stem: str, stems: set[str]) -> bool:
    """Returns whether an image is by its name a variant of another one, like `fox-light` of `fox`."""
    words = stem.split("-")
    return any("-".join(words[:end]) in stems for end in range(1, len(words)))


def main() -> None:
    parser = arguments(__doc__, out="")
    images = "the folder topics/ of a checkout, or one with images"
    parser.add_argument("--topics", type=Path, required=True, metavar="DIR", help=images)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write to")
    args = parser.parse_args()
    print(f"{args.out}: {write(args.topics, args.out)} logos")


if __name__ == "__main__":
    main()
