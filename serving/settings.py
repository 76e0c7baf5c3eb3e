"""What an operator may set about the service (the profile's `[serving]` table): limits, batching, allowed hosts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError


def _form(pattern: str, message: str) -> AfterValidator:
    """Returns a validator for text of a form; without it, what is compared as text would never be equal."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise PydanticCustomError("form", message)
        return text

    return AfterValidator(check)


Digest = Annotated[str, _form("[0-9a-f]{64}", "must be the SHA-256 digest that `omgm key` prints beside a key")]
Host = Annotated[str, _form(r"[^\s/*]+", "must be a host or host:port, such as example.org, without https:// and path")]
Origin = Annotated[
    str,
    _form(
        r"\*|null|[a-z][a-z0-9+.-]*://[^\s/A-Z]+", "must be an origin as browsers send it, such as https://example.org"
    ),
]


class ServingSettings(BaseModel):
    """Limits and switches of one service; docs/serving.md lists them.

    Attributes:
        max_image_bytes: Largest image as uploaded, in bytes.
        max_image_pixels: Largest image as its header declares it, width times height.
        max_image_side: Longest side in pixels that a decoded image is shrunk to, so that a full queue fits into memory.
        max_question_chars: Longest question, in characters.
        max_k: Largest `k` that a request may ask for.
        max_batch: Largest number of queries that are retrieved together.
        max_wait_s: Longest time in seconds that a request may be expected to wait for the models; one that would wait
            longer is rejected with 429. Two full batches are always accepted.
        max_queue: Largest number of requests that wait, however fast they would be answered: a limit on memory.
        timeout_s: Longest time in seconds from the end of the upload to the answer.
        header_timeout_s: Longest time in seconds that the headers of a request may take.
        upload_timeout_s: Longest time in seconds that an upload may take, or that a client may leave its answer unread.
        model_threads: Threads of each model on a CPU; by default PyTorch's choice, one per core.
        decode_threads: Number of images that are decoded at the same time.
        cache_mib: MiB of decoded and encoded images that are kept for further questions about them; 0 is none.
        evidence_sections: Number of the best entity's sections in a response; the generator reads the first.
        image_hosts: Hosts (`host` or `host:port`) that images may be fetched from by URL.
        read_keys: SHA-256 digests of the keys that may ask; without any, everybody may.
        write_keys: SHA-256 digests of the keys that may change the index.
        hosts: Names of sites that a service on the loopback interface answers to although it has no read keys, such as
            the public name that a proxy on the same machine passes on.
        requests_per_minute: Requests per minute of each key, or of each address without keys; 0 is no limit.
        cors_origins: Origins of other sites (`https://example.org`) whose pages may use the service; `*` is all.
        log_format: Logs as text, or as one JSON object per line, with one for each request.
        compact_after: Changes after which the index is compacted in the background; 0 leaves it to
            `omgm index compact`.
        examples_dir: Folder with `queries/*.jpg` and `test.csv` (E-VQA's columns), offered as examples on the page.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_image_bytes: int = Field(default=10 * 2**20, ge=1)
    max_image_pixels: int = Field(default=50_000_000, ge=1)
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
