"""Publish an index or a trained model on the Hugging Face hub, with its card."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import existing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="an encoder, a reranker, an index, or the folder of a training"
    )
    parser.add_argument("repo", metavar="ORG/NAME", help="the repository, created if it does not exist")
    parser.add_argument("--private", action="store_true", help="create it private")
    parser.add_argument("--message", metavar="TEXT", help="the message of the commit")
    parser.add_argument("--license", metavar="ID", help="license on the card, such as apache-2.0 (unknown)")


def run(args: argparse.Namespace) -> None:
    """Publishes the contents of the folder and prints how to use them.

    Raises:
        ValueError: The folder contains neither a model nor an index, or the hub refuses it.
    """
    folder = existing(args.folder, "FOLDER")

    from indexes.store.generations import current_files
    from indexes.store.manifest import MANIFEST
    from retriever.models.folder import kind_of
    from retriever.models.published import push_model

    private = True if args.private else None
    if (current_files(folder) / MANIFEST).is_file():
        from indexes.store.index import Index
        from indexes.store.published import push_index

        index = Index.open(folder, verify=True)
        name = push_index(index, args.repo, private=private, message=args.message, license=args.license)
        print(f'{name}: open it with open_published("{name}")')
        return
    model = _model_in(folder)
    name = push_model(model, args.repo, private=private, message=args.message, license=args.license)
    section = "encoder" if kind_of(model) == "encoder" else "fusion"
    print(f"{name}: name it in a profile, or pass this to other commands: --set {section}.model={name}")


def _model_in(folder: Path) -> Path:
    """Returns the folder of the model in a training's output folder, or else `folder` itself."""
    if not (folder / "profile.toml").is_file():
        return folder
    found = [folder / name for name in ("encoder", "fusion") if (folder / name).is_dir()]
    if len(found) != 1:
        raise ValueError(f"{folder}: a profile with {len(found)} models; name the folder of the one to publish")
    return found[0]
