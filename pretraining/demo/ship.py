"""Draws what `omgm demo` writes, and packs it: `python -m pretraining.demo.ship`, after any change of this folder."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from omgm.demo import ARCHIVE
from pretraining.demo.build import write_demo


def pack(folder: Path, archive: Path) -> None:
    """Packs the files of a folder, in order and without dates, so that equal files make equal archives."""
    with ZipFile(archive, "w") as packed:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = ZipInfo(file.relative_to(folder).as_posix())
            entry.external_attr = 0o644 << 16
            packed.writestr(entry, file.read_bytes(), ZIP_DEFLATED, compresslevel=9)


def main() -> None:
    """Replaces the archive that is shipped."""
    with TemporaryDirectory() as folder:
        write_demo(Path(folder), examples_only=True)
        pack(Path(folder), ARCHIVE)
    print(f"packed {ARCHIVE}: {ARCHIVE.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
