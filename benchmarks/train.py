"""Compares step 2's training with a plain re-creation of the published loop: samples per second, hours, memory.

    python -m benchmarks.train --out artifacts/bench-train.json                  embedded sizes, on a CPU
    python -m benchmarks.train --size full --device cuda --out ...               BLIP-2's sizes, random weights, one GPU
    python -m benchmarks.train --size tiny --few --out ...                       the same code anywhere, in seconds

Both loops use the same weights, samples, text limit and precision, and take turns in one run.
`benchmarks/published_loop.py` describes the published one.

`samples_per_s` is the trainer's rate once features and token ids are on disk; `hours_191k` is the time of one epoch of
the paper's 191,000 samples at that rate, plus the time to encode 200,000 images and tokenize the articles of 200,000
entities at the rates measured here.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.frame import arguments, default_device, machine, recorder, write_report
from benchmarks.full_size import PAPER, TINY, build_fusion, tokenizer
from benchmarks.published_loop import PublishedLoop, adamw
from benchmarks.training_data import DataSizes, write_data
from pretraining.new_fusion import new_fusion
from retriever.models.pixels import PixelPreparation
from retriever.models.qformer import QFormerFusion
from retriever.models.small_clip import SmallCLIPConfig, SmallVision
from training.batch import Feeder
from training.processes import Processes
from training.reranker.batches import BatchMaker, Order
from training.reranker.data import RerankerData
from training.reranker.features import compute_features
from training.reranker.image_store import FeatureStore, ImageTable
from training.reranker.model import Reranker
from training.reranker.prepare import TEXTS_NAME, TOKEN_DTYPE, prepare
from training.reranker.rows import Rows
from training.reranker.samples import SampleSet

EPOCH, IMAGES, ENTITIES = 191_000, 200_000, 200_000
TOKENS = 8192
FEW_TOKENS = 64
SIZES = DataSizes(questions=2000, entities=3000, query_images=1000, side=1024, image_files=200)
FEW = DataSizes(questions=24, entities=30, query_images=12, side=48, image_files=3)
PEAK_FLOPS = 989e12
"""bfloat16 on an H100 or H200 SXM, without sparsity."""


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = arguments(__doc__, lines=True)
    parser.set_defaults(out=Path("artifacts/bench-train.json"))
    parser.add_argument("--size", choices=["tiny", "embedded", "full"], default="embedded")
    parser.add_argument("--device", default=default_device())
    about = "of both loops; by default bfloat16 beside a GPU and float32 on a CPU, as the trainer's"
    parser.add_argument("--precision", choices=["bfloat16", "float32"], help=about)
    parser.add_argument("--batch", type=int, default=8, metavar="N", help="samples per step (%(default)s)")
    parser.add_argument("--few", action="store_true", help="few questions, small images, short texts: to try the code")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each loop")
    parser.add_argument("--steps", type=int, default=4, help="steps a turn")
    parser.add_argument("--workers", type=int, help="of the published loader; by default 4 beside a GPU, else none")
    parser.add_argument("--folder", type=Path, help="folder of the data; by default a temporary one")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO)
    if args.precision is None:
        args.precision = "bfloat16" if args.device == "cuda" else "float32"
    if args.workers is None:
        args.workers = 4 if args.device == "cuda" else 0
    with tempfile.TemporaryDirectory() as temporary:
        report = run(args, args.folder or Path(temporary))
    report["machine"] = machine()
    write_report(args.out, report)
    print(json.dumps(report, indent=2))


def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measures both loops in turns; returns the report."""
    device = torch.device(args.device)
    record = recorder(args.lines, benchmark="train")
    data = write_data(folder, FEW if args.few else SIZES)
    longest = FEW_TOKENS if args.few else 512
    fusion = build(args.size, device, longest)
    samples, texts, store, rates = prepared(fusion, data, folder, device)
    record({"size": args.size, "precision": args.precision, **rates})
    trainer = Trainer(fusion, samples, texts, store, device, args.precision, args.batch)
    other = build(args.size, device, longest)
    published = PublishedLoop(other, data, samples, device, args.precision, args.workers, args.batch)
    rows: dict[str, list[float]] = {"ours": [], "published": []}
    for loop in (trainer, published):
        loop.step()  # warm-up: buffers, kernels, workers
    for _ in range(args.rounds):
        for name, loop in (("ours", trainer), ("published", published)):
            steps = args.steps * (4 if name == "ours" else 1)
            started = time.perf_counter()
            for _ in range(steps):
                loop.step()
            wait(device)
            rows[name].append(steps * args.batch / (time.perf_counter() - started))
            record({"loop": name, "samples_per_s": rows[name][-1]})
    ours, theirs = (statistics.median(rows[name]) for name in ("ours", "published"))
    preparation = IMAGES / rates["images_per_s"] + ENTITIES / rates["articles_per_s"]
    gpu = device.type == "cuda"
    report = {
        "size": args.size,
        "device": torch.cuda.get_device_name(device) if gpu else f"CPU, {torch.get_num_threads()} threads",
        "precision": args.precision,
        "samples_per_s": round(ours, 2),
        "reference_samples_per_s": round(theirs, 3),
        "ratio": round(ours / theirs, 1),
        "ratios_by_round": [round(a / b, 1) for a, b in zip(rows["ours"], rows["published"], strict=True)],
        "hours_191k": round((EPOCH / ours + preparation) / 3600, 2),
        "hours_191k_preparation": round(preparation / 3600, 2),
        "reference_hours_191k": round(EPOCH / theirs / 3600, 1),
        **{name: round(rate, 1) for name, rate in rates.items()},
        "tokens_per_pair": round(trainer.tokens_per_pair(), 1),
        "max_tokens": fusion.max_text_tokens,
        "data_wait_share": round(trainer.feeder.waited / trainer.seconds, 4),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    if gpu:
        flops = trainer.flops()
        rate = flops * ours / args.batch
        report |= {
            "peak_gpu_gib": round(torch.cuda.max_memory_allocated(device) / 2**30, 1),
            "tflops": round(rate / 1e12, 1),
            "mfu": round(rate / PEAK_FLOPS, 3),
        }
    record(report)
    return report


def build(size: str, device: torch.device, longest: int = 512) -> QFormerFusion:
    """Builds the model with random weights, the same on every call; it reads up to `longest` tokens."""
    torch.manual_seed(0)
    if size == "full":  # a CPU draws a billion weights for a minute
        return build_fusion(PAPER, str(device), torch.float32)
    if size == "tiny":
        qformer = {**TINY.qformer, "max_position_embeddings": longest}
        return build_fusion(replace(TINY, qformer=qformer), str(device), torch.float32)
    config = SmallCLIPConfig()
    pixels = PixelPreparation(config.image_size)
    return new_fusion(SmallVision(config), config, tokenizer(), pixels, max_text_tokens=longest).to(device)


def prepared(
    fusion: QFormerFusion, data: RerankerData, folder: Path, device: torch.device
) -> tuple[SampleSet, Rows, FeatureStore, dict[str, float]]:
    """Prepares the trainer's data from scratch; returns it and the rates of preparing it."""
    started = time.perf_counter()
    preparation = prepare(
        data,
        folder / "data",
        fusion.tokenizer,
        max_tokens=fusion.max_text_tokens,
        most_similar=False,
        validation_share=0.0,
        seed=0,
    )
    articles_per_s = len(preparation.samples.main_image) / (time.perf_counter() - started)
    shutil.rmtree(folder / "data" / "features", ignore_errors=True)
    started = time.perf_counter()
    store = compute_features(
        fusion,
        ImageTable(preparation.images, data.images),
        np.ones(len(preparation.images), np.int64),
        folder / "data" / "features",
        seed=0,
        workers=0 if device.type == "cpu" else 15,
        processes=Processes(device=device),
    )
    images_per_s = len(store.views) / (time.perf_counter() - started)
    texts = Rows(folder / "data" / TEXTS_NAME, TOKEN_DTYPE)
    return preparation.samples, texts, store, {"images_per_s": images_per_s, "articles_per_s": articles_per_s}


class Trainer:
    """This project's loop, step by step, as `training.loop.train` and `training.reranker.train` run it."""

    def __init__(
        self,
        fusion: QFormerFusion,
        samples: SampleSet,
        texts: Rows,
        store: FeatureStore,
        device: torch.device,
        precision: str,
        batch: int,
    ):
        self.model = Reranker(fusion, False, getattr(torch, precision)).to(device).train()
        self.device, self.seconds, self.number = device, 0.0, 0
        order = Order(samples.training, batch, 1, 1, seed=0)
        padding = int(fusion.tokenizer.pad_token_id)
        self.make = BatchMaker(samples, texts, store, order, 0, "pooled", TOKENS, fusion.token_shape[0], padding)
        self.feeder = Feeder(self.make, device)
        self.optimizer = adamw(self.model)

    def step(self) -> float:
        """Trains a step; returns its loss."""
        started = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model(self.feeder(self.number))
        loss.backward()
        self.optimizer.step()
        self.number += 1
        value = float(loss.detach())
        self.seconds += time.perf_counter() - started
        return value

    def flops(self) -> float:
        """Returns the floating-point operations of a step, forward and backward, padding included."""
        batch = self.make(0).to(self.device)
        with FlopCounterMode(display=False) as counter:
            self.model(batch).backward()
        self.optimizer.zero_grad(set_to_none=True)
        return float(counter.get_total_flops())

    def tokens_per_pair(self) -> float:
        """Returns the mean number of text tokens of a pair, padding included."""
        texts = [part for number in range(8) for part in self.make(number).pairs.texts]
        return sum(part.ids.numel() for part in texts) / sum(len(part.ids) for part in texts)


def wait(device: torch.device) -> None:
    """Waits until a GPU is idle."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
