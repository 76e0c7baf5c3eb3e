"""Measures what look-ahead gains in a build, compared with doing one thing at a time, and the encoder's idle time.

    python benchmarks/pipeline.py --entities 400 --out artifacts/pipeline.json

`serial`: a profile's models build an index of drawn images (JPEG, 1024 x 768, the drawings of `updates.py`),
alternately as `build_index` does and without any look-ahead: one image is read after another, then the batch is
encoded, then its result is written. Both indexes must be identical byte for byte. A third build also encodes the
sections of one entity at a time, as `build_index` once did; its tokens may differ in the last bits.

`busy`: the knowledge base of `scale.py` and models that sleep for 20 ms per batch, standing in for a GPU. `busy` is the
share of the two model stages' time during which a model works, `busy_all` that share of the whole build.

`before`: the knowledge base of `serial`, built alternately by the code of an older commit in another folder and by the
current code, each with its own profile and weights. Models are loaded before the clock starts.

    git archive COMMIT | tar x -C OLD
    python benchmarks/pipeline.py --parts before --before OLD --entities 200 --rounds 3
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from PIL import Image

from benchmarks.ingestion import FreeModels, write_knowledge_base
from benchmarks.meter import Meter
from benchmarks.scale import STAGES
from benchmarks.updates import article, drawn
from indexes import build as building
from indexes.workers import LocalWorkers, ModelName, R, Work
from omgm.parts import build_encoder, build_fusion, build_summarizer
from omgm.profile import load_profile
from retriever.files import write_json
from retriever.protocols import FusionEncoder

BATCH_S = 0.02
ROOT = Path(__file__).resolve().parents[1]
TIMED = """
import json, sys, time
from pathlib import Path
from omgm import parts
from omgm.profile import load_profile
try:
    from omgm.indexing import build
except ModuleNotFoundError:  # in commits before this module existed
    from omgm.parts import build
profile, (kb, images, out) = load_profile(sys.argv[1]), map(Path, sys.argv[2:])
models = {"encoder": parts.build_encoder(profile), "fusion": parts.build_fusion(profile)}
models["summarizer"] = parts.build_summarizer(profile)
wall, processor = time.perf_counter(), time.process_time()
build(profile, kb, out, images=images, progress=False, **models)
print(json.dumps([time.perf_counter() - wall, time.process_time() - processor]))
"""


class SerialWorkers(LocalWorkers):
    """Does one thing at a time."""

    def run(
        self, make: Callable[..., Work[R]], models: Sequence[ModelName], batches: Sequence[range]
    ) -> Generator[R, None, None]:
        """Yields the result of each batch."""
        work = make(**{name: getattr(self, name) for name in models})
        for rows in batches:
            yield work.encode([work.read(row) for row in rows])


class OneByOne:
    """A fusion encoder that gets one image at a time."""

    def __init__(self, fusion: FusionEncoder) -> None:
        self._fusion = fusion
        self.token_shape, self.fingerprint, self.encode = fusion.token_shape, fusion.fingerprint, fusion.encode

    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> torch.Tensor:
        """Returns the tokens of all sections."""
        pairs = zip(images, texts, strict=True)
        return torch.cat([self._fusion.encode_sections([image], [own]) for image, own in pairs])


class SleepingModels(FreeModels):
    """Models that take 20 ms per batch without using a CPU, and record how long they worked."""

    def __init__(self) -> None:
        self.seconds, self.calls = 0.0, 0

    def _work(self) -> None:
        started = time.perf_counter()
        time.sleep(BATCH_S)
        self.seconds += time.perf_counter() - started
        self.calls += 1

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        """Returns the vectors."""
        self._work()
        return torch.full((len(texts), self.dimension), self.dimension**-0.5)

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Returns the vectors."""
        self._work()
        return torch.full((len(images), self.dimension), self.dimension**-0.5)

    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> torch.Tensor:
        """Returns the tokens."""
        self._work()
        return super().encode_sections(images, texts)


def measured(kb: Path, images: Path, out: Path, **options: Any) -> Meter:
    """Builds an index and returns the time and memory of its stages."""
    meter = Meter()
    shutil.rmtree(out, ignore_errors=True)
    with ExitStack() as patches:
        for function, name in STAGES.items():
            patches.enter_context(mock.patch.object(building, function, meter.around(vars(building)[function], name)))
        with meter.stage("all"):
            building.build_index(kb, images, out, progress=False, **options)
    return meter


def files_of(index: Path) -> dict[str, bytes]:
    """Returns the content of every file of an index."""
    return {path.relative_to(index).as_posix(): path.read_bytes() for path in index.rglob("*") if path.is_file()}


def write_drawings(entities: int, folder: Path) -> tuple[Path, Path]:
    """Writes a knowledge base of 1024 x 768 drawings; returns its file and the folder of its images."""
    images, lines = folder / "images", list[str]()
    images.mkdir(parents=True)
    for number in range(entities):
        drawn(number).resize((1024, 768)).save(images / f"{number}.jpg")
        lines.append(json.dumps({"id": f"{number}", "image": f"{number}.jpg", **article(number)}) + "\n")
    kb = folder / "kb.jsonl"
    kb.write_text("".join(lines))
    return kb, images


