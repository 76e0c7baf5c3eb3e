"""The page in a headless Chromium, with a scripted planner for its agents."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import pillow_heif
import pytest
from PIL import Image
from starlette.types import Receive, Scope, Send

from chat_models.chat import ChatClient
from chat_models.replies import ChatReply
from generators.chat import ChatGenerator
from retriever.types import ArticleImage
from serving.keys import digest_of
from serving.settings import ServingSettings
from tests.browser import Browser, by_id, opened_anew, screenshot, wait
from tests.fakes import world as lands
from tests.fakes.asking import WHEN
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.modes import agents
from tests.fakes.planner import calling
from tests.fakes.service import World, listening, served
from tests.fakes.world import FakeQuoter

pytestmark = pytest.mark.browser

GATE = threading.Event()
"""Holds the planner while cleared."""


def play(asked: str) -> str | ChatReply:
    """Zooms in and searches for a source that it cites."""
    assert GATE.wait(20)
    if "text_search" in asked:
        return "<answer>It is 530 nm [1]. It looks green.</answer>"
    search = calling("text_search", '{"queries": ["wave length of green", "green"]}', "Green has a wave length.")
    return search if "zoom_in" in asked else calling("zoom_in", '{"box": [10, 5, 40, 30]}', "I look closer.")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("demo")
    (folder / "queries").mkdir()
    (folder / "queries" / "g.jpg").write_bytes(image_bytes("green", format="JPEG"))
    (folder / "test.csv").write_text("question,dataset_image_ids\nWhen was the treaty?,g\n", encoding="utf-8")
    GATE.set()
    with served(tmp_path_factory.mktemp("world"), ServingSettings(examples_dir=folder), modes=agents(play)) as world:
        yield world


@pytest.fixture
def page(chromium: Browser, world: World) -> Iterator[Browser]:
    opened_anew(chromium, world.url)
    yield chromium
    faults = [entry["message"] for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"]
    assert [fault for fault in faults if "/answer - Failed to load resource" not in fault] == []


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    path = tmp_path / "flag.png"
    path.write_bytes(image_bytes("red"))
    return path


def turns(page: Browser) -> list[Any]:
    """Returns the answers on the page, the newest first."""
    found: list[Any] = page.find_elements("class name", "turn")
    return found


def part(turn: Any, name: str) -> Any:
    """Returns a part of an answer by its CSS class."""
    return turn.find_element("class name", name)


def ask(page: Browser, path: Path | None, question: str, count: int = 1) -> Any:
    """Asks about the given photo, or the current one; returns the answer once it is complete."""
    if path is not None:
        by_id(page, "file").send_keys(str(path))
    by_id(page, "question").clear()
    by_id(page, "question").send_keys(question + "\n")
    wait(page, lambda: len(turns(page)) == count and turns(page)[0].get_attribute("aria-busy") == "false")
    return turns(page)[0]


def opened(page: Browser, turn: Any, name: str) -> Any:
    """Opens a collapsed part."""
    part(turn, name).find_element("tag name", "summary").click()
    return part(turn, name)


def choose(page: Browser, mode: str) -> None:
    wait(page, lambda: by_id(page, "mode-line").is_displayed())
    by_id(page, "mode").find_element("css selector", f"option[value={mode}]").click()


def violations(page: Browser) -> list[str]:
    """Returns the axe-core rules that the page violates, with their impact and the element."""
    try:
        source = resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        pytest.skip("axe-core-python is not installed: pip install -e .[dev]")
    page.execute_script(source)
    options = "{resultTypes: ['violations'], elementRef: false}"
    found = page.execute_async_script(f"axe.run(document, {options}).then(arguments[arguments.length - 1])")
    return [
        f"{broken['id']} ({broken['impact']}): {node['html'][:200]}"
        for broken in found["violations"]
        for node in broken["nodes"]
    ]


def emulate(page: Browser, phone: bool = False, dark: bool = False) -> None:
    if phone:
        size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    else:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    still = {"name": "prefers-reduced-motion", "value": "reduce"}  # colors are measured, not their transitions
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, still]})


def test_upload_ask_answer(page: Browser, flag: Path) -> None:
    assert by_id(page, "idle").is_displayed()
    turn = ask(page, flag, WHEN)
    assert not by_id(page, "idle").is_displayed()
    assert part(turn, "asked").text.startswith(WHEN)
    assert part(turn, "answer").text == "1848\nlast number, 75% sure"
    assert part(turn, "entity").text.startswith("Redland")
    evidence = part(turn, "evidence")
    assert [mark.text for mark in evidence.find_elements("tag name", "mark")] == ["1848"]
    assert "a republic in 1848 — after the Café treaty" in evidence.text
    assert by_id(page, "status").get_attribute("textContent") == "Answer: 1848"
    assert not by_id(page, "error").is_displayed()


def test_why(page: Browser, flag: Path) -> None:
    """Step 1 ranks by sim_c, step 2 by the fused score, step 3 the sections."""
    why = opened(page, ask(page, flag, WHEN), "why")
    nearest, ranked, sections = why.find_elements("class name", "step")
    shown = [item.text.split() for item in nearest.find_elements("tag name", "li")]
    assert shown[0] == ["Redland", "1.000"] and [name for name, _ in shown[1:]] == ["Greenland", "Blueland"]
    rows = [row.text.split() for row in ranked.find_elements("css selector", "tbody tr")]
    assert rows[0] == ["Redland", "1.000", "0.750", "0.975"]
    assert rows[2] == ["Blueland", rows[2][1], "\u2013", rows[2][3]]
    first = sections.find_element("css selector", "tbody tr").text.split()
    assert first[0] == "History" and first[2] == "0.750"
    assert "step1\n1.5 ms" in part(why, "times").text and "total" in part(why, "times").text
    loaded = "return [...document.images].every(i => !i.checkVisibility() || i.naturalWidth)"
    wait(page, lambda: page.execute_script(loaded))
    # Twenty candidates scroll in their row instead of widening all steps.
    more = "for (let i = 0; i < 20; i++) row.append(row.firstChild.cloneNode(true))"
    page.execute_script(f"const row = document.querySelector('.nearest'); {more}")
    wider = page.execute_script(
        "const all = document.querySelector('.steps'); return all.scrollWidth - all.clientWidth"
    )
    assert wider <= 3  # the row's margin


def test_several_questions_about_one_photo(page: Browser, flag: Path) -> None:
    ask(page, flag, WHEN)
    second = ask(page, None, "What is the wave length of red?", 2)
    assert part(second, "reply").text == "700"
    assert [part(turn, "reply").text for turn in turns(page)] == ["700", "1848"]
    assert by_id(page, "preview").get_attribute("alt") == "Your photo: flag.png"
    assert (
        page.execute_script("return getSelection().toString()") == "What is the wave length of red?"
    )  # to be replaced


def test_a_finger_needs_no_keyboard_for_the_answer(chromium: Browser, world: World, flag: Path) -> None:
    chromium.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    emulate(chromium, phone=True)
    try:
        chromium.get(world.url)
        chromium.execute_script("sessionStorage.clear()")  # the answers of the last test
        chromium.get(world.url)
        assert chromium.execute_script("return matchMedia('(pointer: coarse)').matches")
        assert by_id(chromium, "file-hint").text == ""  # no mention of drop and paste
        ask(chromium, flag, WHEN)
        assert chromium.execute_script("return document.activeElement.id") != "question"
        by_id(chromium, "question").click()
        by_id(chromium, "question").send_keys("Who signed it?")
        assert by_id(chromium, "question").get_attribute("value") == "Who signed it?"  # in place of the first one
        screenshot(chromium, "finger")
    finally:
        chromium.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
        emulate(chromium)


def test_the_answer_streams(page: Browser, world: World, flag: Path) -> None:
    """Retrieval results are shown before the answer, and the answer piece by piece."""
    script = """
        window.seen = [];
        new MutationObserver(() => {
            const text = document.querySelector(".turn .reply")?.textContent;
            const entity = document.querySelector(".turn .entity")?.textContent;
            if (entity || text) seen.push([Boolean(entity), text]);
        }).observe(document.getElementById("history"), {childList: true, subtree: true, characterData: true});
    """
    page.execute_script(script)
    ask(page, flag, WHEN)
    seen = page.execute_script("return window.seen")
    assert [True, "Searching…"] in seen and seen[-1] == [True, "1848"]


def test_the_request_as_curl(page: Browser, tmp_path: Path) -> None:
    path = tmp_path / 'it\'s a "flag".png'
    path.write_bytes(image_bytes("red"))
    turn = ask(page, path, "When was the treaty, 'roughly'? $HOME")
    command = opened(page, turn, "curl").find_element("tag name", "code").text
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "event: done" in done.stdout and '"title": "Redland"' in done.stdout


def test_an_agent_shows_its_steps(page: Browser, flag: Path) -> None:
    choose(page, "mmsearch-plus")
    GATE.clear()
    try:
        by_id(page, "file").send_keys(str(flag))
        by_id(page, "question").send_keys("What is the wave length of green?\n")
        wait(page, lambda: turns(page) and part(turns(page)[0], "answer").text == "Searching…")
    finally:
        GATE.set()
    wait(page, lambda: turns(page)[0].get_attribute("aria-busy") == "false")
    turn = turns(page)[0]
    assert part(turn, "reply").text == "It is 530 nm.[1] It looks green."
    assert part(turn, "reply").find_element("tag name", "a").get_attribute("aria-label") == "Source 1"
    assert "[1] Greenland, Wave" in part(turn, "evidence").text
    rounds = part(turn, "trail").find_elements("class name", "round")
    assert [part(one, "thought").text for one in rounds[:2]] == ["I look closer.", "Green has a wave length."]
    [crop] = rounds[0].find_elements("css selector", ".crops img")
    assert page.execute_script("return [arguments[0].naturalWidth, arguments[0].naturalHeight]", crop) == [30, 25]
    assert "Looks closer" in rounds[0].text and "box 10, 5, 40, 30" in rounds[0].text and "tokens" in rounds[0].text
    assert [query.text for query in rounds[1].find_elements("tag name", "q")] == ["wave length of green", "green"]
    sources = rounds[1].find_elements("tag name", "details")
    assert sources[0].text == "[1] Greenland, Wave"
    sources[0].find_element("tag name", "summary").click()
    assert "the wave length of green is 530 nm" in sources[0].text
    assert not part(turn, "why").is_displayed()
    screenshot(page, "small-agent")


def test_an_agent_is_stopped(page: Browser, flag: Path) -> None:
    choose(page, "mmsearch-plus")
    GATE.clear()
    try:
        by_id(page, "file").send_keys(str(flag))
        by_id(page, "question").send_keys(WHEN + "\n")
        wait(page, lambda: turns(page))
        part(turns(page)[0], "asked").find_element("tag name", "button").click()
        wait(page, lambda: part(turns(page)[0], "answer").text == "Stopped.")
    finally:
        GATE.set()


def test_the_camera(page: Browser) -> None:
    """Chromium's own fake camera shows a green screen with a timer."""
    by_id(page, "shoot").click()
    wait(page, lambda: by_id(page, "camera").is_displayed())
    wait(page, lambda: page.execute_script("return document.getElementById('video').videoWidth"))
    assert page.switch_to.active_element.get_attribute("id") == "take"
    assert violations(page) == []
    by_id(page, "take").click()
    wait(page, lambda: by_id(page, "preview").get_attribute("alt") == "Your photo: camera.jpg")
    assert not by_id(page, "camera").is_displayed()
    assert page.execute_script("return document.getElementById('video').srcObject") is None
    turn = ask(page, None, WHEN)
    assert part(turn, "entity").text.startswith("Greenland")


