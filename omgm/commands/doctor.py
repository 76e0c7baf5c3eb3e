"""Report what this machine has, which profiles can run on it, and what is missing."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict
from pathlib import Path

from omgm.commands.common import add_json, add_profile, print_json, profile_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    parser.add_argument("--index", type=Path, metavar="INDEX", help="also check that this index fits the profile")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the findings.

    Raises:
        SystemExit: With status 1 if something that the profile needs is missing.
    """
    profile = profile_of(args)

    from omgm.doctor import as_text, examine

    findings = examine(profile, args.profile, args.index)
    failed = sum(finding.status == "fail" for finding in findings)
    if args.json:
        print_json({"profile": profile.name, "ok": not failed, "findings": [asdict(finding) for finding in findings]})
    else:
        print(as_text(findings, color=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
        print(f"\nprofile {profile.name}: " + (f"{failed} to fix" if failed else "nothing is missing"))
    if failed:
        raise SystemExit(1)
