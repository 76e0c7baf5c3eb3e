from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fakes.images import image_bytes
from tests.fakes.service import served

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")
pytestmark = pytest.mark.filterwarnings("ignore")  # of packages that LlamaIndex imports


def test_nodes(tmp_path: Path) -> None:
    from llama_index.core.schema import QueryBundle

    from omgm.integrations.llamaindex import OMGMRetriever

    photo = tmp_path / "photo.png"
    photo.write_bytes(image_bytes("green"))
    query = QueryBundle("When was the treaty?", image_path=str(photo))
    with served(tmp_path) as world:
        retriever = OMGMRetriever(world.url, options={"k": 2})
        found = retriever.retrieve(query)
        assert "1848" in found[0].text and len(found) == 3
        assert found[0].score == 0.75  # three of the question's four words
        assert found[0].metadata["entity_id"] == "https://kb/green" and found[0].metadata["section"] == "History"
        again = asyncio.run(retriever.aretrieve(query))
        assert [(node.text, node.score, node.metadata) for node in again] == [
            (node.text, node.score, node.metadata) for node in found
        ]
        other = QueryBundle("When was the republic?", image_path=str(photo))  # other scores for the same section
        same = {node.node_id: node.node.hash for node in retriever.retrieve(other)}
        assert {node.node_id: node.node.hash for node in found} == same and len(same) == 3
        assert "score" not in found[0].node.get_content("all") and "0.75" not in found[0].node.get_content("llm")
        secret = OMGMRetriever(world.url, "omgm-reader")
        assert "omgm-reader" not in repr(vars(secret))
        assert retriever.retrieve("When was the treaty of Greenland?")[0].metadata["title"] == "Greenland"