def test_abstains(page: Browser, flag: Path) -> None:
    turn = ask(page, flag, "What is the flag of one color?")
    assert "No answer: the generator found none in the evidence" in part(turn, "answer").text
    assert part(turn, "evidence").find_elements("tag name", "mark") == []


def test_text_runs_in_the_direction_of_its_script(page: Browser, flag: Path) -> None:
    turn = ask(page, flag, "متى تم اعتماد العلم؟")
    assert turn.find_element("tag name", "h2").value_of_css_property("direction") == "rtl"
    assert by_id(page, "question").value_of_css_property("direction") == "rtl"
    assert part(turn, "text").value_of_css_property("direction") == "ltr"


def test_without_a_generator(chromium: Browser, tmp_path: Path, flag: Path) -> None:
    generator = ChatGenerator(ChatClient("http://127.0.0.1:9", "llama", retries=0))
    with served(tmp_path, generator=generator) as world:
        chromium.get(world.url)
        turn = ask(chromium, flag, WHEN)
        answer = part(turn, "answer").text
        assert "No answer: the generator failed\nllama, the generator cannot be reached" in answer
        assert part(turn, "entity").text.startswith("Redland")
        assert "a republic in 1848" in part(turn, "evidence").text
        assert not by_id(chromium, "mode-line").is_displayed()  # there are no agents


