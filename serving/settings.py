"""The operator's settings of the service (the profile's `[serving]` table): limits, batching, keys, allowed hosts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError


def _form(pattern: str, message: str) -> AfterValidator:
    """Returns a validator for text that must match a pattern; malformed values would silently never compare equal."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise PydanticCustomError("form", message)
        return text

    return AfterValidator(check)


Digest = Annotated[str, _form("[0-9a-f]{64}", "must be the SHA-256 digest that `omgm key` prints beside a key")]
Host = Annotated[str, _form(r"[^\s/*]+", "must be a host or host:port, such as example.org, without scheme or path")]
Origin = Annotated[
    str,
    _form(
        r"\*|null|[a-z][a-z0-9+.-]*://[^\s/A-Z]+", "must be an origin as browsers send it, such as https://example.org"
    ),
]


class ServingSettings(BaseModel):
    """Limits and switches of one service; docs/serving.md lists them.

    Attributes:
        max_image_bytes: Largest upload of an image, in bytes.
        max_image_pixels: Largest image, as width times height in its header.
        max_image_side: Decoded images are shrunk to this longest side in pixels, so that a full queue fits into memory.
        max_question_chars: Longest question, in characters.
        max_k: Largest `k` that a request may ask for.
        max_batch: Maximum number of queries that are retrieved together.
        max_wait_s: Longest expected wait for the models in seconds, in a burst twice that; requests that would wait
            longer are rejected with 429. Two full batches are always accepted, on a GPU three.
        max_queue: Maximum number of waiting requests, however fast they would be answered: a limit on memory.
        timeout_s: Longest time in seconds from the end of the upload to the answer.
        header_timeout_s: Longest time in seconds for receiving the headers of a request.
        upload_timeout_s: Longest time in seconds for an upload, and that a client may leave its response unread.
        model_threads: Threads of each model on a CPU; by default PyTorch's choice, one per core.
        decode_threads: Number of images that are decoded at the same time, separately for questions and articles.
        cache_mib: MiB of decoded and encoded images that are cached for further questions about them; 0 disables it.
        evidence_sections: Number of the best entity's sections in a response; the generator reads the first.
        image_hosts: Hosts (`host` or `host:port`) that images may be fetched from by URL.
        read_keys: SHA-256 digests of the keys that may ask; without any, everybody may.
        write_keys: SHA-256 digests of the keys that may change the index.
        hosts: Host names that a service on the loopback interface accepts without read keys, such as the public name
            that a proxy on the same machine passes on.
        requests_per_minute: Requests per minute for each key, or for each address without keys; 0 is unlimited.
        cors_origins: Origins of other sites (`https://example.org`) whose pages may use the service; `*` allows all.
        log_format: Log as text, or as JSON with one object per line, including one for each request.
        compact_after: Number of changes after which the index is compacted in the background; 0 leaves it to
            `omgm index compact`.
        examples_dir: Folder with `queries/*.jpg` and `test.csv` (E-VQA's columns), offered as examples on the page.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_image_bytes: int = Field(default=24 * 2**20, ge=1)
    max_image_pixels: int = Field(default=65_000_000, ge=1)
    max_image_side: int = Field(default=2048, ge=64)
    max_question_chars: int = Field(default=512, ge=1)
    max_k: int = Field(default=100, ge=1)
    max_batch: int = Field(default=16, ge=1)
    max_wait_s: float = Field(default=0.2, ge=0)
    max_queue: int = Field(default=128, ge=1)
    timeout_s: float = Field(default=30, gt=0)
    header_timeout_s: float = Field(default=10, gt=0)
    upload_timeout_s: float = Field(default=60, gt=0)
    model_threads: int | None = Field(default=None, ge=1)
    decode_threads: int = Field(default=2, ge=1)
    cache_mib: int = Field(default=64, ge=0)
    evidence_sections: int = Field(default=3, ge=1)
    image_hosts: tuple[Host, ...] = ()
    read_keys: tuple[Digest, ...] = ()
    write_keys: tuple[Digest, ...] = ()
    hosts: tuple[Host, ...] = ()
    requests_per_minute: int = Field(default=0, ge=0)
    cors_origins: tuple[Origin, ...] = ()
    log_format: Literal["text", "json"] = "text"
    compact_after: int = Field(default=1000, ge=0)
    examples_dir: Path | None = None
