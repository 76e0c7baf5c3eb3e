"""Turn a .pth file of LAVIS, OMGM or EchoSight into a folder for step 2."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from omgm.commands.common import add_json, existing, print_json

KINDS = ("auto", "lavis", "omgm", "echosight")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE.pth", help="the checkpoint")
    parser.add_argument("--kind", choices=KINDS, default="auto", help="whose file it is (%(default)s)")
    parser.add_argument(
        "--base",
        default="none",
        metavar="BASE",
        help="for what the file lacks: a whole model (its folder, or Salesforce/blip2-itm-vit-g), or LAVIS's "
        "eva_vit_g.pth for the image tower that blip2_pretrained.pth leaves out (%(default)s)",
    )
    parser.add_argument(
        "--tokenizer", default="none", metavar="FOLDER", help="bert-base-uncased's, by default the base's"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Writes the folder and says what was taken, from where, and what was left."""
    file = existing(args.file, "FILE.pth")

    from omgm.downloads.hub import local_folder
    from retriever.models.import_lavis import import_reranker

    def source(name: str, weights: bool) -> Path | None:
        if name == "none":
            return None
        return Path(name) if Path(name).exists() else local_folder(name, weights=weights)

    base, tokenizer = source(args.base, True), source(args.tokenizer, False)
    report = import_reranker(file, args.out, args.kind, base, tokenizer)
    if args.json:
        print_json({**dataclasses.asdict(report), "missing": [], "out": str(args.out)})
        return
    print(f"kind       {report.kind}: {report.note}")
    print(f"mapped     {_counts(report.mapped)}")
    print(f"from base  {_counts(report.from_base)}")
    print(f"ignored    {len(report.ignored)}: {', '.join(report.ignored) or 'nothing'}")
    print("missing    nothing")
    print(f"written; use it with: --set fusion.model={args.out.resolve()}")


def _counts(parts: dict[str, int]) -> str:
    return f"{sum(parts.values())} tensors ({', '.join(f'{n} {part}' for part, n in parts.items()) or 'none'})"