def test_a_cut_section(chromium: Browser, tmp_path: Path, flag: Path) -> None:
    with FakeChatServer() as server:
        generator = ChatGenerator(ChatClient(server.url, "good"), max_context_tokens=5)
        with served(tmp_path, generator=generator) as world:
            chromium.get(world.url)
            turn = ask(chromium, flag, WHEN)
            about = "good, not word for word in the evidence, read only the beginning of the section"
            assert part(turn, "answer").text.endswith(f"\n{about}")


def test_what_the_photo_says_is_marked_in_it(chromium: Browser, tmp_path: Path, flag: Path) -> None:
    with served(tmp_path, generator=FakeQuoter()) as world:
        chromium.get(world.url)
        turn = ask(chromium, flag, "What does it say?")
        assert part(turn, "answer").text == "SALE\ntoday\nread on your photo, 85% sure"
        photo, *boxes = part(turn, "read").find_elements("css selector", "img, i")
        assert [box.get_attribute("title") for box in boxes] == ["SALE", "today"]
        left, width = (photo.rect[side] for side in ("x", "width"))
        assert boxes[0].rect["x"] == pytest.approx(left + width / 4, abs=1)
        assert boxes[0].rect["width"] == pytest.approx(width / 2, abs=1)
        assert not part(turn, "entity").is_displayed() and not part(turn, "evidence").is_displayed()
        screenshot(chromium, "quote")


