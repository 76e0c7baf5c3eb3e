"""A client for models that embed or rerank behind a server: vLLM, Text Embeddings Inference (TEI) or infinity."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from chat_models.errors import ChatError
from chat_models.proxies import sync_http_client, through_proxy
from chat_models.replies import error_message, shortened
from chat_models.retries import MAX_WAIT, PASSING, asked_wait, seconds_to_wait
from chat_models.secrets import hidden, keep_secret
from chat_models.transport import reason, root, under

logger = logging.getLogger(__name__)

BATCH = 32
"""Texts per request."""
CONCURRENCY = 8
"""Requests of a batch at the same time."""


class ModelServer:
    """A model on a server; blocking, for any thread. Connections of a forked process are its own.

    Failed connections and statuses 429 and 5xx are retried after the time in Retry-After, or with exponential backoff.

    Args:
        base_url: The root of the API, such as "http://127.0.0.1:8002/v1"; "/v1" is added to a bare host.
        model: The model's name in requests.
        api_key: Sent as a bearer token if given.
        timeout: Maximum silence of the server, in seconds.
        retries: Maximum number of retries.
        backoff: Seconds before the first retry; doubled for each further one, with some jitter.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        timeout: float = 60,
        retries: int = 3,
        backoff: float = 0.5,
    ) -> None:
        self._base = root(base_url)
        keep_secret(api_key, url=str(self._base))
        self.model, self.url, self.retries, self.backoff = model, hidden(str(self._base)), retries, backoff
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = timeout
        self._opening = threading.Lock()
        self._open: tuple[int, httpx.Client] | None = None

    def embed(self, bodies: Sequence[Mapping[str, Any]]) -> list[list[float]]:
        """Returns the vectors that `/embeddings` sends for requests, whose other fields are given, all in order.

        Raises:
            ChatError: The server cannot be reached, refuses a request, or does not send a vector per input.
        """

        def one(body: Mapping[str, Any]) -> list[list[float]]:
            def read(reply: Any) -> list[list[float]]:
                rows = sorted(reply["data"], key=lambda row: int(row["index"]))
                return [[float(value) for value in row["embedding"]] for row in rows]

            found: list[list[float]] = self.post(
                "embeddings", {"model": self.model, "encoding_format": "float", **body}, read
            )
            expected = len(body["input"]) if "input" in body else 1
            if len(found) != expected:
                raise ChatError(f"expected {expected} vectors, got {len(found)}", under(self._base, "embeddings"))
            return found

        if len(bodies) < 2:
            return [row for body in bodies for row in one(body)]
        with ThreadPoolExecutor(CONCURRENCY, "embeddings") as pool:
            return [row for rows in pool.map(one, bodies) for row in rows]

    def post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], Any], at_root: bool = False) -> Any:
        """Sends a request, again after failures that may pass, and returns what `read` makes of the JSON of its reply.

        Args:
            path: Its path under the root of the API; with `at_root`, under that of the host.
            body: What is sent as JSON.
            read: Raises LookupError, TypeError or ValueError for a reply in another form.
            at_root: Whether the API is at the root of the host, without `/v1`.

        Raises:
            ChatError: The server cannot be reached, refuses the request, or replies in another form.
        """
        base = self._base.copy_with(path=self._base.path.removesuffix("/v1")) if at_root else self._base
        url = under(base, path)
        for attempt in range(self.retries + 1):
            response: httpx.Response | None = None
            try:
                response = self._http().post(url, json=body)
                if response.is_success:
                    return read(response.json())
                failure = f"status {response.status_code}: {error_message(response.text) or response.reason_phrase}"
                passes = response.status_code in PASSING or response.status_code >= 500
            except httpx.HTTPError as error:
                failure, passes = f"no answer: {reason(error)}{through_proxy(url)}", True
            except (LookupError, TypeError, ValueError) as error:
                text = shortened(response.text) if response is not None else ""
                failure, passes = f"not a reply of this API ({error}): {text}", False
            if not passes or attempt == self.retries:
                break
            asked = asked_wait(response.headers) if response is not None else None
            wait = min(seconds_to_wait(None, attempt, self.backoff) if asked is None else asked, MAX_WAIT)
            logger.warning("%s: %s; trying again in %.1f s", hidden(url), hidden(failure), wait)
            time.sleep(wait)
        raise ChatError(hidden(failure), hidden(url), None if response is None else response.status_code)

    def _http(self) -> httpx.Client:
        with self._opening:
            if self._open is None or self._open[0] != os.getpid():
                client = sync_http_client(self._base, headers=self._headers, timeout=self._timeout)
                self._open = os.getpid(), client
            return self._open[1]
