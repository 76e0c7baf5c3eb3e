"""Libraries that report their use to their makers do not do so from here."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NAMES = ("ORT_DISABLE_TELEMETRY", "RAY_USAGE_STATS_ENABLED")


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [None, "as the user says"])
def test_reports_are_off_before_a_library_is_loaded(chosen: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    environment |= dict.fromkeys(NAMES, chosen) if chosen else {}
    code = (
        "import os, sys, evaluation.bem, retriever.models.ocr, search_agents.tools.images\n"
        "assert not {'onnxruntime', 'ray'} & sys.modules.keys()\n"
        f"print(*map(os.environ.get, {NAMES}), sep='|')"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (f"{chosen}|{chosen}" if chosen else "1|0")
