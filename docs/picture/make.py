"""Makes the README's pictures from the running service: `python -m docs.picture.make` (needs Chromium and its driver).

Writes ten notes about teas, serves them, asks about photographs of two tins in a real browser, and saves docs/demo.gif
(the page on a computer) and docs/phone.png (the page on a phone).
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from docs.picture.shelf import QUESTIONS, TEAS, photograph, write_notes
from omgm.commands.demo import omgm, wait_until_ready
from tests.browser import by_id, started, wait

SIZE = (980, 660)
PHONE = (390, 844)
LARGEST = 2_000_000
"""Largest size of the moving picture, in bytes."""
Frames = list[tuple[Image.Image, int]]
"""Images, each with the time in ms for which it is shown."""


def shot(page: Any, folder: Path) -> Image.Image:
    """Returns a screenshot of the page as it is."""
    page.save_screenshot(str(folder / "shot.png"))
    return Image.open(folder / "shot.png").convert("RGB")


def sized(page: Any, size: tuple[int, int]) -> None:
    """Gives the page exactly this size, whatever the window's frame takes."""
    page.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def dragged(photo: Image.Image, idle: Image.Image, over: Image.Image, target: dict[str, int]) -> Frames:
    """Returns frames in which the photograph is dragged onto the page."""
    small = photo.resize((168, 126))
    end = (target["x"] + target["width"] // 2 - 84, target["y"] + target["height"] // 2 - 63)
    start = (SIZE[0] - 230, SIZE[1] - 150)
    frames = []
    for step in range(9):
        part = step / 8
        place = [round(a + (b - a) * part) for a, b in zip(start, end, strict=True)]
        frame = (over if part > 0.7 else idle).copy()
        frame.paste("#c9c5bb", (place[0] - 2, place[1] - 2, place[0] + 170, place[1] + 128))
        frame.paste(small, (place[0], place[1]))
        x, y = place[0] + 120, place[1] + 90
        corners = ((0, 0), (0, 24), (6, 18), (11, 28), (15, 26), (10, 16), (18, 16))
        arrow = [(x + right, y + down) for right, down in corners]
        ImageDraw.Draw(frame).polygon(arrow, fill="#111", outline="#fff")
        frames.append((frame, 500 if step == 0 else 90))
    return frames


def asked(page: Any, folder: Path, question: str) -> Frames:
    """Types a question and asks it; returns the frames until its answer stands marked in its section."""
    field = by_id(page, "question")
    field.clear()
    frames = []
    for start in range(0, len(question), 4):
        field.send_keys(question[start : start + 4])
        frames.append((shot(page, folder), 110))
    by_id(page, "ask").click()
    frames.append((shot(page, folder), 250))
    wait(page, lambda: page.find_elements("css selector", ".turn:first-child[aria-busy=false] mark"))
    frames.append((shot(page, folder), 3800))
    return frames


def saved(frames: Frames, path: Path) -> None:
    """Writes the frames as a GIF with one palette.

    Raises:
        ValueError: The file is larger than `LARGEST`.
    """
    tiles = Image.new("RGB", (SIZE[0], SIZE[1] * 3))
    for number, index in enumerate((0, 4, -1)):
        tiles.paste(frames[index][0], (0, SIZE[1] * number))
    palette = tiles.quantize(200, Image.Quantize.MEDIANCUT)
    images = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image, _ in frames]
    times = [time for _, time in frames]
    images[0].save(path, save_all=True, append_images=images[1:], duration=times, loop=0, optimize=True)
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path}: {path.stat().st_size} bytes, more than {LARGEST}; show fewer frames")


def main() -> None:
    """Makes both pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--out", type=Path, default=Path("docs"), help="the folder for the pictures (%(default)s)")
    out = parser.parse_args().out.resolve()
    with tempfile.TemporaryDirectory() as name, socket.socket() as free:
        folder = Path(name)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        write_notes(folder / "notes")
        photos = [folder / "tin.jpg", folder / "other-tin.jpg"]
        for tea, path in zip((TEAS[0], TEAS[2]), photos, strict=True):
            photograph(tea).save(path, quality=90)
        service = subprocess.Popen(omgm("serve", "--kb", folder / "notes", "--port", port), stdout=sys.stderr)
        try:
            wait_until_ready(f"http://127.0.0.1:{port}", service)
            with contextmanager(started)(folder / "browser") as page:
                page.get(f"http://127.0.0.1:{port}/")
                wait(page, lambda: by_id(page, "about").text)
                record(page, photos, folder, out)
        finally:
            service.terminate()
            service.wait(timeout=60)


def record(page: Any, photos: list[Path], folder: Path, out: Path) -> None:
    """Asks in the browser and writes the pictures."""
    sized(page, SIZE)
    idle = shot(page, folder)
    page.execute_script("document.getElementById('drop').classList.add('over')")
    over = shot(page, folder)
    page.execute_script("document.getElementById('drop').classList.remove('over')")
    frames = dragged(Image.open(photos[0]), idle, over, by_id(page, "drop").rect)
    by_id(page, "file").send_keys(str(photos[0]))
    wait(page, lambda: by_id(page, "preview").is_displayed())
    frames.append((shot(page, folder), 700))
    for question in QUESTIONS:
        frames += asked(page, folder, question)
    saved(frames, out / "demo.gif")
    sized(page, PHONE)
    by_id(page, "file").send_keys(str(photos[1]))
    asked(page, folder, QUESTIONS[0])
    page.execute_script("document.querySelector('#drop').scrollIntoView(); scrollBy(0, -20)")
    shot(page, folder).save(out / "phone.png", optimize=True)


if __name__ == "__main__":
    main()