def measure_before(entities: int, rounds: int, profile_name: str, folder: Path, before: Path) -> dict[str, Any]:
    """Builds the same knowledge base alternately with the code in two folders; returns seconds by folder."""
    kb, images = write_drawings(entities, folder)
    seconds: dict[str, list[tuple[float, float]]] = {"before": [], "now": []}
    for number in range(rounds):
        for way, tree in (("before", before), ("now", ROOT)):
            command: list[str | Path] = [
                sys.executable,
                "-c",
                TIMED,
                profile_name,
                kb,
                images,
                folder / f"{way}-{number}",
            ]
            done = subprocess.run(
                command,
                cwd=tree,
                env=os.environ | {"PYTHONPATH": str(tree)},
                check=True,
                capture_output=True,
                text=True,
            )
            seconds[way].append(tuple(json.loads(done.stdout.splitlines()[-1])))
    ratios = [[old / new for old, new in zip(*pair, strict=True)] for pair in zip(*seconds.values(), strict=True)]
    return {
        "entities": entities,
        "profile": profile_name,
        "wall_and_processor_s": {
            way: [[round(one, 2) for one in run] for run in runs] for way, runs in seconds.items()
        },
        "wall_ratio_p50": round(statistics.median(wall for wall, _ in ratios), 2),
        "processor_ratio_p50": round(statistics.median(processor for _, processor in ratios), 2),
    }


def measure_serial(entities: int, rounds: int, profile_name: str, folder: Path) -> dict[str, Any]:
    """Builds the same index in three ways, in turns."""
    profile = load_profile(profile_name)
    kb, images = write_drawings(entities, folder)
    encoder, fusion = build_encoder(profile), build_fusion(profile)
    options: dict[str, Any] = {"summarizer": build_summarizer(profile), "encoder": encoder, "fusion": fusion}
    options |= {"candidates": profile.search.candidates, "tokens": profile.fusion.tokens}
    ways: dict[str, dict[str, Any]] = {
        "ahead": options,
        "serial": options | {"workers": SerialWorkers},
        "one_by_one": options | {"workers": SerialWorkers, "fusion": OneByOne(fusion)},
    }
    seconds: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, settings in ways.items():
            seconds[way].append(measured(kb, images, folder / way, **settings).seconds)
    best = {way: min(runs, key=lambda run: run["all"]) for way, runs in seconds.items()}
    return {
        "entities": entities,
        "profile": profile_name,
        "build_s": best,
        "speedup_over_serial": round(best["serial"]["all"] / best["ahead"]["all"], 2),
        "speedup_over_one_by_one": round(best["one_by_one"]["all"] / best["ahead"]["all"], 2),
        "same_bytes": files_of(folder / "ahead") == files_of(folder / "serial"),
    }


def measure_busy(entities: int, folder: Path) -> dict[str, Any]:
    """Builds an index with models that sleep, with and without look-ahead."""
    kb, images = write_knowledge_base(folder, entities, (2, 7))
    found: dict[str, Any] = {"entities": entities, "batch_ms": 1000 * BATCH_S}
    for way, workers in (("ahead", LocalWorkers), ("serial", SerialWorkers)):
        models = SleepingModels()
        options = {"summarizer": models, "encoder": models, "fusion": models, "candidates": "combined"}
        seconds = measured(kb, images, folder / way, workers=workers, **options).seconds
        encoding = seconds["images"] + seconds["keys"]
        found[way] = {
            "batches": models.calls,
            "build_s": seconds,
            "busy": round(models.seconds / encoding, 3),
            "busy_all": round(models.seconds / seconds["all"], 3),
        }
    return found


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the benchmark and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=["serial", "busy", "before"], default=["serial", "busy"])
    parser.add_argument("--entities", type=int, default=400, metavar="N", help="of `serial` (%(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=2, metavar="N", help="of `serial`; the fastest counts (%(default)s)"
    )
    parser.add_argument("--profile", default="embedded", metavar="P", help="of `serial` (%(default)s)")
    parser.add_argument("--before", type=Path, metavar="DIR", help="the older code of `before`")
    parser.add_argument("--busy-entities", type=int, default=5000, metavar="N", help="of `busy` (%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the report as JSON")
    args = parser.parse_args(argv)
    if ("before" in args.parts) != (args.before is not None):
        parser.error("--parts before and --before belong together")
    report: dict[str, Any] = {"cores": os.cpu_count(), "threads": torch.get_num_threads()}
    with tempfile.TemporaryDirectory(prefix="pipeline-") as folder:
        if "busy" in args.parts:
            report["busy"] = measure_busy(args.busy_entities, Path(folder) / "busy")
        if "serial" in args.parts:
            report["serial"] = measure_serial(args.entities, args.rounds, args.profile, Path(folder) / "serial")
        if "before" in args.parts:
            found = measure_before(
                args.entities, args.rounds, args.profile, Path(folder) / "before", args.before.resolve()
            )
            report["before"] = found
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(args.out, report)
    print(json.dumps(report, indent=2))
    return report


if __name__ == "__main__":
    main()
