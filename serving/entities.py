"""Live updates: `PUT`, `DELETE` and `GET /entities?id=…`."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread
from fastapi import FastAPI, Request
from PIL import Image
from starlette.datastructures import UploadFile

from chat_models.errors import ChatError
from retriever.filters import SCOPE
from retriever.types import EngineError
from serving import intake
from serving.body import content_type_of, parse_json, read_json
from serving.editing import Draft, Editor, OpenEditor
from serving.errors import ApiError, errors
from serving.fields import unknown_field
from serving.images import decode_image, too_many_bytes
from serving.index_view import IndexView, entity_at
from serving.requests import image_bytes, open_form
from serving.schemas import ArticleFields, ArticleOut, ChangeOut
from serving.service import Service
from serving.settings import ServingSettings

logger = logging.getLogger(__name__)

Decode = Callable[[bytes], Awaitable[Image.Image]]
"""Decodes the bytes of an image off the event loop."""

_FORM = {
    "type": "object",
    "required": ["article"],
    "properties": {
        "article": {
            "type": "string",
            "description": "JSON object with the fields of the JSON form; `image` is a name.",
        },
        "image": {"type": "string", "format": "binary", "description": "The main image, as a file."},
    },
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": _FORM},
            "application/json": {"schema": ArticleFields.model_json_schema()},
        },
    }
}
_FINDING = {404: "There is no such entity.", 422: "The id is not text."}
_CHANGING = {
    409: "The index cannot be changed by this service.",
    503: "The service is not ready, or the change could not be written.",
    507: "The disk is full; the change is not made.",
}
_READING = {
    422: "A field is missing, unknown or of the wrong type.",
    424: "The model that writes the summary failed.",
}
_GET_ERRORS = errors(own=_FINDING)
_DELETE_ERRORS = errors(429, own=_FINDING | _CHANGING)
_PUT_ERRORS = errors(400, 408, 413, 415, 429, own=_READING | _CHANGING)
_FETCHED = 16
"""Maximum number of further images that are fetched for an article."""
_SCORES = frozenset({"sim_c", "sim_m", "fused", "score", "scores"})
"""Fields of responses that are ignored in an article."""
_IMAGE_PATH = re.compile(r"[^/]+/image")
"""Ids whose path is that of `GET /entities/{version}/image`."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def add_entity_routes(app: FastAPI, service: Service, editor: Editor | OpenEditor | str) -> None:
    """Adds the routes to `app`.

    Args:
        app: The application.
        service: The service.
        editor: Changes the index that the service answers from; opens what changes it; or the reason why it cannot be
            changed.
    """
    # Threads of an executor stay taken when a request times out, so that no more images are decoded at once.
    decoders = ThreadPoolExecutor(service.settings.decode_threads, "decode images of articles")
    threads = anyio.CapacityLimiter(4)  # several threads, because changes that wait for the disk are written together

    async def opened() -> Editor:
        if callable(editor):
            current = await anyio.to_thread.run_sync(editor, limiter=threads)
            reason = f" now: {current}"
        else:
            current, reason = editor, f": {editor}"
        if isinstance(current, str):
            raise ApiError(409, "read_only", f"this service cannot change its index{reason}")
        return current

    async def changed(entity_id: str, work: Callable[[], None]) -> None:
        try:
            await anyio.to_thread.run_sync(work, limiter=threads)
        except KeyError as error:
            raise _no_entity(entity_id) from error
        except ChatError as error:  # first, because it is an OSError too
            raise ApiError(424, "summarizer_failed", "the model that writes summaries failed; try again") from error
        except EngineError:
            raise
        except OSError as error:
            logger.error("a change could not be written: %s", error)  # clients must not see the path
            if error.errno in _FULL:
                message = "the disk is full and nothing has changed; free space, then try again"
                raise ApiError(507, "not_written", message) from error
            raise ApiError(503, "not_written", "the change could not be written; see the service's log") from error
        except ValueError as error:  # such as a summarizer that is missing or differs from the one of the build
            raise ApiError(409, "read_only", str(error)) from error

    @app.get("/entities", response_model=ArticleOut, responses=_GET_ERRORS)
    def get_entity_by_id(id: str) -> ArticleOut:
        """Returns an article of the index. Ids may contain any characters."""
        return article(id)

    @app.put("/entities", response_model=ChangeOut, responses=_PUT_ERRORS, openapi_extra=_BODY)
    async def put_entity_by_id(request: Request, id: str | None = None) -> ChangeOut:
        """Adds or replaces an article, by the `id` of the query or of the article itself."""
        return await put(request, id)

    @app.delete("/entities", response_model=ChangeOut, responses=_DELETE_ERRORS)
    async def delete_entity_by_id(id: str) -> ChangeOut:
        """Removes an entity. Its id may contain any characters."""
        return await delete(id)

    @app.get("/entities/{entity_id:path}", response_model=ArticleOut, responses=_GET_ERRORS)
    def get_entity(request: Request, entity_id: str) -> ArticleOut:
        """Returns an article of the index, by an id without `/` and `%`."""
        if "/" in entity_id and service.view.row_of(entity_id) is None:
            advice = f"a proxy may have changed it: {_by_query(request, entity_id)}"
            raise ApiError(404, "not_found", f"{_no_entity(entity_id).message}; {advice}", param="entity_id")
        return article(entity_id)

    def article(entity_id: str) -> ArticleOut:
        row = service.view.row_of(entity_id)
        if row is None:
            raise _no_entity(entity_id)
        return service.view.article(row)

    @app.put("/entities/{entity_id:path}", response_model=ChangeOut, responses=_PUT_ERRORS, openapi_extra=_BODY)
    async def put_entity(request: Request, entity_id: str) -> ChangeOut:
        """Adds or replaces an article, by an id without `/` and `%`."""
        _check_path(request, entity_id)
        return await put(request, entity_id)

    async def put(request: Request, entity_id: str | None) -> ChangeOut:
        """Adds or replaces an article. Every search that begins after the response sees the change."""
        changes = await opened()

        async def decode(data: bytes) -> Image.Image:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(decoders, decode_image, data, service.settings, changes.load_image)

        async def read(request: Request, settings: ServingSettings) -> tuple[Draft, list[str]]:
            row, uploaded = await _read_article(request, settings, entity_id, service.view)
            row = await anyio.to_thread.run_sync(_owned, row, service, limiter=threads)
            draft, image = await _drafted(changes, row, uploaded, settings, decode)
            urls = await anyio.to_thread.run_sync(draft.complete, image, limiter=threads)
            return draft, await _add_further(draft, urls, settings, decode)

        draft, skipped = await intake.receive(service, request, read)
        created = await anyio.to_thread.run_sync(service.index.row_of, draft.id, limiter=threads) is None
        await changed(draft.id, draft.put)
        return ChangeOut(id=draft.id, created=created, notes=[*draft.notes, *skipped], index=service.view.about())

    @app.delete("/entities/{entity_id:path}", response_model=ChangeOut, responses=_DELETE_ERRORS)
    async def delete_entity(request: Request, entity_id: str) -> ChangeOut:
        """Removes an entity, by an id without `/` and `%`."""
        _check_path(request, entity_id)
        return await delete(entity_id)

    async def delete(entity_id: str) -> ChangeOut:
        """Removes an entity. No search that begins after the response finds it."""
        changes = await opened()
        if await anyio.to_thread.run_sync(service.view.row_of, entity_id, limiter=threads) is None:
            raise _no_entity(entity_id)
        await changed(entity_id, lambda: changes.remove([entity_id]))
        return ChangeOut(id=entity_id, index=service.view.about())


