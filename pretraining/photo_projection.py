"""Gives the embedded encoder its second part: EfficientNet-Lite0 with a projection fitted to photographs.

    python -m pretraining.photo_projection --images clothing/train --images products --out weights/embedded/encoder

Every image is taken to show a thing of its own; files with the same bytes count once. weights/embedded/README.md lists
the collections, and how many images of each, that the published projection was fitted to.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from retriever.files import sha256_of
from retriever.images import load_image
from retriever.models.encoder import ClipEncoder
from retriever.models.photo_tower import PhotoTower
from retriever.models.small_clip import SmallCLIP
from training.augment import ROOM
from training.images import ImageLoader, load_images
from training.photo_projection import VIEWS, fit_projection, views_of

ENCODER = Path("weights/embedded/encoder")
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp"}
SEED = 0


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, action="append", required=True, help="a folder; may be repeated")
    parser.add_argument("--most", type=int, default=300, help="most images to draw from each folder (%(default)s)")
    parser.add_argument("--encoder", type=Path, default=ENCODER, help="the encoder to start from (%(default)s)")
    parser.add_argument("--dimension", type=int, default=64, help="values to append to a vector (%(default)s)")
    parser.add_argument("--share", type=float, default=0.3, help="their share of a similarity (%(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the encoder")
    args = parser.parse_args()
    paths = [path for folder in args.images for path in drawn(folder, args.most)]
    encoder = ClipEncoder.load(args.encoder)
    config = encoder.model.config
    config.base_model, config.photo_dim, config.photo_share = "efficientnet-lite0", args.dimension, args.share
    model = SmallCLIP(config)
    model.train(False)
    model.load_state_dict(encoder.model.state_dict(), strict=False)
    tower = PhotoTower(model, "cpu", torch.float32)
    with TemporaryDirectory() as folder:
        loaders = [ImageLoader(str(path), lambda name: load_image(name, max_side=640)) for path in paths]
        images = load_images(loaders, round(tower.size * ROOM), Path(folder) / "images.npy")
        views = views_of(tower, images, range(len(paths)), [0.0, *[1.0] * VIEWS], SEED)
    fitted = fit_projection(views.flatten(0, 1), torch.arange(len(paths)).repeat(1 + VIEWS), args.dimension)
    model.photo_mean.copy_(fitted.mean)
    model.photo_projection.copy_(fitted.matrix)
    encoder.model = model
    encoder.save(args.out, torch.float16)
    print(f"{args.out}: fitted to {len(paths)} images")


def drawn(folder: Path, most: int) -> list[Path]:
    """Returns at most `most` image files below a folder, drawn at random, without copies."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    distinct = list({sha256_of(path): path for path in files}.values())
    return sorted(random.Random(SEED).sample(distinct, min(most, len(distinct))))


if __name__ == "__main__":
    main()
