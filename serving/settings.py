"""The operator's settings of the service (the profile's `[serving]` table): limits, batching, keys, allowed hosts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from retriever.filters import filter_of


def _form(pattern: str, message: str) -> AfterValidator:
    """Returns a validator for text that must match a pattern; malformed values would silently never compare equal."""

    def check(text: str) -> str:
        text = text.strip()
        if not re.fullmatch(pattern, text):
            raise PydanticCustomError("form", message)
        return text

    return AfterValidator(check)


Digest = Annotated[
    str,
    _form("[0-9a-f]{64}", "must be the SHA-256 digest that `omgm serve --new-key` prints beside a key, not the key"),
]
Host = Annotated[str, _form(r"[^\s/*]+", "must be a host or host:port, such as example.org, without scheme or path")]
Origin = Annotated[
    str,
    _form(
        r"\*|null|[a-z][a-z0-9+.-]*://[^\s/A-Z]+", "must be an origin as browsers send it, such as https://example.org"
    ),
]


class ServingSettings(BaseModel):
    """Limits and switches of one service; docs/settings.md lists them.

    Attributes:
        max_image_bytes: Largest upload of an image, in bytes.
        max_image_pixels: Largest width times height of an image.
        max_images: Most images of a question.
        max_image_side: Larger images are shrunk to this longest side, or down to half, in pixels.
        max_question_chars: Longest question, in characters.
        max_k: Largest `k` of a request.
        max_batch: Most queries per batch; 8 in the embedded profile.
        max_wait_s: Longest estimated wait for the models, in seconds; other requests are rejected.
        max_queue: Most waiting requests.
        timeout_s: Longest time from the end of the upload to the answer, in seconds.
        header_timeout_s: Longest time for a request's headers, in seconds (not with `--replicas`).
        upload_timeout_s: Longest time for an upload, and for which a client may leave its response unread, in seconds.
        model_threads: CPU threads per model, by default one per core; 1 in the embedded profile.
        processes: Processes that run the models beside the one that serves HTTP; 0 for none, 2 in the embedded profile.
        decode_threads: Number of images decoded in parallel.
        cache_mib: Size of the cache of decoded and encoded images, in MiB.
        evidence_sections: Number of sections in a response; the generator reads the first.
        image_hosts: Hosts (`host` or `host:port`) from which images may be fetched by URL.
        read_keys: SHA-256 digests of the keys that may ask.
        write_keys: SHA-256 digests of the keys that may change the index.
        key_filters: For digests of keys, the filter of all that they may see and change, such as `{tenant = "acme"}`.
        hosts: Domain names accepted by a service on 127.0.0.1 without read keys.
        requests_per_minute: Rate limit per key or, without keys, per address; 0 means no limit.
        cors_origins: Origins (`https://example.org`) whose pages may use the service; `*` means all.
        log_format: `text`, or `json` for one object per line.
        compact_after: Number of changed entities after which the index is compacted; 0 leaves it to `omgm index
            compact`.
        examples_dir: Folder with `queries/*.jpg` and `examples.csv` or `test.csv`, shown as examples on the page.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_image_bytes: int = Field(default=24 * 2**20, ge=1)
    max_image_pixels: int = Field(default=65_000_000, ge=1)
    max_images: int = Field(default=4, ge=1)
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
    processes: int = Field(default=0, ge=0)
    decode_threads: int = Field(default=2, ge=1)
    cache_mib: int = Field(default=64, ge=0)
    evidence_sections: int = Field(default=3, ge=1)
    image_hosts: tuple[Host, ...] = ()
    read_keys: tuple[Digest, ...] = ()
    write_keys: tuple[Digest, ...] = ()
    key_filters: dict[Digest, dict[str, Any]] = {}
    hosts: tuple[Host, ...] = ()
    requests_per_minute: int = Field(default=0, ge=0)
    cors_origins: tuple[Origin, ...] = ()
    log_format: Literal["text", "json"] = "text"
    compact_after: int = Field(default=1000, ge=0)
    examples_dir: Path | None = None

    @field_validator("image_hosts", "read_keys", "write_keys", "hosts", "cors_origins", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_filters(self) -> Self:
        for digest, values in self.key_filters.items():
            if not filter_of(values) or digest not in (*self.read_keys, *self.write_keys):
                raise ValueError(f"key_filters: {digest[:12]}… has no field, or is in neither read_keys nor write_keys")
        return self
