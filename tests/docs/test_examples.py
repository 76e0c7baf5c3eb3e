from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from tests.examples import python_blocks, run_blocks
from tests.paths import ROOT

PAGES = ("docs/python.md", "README.md")


@pytest.mark.slow
@pytest.mark.usefixtures("example_folder")
@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: str) -> None:
    if not (ROOT / page).is_file():
        pytest.skip(f"{page} is not written yet")
    if run_blocks(ROOT / page) == 0:
        pytest.skip(f"{page} has no Python")


def test_blocks_share_a_namespace_and_may_wait(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n```python\nimport asyncio\nasync def two(): return 2\n```\n\n```sh\nexit 1\n```\n"
        "```python\nx = await two()\n```\n```python\nassert x == 2\n1 / (x - 2)\n```\n"
    )
    assert [line for line, _ in python_blocks(page.read_text())] == [3, 11, 14]
    with pytest.raises(ZeroDivisionError) as raised:
        run_blocks(page)
    last = traceback.extract_tb(raised.tb)[-1]
    assert (last.filename, last.lineno) == (str(page), 16)
