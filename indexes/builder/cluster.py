"""Runs the work of a build on a Ray cluster, as Ray Data operators; imported only for `--cluster`."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import ray
import ray.data
from numpy.typing import NDArray
from ray import cloudpickle
from ray.exceptions import RayError

from indexes.builder.ray_address import connect, last_line
from indexes.workers import ModelName, R, Work, run_ahead
from retriever.protocols import DualEncoder, FusionEncoder

_BATCHES = 16
"""Batches sent to a worker at once: enough that the model's wait for the first one hardly matters."""


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Connects this process to a cluster for the duration of the block.

    Args:
        address: `host:port` of its head, or "auto" for the cluster that this machine is part of.

    Raises:
        ValueError: As in `indexes.builder.ray_address.connect`.
    """
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # it logs the plan of every stage
    connect(address)
    try:
        yield
    finally:
        ray.shutdown()


class RayWorkers:
    """Runs work on the cluster that this process is connected to: one actor per GPU or, without GPUs, per CPU core.

    If a node dies, Ray restarts its work on the others. Results come back in order, so the caller writes files as it
    does without a cluster.

    Args:
        loaders: Load the models on a node; they must be the same models as `encoder` and `fusion`.
        shared: Files and folders that must be at the same path on every node.
        encoder: Step 1's model.
        fusion: Step 2's model, or `None`.
        columns: The models of columns by their names.
    """

    def __init__(
        self,
        loaders: Mapping[ModelName, Callable[[], Any]],
        shared: Sequence[Path],
        encoder: DualEncoder,
        fusion: FusionEncoder | None,
        columns: Mapping[str, Any] | None = None,
    ) -> None:
        self.encoder, self.fusion, self.columns = encoder, fusion, columns or {}
        self._loaders, self._shared = loaders, shared

    def run(
        self, make: Callable[..., Work[R]], models: Sequence[ModelName], batches: Sequence[range]
    ) -> Generator[R, None, None]:
        """Yields the result of each batch, in order.

        Raises:
            ValueError: The work failed, a node lacks a file, or its model differs.
        """
        if not batches:
            return
        found = ray.cluster_resources()
        resource = "GPU" if models and found.get("GPU") else "CPU"
        blocks = -(-len(batches) // _BATCHES)
        rows = ray.data.from_items(
            [{"start": rows.start, "stop": rows.stop} for rows in batches], override_num_blocks=blocks
        )
        rows.context.execution_options.preserve_order = True
        rows.context.enable_progress_bars = False  # the build has its own
        every = {"encoder": self.encoder, "fusion": self.fusion, **self.columns}
        needed = {name: (self._loaders[name], every[name].fingerprint) for name in models}
        results = rows.map_batches(
            _Worker,
            fn_constructor_args=(make, needed, self._shared),
            batch_size=None,
            compute=ray.data.ActorPoolStrategy(size=min(blocks, int(found[resource]))),
            num_gpus=1 if resource == "GPU" else None,
            num_cpus=1,
        )
        try:
            with closing(iter(results.iter_rows())) as done:  # or the actors would outlive an error
                for row in done:
                    # Safe: sent by our own actors, as Ray sends all objects, and never read from a file.
                    result, problem = cloudpickle.loads(row["result"])
                    if problem is not None:
                        raise ValueError(problem)
                    yield result
        except RayError as error:
            raise ValueError(f"the Ray cluster failed: {last_line(error)}") from error


class _Worker:
    """An actor on a node; loads its models when the first batches arrive."""

    def __init__(
        self,
        make: Callable[..., Work[Any]],
        needed: Mapping[ModelName, tuple[Callable[[], Any], str]],
        shared: Sequence[Path],
    ) -> None:
        self._make, self._needed, self._shared = make, needed, shared

    def __call__(self, block: Mapping[str, NDArray[Any]]) -> Iterator[dict[str, list[bytes]]]:
        """Yields the result of each batch, or why there is none, serialized as Ray does between its processes."""
        batches = [range(int(start), int(stop)) for start, stop in zip(block["start"], block["stop"], strict=True)]
        try:
            for result in run_ahead(self._work, batches):
                yield {"result": [cloudpickle.dumps((result, None))]}
        except (ValueError, OSError) as error:
            yield {"result": [cloudpickle.dumps((None, f"on node {socket.gethostname()}: {error}"))]}

    @cached_property
    def _work(self) -> Work[Any]:
        for path in self._shared:
            if not path.exists():
                raise ValueError(f"{path}: does not exist; share it at this path with every node, see docker/README.md")
        models = {name: load() for name, (load, _) in self._needed.items()}
        for name, (_, expected) in self._needed.items():
            if (found := models[name].fingerprint) != expected:
                raise ValueError(f"has a different model: fingerprint {found}, expected {expected}")
        return self._make(**models)
