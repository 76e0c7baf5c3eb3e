"""Convert a checkpoint of EVA's repository (EVA-CLIP-8B or -18B) into a folder for step 1."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import add_json, existing, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE.pt", help="the checkpoint, EVA_CLIP_8B_psz14_s9B.pt")
    parser.add_argument(
        "--config", type=Path, required=True, metavar="JSON", help="its model's configuration, EVA-CLIP-8B.json"
    )
    parser.add_argument(
        "--tokenizer",
        metavar="FOLDER",
        help="CLIP's tokenizer: a folder, or a name on the hub such as openai/clip-vit-large-patch14",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Writes the folder and prints how to use it."""
    file, config = existing(args.file, "FILE.pt"), existing(args.config, "--config")

    from omgm.downloads.hub import local_folder
    from retriever.models.eva_weights import import_eva

    tokenizer = None
    if args.tokenizer is not None:
        named = Path(args.tokenizer)
        tokenizer = named if named.is_dir() else local_folder(args.tokenizer, weights=False)
    parameters = import_eva(file, config, args.out, tokenizer)
    if args.json:
        print_json({"parameters": parameters, "tokenizer": tokenizer is not None, "out": str(args.out)})
        return
    if tokenizer is None:
        print(f"no tokenizer: copy CLIP's (tokenizer.json, or vocab.json and merges.txt) into {args.out}")
    print(f"{parameters:,} parameters written; pass this to other commands: --set encoder.model={args.out.resolve()}")
