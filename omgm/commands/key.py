"""Generate a random API key, and its digest for a profile."""

from __future__ import annotations

import argparse

from omgm.commands.common import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints a new key and its digest; neither is stored."""
    from serving.keys import digest_of, new_key

    key = new_key()
    if args.json:
        print_json({"key": key, "sha256": digest_of(key)})
        return
    print(f"key     {key}\nsha256  {digest_of(key)}")
    print("Give the key to its user, and the hash to the service: serving.read_keys or serving.write_keys.")
