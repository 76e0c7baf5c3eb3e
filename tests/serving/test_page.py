from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from generators.chat import ChatGenerator
from llm.chat import ChatClient
from serving.settings import ServingSettings
from tests.browser import Browser, by_id, screenshot, wait
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.images import image_bytes
from tests.fakes.service import World, served

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("demo")
    (folder / "queries").mkdir()
    (folder / "queries" / "g.jpg").write_bytes(image_bytes("green", format="JPEG"))
    (folder / "test.csv").write_text("question,dataset_image_ids\nWhen was the treaty?,g\n", encoding="utf-8")
    with served(tmp_path_factory.mktemp("world"), ServingSettings(examples_dir=folder)) as world:
        yield world


@pytest.fixture
def page(chromium: Browser, world: World) -> Iterator[Browser]:
    chromium.get(world.url)
    yield chromium
    faults = [entry["message"] for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"]
    assert [fault for fault in faults if "/answer - Failed to load resource" not in fault] == []


def ask(page: Browser, path: Path, question: str) -> None:
    by_id(page, "file").send_keys(str(path))
    by_id(page, "question").clear()
    by_id(page, "question").send_keys(question + "\n")


def test_upload_ask_answer(page: Browser, tmp_path: Path) -> None:
    path = tmp_path / "flag.png"
    path.write_bytes(image_bytes("red"))
    assert by_id(page, "idle").is_displayed()
    ask(page, path, "When was the treaty?")
    wait(page, lambda: by_id(page, "found").is_displayed())
    assert "\n1848\n" in by_id(page, "answer").text
    assert by_id(page, "entity").text.startswith("Redland")
    evidence = by_id(page, "evidence")
    assert [mark.text for mark in evidence.find_elements("tag name", "mark")] == ["1848"]
    assert "a republic in 1848 — after the Café treaty" in evidence.text
    rows = by_id(page, "candidates").find_elements("css selector", "tbody tr")
    assert [row.text.split() for row in rows] == [
        ["Redland", "1.000", "0.750", "0.975"],
        [*rows[1].text.split()],
        ["Blueland", rows[2].text.split()[1], "\u2013", rows[2].text.split()[3]],
    ]
    times = by_id(page, "times").text
    assert "step1\n1.5 ms" in times and "total" in times
    assert not by_id(page, "error").is_displayed()
    loaded = page.execute_script("return [...document.images].filter(i => i.offsetParent && !i.naturalWidth).length")
    assert loaded == 0
    screenshot(page, "small")


def test_abstains(page: Browser, tmp_path: Path) -> None:
    path = tmp_path / "flag.png"
    path.write_bytes(image_bytes("red"))
    ask(page, path, "What is the flag of one color?")
    wait(page, lambda: by_id(page, "found").is_displayed())
    assert "No answer found in the evidence" in by_id(page, "answer").text
    assert by_id(page, "evidence").find_elements("tag name", "mark") == []


def test_without_a_generator(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "flag.png"
    path.write_bytes(image_bytes("red"))
    generator = ChatGenerator(ChatClient("http://127.0.0.1:9", "llama", retries=0))
    with served(tmp_path, generator=generator) as world:
        chromium.get(world.url)
        ask(chromium, path, "When was the treaty?")
        wait(chromium, lambda: by_id(chromium, "found").is_displayed())
        answer = by_id(chromium, "answer").text
        assert "No answer: the generator failed\nllama, the generator cannot be reached" in answer
        assert by_id(chromium, "entity").text.startswith("Redland")
        assert "a republic in 1848" in by_id(chromium, "evidence").text
        assert not by_id(chromium, "error").is_displayed()
        screenshot(chromium, "degraded")


def test_a_cut_section(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "flag.png"
    path.write_bytes(image_bytes("red"))
    with FakeChatServer() as server:
        generator = ChatGenerator(ChatClient(server.url, "good"), max_context_tokens=5)
        with served(tmp_path, generator=generator) as world:
            chromium.get(world.url)
            ask(chromium, path, "When was the treaty?")
            wait(chromium, lambda: by_id(chromium, "found").is_displayed())
            assert by_id(chromium, "answer").text.endswith("\ngood, read only the beginning of the section")


def test_errors(page: Browser, tmp_path: Path) -> None:
    error = by_id(page, "error")
    by_id(page, "ask").click()
    assert error.text == "Choose a photo first."
    path = tmp_path / "letter.png"
    path.write_text("Dear reader", encoding="utf-8")
    by_id(page, "file").send_keys(str(path))
    assert not error.is_displayed()
    by_id(page, "ask").click()
    assert error.text == "Type a question first."
    by_id(page, "question").send_keys("When?\n")
    wait(page, lambda: "not an image" in error.text)
    assert not by_id(page, "found").is_displayed()


def test_a_file_that_changes(page: Browser, tmp_path: Path) -> None:
    path = tmp_path / "flag.png"
    path.write_bytes(image_bytes("red"))
    os.utime(path, (1e9, 1e9))
    by_id(page, "file").send_keys(str(path))
    path.write_bytes(image_bytes("green"))
    by_id(page, "question").send_keys("When was the treaty?\n")
    wait(page, lambda: by_id(page, "error").is_displayed())
    assert by_id(page, "error").text == "The photo can no longer be read. Choose it again."
    ask(page, path, "When was the treaty?")
    wait(page, lambda: by_id(page, "found").is_displayed())
    assert by_id(page, "entity").text.startswith("Greenland")
    assert not by_id(page, "error").is_displayed()
    page.get_log("browser")  # Chromium logs the changed file


def test_example(page: Browser) -> None:
    wait(page, lambda: by_id(page, "examples").is_displayed())
    by_id(page, "examples").find_element("tag name", "button").click()
    wait(page, lambda: by_id(page, "found").is_displayed())
    assert by_id(page, "question").get_attribute("value") == "When was the treaty?"
    assert by_id(page, "entity").text.startswith("Greenland")


def test_drop(page: Browser) -> None:
    data = list(image_bytes("green"))
    script = f"""
        const carrier = new DataTransfer();
        carrier.items.add(new File([new Uint8Array({json.dumps(data)})], "dropped.png", {{type: "image/png"}}));
        document.getElementById("drop").dispatchEvent(new DragEvent("drop", {{dataTransfer: carrier, bubbles: true}}));
        document.dispatchEvent(new ClipboardEvent("paste", {{clipboardData: carrier, bubbles: true}}));
    """
    page.execute_script(script)
    assert by_id(page, "preview").get_attribute("alt") == "Your photo: dropped.png"
    by_id(page, "question").send_keys("When was the treaty?\n")
    wait(page, lambda: by_id(page, "found").is_displayed())
    assert by_id(page, "entity").text.startswith("Greenland")


def test_everything_has_a_name(page: Browser) -> None:
    """A screen reader finds a name for every control, and the page never scrolls sideways on a phone."""
    unnamed = page.execute_script(
        "return [...document.querySelectorAll('button, input, textarea')].filter("
        "e => !(e.labels?.length || e.textContent.trim() || e.ariaLabel)).map(e => e.outerHTML)"
    )
    assert [element for element in unnamed if 'id="more"' not in element] == []
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") == 390
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_documentation(page: Browser, world: World, tmp_path: Path) -> None:
    """The API's documentation works without another host, down to a request sent from it."""
    path = tmp_path / "flag.png"
    path.write_bytes(image_bytes("green"))
    page.get(f"{world.url}/docs")

    def find(selector: str) -> list[Any]:
        found: list[Any] = page.find_elements("css selector", selector)
        return found

    paths = httpx.get(f"{world.url}/openapi.json").json()["paths"]
    wait(page, lambda: len(find(".opblock")) == sum(len(methods) for methods in paths.values()))
    find("[id$=answer_answer_post] .opblock-summary-control")[0].click()
    wait(page, lambda: find(".try-out__btn"))
    find(".try-out__btn")[0].click()
    wait(page, lambda: find("input[type=file]"))
    find("input[type=file]")[0].send_keys(str(path))
    find("button.execute")[0].click()  # question and options as they are proposed
    wait(page, lambda: find(".live-responses-table .response-col_status"))
    assert find(".live-responses-table .response-col_status")[-1].text.startswith("200")
    assert '"title": "Greenland"' in find(".live-responses-table .response-col_description")[-1].text
    loaded = page.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in loaded if not name.startswith((world.url, "data:", "blob:"))] == []
    screenshot(page, "docs")
