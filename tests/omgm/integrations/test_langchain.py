from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from omgm.client import ServiceError
from tests.fakes.images import image_bytes
from tests.fakes.service import served

pytest.importorskip("langchain_core", reason="needs the extra langchain")
pytestmark = pytest.mark.filterwarnings("ignore")  # of packages that LangChain imports

QUESTION = "When was the treaty?"


def test_documents(tmp_path: Path) -> None:
    from langchain_core.load import dumps

    from omgm.integrations.langchain import OMGMRetriever

    with served(tmp_path) as world:
        retriever = OMGMRetriever(url=world.url, options={"k": 2})
        found = retriever.invoke(QUESTION, image=image_bytes("green"))
        assert "1848" in found[0].page_content and len(found) == 3
        assert found[0].metadata == {
            "entity_id": "https://kb/green",
            "title": "Greenland",
            "url": "https://kb.example/Greenland",
            "section": "History",
            "score": 0.75,  # three of the question's four words
            "recognized": None,
        }
        assert asyncio.run(retriever.ainvoke(QUESTION, image=image_bytes("green"))) == found
        bound = retriever.bind(image=image_bytes("red")) | (lambda documents: documents[0].metadata["title"])
        assert bound.invoke(QUESTION) == "Redland"
        plain: dict[str, Any] = {"url": world.url, "api_key": "omgm-reader"}
        secret = OMGMRetriever(**plain)
        for shown in (repr(secret), str(secret.model_dump()), secret.model_dump_json(), dumps(secret)):
            assert "omgm-reader" not in shown
        assert secret.invoke(QUESTION, image=image_bytes("green")) == secret.invoke(
            QUESTION, image=image_bytes("green")
        )
        with pytest.raises(ServiceError) as raised:
            retriever.invoke("", image=image_bytes("green"))
        assert raised.value.code == "empty_question"
        for first, second, title in (("red", "green", "Redland"), ("green", "red", "Greenland")):
            both = retriever.invoke(QUESTION, image=[image_bytes(first), image_bytes(second)])
            assert both[0].metadata["title"] == title
        assert retriever.invoke(f"{QUESTION[:-1]} of Greenland?")[0].metadata["title"] == "Greenland"
