"""Pictures by URL, from hosts that the operator allows and from nowhere else."""

from __future__ import annotations

import httpx

from serving.errors import ApiError
from serving.images import too_many_bytes
from serving.settings import ServingSettings


async def fetch_image(url: str, settings: ServingSettings) -> bytes:
    """Returns the bytes at `url`, read no further than the byte limit; redirects are not followed.

    Raises:
        ApiError: 422 not a URL, a host that is not allowed, or nothing to be had there; 413 over the byte limit.
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
    except (httpx.InvalidURL, ValueError) as error:
        raise ApiError(422, "bad_image_url", "image is neither a data URI nor a URL", param="image") from error
    if target.scheme not in ("http", "https") or not target.host or target.userinfo:
        raise ApiError(422, "bad_image_url", "image is neither a data URI nor a plain http(s) URL", param="image")
    place = target.netloc.decode("ascii")
    if place not in {host.lower() for host in settings.image_hosts}:
        raise ApiError(422, "host_not_allowed", f"images are not fetched from {place}; send a data URI", param="image")
    return target


def _failed(reason: str) -> ApiError:
    return ApiError(422, "image_fetch_failed", f"the image could not be fetched: {reason}", param="image")
