"""Steps 1 and 3 with models on servers: what comes from there is what the same models give in process."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from omgm.parts import build_encoder, build_sections, build_text_reranker
from omgm.profile import load_profile
from retriever.models.encoder import ClipEncoder
from retriever.models.qwen3_vl import Qwen3VLEncoder
from retriever.models.text_embedding import TextEmbedding
from retriever.models.yes_no import YesNoReranker
from retriever.types import EngineError
from tests.fakes.published_models import write_qwen3_embedding, write_qwen3_reranker, write_qwen3_vl, write_siglip2
from tests.retriever.models.test_qwen3_vl import pictures, published

TEXTS = ["a red flag", "", "three bands of blue, white and red"]
Answer = Callable[[str, dict[str, Any]], Any]


@contextmanager
def served(answer: Answer) -> Iterator[str]:
    """Serves JSON: `answer` gets the path and the body of a request."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            return

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = json.dumps(answer(self.path, asked)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def rows(vectors: Any) -> dict[str, Any]:
    """Returns a reply of `/v1/embeddings`, the last vector first."""
    found = [{"index": number, "embedding": np.asarray(one).tolist()} for number, one in enumerate(vectors)]
    return {"object": "list", "data": found[::-1]}


def image_of(url: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,"))))


def profile(**settings: Any) -> Any:
    return load_profile("embedded", {key.replace("__", "."): value for key, value in settings.items()})


def test_qwen3_vl_embedding_on_vllm(tmp_path: Path) -> None:
    write_qwen3_vl(tmp_path)

    def answer(path: str, body: dict[str, Any]) -> Any:
        assert (path, body["model"], body["continue_final_message"]) == ("/v1/embeddings", "q", True)
        roles = [(turn["role"], turn["content"][0]) for turn in body["messages"]]
        assert roles[0] == ("system", {"type": "text", "text": "Represent the user's input."})
        assert roles[2] == ("assistant", {"type": "text", "text": ""})
        part = roles[1][1]
        given = image_of(part["image_url"]["url"]) if part["type"] == "image_url" else part["text"]
        return rows(published(tmp_path, [given]) * 3)  # not normalized

    own, images = Qwen3VLEncoder.load(tmp_path), pictures()[:3]
    published(tmp_path, TEXTS)  # loads the model here, not in threads of the server
    with served(answer) as url:
        encoder = build_encoder(profile(encoder__kind="vllm", encoder__model="q", encoder__base_url=url))
        torch.testing.assert_close(encoder.encode_images(images), own.encode_images(images), atol=1e-4, rtol=0)
        torch.testing.assert_close(encoder.encode_texts(TEXTS), own.encode_texts(TEXTS), atol=1e-4, rtol=0)
        assert encoder.dimension == 16 and encoder.encode_images([]).shape == (0, 16)
        same, other = (
            build_encoder(profile(encoder__kind="vllm", encoder__model=name, encoder__base_url=url)) for name in "qr"
        )
        assert encoder.fingerprint == same.fingerprint != other.fingerprint  # an index of one refuses the other


def test_a_clip_type_model_on_infinity(tmp_path: Path) -> None:
    own = ClipEncoder.load(write_siglip2(tmp_path))

    def answer(path: str, body: dict[str, Any]) -> Any:
        assert path == "/v1/embeddings" and len(body["input"]) <= 32
        if body.get("modality") == "image":
            return rows(own.encode_images([image_of(url) for url in body["input"]]))
        return rows(own.encode_texts(body["input"]))

    images, texts = pictures()[:3] * 12, TEXTS * 12
    with served(answer) as url:
        encoder = build_encoder(profile(encoder__kind="infinity", encoder__model="s", encoder__base_url=url + "/v1"))
        torch.testing.assert_close(encoder.encode_images(images), own.encode_images(images), atol=1e-4, rtol=0)
        torch.testing.assert_close(encoder.encode_texts(texts), own.encode_texts(texts), atol=1e-4, rtol=0)


def test_text_embeddings_on_a_server(tmp_path: Path) -> None:
    own = TextEmbedding.load(write_qwen3_embedding(tmp_path))

    def answer(path: str, body: dict[str, Any]) -> Any:
        ids = own.tokenizer(body["input"])["input_ids"]
        return rows(own._encode(ids))

    passages = ["a red flag", "", "three bands " * 500]
    with served(answer) as url:
        settings = {"sections__base_url": url, "sections__model": "Qwen/Qwen3-Embedding-0.6B"}
        encoder = build_sections(profile(**settings))
        np.testing.assert_allclose(encoder.encode_questions(TEXTS), own.encode_questions(TEXTS), atol=1e-4)
        found, expected = encoder.encode_passages(passages), own.encode_passages(passages)
        np.testing.assert_array_equal(found[0], expected[0])
        assert [len(one) for one in found] == [1, 1, 3]  # 6,000 characters, 2,048 in each
        assert encoder.encode_questions([]).shape == (0, 16) and encoder.encode_passages([]) == []


@pytest.mark.parametrize("kind", ["rerank", "tei"])
def test_rerankers_on_servers(kind: str, tmp_path: Path) -> None:
    own = YesNoReranker.load(write_qwen3_reranker(tmp_path))

    def answer(path: str, body: dict[str, Any]) -> Any:
        texts = body["texts" if kind == "tei" else "documents"]
        [scores] = own.score([body["query"]], [texts])
        order = np.argsort(-scores)
        if kind == "tei":
            assert path == "/rerank" and not body["raw_scores"]
            return [{"index": int(at), "score": float(scores[at])} for at in order]
        assert path == "/v1/rerank" and body["model"] == "r"
        return {"results": [{"index": int(at), "relevance_score": float(scores[at])} for at in order]}

    questions, passages = ["what is red", "two"], [["a red flag", "", "blue"] * 15, []]
    with served(answer) as url:
        reranker = build_text_reranker(profile(sections__kind=kind, sections__model="r", sections__base_url=url))
        found = reranker.score(questions, passages)
        np.testing.assert_allclose(found[0], own.score(questions, passages)[0], atol=1e-4)
        assert len(found[1]) == 0


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({"results": [{"index": 0, "relevance_score": 3.5}]}, "must score each text from 0 to 1"),
        ({"results": []}, "must score each text from 0 to 1"),
        ({"results": [{"index": 7, "relevance_score": 0.5}]}, "not a reply of this API .index 7 of 1 texts"),
        ({"scores": [0.5]}, "not a reply of this API"),
    ],
)
def test_other_replies_are_errors(reply: Any, message: str) -> None:
    with served(lambda path, body: reply) as url:
        reranker = build_text_reranker(profile(sections__kind="rerank", sections__model="r", sections__base_url=url))
        with pytest.raises(EngineError, match=message):
            reranker.score(["what"], [["a"]])


def test_vectors_of_another_length_are_an_error() -> None:
    with served(lambda path, body: rows([[1.0] * (2 + len(body["input"]))] * len(body["input"]))) as url:
        encoder = build_encoder(profile(encoder__kind="infinity", encoder__model="s", encoder__base_url=url))
        with pytest.raises(EngineError, match="expected vectors of 3 values, got one of 4"):
            encoder.encode_texts(["a", "b"])
        with pytest.raises(ValueError, match=r"encoder\.base_url is not set"):
            build_encoder(profile(encoder__kind="infinity", encoder__model="s"))
