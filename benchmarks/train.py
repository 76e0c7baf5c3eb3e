"""Measures step 2's training: samples per second, hours for the paper's samples, memory.

    python -m benchmarks.train --out artifacts/bench-train.json                  embedded sizes, on a CPU
    python -m benchmarks.train --size full --device cuda --out ...               BLIP-2's sizes, random weights, one GPU
    python -m benchmarks.train --size tiny --few --out ...                       the same code anywhere, in seconds

`samples_per_s` is the trainer's rate once features and token ids are on disk; `hours_191k` is the time of one epoch of
the paper's 191,000 samples at that rate, plus the time to prepare 200,000 articles and their images at the rate
measured here.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.frame import arguments, default_device, machine, recorder, write_report
from benchmarks.full_size import PAPER, TINY, build_fusion, tokenizer
from benchmarks.made_up import WORDS, articles, write_images
from evaluation.datasets import Question
from indexes.store.articles import open_articles
from omgm import indexing
from omgm.originals import original_images
from omgm.profile import load_profile
from pretraining.new_fusion import new_fusion
from retriever.files import write_json, write_lines
from retriever.models.pixels import PixelPreparation
from retriever.models.qformer import QFormerFusion
from retriever.models.small_clip import SmallCLIPConfig, SmallVision
from training.batch import Feeder
from training.processes import Processes
from training.reranker.batches import BatchMaker, Order
from training.reranker.data import RerankerData
from training.reranker.model import Reranker
from training.reranker.training_set import TrainingSet, Views, make_training_set

EPOCH, ENTITIES = 191_000, 200_000
CANDIDATES = 20
TOKENS = 8192
FEW_TOKENS = 64


@dataclass(frozen=True, slots=True)
class DataSizes:
    """How many articles and images of questions to make up, and the longer side of an image."""

    entities: int
    query_images: int
    side: int


SIZES = DataSizes(1000, 500, 1024)
FEW = DataSizes(30, 12, 48)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = arguments(__doc__, lines=True)
    parser.set_defaults(out=Path("artifacts/bench-train.json"))
    parser.add_argument("--size", choices=["tiny", "embedded", "full"], default="embedded")
    parser.add_argument("--device", default=default_device())
    about = "by default bfloat16 beside a GPU and float32 on a CPU, as the trainer's"
    parser.add_argument("--precision", choices=["bfloat16", "float32"], help=about)
    parser.add_argument("--batch", type=int, default=8, metavar="N", help="samples per step (%(default)s)")
    parser.add_argument("--few", action="store_true", help="few questions, small images, short texts: to try the code")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts (%(default)s)")
    parser.add_argument("--steps", type=int, default=8, help="in each round (%(default)s)")
    parser.add_argument("--folder", type=Path, help="folder of the data; by default a temporary one")
    args = parser.parse_args(argv)
    args.precision = args.precision or ("bfloat16" if args.device == "cuda" else "float32")
    with tempfile.TemporaryDirectory() as temporary:
        report = run(args, args.folder or Path(temporary))
    report["machine"] = machine()
    write_report(args.out, report)
    print(json.dumps(report, indent=2))


def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measures the training; returns the report."""
    device, record = torch.device(args.device), recorder(args.lines, benchmark="train")
    sizes = FEW if args.few else SIZES
    data = write_data(folder, sizes)
    fusion = build(args.size, device, FEW_TOKENS if args.few else 512)
    started = time.perf_counter()
    training_set = prepared(fusion, data, folder, device)
    preparation = (time.perf_counter() - started) * ENTITIES / sizes.entities
    record({"size": args.size, "precision": args.precision, "hours_191k_preparation": preparation / 3600})
    trainer = Trainer(fusion, training_set, device, args.precision, args.batch)
    trainer.step()  # warm-up: buffers and kernels
    rates = list[float]()
    for _ in range(args.rounds):
        started = time.perf_counter()
        for _ in range(args.steps):
            trainer.step()
        rates.append(args.steps * args.batch / (time.perf_counter() - started))
        record({"samples_per_s": rates[-1]})
    rate, gpu = statistics.median(rates), device.type == "cuda"
    report = {
        "size": args.size,
        "device": torch.cuda.get_device_name(device) if gpu else f"CPU, {torch.get_num_threads()} threads",
        "precision": args.precision,
        "samples_per_s": round(rate, 2),
        "hours_191k": round((EPOCH / rate + preparation) / 3600, 2),
        "hours_191k_preparation": round(preparation / 3600, 2),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    if gpu:
        report["peak_gpu_gib"] = round(torch.cuda.max_memory_allocated(device) / 2**30, 1)
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


def prepared(fusion: QFormerFusion, data: RerankerData, folder: Path, device: torch.device) -> TrainingSet:
    """Prepares the training set as the trainer does, without validation."""
    return make_training_set(
        data,
        folder / "data",
        fusion,
        views=Views(1, 1),
        most_similar=False,
        validation_share=0.0,
        seed=0,
        max_bad=0.0,
        workers=None,
        processes=Processes(device=device),
    )


class Trainer:
    """This project's loop, step by step, as `training.loop.train` and `training.reranker.train` run it."""

    def __init__(
        self, fusion: QFormerFusion, training_set: TrainingSet, device: torch.device, precision: str, batch: int
    ) -> None:
        self.model = Reranker(fusion, False, getattr(torch, precision)).to(device).train()
        self.number = 0
        samples, texts, store = training_set.samples, training_set.texts(), training_set.store
        order, padding = Order(samples.training, batch, 1, 1, seed=0), int(fusion.tokenizer.pad_token_id)
        make = BatchMaker(samples, texts, store, order, 0, "pooled", TOKENS, fusion.token_shape[0], padding)
        self.feeder = Feeder(make, device)
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=1e-5)

    def step(self) -> float:
        """Trains a step; returns its loss."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model(self.feeder(self.number))
        loss.backward()
        self.optimizer.step()
        self.number += 1
        return float(loss.detach())  # waits for a GPU


def write_data(folder: Path, sizes: DataSizes) -> RerankerData:
    """Writes `kb.jsonl`, `negatives.json`, images and an index, unless the folder has them; returns the data."""
    if not (folder / "negatives.json").is_file():
        for name, count, prefix in (("images", sizes.entities, ""), ("queries", sizes.query_images, "q")):
            write_images(folder / name, [f"{prefix}{n}.jpg" for n in range(count)], sizes.side, drawn=100)
        write_lines(folder / "kb.jsonl", articles(sizes.entities))
        write_json(folder / "negatives.json", _negatives(sizes))
    kb, images, index = folder / "kb.jsonl", folder / "images", folder / "index"
    order = indexing.Build(kb=kb, out=index, images=images, kb_format="jsonl", tokens=False)
    indexing.build(load_profile("embedded"), order)
    return RerankerData(
        index=open_articles(index),
        originals=original_images(index),
        questions=list(_questions(sizes)),
        query_image_of=lambda image_id: folder / "queries" / f"{image_id}.jpg",
        negatives=folder / "negatives.json",
    )


def _questions(sizes: DataSizes) -> Iterator[Question]:
    for number in range(2 * sizes.query_images):
        generator = np.random.default_rng([0, 2, number])
        image = number % sizes.query_images
        text = "which " + " ".join(generator.choice(WORDS, 9))
        yield Question(str(number), text, f"q{image}", (), (f"e{image}",), int(generator.integers(2)))


def _negatives(sizes: DataSizes) -> dict[str, Any]:
    """Returns the entities that step 1 would find for each image: the right one, and others."""
    listed = {}
    for image in range(sizes.query_images):
        others = np.random.default_rng([0, 4, image]).choice(sizes.entities, CANDIDATES - 1, replace=False).tolist()
        ranked = enumerate(dict.fromkeys([image, *others]))
        top = [{"entry": f"e{entity}", "similarity": 0.5 - rank / 100} for rank, entity in ranked]
        listed[f"q{image}"] = {"gt_entity_pos_img": None, "top_20": top}
    return listed


if __name__ == "__main__":
    main()
