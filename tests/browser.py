"""A headless Chromium for tests of web pages; without one, only the tests that use it are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Browser = Any
"""Selenium's driver; the package is optional."""

_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --no-proxy-server --window-size=1200,900 "
    "--use-fake-device-for-media-stream --use-fake-ui-for-media-stream"
)


def started(profile: Path) -> Iterator[Browser]:
    """Yields a browser with a fresh profile; skips the test if Chromium or selenium is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install -e .[dev]")
    chromium, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver_path):
        pytest.skip("Chromium is not installed: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in [*_FLAGS.split(), f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_path))
    yield driver
    driver.quit()


def opened_anew(page: Browser, url: str) -> None:
    """Opens a page as if for the first time: without what its session has stored."""
    clearing = page.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": "sessionStorage.clear()"})
    page.get(url)
    page.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", clearing)


def by_id(page: Browser, name: str) -> Any:
    """Returns the element with an id."""
    return page.find_element("id", name)


def wait(page: Browser, condition: Callable[[], Any]) -> None:
    """Waits at most 30 seconds until `condition` holds; elements that it reads may be replaced meanwhile."""
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(page, 30, 0.05, [StaleElementReferenceException]).until(lambda _: condition())


def screenshot(page: Browser, name: str) -> None:
    """Saves a screenshot of the page if the variable SCREENSHOTS names a folder."""
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        page.save_screenshot(f"{folder}/{name}.png")