def test_images_of_the_section(chromium: Browser, tmp_path: Path, flag: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored, lost = ("red.png", 3, "The treaty"), ("https://kb.example/a/lost.jpg", 3, "")
    shown = stored, lost, ("pics/old%.png", 3, ""), *[("red.png", 3, "")] * 6
    red = replace(lands.LANDS[0], images=tuple(ArticleImage(*image) for image in shown))
    monkeypatch.setattr(lands, "LANDS", (red, *lands.LANDS[1:]))
    with served(tmp_path) as world:
        chromium.get(world.url)
        turn = ask(chromium, flag, WHEN)
        best = part(turn, "evidence").find_element("class name", "passage")
        first, second, third, *more = best.find_elements("tag name", "figure")
        image = first.find_element("tag name", "img")
        wait(chromium, lambda: image.get_property("naturalWidth") == 400)
        assert first.text == image.get_attribute("alt").join(["Picture 1: ", ""]) == "Picture 1: The treaty"
        assert second.text == "Picture 2: lost.jpg kb.example/a/lost.jpg" and third.text == "Picture 3: old%.png"
        assert second.find_element("tag name", "a").get_attribute("href") == "https://kb.example/a/lost.jpg"
        assert [figure.text for figure in more] == [f"Picture {number}" for number in range(4, 10)]
        assert chromium.execute_script("return document.body.scrollWidth <= document.body.clientWidth")
        assert violations(chromium) == []
        screenshot(chromium, "section-images")


def test_a_photo_that_the_browser_cannot_show(page: Browser, tmp_path: Path) -> None:
    """Chromium decodes no HEIC; the service does."""
    pillow_heif.register_heif_opener()
    path = tmp_path / "IMG 1.heic"
    path.write_bytes(image_bytes("red", format="HEIF"))
    turn = ask(page, path, WHEN)
    assert part(turn, "entity").text.startswith("Redland")
    hint = "This browser cannot show it. You can ask about it all the same."
    assert by_id(page, "drop-text").text == f"IMG 1.heic\n{hint}"


def test_errors(page: Browser, tmp_path: Path) -> None:
    error = by_id(page, "error")
    path = tmp_path / "letter.png"
    path.write_text("Dear reader", encoding="utf-8")
    by_id(page, "file").send_keys(str(path))
    assert not error.is_displayed()
    by_id(page, "ask").click()
    assert error.text == "Type a question first."
    turn = ask(page, None, "When?")
    alert = part(turn, "error")
    assert "not an image" in alert.text and alert.get_attribute("role") == "alert"
    assert not part(turn, "evidence").is_displayed() and not error.is_displayed()


def test_a_question_without_a_photo(page: Browser, flag: Path) -> None:
    """Before one is chosen, and after it is taken away; also as kept over a reload."""
    turn = ask(page, None, "When was the treaty of Redland?")
    assert part(turn, "reply").text == "1848" and part(turn, "entity").text.startswith("Redland")
    assert "image=" not in opened(page, turn, "curl").text
    why = opened(page, turn, "why").text
    assert "Which entity is it about?" in why and "look like it" not in why
    assert not by_id(page, "remove").is_displayed()
    by_id(page, "file").send_keys(str(flag))
    by_id(page, "remove").click()
    assert not by_id(page, "preview").is_displayed() and by_id(page, "drop-text").is_displayed()
    assert part(ask(page, None, "When was the treaty of Greenland?", 2), "entity").text.startswith("Greenland")
    page.refresh()
    wait(page, lambda: len(turns(page)) == 2)
    assert all("image=" not in opened(page, turn, "curl").text for turn in turns(page))


def test_the_address_limits_what_is_found(chromium: Browser, world: World) -> None:
    """Each `filter` of the page's address is sent; this index has no fields."""
    chromium.get(f"{world.url}/?filter=category=bird&filter=category=a%3Db&filter=year=1999")
    box = by_id(chromium, "question")
    assert box.get_attribute("placeholder") == "What would you like to know? (category=bird) (category=a=b) (year=1999)"
    box.send_keys("When was the treaty?\n")
    wait(chromium, lambda: "this index has no fields" in by_id(chromium, "history").text)
    sent = chromium.find_element("css selector", ".curl code").get_attribute("textContent")
    assert '"filter":{"category":["bird","a=b"],"year":["1999"]}' in str(sent)


def test_curl_names_no_key(chromium: Browser, tmp_path: Path, flag: Path) -> None:
    with served(tmp_path, ServingSettings(read_keys=(digest_of("omgm-reader"),))) as world:
        chromium.get(world.url)
        wait(chromium, lambda: by_id(chromium, "key").is_displayed())
        by_id(chromium, "key").send_keys("omgm-reader")
        command = opened(chromium, ask(chromium, flag, WHEN), "curl").text
        assert '-H "Authorization: Bearer $OMGM_KEY"' in command and "omgm-reader" not in command
        chromium.execute_script("sessionStorage.clear()")
        chromium.get_log("browser")  # discards Chromium's log of requests refused before the key was entered


def test_a_file_that_changes(page: Browser, flag: Path) -> None:
    os.utime(flag, (1e9, 1e9))
    by_id(page, "file").send_keys(str(flag))
    flag.write_bytes(image_bytes("green"))
    turn = ask(page, None, WHEN)
    assert part(turn, "error").text == "The photo can no longer be read. Choose it again."
    assert part(ask(page, flag, WHEN, 2), "entity").text.startswith("Greenland")
    page.get_log("browser")  # Chromium logs the changed file


def test_a_reload_keeps_the_question_and_the_answers(page: Browser, flag: Path) -> None:
    ask(page, flag, WHEN)
    ask(page, None, "Who signed it?", 2)
    by_id(page, "question").clear()
    by_id(page, "question").send_keys("And where?")
    before = [turn.text.replace("Copy", "") for turn in turns(page)]
    page.refresh()
    wait(page, lambda: len(turns(page)) == 2)
    assert [turn.text.replace("Copy", "") for turn in turns(page)] == before
    assert by_id(page, "question").get_attribute("value") == "And where?"
    assert part(turns(page)[0], "asked").find_element("tag name", "img").get_attribute("src").startswith("data:image/")
    assert part(ask(page, flag, WHEN, 3), "entity").text.startswith("Redland")
    page.execute_script("sessionStorage.clear()")


@pytest.mark.slow
def test_the_page_says_what_failed(chromium: Browser, tmp_path: Path, flag: Path) -> None:
    """A proxy in front of the service answers with pages of its own; photographs are shrunk below its limit of 1 MB."""
    world, lengths, answers = World(tmp_path), list[int](), [413, 502, 504, 200]
    pages = {413: "413 Request Entity Too Large", 502: "502 Bad Gateway", 504: "504 Gateway Time-out", 200: "Sign in"}

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/answer" or not answers:
            await world.app(scope, receive, send)
            return
        lengths.append(int(dict(scope["headers"])[b"content-length"]))
        while (await receive()).get("more_body"):
            pass
        status = answers.pop(0)
        body = f"<html><head><title>{pages[status]}</title></head></html>".encode()
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": body})

    large = tmp_path / "large.png"
    Image.effect_noise((1600, 1200), 90).convert("RGB").save(large)
    assert large.stat().st_size > 1_500_000
    said = []
    with listening(proxy) as url:
        opened_anew(chromium, url)
        for count in range(1, 5):
            said.append(part(ask(chromium, large if count == 1 else None, WHEN, count), "error").text)
        gone = tmp_path / "gone.png"
        gone.write_bytes(flag.read_bytes())
        by_id(chromium, "file").send_keys(str(gone))
        gone.unlink()
        said.append(part(ask(chromium, None, WHEN, 5), "error").text)
        drop = "const e = new DragEvent('drop', {dataTransfer: new DataTransfer(), cancelable: true});"
        chromium.execute_script(
            f"{drop} Object.defineProperty(e, 'dataTransfer', {{value: {{types: ['Files'], files: [new File([], 'f')], "
            "items: [{webkitGetAsEntry: () => ({isDirectory: true})}]}}); document.dispatchEvent(e);"
        )
        assert by_id(chromium, "error").text == "This is a folder. Drop photos."
    by_id(chromium, "file").send_keys(str(flag))
    said.append(part(ask(chromium, None, WHEN, 6), "error").text)
    assert said == [
        "The photo is too large for a proxy in front of the service (413 Request Entity Too Large).",
        "A proxy in front of the service cannot reach it (502 Bad Gateway).",
        "A proxy in front of the service did not wait for its answer (504 Gateway Time-out).",
        "Not the service has answered, but something in front of it (Sign in).",
        "The photo can no longer be read. Choose it again.",
        "The service cannot be reached. Is it still running?",
    ]
    assert max(lengths) < 1_000_000
    chromium.execute_script("sessionStorage.clear()")
    chromium.get_log("browser")


def test_example(page: Browser) -> None:
    wait(page, lambda: by_id(page, "examples").is_displayed())
    by_id(page, "examples").find_element("tag name", "button").click()
    wait(page, lambda: turns(page) and turns(page)[0].get_attribute("aria-busy") == "false")
    assert by_id(page, "question").get_attribute("value") == WHEN
    assert part(turns(page)[0], "entity").text.startswith("Greenland")


@pytest.mark.slow
def test_under_a_path_of_a_proxy(chromium: Browser, tmp_path: Path, flag: Path) -> None:
    """The proxy strips its path prefix, as nginx does with a trailing slash in `proxy_pass`."""
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "g.jpg").write_bytes(image_bytes("green", format="JPEG"))
    (tmp_path / "test.csv").write_text("question,dataset_image_ids\nWhen was the treaty?,g\n", encoding="utf-8")
    world = World(tmp_path, ServingSettings(examples_dir=tmp_path))

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not scope["path"].startswith("/omgm/"):
            scope = {**scope, "path": "/nothing"}
        elif scope["type"] == "http":
            scope = {**scope, "path": scope["path"].removeprefix("/omgm")}
        await world.app(scope, receive, send)

    with listening(proxy) as url:
        chromium.get(f"{url}/omgm/")
        wait(chromium, lambda: by_id(chromium, "examples").is_displayed())
        turn = ask(chromium, flag, WHEN)
        opened(chromium, turn, "why")
        loaded = "return [...document.images].every(i => !i.checkVisibility() || i.naturalWidth)"
        wait(chromium, lambda: chromium.execute_script(loaded))
        assert f"curl -N {url}/omgm/answer" in part(turn, "curl").get_attribute("textContent")
        chromium.get(f"{url}/omgm/docs")
        assert '"name": "three lands"' in tried_out(chromium, "[id$=info_info_get]")


