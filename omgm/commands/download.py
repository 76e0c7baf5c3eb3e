"""Fetch the weights that a profile names, and compare them with the hub's sizes and hashes."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from omgm.commands.common import add_json, add_profile, print_json, profile_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be downloaded, and stop")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Says how much there is to download, downloads and verifies it."""
    profile = profile_of(args)

    from omgm.downloads.hub import models_of
    from omgm.downloads.weights import check_disk, fetch, gigabytes, make_plan

    def say(text: str) -> None:
        print(text, file=sys.stderr if args.json else sys.stdout, flush=True)

    plans = [make_plan(model) for model in models_of(profile)]
    for plan in plans:
        here = gigabytes(plan.bytes - plan.bytes_to_fetch)
        say(f"{plan.model.key}: {plan.pinned}: {len(plan.files)} files, {gigabytes(plan.bytes)}, here {here}")
    to_fetch = sum(plan.bytes_to_fetch for plan in plans)
    free = check_disk(plans)
    if plans:
        whole = sum(plan.bytes for plan in plans)
        say(f"to download: {gigabytes(to_fetch)} of {gigabytes(whole)}; free: {gigabytes(free)}")
    else:
        say(f"profile {profile.name} needs nothing from the hub")
    folders: dict[str, str] = {}
    if not args.dry_run:
        for plan in plans:
            folders[plan.model.key] = str(fetch(plan))
            say(f"{plan.pinned}: sizes and hashes are right")
    loose = [plan for plan in plans if plan.model.revision != plan.commit]
    if loose:
        say("to pin what is not pinned, write into the profile:")
        for plan in loose:
            section, _, key = plan.model.key.partition(".")
            say(f'  [{section}] {key} = "{plan.pinned}"')
    if args.json:
        print_json(_report(plans, folders, to_fetch, free))


def _report(plans: list[Any], folders: dict[str, str], to_fetch: int, free: int) -> dict[str, Any]:
    models = [
        {
            "key": plan.model.key,
            "model": plan.model.name,
            "pinned": plan.pinned,
            "bytes": plan.bytes,
            "bytes_to_fetch": plan.bytes_to_fetch,
            "files": [file.name for file in plan.files],
            "verified": plan.model.key in folders,
            "folder": folders.get(plan.model.key),
        }
        for plan in plans
    ]
    return {"models": models, "bytes_to_fetch": to_fetch, "bytes_free": free}
