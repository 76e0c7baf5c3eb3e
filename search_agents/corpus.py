"""A frozen corpus: a folder of recorded searches, pages and model replies, which are replayed exactly."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image

from chat_models.replies import ChatReply, ToolCall
from retriever.files import write_whole
from retriever.images import encoded
from search_agents.cache import ResultCache
from search_agents.records import Observation, Source

T = TypeVar("T")


class NotRecorded(ValueError):
    """A result is not in the frozen corpus."""


class Corpus:
    """A folder with one JSON file per result, named by the hash of its key.

    Args:
        folder: The folder; created if recording.
        record: Whether to fetch and record missing results. Otherwise nothing outside the folder is used.

    Raises:
        ValueError: The folder does not exist, and `record` is false; or its date is damaged.
    """

    def __init__(self, folder: Path, *, record: bool = False) -> None:
        if not record and not folder.is_dir():
            raise ValueError(f"corpus: {folder} does not exist; record one first")
        self.folder, self.record = folder, record
        self._date = folder / "date.txt"
        self.today = None if not record or any(folder.glob("*")) else date.today()
        """The day of its first recording, which models are told; `None` if an older version recorded it."""
        if self._date.is_file():
            try:
                self.today = date.fromisoformat(self._date.read_text(encoding="utf-8").strip())
            except ValueError as error:
                raise ValueError(f"corpus: {self._date} must be a date such as 2026-11-28: {error}") from error
        self._under_way = ResultCache[dict[str, Any]](entries=0)  # joins identical requests, caches nothing

    async def get(
        self,
        kind: str,
        key: str,
        make: Callable[[], Awaitable[T]],
        encode: Callable[[T], Any],
        decode: Callable[[Any], T],
    ) -> tuple[T, float]:
        """Returns a result and the milliseconds that it took when it was recorded.

        Args:
            kind: The kind of result, such as a tool's name; also the name of the subfolder.
            key: Identifies the result.
            make: Fetches the result.
            encode: Converts the result to JSON values.
            decode: Converts JSON values back to the result.

        Raises:
            NotRecorded: The result is not in the corpus, and the corpus is not recording.
            ValueError: The file of the result is damaged.
        """
        content = self.read(kind, key)
        if content is None:
            if not self.record:
                raise self.lacks(kind)

            async def ask() -> dict[str, Any]:
                result, ms = await timed(make)
                known = self.read(kind, key)  # the first recorded one counts, now and in replays
                return self.write(kind, key, encode(result), ms) if known is None else known

            content, _ = await self._under_way.get(f"{kind} {key}", ask)
        try:
            return decode(content["result"]), float(content["ms"])
        except (ValueError, LookupError, TypeError, AttributeError, OSError) as error:
            raise ValueError(f"{self.path(kind, key)}: not a recorded result: {error}") from error

    def path(self, kind: str, key: str) -> Path:
        """Returns the file of a result."""
        return self.folder / kind / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"

    def read(self, kind: str, key: str) -> dict[str, Any] | None:
        """Returns a recorded result, an object with `result` and `ms`, or `None` if there is none.

        Raises:
            ValueError: The file of the result is damaged.
        """
        path = self.path(kind, key)
        if not path.is_file():
            return None
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: not a recorded result: {error}") from error
        if not isinstance(content, dict) or "result" not in content:
            raise ValueError(f"{path}: not a recorded result: no result in it")
        return content

    def write(self, kind: str, key: str, result: object, ms: float) -> dict[str, Any]:
        """Records a result, which must consist of JSON values, and returns what `read` will return."""
        path = self.path(kind, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"kind": kind, "key": key[:2000], "ms": ms, "result": result}
        if self.today is not None and not self._date.is_file():
            write_whole(self._date, f"{self.today}\n".encode())
        text = json.dumps(content, ensure_ascii=False, indent=1)
        write_whole(path, text.encode())
        written: dict[str, Any] = json.loads(text)
        return written

    def lacks(self, kind: str) -> NotRecorded:
        """Returns the error for a result that is not recorded."""
        what = "request to the model" if kind == "model" else kind
        return NotRecorded(f"this {what} is not in the frozen corpus {self.folder.name}")


async def timed(make: Callable[[], Awaitable[T]]) -> tuple[T, float]:
    """Awaits a result; returns it and the milliseconds that it took."""
    start = time.perf_counter()
    result = await make()
    return result, round((time.perf_counter() - start) * 1000, 1)


def encode_observation(seen: Observation) -> dict[str, Any]:
    """Returns an observation as JSON values, with images as PNG in base64."""
    return {
        "sources": [asdict(source) for source in seen.sources],
        "text": seen.text,
        "images": {name: encode_image(image) for name, image in seen.images.items()},
        "found": {image: list(entities) for image, entities in seen.found.items()},
        "answer": seen.answer,
        "error": seen.error,
        "complete": seen.complete,
    }


def decode_observation(values: Any) -> Observation:
    """Returns the observation that `encode_observation` encoded."""
    sources = tuple(
        Source(**{**source, "span": None if source["span"] is None else tuple(source["span"])})
        for source in values["sources"]
    )
    images = {name: decode_image(data) for name, data in values["images"].items()}
    found = {image: tuple(entities) for image, entities in values["found"].items()}
    complete = values.get("complete", True)  # older recordings lack it
    return Observation(sources, values["text"], images, found, values["answer"], values["error"], complete)


def encode_reply(reply: ChatReply) -> dict[str, Any]:
    """Returns a model's reply as JSON values."""
    return asdict(reply)


def decode_reply(values: Any) -> ChatReply:
    """Returns the reply that `encode_reply` encoded."""
    older = {"ending": "cut" if values["cut"] else "complete"} if "cut" in values else {}
    known = {name: value for name, value in values.items() if name != "cut"}
    calls = tuple(ToolCall(**call) for call in values["calls"])  # older recordings lack the message
    return ChatReply(**{**known, **older, "calls": calls, "without": tuple(values.get("without", ()))})


def decode_image(data: str) -> Image.Image:
    """Returns the image that `encode_image` encoded."""
    image = Image.open(io.BytesIO(base64.b64decode(data)))
    image.load()
    return image


def encode_image(image: Image.Image) -> str:
    """Returns an image as PNG in base64."""
    return base64.b64encode(encoded(image)).decode()
