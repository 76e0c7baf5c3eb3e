"""The folder in which the examples of docs/python.md, README.md and the docstrings of `omgm` run."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from pathlib import Path
from typing import Any

from omgm.__main__ import main
from omgm.downloads.hub import base_models
from omgm.profile import load_profile
from pretraining.demo.articles import articles
from pretraining.demo.build import write_rows
from pretraining.demo.draw import draw
from pretraining.demo.facts import countries, url_of
from pretraining.demo.flags import load_flags
from pretraining.demo.photo import photograph
from pretraining.demo.questions import questions

COUNTRIES = ("br", "ca", "fr", "jp", "ke", "np")


def write_examples(folder: Path) -> None:
    """Writes a knowledge base of six flags, an index of it built with the embedded profile, and questions.

    The folder gets `kb.json`, `images/flag/<code>.png`, `index/`, `photo.jpg` (the flag of Japan), `questions.csv` (two
    questions about each country, E-VQA's columns) and their images, `queries/<code>_<n>.jpg`.
    """
    world = {code: countries()[code] for code in COUNTRIES}
    entries = {url_of(country): articles()[url_of(country)] for country in world.values()}
    rows = questions(random.Random(0), 2, ["val"], world, entries)
    (folder / "kb.json").write_text(json.dumps(entries), encoding="utf-8")
    write_rows(folder / "questions.csv", rows)
    (folder / "images/flag").mkdir(parents=True)
    (folder / "queries").mkdir()
    for code in COUNTRIES:
        flag = draw(load_flags()[code])
        flag.save(folder / "images/flag" / f"{code}.png")
        for n in range(2):
            photograph(flag, random.Random(n)).save(folder / "queries" / f"{code}_{n}.jpg")
    (folder / "photo.jpg").write_bytes((folder / "queries/jp_0.jpg").read_bytes())
    arguments = ("build-index", "--kb", folder / "kb.json", "--images", folder / "images", "--out", folder / "index")
    base = base_models(load_profile("embedded"))[0]
    here = base.carrier or base.folder.is_dir()  # not on every machine that runs tests/gpu
    assert main([*map(str, arguments), *([] if here else ["--set", "sections.kind=bm25"])]) == 0


def run_blocks(page: Path) -> int:
    """Runs the Python blocks of a Markdown page in order in one namespace; a block may `await`.

    Tracebacks show the page and its line number.

    Returns:
        The number of blocks.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    for line, source in blocks:
        code = compile("\n" * line + source, page, "exec", flags=PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, namespace))
        else:
            exec(code, namespace)
    return len(blocks)


def python_blocks(text: str) -> list[tuple[int, str]]:
    """Returns the blocks between "```python" and "```", each with the number of lines before it."""
    blocks: list[tuple[int, str]] = []
    start = None
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if line.strip() == "```python":
            start = number
        elif line.strip() == "```" and start is not None:
            blocks.append((start, "\n".join(lines[start : number - 1])))
            start = None
    return blocks
