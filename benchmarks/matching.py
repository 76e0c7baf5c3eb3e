"""Measures how long it takes to find out which image files belong to which entities, and how much memory.

    python benchmarks/matching.py --entities 1000000

Makes up entities and three file names for each, in folders of 3,000, and matches them in one pass.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from indexes.entity_keys import EntityKeys
from indexes.file_names import FileNames
from indexes.image_rules import match_files
from retriever.types import Entity

_WORDS = ("red", "blue", "green", "dark", "pale", "river", "stone", "wood", "field", "night")
_VIEWS = ("", "-2", "_front")


def _name(number: int) -> str:
    return f"{_WORDS[number % 10]}-{_WORDS[number // 10 % 10]}-fox-{number:07d}"


def measure(entities: int) -> dict[str, object]:
    """Returns the seconds, the peak memory, and how many files were matched by which rules."""
    start, cpu = time.monotonic(), time.process_time()
    names = FileNames(
        f"photos/{number // 1000:03d}/{_name(number)}{view}.jpg" for number in range(entities) for view in _VIEWS
    )
    keys = EntityKeys()
    for number in range(entities):
        fields = (("sku", f"A{number}"),)
        keys.add(Entity(_name(number), f"Fox number {number} of the river", (), named_after=fields), True)
    found = match_files(names, keys, np.zeros(len(names), bool))
    return {
        "entities": entities,
        "files": len(names),
        "matched": int((found.owners >= 0).sum()),
        "rules": [rule.pattern for rule in found.rules if rule.used],
        "seconds": round(time.monotonic() - start, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    """Measures and prints the findings as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--entities", type=int, default=1_000_000)
    print(json.dumps(measure(parser.parse_args().entities), indent=1))


if __name__ == "__main__":
    main()