@pytest.mark.parametrize("way", ["drop", "paste"])
def test_drop_and_paste(page: Browser, way: str) -> None:
    data = list(image_bytes("green"))
    event = "DragEvent('drop', {dataTransfer: carrier, bubbles: true})"
    if way == "paste":
        event = "ClipboardEvent('paste', {clipboardData: carrier, bubbles: true})"
    script = f"""
        const carrier = new DataTransfer();
        carrier.items.add(new File([new Uint8Array({json.dumps(data)})], "{way}.png", {{type: "image/png"}}));
        document.getElementById("question").dispatchEvent(new {event});
    """
    page.execute_script(script)
    assert by_id(page, "preview").get_attribute("alt") == f"Your photo: {way}.png"
    assert part(ask(page, None, WHEN), "entity").text.startswith("Greenland")


@pytest.mark.parametrize(
    ("kind", "content", "told"),
    [
        ("text/uri-list", "https://example.org/photo.jpg", "This is an address, not a photo."),
        ("text/html", '<p><img src="https://example.org/photo.jpg"></p>', "This is an address, not a photo."),
        ("text/html", "<b>bold</b>", "There is no photo in this."),
        ("text/plain", "file:///home/me/photo.jpg", "This is an address, not a photo."),
        ("text/html", f'<img alt="a" src="{data_uri(image_bytes("green"))}">', ""),
        ("text/uri-list", "# a comment\r\n{page}examples/g", ""),
        ("text/html", '<img src="{page}examples/g">', ""),
        ("text/uri-list", "{page}info", "This is an address, not a photo."),
    ],
)
def test_what_another_page_hands_over(page: Browser, kind: str, content: str, told: str) -> None:
    """A photo that is in it or is the service's own is taken; all else is refused, and this page stays."""
    script = """
        const carrier = new DataTransfer();
        carrier.setData(arguments[0], arguments[1].replace("{page}", location.href));
        const event = new DragEvent("drop", {dataTransfer: carrier, bubbles: true, cancelable: true});
        return !document.body.dispatchEvent(event);
    """
    assert page.execute_script(script, kind, content)  # so that the browser does not go there
    if told:
        wait(page, lambda: told in by_id(page, "error").text)
    else:
        wait(page, lambda: by_id(page, "preview").is_displayed())
        assert part(ask(page, None, WHEN), "entity").text.startswith("Greenland")


