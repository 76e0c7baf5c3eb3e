"""Reads a question and its image from a multipart or JSON request, within the limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import httpx
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from chat_models.certificates import certificates
from serving.body import body_limit, content_type_of, parse_json, read_body, read_json
from serving.errors import ApiError
from serving.fields import NO_QUESTION, CheckedRequest, check, checked_request, no_image, unknown_field
from serving.images import parse_base64, parse_data_uri, too_many_bytes
from serving.schemas import RequestFields, RequestOptions
from serving.settings import ServingSettings

_IMAGES = ("image", "images")  # as in JSON; a form has either once per image
_FORM_FIELDS = (*_IMAGES, "question", "options")
_TOGETHER = "the image is, or several are together,"


async def read_request(request: Request, settings: ServingSettings) -> CheckedRequest:
    """Reads and checks a request.

    Raises:
        ApiError: 400 if it is malformed, 413 if it is too large, 415 for another content type, 422 for a bad field.
    """
    if name := next(iter(request.query_params), None):
        known = f"; send {name} in the body" if name in RequestFields.model_fields else "; send all fields in the body"
        raise ApiError(422, "unknown_option", f"parameters of the URL are not read{known}", param=name[:40])
    content_type = content_type_of(request)
    if content_type == "multipart/form-data":
        return await _read_multipart(request, settings)
    if content_type == "application/json":
        return await _read_json(request, settings)
    message = f"the content type must be multipart/form-data or application/json, got {content_type or 'none'}"
    raise ApiError(415, "unsupported_media_type", message)


async def image_bytes(image: bytes | str, settings: ServingSettings) -> bytes:
    """Returns the image's bytes, decoded from base64 or fetched from its URL if necessary.

    Raises:
        ApiError: The base64 or the URL is malformed, the host is not allowed, or the image is too large.
    """
    if isinstance(image, bytes):
        return image
    image = image.lstrip()
    if image[:5].lower() == "data:":
        return parse_data_uri(image, settings)
    if "://" in image[:20]:
        return await fetch_image(image, settings)
    return parse_base64(image, settings)


@contextmanager
def naming(number: int, images: int) -> Iterator[None]:
    """Names the image, by its number, in errors about one of several."""
    try:
        yield
    except ApiError as error:
        error.message = f"image {number}: {error.message.removeprefix('image: ')}" if images > 1 else error.message
        raise


async def _read_json(request: Request, settings: ServingSettings) -> CheckedRequest:
    fields = check(RequestFields, await read_json(request, settings, too_many_bytes(settings, _TOGETHER)))
    images = [*([] if fields.image is None else [fields.image]), *(fields.images or ())]
    if "" in images:
        raise no_image()
    return checked_request(images, fields.question, fields, fields.stream, settings)


@asynccontextmanager
async def open_form(
    request: Request, settings: ServingSettings, fields: tuple[str, ...], repeated: tuple[str, ...] = ()
) -> AsyncIterator[FormData]:
    """Yields a multipart form that has only the given fields, each at most once but for the `repeated` ones.

    Raises:
        ApiError: 400 if it is malformed, 413 if it is too large, 422 for an unknown or repeated field.
    """
    if "boundary=" not in request.headers["content-type"].lower():
        message = "the content type has no boundary; let the HTTP client set the Content-Type header"
        raise ApiError(400, "malformed_multipart", message)
    body = read_body(request, settings, too_many_bytes(settings, _TOGETHER))
    most = settings.max_images + 8  # a few more of both, to say what is wrong with them
    form = _FormParser(request.headers, body, max_files=most, max_fields=most, max_part_size=body_limit(settings))
    try:
        data = await form.parse()
    except MultiPartException as error:
        reason = error.__cause__ or error.message  # Starlette itself says only "Invalid multipart data."
        raise ApiError(400, "malformed_multipart", f"malformed multipart body: {reason}") from error
    try:
        if not form.complete:
            raise ApiError(400, "malformed_multipart", "malformed multipart body: the closing boundary is missing")
        for name, count in ((name, len(data.getlist(name))) for name in data):
            if name not in fields:
                raise _unknown_form_field(name, fields)
            if count > 1 and name not in repeated:
                raise ApiError(422, "duplicate_field", f"{name} is given {count} times; send it once", param=name)
        yield data
    finally:
        await data.close()


async def _read_multipart(request: Request, settings: ServingSettings) -> CheckedRequest:
    async with open_form(request, settings, _FORM_FIELDS, _IMAGES) as data:
        question, text = data.get("question"), data.get("options", "{}")
        if question is None:
            raise ApiError(422, "missing_question", NO_QUESTION, param="question")
        for name, value in (("question", question), ("options", text)):
            if not isinstance(value, str):
                raise ApiError(422, "wrong_type", f"{name} must be a text field, not a file", param=name)
        options = check(RequestOptions, parse_json(str(text) or "{}", "options", "options"), "options")
        images = [await _form_image(part, settings) for name, part in data.multi_items() if name in _IMAGES]
        return checked_request(images, str(question), options, options.stream, settings)


async def _form_image(part: UploadFile | str, settings: ServingSettings) -> bytes | str:
    if part == "":
        raise no_image()
    if isinstance(part, str):
        return part
    if (part.size or 0) > settings.max_image_bytes:
        raise too_many_bytes(settings)
    return await part.read()


def _unknown_form_field(name: str, fields: tuple[str, ...]) -> ApiError:
    advice = f'; write {name} into options, such as options={{"{name}": …}}'
    return unknown_field(name, fields, advice if "options" in fields and name in RequestOptions.model_fields else "")


class _FormParser(MultiPartParser):
    """A form parser that records whether it has seen the closing boundary and accepts text only as UTF-8."""

    complete = False
    spool_max_size = 0  # keep files in memory, bounded by the body's limit, so that a full disk does not reject images

    def on_headers_finished(self) -> None:
        """Recognizes files by their content type too, since some clients send files without a name."""
        part = self._current_part
        disposition = part.content_disposition or b""
        kind = dict(part.item_headers).get(b"content-type", b"").lower()
        if kind.startswith((b"image/", b"application/octet-stream")) and b"filename=" not in disposition:
            part.content_disposition = disposition + b'; filename=""'
        super().on_headers_finished()

    def on_part_end(self) -> None:
        """Rejects text that is not UTF-8, which the parser would otherwise read as Latin-1."""
        part = self._current_part
        try:
            part.data.decode()
        except UnicodeDecodeError as error:
            message = f"{part.field_name} is not UTF-8; send text as UTF-8, and a file with its content type"
            raise ApiError(400, "malformed_multipart", message, param=part.field_name) from error
        super().on_part_end()

    def on_end(self) -> None:
        """Records that the closing boundary was seen."""
        self.complete = True


_PORTS = {"http": 80, "https": 443}
_REDIRECTS = 5


async def fetch_image(url: str, settings: ServingSettings) -> bytes:
    """Fetches the bytes at `url`, up to the byte limit; follows redirects to hosts that are allowed.

    Raises:
        ApiError: 422 for a malformed URL, a host that is not allowed or a failed download, 413 over the byte limit.
    """
    target, data = _allowed(url, settings), bytearray()
    try:
        async with httpx.AsyncClient(trust_env=False, verify=certificates(), timeout=settings.timeout_s) as client:
            for _ in range(1 + _REDIRECTS):
                async with client.stream("GET", target) as response:
                    if response.next_request is not None:
                        target = _allowed(str(response.next_request.url), settings)
                        continue
                    if response.status_code != 200:
                        raise _failed(f"{target.host} answered {response.status_code}")
                    async for chunk in response.aiter_bytes():
                        data += chunk
                        if len(data) > settings.max_image_bytes:
                            raise too_many_bytes(settings)
                    return bytes(data)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _failed(type(error).__name__) from error
    raise _failed(f"{target.host} redirects more than {_REDIRECTS} times")


def _allowed(url: str, settings: ServingSettings) -> httpx.URL:
    try:
        target = httpx.URL(url)
        named = bool(target.host)  # decodes the host name, which may fail
    except (httpx.InvalidURL, ValueError) as error:
        raise ApiError(422, "bad_image_url", "image is a malformed URL", param="image") from error
    if target.scheme not in _PORTS or not named or target.userinfo:
        raise ApiError(422, "bad_image_url", "image must be an http(s) URL without a user name", param="image")
    place = target.netloc.decode("ascii")
    full = place if target.port else f"{place}:{_PORTS[target.scheme]}"  # httpx omits the scheme's default port
    if {place, full}.isdisjoint(host.lower() for host in settings.image_hosts):
        message = f"images cannot be fetched from {place}; send the image itself, as base64"
        raise ApiError(422, "host_not_allowed", message, param="image")
    return target


def _failed(reason: str) -> ApiError:
    return ApiError(422, "image_fetch_failed", f"the image could not be fetched: {reason}", param="image")
