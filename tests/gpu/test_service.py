"""The service on a device: requests that come together get what each would get alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

import httpx

from omgm.profile import load_profile
from omgm.served_app import build_app
from tests.fakes.service import listening
from tests.gpu.conftest import Card, Device

ASKED = ["What is the capital of this country?", "Which languages are spoken in this country?"]


@pytest.mark.slow
def test_requests_that_come_together(cuda: Device, example_folder: Path) -> None:
    count = 32 if isinstance(cuda, Card) else 20  # three batches; a pretended device is slow
    profile = load_profile("embedded", ["serving.cache_mib=0", "serving.max_wait_s=60"])
    app, editor = build_app(profile, Path("index"), read_only=False)
    images = [path.read_bytes() for path in sorted(Path("queries").iterdir())[::2]]  # one of each flag
    with listening(app, profile.serving) as url, httpx.Client(base_url=url, timeout=60) as client:

        def answer(number: int) -> tuple[str, str, list[str]]:
            files = {"image": images[number % len(images)]}
            reply = client.post("/answer", files=files, data={"question": ASKED[number % 2]}).raise_for_status().json()
            return reply["answer"], reply["entity"]["title"], [one["title"] for one in reply["candidates"]]

        alone = [answer(number) for number in range(len(images))]
        with ThreadPoolExecutor(count) as threads:
            together = list(threads.map(answer, range(count)))
    assert together == [alone[number % len(alone)] for number in range(count)]
    assert {title for _, title, _ in alone} == {"Brazil", "Canada", "France", "Japan", "Kenya", "Nepal"}
    assert not isinstance(editor, str)
    editor.close()