def _check_path(request: Request, entity_id: str) -> None:
    """Checks that the id in a path is the one that the client sent.

    Many proxies decode `%2F`, merge slashes and resolve dots, after which `https%3A%2F%2Fa` is another id.

    Raises:
        ApiError: 422 if a proxy may have changed it.
    """
    raw = (request.scope.get("raw_path") or request.scope["path"].encode()).partition(b"?")[0]
    sent = raw.partition(b"/entities/")[2]
    advice = _by_query(request, entity_id)
    if b"/" in sent:
        message = f"id: a path cannot hold an id with a slash, which proxies change; {advice}"
        raise ApiError(422, "bad_article", message, param="id")
    if _IMAGE_PATH.fullmatch(entity_id):
        message = f"id: /entities/{entity_id[:40]} is the path of an image; {advice}"
        raise ApiError(422, "bad_article", message, param="id")


async def _read_article(
    request: Request, settings: ServingSettings, entity_id: str | None, index: IndexView
) -> tuple[dict[str, Any], bytes | None]:
    """Reads the article of a request, and its image if that was sent; `entity_id` is its id, unless the article has it.

    Raises:
        ApiError: A field or the image is invalid.
    """
    kind, uploaded = content_type_of(request), None
    if kind == "application/json":
        row = await read_json(request, settings, too_many_bytes(settings))
    elif kind == "multipart/form-data":
        async with open_form(request, settings, ("article", "image")) as form:
            text, image = form.get("article"), form.get("image")
            if not isinstance(text, str):
                raise ApiError(422, "missing_article", "article is missing: a text field with JSON", param="article")
            row = parse_json(text, "article", "article")
            if isinstance(image, UploadFile):
                uploaded = await image.read()
            elif image:
                raise ApiError(422, "wrong_type", "image must be a file; a URL belongs in article", param="image")
    else:
        message = f"the content type must be multipart/form-data or application/json, got {kind or 'none'}"
        raise ApiError(415, "unsupported_media_type", message)
    if not isinstance(row, dict):
        raise ApiError(422, "wrong_type", "the article must be a JSON object")
    row = {name: value for name, value in row.items() if name not in _SCORES}
    if (shown := _entity_shown(row.get("image"), request)) is not None:  # as `GET` returned it
        del row["image"]
        known = row.get("id") if entity_id is None else entity_id
        rows = {index.row_of(known) if isinstance(known, str) else None, index.row_of(shown)}
        if uploaded is None and (None in rows or len(rows) > 1):
            message = "image: an address of this service is no image of a new or another entity; send the file"
            raise ApiError(422, "bad_image_url", message, param="image")
    if unknown := sorted(name for name in row if row[name] is not None and name not in ArticleFields.model_fields):
        raise unknown_field(unknown[0], tuple(ArticleFields.model_fields))
    return _identified(row, entity_id), uploaded


