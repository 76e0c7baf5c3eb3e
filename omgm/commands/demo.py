"""Run the demo: write a small knowledge base of flags and dishes, index and serve it, and ask questions."""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

from omgm.addresses import check_address
from omgm.commands.common import add_profile, profile_of
from omgm.commands.numbers import port, positive

if TYPE_CHECKING:
    from serving.schemas import AnswerOut

START_SECONDS = 600.0
"""Timeout in seconds for the service to become ready, even on a busy machine; if it exits, that is noticed at once."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("artifacts/demo"),
        metavar="DIR",
        help="the folder for the data (%(default)s)",
    )
    parser.add_argument(
        "--index", type=Path, metavar="INDEX", help="the index to build, by default `index` in that folder"
    )
    parser.add_argument("--port", type=port, default=8000, help="the port of the service (%(default)s)")
    parser.add_argument(
        "--questions", type=positive, default=4, metavar="N", help="number of questions to ask (%(default)s)"
    )
    parser.add_argument("--once", action="store_true", help="exit after the answers")


def run(args: argparse.Namespace) -> None:
    """Builds the index, serves it and asks questions; then serves the page until interrupted."""
    from omgm.client import Client, ServiceError
    from omgm.demo import EXAMPLES, write_demo
    from omgm.downloads.hub import base_models
    from retriever.base_models import base_model

    check_address("127.0.0.1", args.port)
    for base in base_models(profile_of(args)):
        base_model(base.name)  # first: without it, nothing is written
    index = args.index or args.data / "index"
    print("1/3  Writing articles, images and photographs", flush=True)
    write_demo(args.data)
    print("2/3  Building the index", flush=True)
    profile = ["--profile", args.profile, *(part for value in args.overrides for part in ("--set", value))]
    build = ["--kb", args.data / "kb_wiki.json", "--images", args.data / "images", "--out", index, "--overwrite"]
    if subprocess.run(omgm("build-index", *profile, *build)).returncode:
        raise ValueError("the index was not built; the message above says why")
    print("3/3  Starting the service", flush=True)
    serve = ["--index", index, "--port", args.port, "--set", f"serving.examples_dir={args.data}"]
    service = subprocess.Popen(omgm("serve", *profile, *serve))
    url = f"http://127.0.0.1:{args.port}"
    try:
        wait_until_ready(url, service)
        with Client(url) as client:
            for image, question in pick(args.data / EXAMPLES, args.questions):
                show(image, question, client.answer(image, question))
        if not args.once:
            print(f"\nThe page is at {url}/  (Ctrl-C stops the service)", flush=True)
            print(
                "Ask about your own photographs there; of your own knowledge base: omgm serve --kb FOLDER", flush=True
            )
            service.wait()
    except ServiceError as error:
        raise OSError(f"the service did not answer: {error}") from error
    finally:
        service.terminate()
        service.wait(timeout=30)


def omgm(*arguments: object) -> list[str]:
    """Returns a command line that runs `omgm` with this Python interpreter."""
    return [sys.executable, "-m", "omgm", *map(str, arguments)]


def wait_until_ready(url: str, service: subprocess.Popen[bytes]) -> None:
    """Waits until `/health/ready` responds with success.

    Raises:
        OSError: The service ended, or was not ready in time.
    """
    import httpx

    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if service.poll() is not None:
            raise OSError(f"the service ended with status {service.returncode}; is its port in use? (--port)")
        try:
            if httpx.get(f"{url}/health/ready", timeout=5, trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass  # it is not listening yet
        time.sleep(0.2)
    raise OSError(f"the service was not ready after {START_SECONDS:g} s")


def pick(examples: Path, count: int) -> list[tuple[Path, str]]:
    """Returns the first images and questions of the examples, in turn about dishes and about flags."""
    with examples.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[:count]
    return [(examples.parent / "queries" / f"{row['dataset_image_ids']}.jpg", row["question"]) for row in rows]


def show(image: Path, question: str, answer: AnswerOut) -> None:
    """Prints a question with its answer, entity, evidence and times."""
    times = "  ".join(f"{name} {ms:.0f} ms" for name, ms in answer.timings_ms.items())
    evidence = [f"{one.section}: {textwrap.shorten(one.text, 160)}" for one in answer.evidence[:1]]
    lines = {
        "image": str(image),
        "question": question,
        "answer": answer.answer or f"(none: {answer.reason})",
        "entity": answer.entity.title if answer.entity else "-",
        "evidence": evidence[0] if evidence else "-",
    }
    print()
    for name, text in lines.items():
        print(textwrap.fill(text, 100, initial_indent=f"  {name:9}", subsequent_indent=" " * 11))
    print(f"  {'times':9}{times}")
    sys.stdout.flush()
