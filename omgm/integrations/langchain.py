"""A LangChain retriever that asks a running service (extra `langchain`)."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, SecretStr

from omgm.client import AsyncClient, Client
from omgm.integrations.evidence import metadata_of
from omgm.search_params import Images
from serving.schemas import RetrieveOut


class OMGMRetriever(BaseRetriever):
    """Retrieves the best sections for a question, with an image, several in a list, or none, as documents.

    Pass the image with each call: `retriever.invoke("Who built this?", image="photo.jpg")`. A document's text is a
    section; its metadata has `entity_id`, `title`, `url`, `section`, `score` and `recognized`. A failure raises
    `omgm.client.ServiceError`.

    Attributes:
        url: The service's address.
        api_key: A read key of the service, if it needs one.
        options: Options of each request, such as `{"k": 50}`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    url: str = "http://127.0.0.1:8000"
    api_key: SecretStr | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, image: Images = None
    ) -> list[Document]:
        with Client(self.url, _revealed(self.api_key)) as client:
            return _documents(client.retrieve(image, query, **self.options))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, image: Images = None
    ) -> list[Document]:
        async with AsyncClient(self.url, _revealed(self.api_key)) as client:
            return _documents(await client.retrieve(image, query, **self.options))


def _revealed(key: SecretStr | None) -> str | None:
    return None if key is None else key.get_secret_value()


def _documents(found: RetrieveOut) -> list[Document]:
    return [Document(part.text, metadata=metadata_of(found, part)) for part in found.evidence]
