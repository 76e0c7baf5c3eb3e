"""Convert a .pth file of LAVIS, OMGM or EchoSight into a folder for step 2."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from omgm.commands.common import add_json, add_profile, existing, print_json, profile_of

KINDS = ("auto", "lavis", "omgm", "echosight")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE.pth", help="the checkpoint")
    parser.add_argument(
        "--kind", choices=KINDS, default="auto", help="the project that the file comes from (%(default)s)"
    )
    add_profile(parser)
    parser.set_defaults(profile="paper")
    parser.add_argument(
        "--base",
        metavar="BASE",
        help="provides parts missing from the file: a complete model (a folder or a name on the hub), LAVIS's "
        "eva_vit_g.pth for the image tower that blip2_pretrained.pth leaves out, or none (the profile's fusion.model, "
        "once downloaded)",
    )
    parser.add_argument(
        "--tokenizer", default="none", metavar="FOLDER", help="bert-base-uncased's tokenizer; by default the base's"
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="NAME",
        help="ignore tensors of the file with this name or pattern; may be repeated",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Writes the folder and reports which parts were taken, from where, and which were ignored.

    Raises:
        ValueError: The file, the base or the tokenizer does not match.
    """
    file = existing(args.file, "FILE.pth")

    from omgm.downloads.hub import local_folder
    from retriever.models.import_lavis import import_reranker

    def source(name: str, weights: bool) -> Path | None:
        if name == "none":
            return None
        return Path(name) if Path(name).exists() else local_folder(name, weights=weights)

    base, default_base = None, ""
    if args.base is not None:
        base = source(args.base, True)
    else:
        profile = profile_of(args)
        try:
            base = local_folder(profile.fusion.model, options=profile.options)
        except ValueError as error:  # a complete file needs no base if a tokenizer is given
            default_base = f"; the default base is {error}"
    tokenizer = source(args.tokenizer, False)
    try:
        report = import_reranker(file, args.out, args.kind, base, tokenizer, args.ignore)
    except ValueError as error:
        needs_base = "--base" in str(error) or "--tokenizer" in str(error)
        raise ValueError(f"{error}{default_base if needs_base else ''}") from error
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
