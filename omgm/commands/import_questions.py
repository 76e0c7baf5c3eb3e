"""Write a Hugging Face dataset from save_to_disk, or Parquet files, as questions with images (--dataset plain)."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import existing
from retriever.wording import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "--from", type=Path, required=True, dest="source", metavar="DIR", help="the dataset's folder, or a Parquet file"
    )
    parser.add_argument("--split", metavar="NAME", help="one of its splits, if it has several")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="output folder")


def run(args: argparse.Namespace) -> None:
    """Writes the file and the images, and prints the options that name them."""
    from evaluation.datasets.export import IMAGES, QUESTIONS, export

    n = export(existing(args.source, "--from"), args.out, args.split)
    questions = counted(n, "question")
    files = f"--queries {args.out / QUESTIONS} --query-images {args.out / IMAGES}"
    print(f"{questions}; for other commands: --dataset plain {files}")
