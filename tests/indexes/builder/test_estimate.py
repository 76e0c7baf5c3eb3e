from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from chat_models.chat import ChatClient
from indexes.builder.chat_summarizer import ChatSummarizer
from indexes.builder.estimate import SAMPLE, Estimate, estimate_build
from indexes.builder.summary_cache import SummaryCache
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.sources import FolderImages
from indexes.store.keys import Keys
from indexes.store.recall import HeldOutQueries, mixed_queries
from indexes.store.search_kinds import bytes_per_key, write_search
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.knowledge_base import write_kb
from tests.fakes.plans import build_index, plan
from tests.fakes.rows import write_jsonl
from tests.fakes.vectors import clustered
from tests.paths import contents


def estimate(kb: Path, images: Path, **changes: object) -> Estimate:
    sample = changes.pop("sample", SAMPLE)
    assert isinstance(sample, int)
    return estimate_build(plan(kb, images, kb, **changes), sample)


def test_a_sample_of_everything_is_what_is_built(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    before = contents(tmp_path)
    found = estimate(kb, images, tokens="int8")
    assert contents(tmp_path) == before
    index = build_index(kb, images, tmp_path / "index", tokens="int8")
    counts = index.manifest.counts
    assert (found.entities, found.sections, found.with_image) == (counts.entities, counts.sections, counts.with_image)
    assert (found.sampled, found.search, found.requests, found.tokens_in) == (7, "flat", 0, 0)
    assert found.bytes["tokens"] == counts.token_sections * 32 * (8 + 2)
    assert found.bytes["images"] == sum(path.stat().st_size for path in (index.folder / "images").iterdir())
    for part, file in (("articles", "entities.jsonl"), ("summaries", "summaries.jsonl")):
        size = (index.folder / file).stat().st_size
        assert size < found.bytes[part] < size + 8 * 3 * 7 + 1
    assert found.temporary_bytes == 7 * 7 * 2
    assert found.seconds.keys() == {"read", "images", "summaries", "keys"}
    assert all(seconds > 0 for seconds in found.seconds.values())


def test_images_are_those_of_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = tmp_path / "images"
    images.mkdir()
    for name in ("fox.png", "hen.png"):
        Image.new("RGB", (9, 9), "red").save(images / name)
    (images / "further.png").write_bytes(b"no image")  # not read by an estimate unless it is a key
    rows: list[dict[str, Any]] = [
        {"title": "Fox"},
        {"title": "Hen"},
        {"title": "Owl", "images": ["fox.png", "further.png"]},
    ]
    kb = write_jsonl(tmp_path / "kb.jsonl", *rows)

    load = FolderImages.load

    def checked(source: FolderImages, name: str) -> Image.Image:
        assert name != "further.png"
        return load(source, name)

    monkeypatch.setattr(FolderImages, "load", checked)
    found = estimate(kb, images, image_keys=5)
    assert (found.entities, found.with_image) == (3, 3)


def test_a_part_of_it_is_scaled_up(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    found = estimate(kb, images, sample=3)
    assert (found.entities, found.sections, found.sampled) == (7, 8, 3)  # counted, not scaled up
    assert found.with_image in {round(7 / 3 * shown) for shown in range(4)}
    with pytest.raises(ValueError, match="at least 1000 searchable entities, got 7"):
        estimate(kb, images, search="hnsw")


def row(number: int, text: str) -> dict[str, Any]:
    return {"id": str(number), "title": "T", "sections": [{"title": "T", "text": text}]}


def test_requests_and_their_tokens(tmp_path: Path) -> None:
    kb = write_jsonl(tmp_path / "kb.jsonl", *(row(n, "word " * 1000) for n in range(10)))
    with FakeChatServer() as server:
        summarizer = ChatSummarizer(ChatClient(server.url, "good"), max_context_tokens=500)
        found = estimate(kb, tmp_path, summarizer=summarizer, fusion=None, sample=4)
        summarizer.close()
    assert len(server.bodies) == 4
    asked = [message["content"] for message in server.bodies[0]["messages"]]
    assert 2000 < len("".join(asked)) < 4500  # the prompt and an article of 500 tokens
    answer = " ".join(f"heard: {asked[-1]}".split())
    assert found.requests == 10
    assert (found.tokens_in, found.tokens_out) == (round(10 * len("".join(asked)) / 4), round(10 * len(answer) / 4))


def test_what_the_cache_has_costs_nothing(tmp_path: Path) -> None:
    kb = write_jsonl(tmp_path / "kb.jsonl", *(row(n, f"word {n}") for n in range(4)))
    with FakeChatServer() as server:
        cache = SummaryCache(tmp_path / "summaries.sqlite")
        earlier = ChatSummarizer(ChatClient(server.url, "good"), cache=cache)
        list(earlier.stream(list(read_knowledge_base(kb, "jsonl"))[:3]))
        earlier.close()
        for _ in range(2):  # an estimate must not add to it
            summarizer = ChatSummarizer(ChatClient(server.url, "good"), cache=SummaryCache(cache.path))
            found = estimate(kb, tmp_path, summarizer=summarizer, fusion=None)
            summarizer.close()
            assert found.requests == 1
            asked = server.bodies[-1]["messages"]
            assert found.tokens_in == round(sum(len(message["content"]) for message in asked) / 4)
    assert len(server.bodies) == 3 + 2


@pytest.mark.parametrize("kind", ["flat", "sq8", "hnsw", "ivf-pq"])
def test_the_size_of_an_entity_index(tmp_path: Path, kind: str) -> None:
    keys = Keys((clustered(4000, 64),), np.arange(4000))
    write_search(tmp_path, keys, kind, HeldOutQueries(mixed_queries(keys)[:8], ""))
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert 4000 * bytes_per_key(kind, 4000, 64) == pytest.approx(size, rel=0.06)