def _owned(row: dict[str, Any], service: Service) -> dict[str, Any]:
    """Returns an article with the fields that everything has that the caller may see.

    Raises:
        ApiError: 404 if its id is another caller's, 422 if a field says that it is.
    """
    scope, known = SCOPE.get(), service.view.row_of(row["id"])
    if not scope:
        return row
    if known is None and service.index.row_of(row["id"]) is not None:
        raise _no_entity(row["id"])
    if known is not None and "fields" not in row:
        return row
    fields = row.get("fields") or {}
    if not isinstance(fields, dict):
        raise ApiError(422, "bad_article", "fields must be an object of fields and values", param="fields")
    for name, values in scope:
        own = fields.setdefault(name, values[0] if len(values) == 1 else [])
        if not own or not set(map(str, own if isinstance(own, list) else [own])) <= set(values):
            message = f"fields.{name} must be {' or '.join(map(repr, values))} with this key"
            raise ApiError(422, "bad_article", message, param="fields")
    return row | {"fields": fields}


def _identified(row: dict[str, Any], entity_id: str | None) -> dict[str, Any]:
    """Returns an article with its id.

    Raises:
        ApiError: 422 if it has none, or another one than its address, or a text field is none.
    """
    own = row.get("id")
    id = (own or "") if entity_id is None else entity_id
    if not id or not isinstance(id, str):
        message = "the id is missing: PUT /entities?id=..., or id as a string in the article"
        raise ApiError(422, "bad_article", message, param="id")
    if own is not None and own != id:
        message = f"id must equal the id of the address, got {str(own)[:40]!r}"
        raise ApiError(422, "id_mismatch", message, param="id")
    if row.get("title") is None:
        raise ApiError(422, "bad_article", "title is missing", param="title")
    for name in ("title", "url"):  # files of articles may have numbers there
        if not isinstance(row.get(name), str | None):
            raise ApiError(422, "bad_article", f"{name} must be a string", param=name)
    return row | {"id": id}


async def _drafted(
    editor: Editor, row: dict[str, Any], uploaded: bytes | None, settings: ServingSettings, decode: Decode
) -> tuple[Draft, Image.Image | None]:
    """Returns an article and its main image, which is fetched if it is a URL.

    Raises:
        ApiError: A field or the image is invalid.
    """
    named = {"image", "images", "url", "fields"} & row.keys() | ({"image"} if uploaded else set())
    row = {name: value for name, value in row.items() if value is not None}
    image = row.get("image") or ""
    if uploaded is None and isinstance(image, str) and image and "://" not in image[:20]:
        uploaded = await image_bytes(image, settings)
        row["image"] = _name_of(uploaded)
    elif uploaded is not None and not image:
        row["image"] = _name_of(uploaded)
    try:
        draft = editor.draft(row, named)
    except ValueError as error:
        raise ApiError(422, "bad_article", str(error)) from error
    if uploaded is None and (url := draft.image_url) is not None:
        uploaded = await image_bytes(url, settings)
    return draft, None if uploaded is None else await decode(uploaded)


async def _add_further(draft: Draft, urls: Iterable[str], settings: ServingSettings, decode: Decode) -> list[str]:
    """Fetches at most `_FETCHED` further images of an article; returns why others are skipped."""
    skipped = []
    for url in [url for url in urls if "://" in url[:20]][:_FETCHED]:
        try:
            draft.add(url, await decode(await image_bytes(url, settings)))
        except ApiError as error:
            logger.warning("%r: image %r skipped: %s", draft.id[:200], url[:200], error.message)
            skipped.append(f"image {url[:200]!r} skipped: {error.message}")
    return skipped


def _entity_shown(image: object, request: Request) -> str | None:
    """Returns the id of the entity if an article's image is an address at which this service shows one."""
    here = rf"https?://{re.escape(request.url.netloc)}(?=/)"
    return entity_at(re.sub(here, "", image)) if isinstance(image, str) else None


def _name_of(image: bytes) -> str:
    """Returns a name for an image that was sent without one."""
    return f"upload/{hashlib.sha256(image).hexdigest()[:16]}"


def _by_query(request: Request, entity_id: str) -> str:
    return f"send it in the query: {request.method} /entities?id={quote(entity_id[:200], safe='')}"


def _no_entity(entity_id: str) -> ApiError:
    return ApiError(404, "not_found", f"the index has no entity {entity_id[:200]!r}", param="entity_id")
