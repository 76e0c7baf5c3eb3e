"""The demo's data, written from the file that this package carries; `pretraining/demo` drew and packed it."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile
from zlib import crc32

ARCHIVE = Path(__file__).with_suffix(".zip")
EXAMPLES = "examples.csv"
DRAWN = "complete.json"
"""Says that a folder has all photographs of all splits, which `python -m pretraining.demo.build` draws."""


def write_demo(folder: Path) -> None:
    """Writes the demo to `folder`: articles about flags and dishes, their images, and questions with photographs.

    The files are those of `python -m pretraining.demo.build`, except most photographs: only those of `examples.csv` and
    the first of each flag are here. A file that already has the right content is left alone.

    Args:
        folder: Created if it does not exist.
    """
    with ZipFile(ARCHIVE) as archive:
        for member in archive.infolist():
            file = folder / member.filename
            if file.is_file() and crc32(file.read_bytes()) == member.CRC:
                continue
            (folder / DRAWN).unlink(missing_ok=True)  # something that it vouches for is missing or different
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(archive.read(member))
