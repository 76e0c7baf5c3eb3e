"""Fetches images by URL, only from hosts that the operator allows."""

from __future__ import annotations

import httpx

from serving.errors import ApiError
from serving.images import too_many_bytes
from serving.settings import ServingSettings

_PORTS = {"http": 80, "https": 443}


async def fetch_image(url: str, settings: ServingSettings) -> bytes:
    """Fetches the bytes at `url`, up to the byte limit, without following redirects.

    Raises:
        ApiError: 422 for a malformed URL, a host that is not allowed or a failed download, 413 over the byte limit.
    """
    target = _allowed(url, settings)
    try:
        async with (
            httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=settings.timeout_s) as client,
            client.stream("GET", target) as response,
        ):
            if response.status_code != 200:
                raise _failed(f"{target.host} answered {response.status_code}")
            data = bytearray()
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > settings.max_image_bytes:
                    raise too_many_bytes(settings)
    except httpx.HTTPError as error:
        raise _failed(type(error).__name__) from error
    return bytes(data)


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
        raise ApiError(
            422,
            "host_not_allowed",
            f"images cannot be fetched from {place}; send the image itself, as base64",
            param="image",
        )
    return target


def _failed(reason: str) -> ApiError:
    return ApiError(422, "image_fetch_failed", f"the image could not be fetched: {reason}", param="image")
