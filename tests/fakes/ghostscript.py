"""A PostScript drawing, and a stand-in for Ghostscript that reveals whether it was started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from PIL import EpsImagePlugin

EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 40 30
%%EndComments
1 0 0 setrgbcolor 0 0 40 30 rectfill showpage
%%EOF
"""


def install_trap(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts the program first on PATH; returns a file that exists once the program has been started."""
    started = folder / "started"
    folder.mkdir(exist_ok=True)
    program = folder / "gs"
    program.write_text(f"#!{sys.executable}\nopen({str(started)!r}, 'w')\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    return started
