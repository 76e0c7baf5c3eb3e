"""Measures memory of step 2's training at the paper's scale, and streaming ViT-g-sized features from disk.

    python benchmarks/training_scale.py memory --folder /tmp/scale --out artifacts/training-memory.json
    python benchmarks/training_scale.py stream --folder /tmp/scale --out artifacts/training-stream.json

`memory` makes up a data set of E-VQA's size (191,000 questions, 100,000 articles, 200,000 images), trains a tiny model
on it for one epoch with the real `train_reranker`, and samples resident memory throughout. Texts are truncated to 64
tokens so that an epoch takes less than an hour on two cores; token ids are on disk, so this hardly affects memory.

`stream` writes random features of 20,000 images at ViT-g's size (0.72 MB each, 14.5 GB), drops them from the page cache
if allowed, and feeds batches of 8 questions to a stand-in for the Q-Former that sleeps. For several step times, it
reports the share of time spent waiting for data.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.full_size import TINY, build_fusion
from benchmarks.training_data import DataSizes, write_data
from retriever.files import write_json, write_whole
from training.feeder import Feeder
from training.reranker.batches import BatchMaker, Order
from training.reranker.config import RerankerTrainingConfig
from training.reranker.feature_store import FeatureStore
from training.reranker.image_table import ImageTable
from training.reranker.prepare import TEXTS_NAME, TOKEN_DTYPE, prepare
from training.reranker.rows import Rows
from training.reranker.train import train_reranker

PAPER = DataSizes(questions=191_000, entities=100_000, query_images=100_000, side=64, image_files=200)
STREAM = DataSizes(questions=20_000, entities=12_000, query_images=8_000, side=64, image_files=200)
VIT_G = (257, 1408)


def main() -> None:
    """Runs `memory` or `stream`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["memory", "stream"])
    parser.add_argument("--folder", type=Path, required=True, help="folder of the data")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--questions", type=int, help="fewer questions than the paper's, for a trial")
    parser.add_argument("--epochs", type=float, default=1.0, help="how much of `memory`'s epoch is trained")
    parser.add_argument("--steps", type=int, default=150, help="steps of each step time of `stream`")
    args = parser.parse_args()
    report = memory(args) if args.what == "memory" else stream(args)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_json(args.out, report)
    print(json.dumps({key: value for key, value in report.items() if key != "samples"}, indent=2))


def memory(args: argparse.Namespace) -> dict[str, Any]:
    """Trains an epoch and returns the memory over time."""
    sizes = PAPER if args.questions is None else replace(PAPER, questions=args.questions)
    data = write_data(args.folder / f"paper-{sizes.questions}", sizes)
    torch.manual_seed(0)
    qformer = {**TINY.qformer, "max_position_embeddings": 512}
    build_fusion(replace(TINY, qformer=qformer), "cpu", torch.float32).save(args.folder / "tiny")
    meter = MemorySampler()
    started = time.perf_counter()
    out = args.folder / f"run-{sizes.questions}"
    config = RerankerTrainingConfig(
        recipe="paper",
        epochs=args.epochs,
        max_tokens=64,
        validation_share=0.002,
        validate_every=2000,
        learning_rate=1e-4,
    )
    result = train_reranker(args.folder / "tiny", data, out, config)
    meter.stop()
    trained = [mb for seconds, mb in meter.samples if seconds > meter.samples[-1][0] - result.metrics["seconds"]]
    tenth = max(1, len(trained) // 10)
    return {
        "questions": sizes.questions,
        "epochs": args.epochs,
        "images": sizes.entities + sizes.query_images,
        "articles": sizes.entities,
        "minutes": round((time.perf_counter() - started) / 60, 1),
        "epoch_minutes": round(result.metrics["seconds"] / 60, 1),
        "steps": int(result.metrics["steps"]),
        "peak_rss_mb": max(mb for _, mb in meter.samples),
        "rss_mb_second_tenth_of_epoch": statistics.median(trained[tenth : 2 * tenth] or trained),
        "rss_mb_last_tenth_of_epoch": statistics.median(trained[-tenth:]),
        "disk_gb": round(sum(f.stat().st_size for f in (out / "data").rglob("*") if f.is_file()) / 1e9, 2),
        "samples": meter.samples,
    }


class MemorySampler:
    """Samples the resident memory of this process every two seconds, in MB."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, int]] = []
        self._stopped = threading.Event()
        self._started = time.perf_counter()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        stopped = False
        while not stopped:
            stopped = self._stopped.wait(2)
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            self.samples.append((round(time.perf_counter() - self._started, 1), pages * page // 2**20))

    def stop(self) -> None:
        """Ends sampling."""
        self._stopped.set()
        self._thread.join()


def stream(args: argparse.Namespace) -> dict[str, Any]:
    """Feeds batches with ViT-g-sized features and returns how long the model waits for them."""
    folder = args.folder / "stream"
    data = write_data(folder, STREAM)
    torch.manual_seed(0)
    qformer = {**TINY.qformer, "max_position_embeddings": 512}
    fusion = build_fusion(replace(TINY, qformer=qformer), "cpu", torch.float32)
    prepared = prepare(
        data,
        folder / "data",
        fusion.tokenizer,
        max_tokens=512,
        most_similar=False,
        validation_share=0.0,
        seed=0,
        progress=False,
    )
    store = random_features(folder / "features", prepared.images)
    order = Order(prepared.samples.training, 8, 1, 1, seed=0)
    texts = Rows(folder / "data" / TEXTS_NAME, TOKEN_DTYPE)
    rows = []
    for step_ms in (400, 200, 100, 50):
        dropped = drop_from_cache(store)
        feeder = Feeder(BatchMaker(prepared.samples, texts, store, order, 0, "pooled", 8192, 32, 0))
        feeder(0)
        feeder.waited, read, started = 0.0, 0, time.perf_counter()
        for number in range(1, args.steps + 1):
            read += feeder(number).pairs.features.nbytes
            time.sleep(step_ms / 1000)
        seconds = time.perf_counter() - started
        feeder.close()
        rows.append(
            {
                "step_ms": step_ms,
                "samples_per_s": round(8 * args.steps / seconds, 1),
                "data_wait_share": round(feeder.waited / seconds, 4),
                "gb_per_s": round(read / seconds / 1e9, 2),
                "page_cache_dropped": dropped,
            }
        )
    return {"images": len(store.views), "features_gb": round(store.nbytes / 1e9, 1), "steps": args.steps, "rows": rows}


def random_features(folder: Path, images: ImageTable) -> FeatureStore:
    """Returns a store of random features, writing it unless it exists."""
    store = FeatureStore(folder, np.ones(len(images.names), np.int64), VIT_G)
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    for number, shard in enumerate(store.shards()):
        if not store.path(number).is_file():
            content = generator.integers(0, 2**15, (len(shard), store.row_bytes // 2), dtype=np.int16).tobytes()
            write_whole(store.path(number), content)
    return store


def drop_from_cache(store: FeatureStore) -> bool:
    """Asks the kernel to drop the shards from its page cache; returns whether the system supports this."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for number in range(len(store.shards())):
        file = os.open(store.path(number), os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
    return True


if __name__ == "__main__":
    main()
