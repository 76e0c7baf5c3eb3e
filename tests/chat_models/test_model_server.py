from __future__ import annotations

import json

import pytest

from chat_models.errors import ChatError
from chat_models.model_server import ModelServer
from tests.fakes.local_chat_servers import CannedReply, LocalChatServer

VECTORS = json.dumps({"data": [{"index": 1, "embedding": [3, 4]}, {"index": 0, "embedding": [1, 2]}]})


def test_a_failure_that_may_pass_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    failures = [CannedReply("{}", 503, headers={"Retry-After": "0"}), CannedReply("{}", 429)]
    with LocalChatServer({"/v1/embeddings": [*failures, CannedReply(VECTORS)]}) as server:
        client = ModelServer(server.url, "m", "secret", backoff=0.001)
        assert client.embed([{"input": ["a", "b"]}]) == [[1, 2], [3, 4]]
    assert server.bodies[0] == {"model": "m", "encoding_format": "float", "input": ["a", "b"]}
    assert server.headers[0]["authorization"] == "Bearer secret" and len(server.bodies) == 3
    assert caplog.text.count("trying again") == 2 and "secret" not in caplog.text


@pytest.mark.parametrize(
    ("reply", "message", "times"),
    [
        (CannedReply('{"error": {"message": "no such model"}}', 404), "status 404: no such model", 1),
        (CannedReply("{}", 500), "status 500", 2),
        (CannedReply("<html>"), "not a reply of this API", 1),
        (CannedReply('{"data": [{"index": 0, "embedding": [1]}]}'), "expected 2 vectors, got 1", 1),
        (CannedReply('{"data": [{"index": 0, "embedding": null}]}'), "not a reply of this API", 1),
    ],
)
def test_other_failures_are_errors(reply: CannedReply, message: str, times: int) -> None:
    with LocalChatServer({"/v1/embeddings": reply}) as server:
        with pytest.raises(ChatError, match=message):
            ModelServer(server.url, "m", retries=1, backoff=0.001).embed([{"input": ["a", "b"]}])
        assert len(server.bodies) == times


def test_no_server_is_an_error() -> None:
    with LocalChatServer({}) as server:
        url = server.url
    with pytest.raises(ChatError, match="no answer: ConnectError"):
        ModelServer(url, "m", retries=0).embed([{"input": ["a"]}])
