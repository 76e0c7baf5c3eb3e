"""Answer one question about one image."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.common import add_json, add_profile, existing, print_json, profile_of

if TYPE_CHECKING:
    from omgm.results import Answer

_MAX_DOWNLOAD = 50_000_000
"""Bytes of the largest image that is downloaded."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    parser.add_argument("--index", type=Path, required=True, metavar="INDEX", help="what build-index wrote")
    parser.add_argument("image", metavar="IMAGE", help="the image: a file or an http(s) URL")
    parser.add_argument("question", metavar="QUESTION", help="the question about it")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the answer with its entity and its evidence."""
    profile = profile_of(args)
    if not args.question.strip():
        raise ValueError("QUESTION is empty")
    image = (
        _download(args.image) if args.image.startswith(("http://", "https://")) else existing(Path(args.image), "IMAGE")
    )

    from omgm.api import OMGM

    with OMGM.open(args.index, profile) as omgm:
        answer = omgm.ask(image, args.question)
    if args.json:
        print_json(_as_dict(answer))
        return
    missing = "the image was not recognized" if answer.declined else "nothing in the evidence fits"
    print(answer.answer if answer.answer is not None else f"(no answer: {missing})")
    if answer.evidence is not None:
        print(f"\n{answer.evidence.entity_title}, section {answer.evidence.section_title!r}:\n{answer.evidence.text}")
    print("\n" + "  ".join(f"{step} {ms:.1f} ms" for step, ms in answer.timings_ms.items()))


def _download(url: str) -> bytes:
    import httpx

    try:
        with httpx.stream("GET", url, follow_redirects=True, timeout=30) as response:
            response.raise_for_status()
            data = bytearray()
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > _MAX_DOWNLOAD:
                    raise ValueError(f"IMAGE: {url} is larger than {_MAX_DOWNLOAD // 1_000_000} MB")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ValueError(f"IMAGE: {url} cannot be downloaded: {error}") from error
    return bytes(data)


def _as_dict(answer: Answer) -> dict[str, Any]:
    return {
        "answer": answer.answer,
        "confidence": answer.confidence,
        "span": answer.span,
        "truncated": answer.truncated,
        "abstained": answer.abstained,
        "recognized": answer.recognized,
        "declined": answer.declined,
        "evidence": None if answer.evidence is None else asdict(answer.evidence),
        "candidates": [
            {"entity": c.entity, "title": c.title, "sim_c": c.sim_c, "sim_m": c.sim_m, "fused": c.fused}
            for c in answer.candidates
        ],
        "timings_ms": answer.timings_ms,
    }
