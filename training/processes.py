"""The processes of a training: those that `torchrun` started, or just this one."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from retriever.files import read_object

T = TypeVar("T")

_PATIENCE = timedelta(hours=24)
"""How long a process waits for the first one to read the knowledge base."""


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes that train one model; by default this one alone.

    Attributes:
        rank: The number of this process.
        count: The number of processes.
        device: The device of this process.
    """

    rank: int = 0
    count: int = 1
    device: torch.device = torch.device("cpu")  # noqa: RUF009  immutable

    @property
    def first(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def wait(self) -> None:
        """Waits until every process has called this."""
        if self.count > 1:
            distributed.barrier()

    def gather(self, value: T) -> list[T]:
        """Returns the values that the processes pass, in order of rank."""
        if self.count == 1:
            return [value]
        values: list[T | None] = [None] * self.count
        distributed.all_gather_object(values, value)
        return values  # type: ignore[return-value]

    def broadcast(self, value: T) -> T:
        """Returns the value that the first process passes."""
        return self.gather(value)[0]

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wraps a model so that its gradients are averaged over all processes."""
        if self.count == 1:
            return model
        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=devices)


def without_exchange(model: nn.Module, skipped: bool) -> AbstractContextManager[None]:
    """Returns a context in which, if `skipped`, gradients are only accumulated, not averaged over processes."""
    if skipped and isinstance(model, DistributedDataParallel):
        no_sync: AbstractContextManager[None] = model.no_sync()
        return no_sync
    return nullcontext()


def process_count() -> int:
    """Returns the number of processes that `torchrun` started, or 1."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def same_steps(note: Path, accumulate: int, processes: int) -> tuple[int, dict[str, int]]:
    """Divides the steps of a run that another number of processes began, so that they see the same samples.

    Args:
        note: The file in which `retriever.identity.agree` notes what the run depends on.
        accumulate: Parts per step and process, as set.
        processes: Number of processes.

    Returns:
        Parts per step and process, and what `agree` is to compare: both numbers as the run began with them if that
        gives the same steps, otherwise as they are now.
    """
    before: dict[str, int] = {}
    if note.is_file():
        with suppress(ValueError):  # which `agree` reports
            before = read_object(note)
    begun = {"accumulate": before.get("accumulate", accumulate), "processes": before.get("processes", processes)}
    divided, rest = divmod(math.prod(begun.values()), processes)
    if rest or accumulate not in (begun["accumulate"], divided):
        return accumulate, {"accumulate": accumulate, "processes": processes}
    return divided, begun


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """Joins the process group if `torchrun` started this process, and leaves it at the end of the block.

    Args:
        device: "cpu" or "cuda"; with "cuda", each process on a machine uses its own GPU.

    Raises:
        ValueError: There are more processes on this machine than GPUs.
    """
    count = process_count()
    if count == 1:
        yield Processes(device=torch.device(device))
        return
    place = torch.device(device)
    if place.type == "cuda":
        local, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local >= gpus:
            raise ValueError(f"torchrun: this machine has {gpus} GPUs; start at most as many processes on it")
        place = torch.device("cuda", local)
        torch.cuda.set_device(place)
    # Objects are exchanged by Gloo in either case; NCCL would send them through the GPU, and wait for it.
    distributed.init_process_group("cpu:gloo,cuda:nccl" if place.type == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        yield Processes(distributed.get_rank(), count, place)
    finally:
        distributed.destroy_process_group()