def test_text_can_be_dropped_into_the_question(page: Browser) -> None:
    script = """
        const carrier = new DataTransfer();
        carrier.setData("text/plain", "When?");
        const event = new DragEvent("drop", {dataTransfer: carrier, bubbles: true, cancelable: true});
        return document.getElementById("question").dispatchEvent(event);
    """
    assert page.execute_script(script) and not by_id(page, "error").text


def test_keyboard(page: Browser) -> None:
    """Tab reaches everything in reading order; everything has a name for screen readers."""
    wait(page, lambda: by_id(page, "mode-line").is_displayed() and by_id(page, "examples").is_displayed())
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install -e .[dev]")
    page.find_element("tag name", "h1").click()
    reached = []
    for _ in range(7):
        webdriver.ActionChains(page).send_keys(webdriver.Keys.TAB).perform()
        reached.append(page.switch_to.active_element.get_attribute("id") or page.switch_to.active_element.tag_name)
    assert reached == ["file", "shoot", "question", "ask", "mode", "button", "a"]
    unnamed = page.execute_script(
        "return [...document.querySelectorAll('button, input, textarea, select')].filter("
        "e => !(e.labels?.length || e.textContent.trim() || e.ariaLabel)).map(e => e.outerHTML)"
    )
    assert unnamed == []


