"""Takes a request in: admits it, reads it within its time, retrieves for it while the client waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from serving.errors import ApiError
from serving.fields import CheckedRequest
from serving.service import PendingAnswer, Service, out_of_time
from serving.settings import ServingSettings

T = TypeVar("T")


async def receive(service: Service, request: Request, read: Callable[[Request, ServingSettings], Awaitable[T]]) -> T:
    """Returns what `read` makes of the upload.

    Raises:
        ApiError: 429 or 503 if the service takes no request, 408 if the upload takes too long, and those of `read`.
    """
    service.batcher.admit()  # before the upload is read: a full service must not collect images
    seconds = service.settings.upload_timeout_s
    try:
        async with asyncio.timeout(seconds):
            return await read(request, service.settings)
    except TimeoutError as error:
        raise ApiError(408, "upload_timeout", f"the upload took longer than {seconds:g} s") from error
    except ClientDisconnect as error:
        raise _client_gone() from error


async def retrieve(service: Service, request: Request, checked: CheckedRequest) -> PendingAnswer:
    """Returns what the retriever finds.

    Raises:
        ApiError: 504 if that takes too long, and those of `Service.retrieve`.
    """
    work = service.retrieve(checked, request.state.request_id, request.scope.get("root_path", ""))
    try:
        async with asyncio.timeout(service.settings.timeout_s):
            return await while_connected(request, work)
    except TimeoutError as error:
        raise out_of_time(service.settings) from error


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of `work`, which is canceled when the client disconnects."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise _client_gone()
        return task.result()
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _client_gone() -> ApiError:
    return ApiError(499, "client_gone", "the client closed the connection")
