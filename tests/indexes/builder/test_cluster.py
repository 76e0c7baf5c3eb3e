"""A build on a real Ray cluster of two nodes on this machine; most of the time is spent starting processes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from indexes.labeled_images import LabeledImage
from indexes.workers import ModelName
from tests.fakes.live import article, as_row, hash_of, painting
from tests.fakes.models import FakeEncoder, FakeFusion
from tests.fakes.plans import build_index
from tests.fakes.processes import run_python
from tests.paths import contents

ray = pytest.importorskip("ray", reason='needs the extra ray: pip install -e ".[ray]"')
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # Ray's own

Loaders = dict[ModelName, Callable[[], Any]]
KNOWLEDGE_BASE = [
    article(f"{number:02}", number, "own" if number % 4 else None, further=number % 3) for number in range(24)
]


class WatchedFusion(FakeFusion):
    """Takes a while and records the node that encodes each batch."""

    def __init__(self, watch: Path) -> None:
        super().__init__()
        self.watch = watch

    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> torch.Tensor:
        with self.watch.open("a") as file:
            file.write(f"{ray.get_runtime_context().get_node_id()}\n")
        time.sleep(0.2)
        return super().encode_sections(images, texts)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head node and another node with one core each; this process is connected to the head."""
    from ray.cluster_utils import Cluster

    from indexes.builder.cluster import connected

    node = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        cluster.add_node(**node)
        with connected(cluster.address):
            yield cluster
    finally:
        cluster.shutdown()


def build(folder: Path, out: str, **changes: Any) -> dict[str, bytes]:
    """Builds an index of `KNOWLEDGE_BASE` and returns its files."""
    kb = folder / "kb.jsonl"
    if not kb.exists():
        (folder / "images").mkdir()
        kb.write_text("".join(json.dumps(as_row(one)) + "\n" for one in KNOWLEDGE_BASE))
        images = [url for one in KNOWLEDGE_BASE for url in (one.image, *(image.url for image in one.images))]
        for name in filter(None, [*images, "photo.png"]):
            (folder / "images" / name).parent.mkdir(exist_ok=True)
            painting(hash_of(name)).save(folder / "images" / name)
    options: dict[str, Any] = {"candidates": "combined", "tokens": "int8", "batch_size": 1}
    options |= {"image_keys": 2, "section_images": True}
    options |= {"labeled": [LabeledImage("photo", folder / "images" / "photo.png", KNOWLEDGE_BASE[1].id)]}
    build_index(kb, folder / "images", folder / out, **options | changes)
    return contents(folder / out)


def test_an_index_built_while_a_node_dies_equals_that_of_one_machine(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from indexes.builder import cluster as clusters

    monkeypatch.setattr(clusters, "_BATCHES", 1)
    watch = tmp_path / "watch"

    class Killing(clusters.RayWorkers):
        def run(self, make: Any, models: Sequence[ModelName], batches: Sequence[range]) -> Generator[Any]:
            for number, result in enumerate(super().run(make, models, batches)):
                yield result
                if "fusion" in models and number == 0:
                    while len(set(watch.read_text().split())) < 2:  # both nodes are at work
                        time.sleep(0.05)
                    cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)

    loaders: Loaders = {"encoder": FakeEncoder, "fusion": partial(WatchedFusion, watch)}
    whole = build(tmp_path, "one")
    assert build(tmp_path, "many", workers=partial(Killing, loaders, [tmp_path])) == whole
    head = ray.get_runtime_context().get_node_id()
    nodes = watch.read_text().split()
    assert set(nodes) > {head} and nodes[-1] == head
    assert [node["NodeID"] for node in ray.nodes() if node["Alive"]] == [head]


@pytest.mark.usefixtures("cluster")
def test_what_a_node_lacks_is_named(tmp_path: Path) -> None:
    from indexes.builder.cluster import RayWorkers

    absent = tmp_path / "elsewhere"
    with pytest.raises(ValueError, match=rf"on node .*: {absent}: does not exist; share it at this path"):
        build(tmp_path, "index", workers=partial(RayWorkers, {"encoder": FakeEncoder, "fusion": FakeFusion}, [absent]))
    loaders: Loaders = {"encoder": partial(FakeEncoder, "fake-encoder-2"), "fusion": FakeFusion}
    with pytest.raises(ValueError, match=r"on node .*: .* fingerprint fake-encoder-2, expected fake-encoder-1"):
        build(tmp_path, "index", workers=partial(RayWorkers, loaders, [tmp_path]))


def test_a_token_that_the_cluster_lacks_is_named() -> None:
    """In a separate process, because Ray checks only once whether there is a token."""
    script = f"""
import os
import ray
from ray.cluster_utils import Cluster
os.environ["RAY_AUTH_MODE"] = "disabled"  # of what this process starts
cluster = Cluster(initialize_head=True, head_node_args={{"num_cpus": 1, "object_store_memory": {100 * 2**20}}})
from indexes.builder.cluster import connected
try:
    with connected(cluster.address):
        print("connected")
except ValueError as error:
    print(error)
finally:
    cluster.shutdown()
"""
    done = run_python("-c", script)
    assert re.fullmatch(
        r"--cluster .*: connected, but no actor starts .*if the cluster uses no token, set RAY_AUTH_MODE=disabled"
        r" here, too\n",
        done.stdout,
    ), done
