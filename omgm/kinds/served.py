"""Models of steps 1 and 3 on servers: vLLM, infinity, or Text Embeddings Inference (TEI).

The text of a question, sections and images are sent there. An index names the model and the server that made its
vectors, and is refused with others.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import functional

from chat_models.chat import KEY
from chat_models.errors import ChatError
from chat_models.model_server import BATCH, CONCURRENCY, ModelServer
from omgm.kinds import SectionKind
from omgm.settings import Profile
from retriever.image_cache import ImageCache
from retriever.images import prepare_image
from retriever.models.qwen3_vl import INSTRUCTION, Patches
from retriever.models.section_encoder import as_int8
from retriever.protocols import DualEncoder, TextReranker
from retriever.texts import split_passage
from retriever.types import EngineError, FloatArray

Bodies = Callable[[Sequence[Any]], list[dict[str, Any]]]
"""Returns the requests for some inputs."""
_PIXELS = Patches(16, 2, 2, (0.5,) * 3, (0.5,) * 3)
_CHARACTERS = 2
"""Characters that count as a token, as the server's tokenizer is not known; fewer are cut than could be."""
_QUESTIONS = {
    "Qwen3-Embedding": "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
}
"""What precedes questions, by a part of a model's name."""


class ServedEncoder:
    """An encoder of images and texts on a server (implements `retriever.protocols.DualEncoder`).

    Args:
        server: The server.
        images: Returns the requests for images.
        texts: Returns the requests for texts.

    Attributes:
        cache: Caches the vectors of images, if set.
    """

    def __init__(self, server: ModelServer, images: Bodies, texts: Bodies, cache: ImageCache | None = None) -> None:
        self._server, self._image_bodies, self._text_bodies, self.cache = server, images, texts, cache
        self.fingerprint = _fingerprint(server, images.__name__)

    @cached_property
    def dimension(self) -> int:
        """The length of a vector, as the server says."""
        with _engine_errors():
            return len(self._server.embed(self._text_bodies(["a"]))[0])

    def encode_images(self, images: Sequence[Image.Image]) -> Tensor:
        """Encodes images as L2-normalized vectors, float32 [N, dimension]; raises EngineError."""
        return self.cache.rows("step1", images, self._images) if self.cache and images else self._images(images)

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Encodes texts as L2-normalized vectors, float32 [N, dimension]; raises EngineError."""
        return torch.from_numpy(_vectors(self._server, self._text_bodies(texts), self.dimension))

    def _images(self, images: Sequence[Image.Image]) -> Tensor:
        return torch.from_numpy(_vectors(self._server, self._image_bodies(images), self.dimension))


class ServedSections:
    """An encoder of questions and sections on a server (implements `retriever.protocols.SectionEncoder`).

    Args:
        server: The server.
        max_tokens: Longest part of a section, in tokens; two characters count as one.
    """

    def __init__(self, server: ModelServer, max_tokens: int) -> None:
        self._server, self._most = server, max_tokens * _CHARACTERS
        self._before = next((text for name, text in _QUESTIONS.items() if name in server.model), "")
        self.fingerprint = _fingerprint(server, str(max_tokens))

    @cached_property
    def dimension(self) -> int:
        """The length of a vector, as the server says."""
        with _engine_errors():
            return len(self._server.embed([{"input": ["a"]}])[0])

    def encode_questions(self, questions: Sequence[str]) -> FloatArray:
        """Encodes to L2-normalized vectors, float32 [N, dimension]; raises EngineError."""
        return self._encode([(self._before + question)[: self._most] for question in questions])

    def encode_passages(self, passages: Sequence[str]) -> list[NDArray[np.int8]]:
        """Returns the vectors of each passage's windows, int8 [windows, dimension]; raises EngineError."""
        windows = []
        for title, text in map(split_passage, passages):
            before = f"{title}\n"[: self._most // 2] if title else ""
            room = self._most - len(before)
            windows.append([before + text[at : at + room] for at in range(0, max(len(text), 1), room)])
        rows = as_int8(self._encode([text for own in windows for text in own]))
        return np.split(rows, np.cumsum([len(own) for own in windows])[:-1]) if passages else []

    def _encode(self, texts: Sequence[str]) -> FloatArray:
        return _vectors(self._server, _inputs(texts), self.dimension)


class ServedReranker:
    """A reranker on a server (implements `retriever.protocols.TextReranker`).

    Args:
        server: The server.
        max_tokens: Longest passage, in tokens; two characters count as one.
        is_tei: Whether it has the API of TEI, else that of Jina, as vLLM and infinity have.
    """

    def __init__(self, server: ModelServer, max_tokens: int, is_tei: bool) -> None:
        self._server, self._most, self._is_tei = server, max_tokens * _CHARACTERS, is_tei

    def score(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Scores each question's passages in [0, 1]; returns float32 [len(passages[i])] per question.

        Raises:
            ValueError: The numbers of questions and of lists of passages differ.
            EngineError: The server cannot be reached, refuses a request, or sends other scores.
        """
        if len(questions) != len(passages):
            raise ValueError(f"passages: must have one list per question, {len(questions)}, got {len(passages)}")
        with ThreadPoolExecutor(CONCURRENCY, "rerank") as pool:
            return list(pool.map(self._scored, questions, passages))

    def _scored(self, question: str, passages: Sequence[str]) -> FloatArray:
        scores = np.full(len(passages), np.nan, np.float32)
        for start in range(0, len(passages), BATCH):
            texts = [text[: self._most] for text in passages[start : start + BATCH]]

            def read(reply: Any, start: int = start, count: int = len(texts)) -> None:
                for row in reply if self._is_tei else reply["results"]:
                    if not 0 <= int(row["index"]) < count:
                        raise ValueError(f"index {row['index']} of {count} texts")
                    scores[start + int(row["index"])] = row["score" if self._is_tei else "relevance_score"]

            body: dict[str, Any] = {"query": question[: self._most]}
            if self._is_tei:
                body |= {"texts": texts, "raw_scores": False, "truncate": True}
            else:
                body |= {"model": self._server.model, "documents": texts, "top_n": len(texts)}
            with _engine_errors():
                self._server.post("rerank", body, read, at_root=self._is_tei)
        if not ((scores >= 0) & (scores <= 1)).all():
            raise EngineError(f"{self._server.url}: must score each text from 0 to 1; start it with a sigmoid")
        return scores


def _messages(content: dict[str, Any]) -> dict[str, Any]:
    """Returns a request of vLLM for one image or text, with the prompt of Qwen3-VL-Embedding."""
    turns = [("system", {"type": "text", "text": INSTRUCTION}), ("user", content), ("assistant", _text(""))]
    messages = [{"role": role, "content": [part]} for role, part in turns]
    return {"messages": messages, "continue_final_message": True, "add_special_tokens": True}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image_messages(images: Sequence[Image.Image]) -> list[dict[str, Any]]:
    """Scales images as the publisher does: the server's own scaling may differ."""
    scaled = []
    for image in map(prepare_image, images):
        rows, columns = _PIXELS.grid(*image.size)
        scaled.append(image.resize((columns * _PIXELS.size, rows * _PIXELS.size), Image.Resampling.BICUBIC))
    return [_messages({"type": "image_url", "image_url": {"url": _data_url(image)}}) for image in scaled]


def _text_messages(texts: Sequence[str]) -> list[dict[str, Any]]:
    return [_messages(_text(text)) for text in texts]


def _image_inputs(images: Sequence[Image.Image]) -> list[dict[str, Any]]:
    urls = [_data_url(prepare_image(image)) for image in images]
    return [body | {"modality": "image"} for body in _inputs(urls)]


def _inputs(texts: Sequence[str]) -> list[dict[str, Any]]:
    return [{"input": [*texts[start : start + BATCH]]} for start in range(0, len(texts), BATCH)]


def _data_url(image: Image.Image) -> str:
    written = io.BytesIO()
    image.save(written, "PNG")
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"


@contextmanager
def _engine_errors() -> Iterator[None]:
    """Raises failures of a server as those of the retrieval, which callers are to try again."""
    try:
        yield
    except ChatError as error:
        raise EngineError(str(error)) from error


def _vectors(server: ModelServer, bodies: Sequence[dict[str, Any]], dimension: int) -> FloatArray:
    """Returns L2-normalized vectors, float32 [N, dimension]; raises EngineError if the server sends others."""
    with _engine_errors():
        rows = server.embed(bodies)
    if wrong := next((row for row in rows if len(row) != dimension), None):
        raise EngineError(f"{server.url}: expected vectors of {dimension} values, got one of {len(wrong)}")
    vectors = torch.tensor(rows, dtype=torch.float32).view(len(rows), dimension)
    return functional.normalize(vectors, dim=-1).numpy()


def _fingerprint(server: ModelServer, settings: str) -> str:
    return hashlib.sha256(json.dumps([server.model, server.url, settings]).encode()).hexdigest()[:16]


def _server(profile: Profile, section: str) -> ModelServer:
    settings = getattr(profile, section)
    for key in ("base_url", "model"):
        if not getattr(settings, key):
            raise ValueError(f'profile {profile.name}: {section}.{key} is not set; {section}.kind = "{settings.kind}"')
    return ModelServer(settings.base_url, settings.model, os.environ.get(KEY))


def vllm(profile: Profile, cache: ImageCache | None = None) -> DualEncoder:
    """Uses a Qwen3-VL-Embedding on vLLM."""
    return ServedEncoder(_server(profile, "encoder"), _image_messages, _text_messages, cache)


def infinity(profile: Profile, cache: ImageCache | None = None) -> DualEncoder:
    """Uses a CLIP-type model on infinity."""
    return ServedEncoder(_server(profile, "encoder"), _image_inputs, _inputs, cache)


def sections(profile: Profile) -> ServedSections:
    """Uses a text-embedding model on any server with `/v1/embeddings`."""
    return ServedSections(_server(profile, "sections"), profile.sections.max_tokens)


def _reranker(is_tei: bool) -> Callable[[Profile], TextReranker]:
    return lambda profile: ServedReranker(_server(profile, "sections"), profile.sections.max_tokens, is_tei)


RERANK = SectionKind(_reranker(False))
TEI = SectionKind(_reranker(True))
