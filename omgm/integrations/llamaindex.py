"""A LlamaIndex retriever that asks a running service (extra `llamaindex`)."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_URL, uuid5

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import SecretStr

from omgm.client import AsyncClient, Client
from omgm.integrations.evidence import metadata_of
from serving.schemas import EvidenceOut, RetrieveOut


class OMGMRetriever(BaseRetriever):
    """Retrieves the best sections for a question, with or without an image, as nodes with scores.

    Pass the image in the query: `retriever.retrieve(QueryBundle("Who built this?", image_path="photo.jpg"))`. A
    node's metadata has `entity_id`, `title`, `url` and `section`; its id and hash depend on the section alone. A
    failure raises `omgm.client.ServiceError`.

    Args:
        url: The service's address.
        api_key: A read key of the service, if it needs one.
        options: Options of each request, such as `{"k": 50}`.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        api_key: str | SecretStr | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._url, self._options = url, options or {}
        self._api_key = SecretStr(api_key) if isinstance(api_key, str) else api_key

    def _key(self) -> str | None:
        return None if self._api_key is None else self._api_key.get_secret_value()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        with Client(self._url, self._key()) as client:
            return _nodes(client.retrieve(query_bundle.image_path, query_bundle.query_str, **self._options))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        async with AsyncClient(self._url, self._key()) as client:
            return _nodes(await client.retrieve(query_bundle.image_path, query_bundle.query_str, **self._options))


def _nodes(found: RetrieveOut) -> list[NodeWithScore]:
    return [NodeWithScore(node=_node(found, part), score=part.scores.score) for part in found.evidence]


def _node(found: RetrieveOut, part: EvidenceOut) -> TextNode:
    """Returns a section as a node, with the same id and hash whenever it is found: its scores are no part of it."""
    metadata = {name: value for name, value in metadata_of(found, part).items() if name not in ("score", "recognized")}
    place = f"{part.entity.id}\n{part.section_index}\n{part.text}"
    return TextNode(id_=str(uuid5(NAMESPACE_URL, place)), text=part.text, metadata=metadata)