@pytest.mark.slow
def test_axe_finds_nothing(page: Browser, flag: Path) -> None:
    """The page with an answer and its reasons, an agent's steps, and an error; no horizontal scrolling on a phone."""
    try:
        emulate(page)
        assert violations(page) == []
        turn = ask(page, flag, WHEN)
        opened(page, turn, "why")
        opened(page, turn, "curl")
        choose(page, "auto")
        turn = ask(page, None, "What is the wave length of green?", 2)
        part(turn, "trail").find_element("tag name", "details").find_element("tag name", "summary").click()
        by_id(page, "question").clear()
        by_id(page, "ask").click()
        for name, phone, dark in (("desktop", False, False), ("dark", False, True), ("phone", True, False)):
            emulate(page, phone, dark)
            assert violations(page) == [], name
            assert page.execute_script("return document.documentElement.scrollWidth - innerWidth") <= 0
            screenshot(page, name)
    finally:
        emulate(page)


def tried_out(page: Browser, operation: str, file: Path | None = None) -> str:
    """Sends a request from `/docs` with its proposed values; returns the response, which must be successful."""

    def found(selector: str) -> Any:
        wait(page, lambda: page.find_elements("css selector", f"{operation} {selector}"))
        return page.find_elements("css selector", f"{operation} {selector}")[-1]

    found(".opblock-summary-control").click()
    found(".try-out__btn").click()
    if file is not None:
        found("input[type=file]").send_keys(str(file))
    found("button.execute").click()
    assert found(".live-responses-table .response-col_status").text.startswith("200")
    text: str = found(".live-responses-table .response-col_description").text
    return text


@pytest.mark.slow
def test_documentation(page: Browser, world: World, tmp_path: Path) -> None:
    """The API documentation works without other hosts, including sending a request from it."""
    path = tmp_path / "flag.png"
    path.write_bytes(image_bytes("green"))
    page.get(f"{world.url}/docs")
    paths = httpx.get(f"{world.url}/openapi.json", timeout=60).json()["paths"]
    shown = sum(len(methods) for methods in paths.values())
    wait(page, lambda: len(page.find_elements("class name", "opblock")) == shown)
    assert '"title": "Greenland"' in tried_out(page, "[id$=answer_answer_post]", path)
    loaded = page.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in loaded if not name.startswith((world.url, "data:", "blob:"))] == []
    screenshot(page, "docs")
