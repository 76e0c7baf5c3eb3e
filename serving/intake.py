"""Takes in a request: admits or refuses it, reads it within the time limit, and retrieves while the client waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from serving.admission import Ticket
from serving.errors import ApiError, late_upload, out_of_time
from serving.fields import CheckedRequest
from serving.requests import image_bytes, naming
from serving.service import PendingAnswer, Service
from serving.settings import ServingSettings

T = TypeVar("T")
Read = Callable[[Request, ServingSettings], Awaitable[T]]
Begin = Callable[[CheckedRequest], Coroutine[Any, Any, T]]


async def take_in(
    service: Service, request: Request, read: Read[CheckedRequest], begin: Begin[T]
) -> tuple[CheckedRequest, T]:
    """Admits a request, reads it with `read` and passes it to `begin`, such as `retrieval`.

    Returns:
        The request and the result of `begin`.

    Raises:
        ApiError: 429 or 503 if the service accepts no request, 408 if the upload takes too long, 504 if the retrieval
            does, and those of `read` and `begin`.
    """
    service.batcher.check()
    ticket = service.admission.enter()  # before reading the upload: a full service must not buffer images
    began = time.perf_counter()
    try:
        checked = await _in_time(service, _with_images(service, request, read), ticket)
        service.traces.stage("upload", began, time.perf_counter())
        service.admission.uploaded(ticket)
        try:
            async with asyncio.timeout(service.settings.timeout_s):
                return checked, await while_connected(request, begin(checked))
        except TimeoutError as error:
            raise out_of_time(service.settings.timeout_s) from error
    finally:
        service.admission.leave(ticket)


def retrieval(service: Service, request: Request) -> Begin[PendingAnswer]:
    """Returns the function that retrieves for a request in `take_in`."""
    return lambda checked: service.retrieve(checked, request.state.request_id)


async def receive(service: Service, request: Request, read: Read[T]) -> T:
    """Admits a request and reads its upload with `read`, without retrieval.

    Raises:
        ApiError: As from `take_in`.
    """
    service.batcher.check()
    ticket = service.admission.enter()
    try:
        return await _in_time(service, read(request, service.settings), ticket)
    finally:
        service.admission.leave(ticket)


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of `work`; cancels it if the client disconnects."""
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


async def _with_images(service: Service, request: Request, read: Read[CheckedRequest]) -> CheckedRequest:
    """Returns the request with the bytes of its images, decoded or fetched if necessary."""
    checked, images = await read(request, service.settings), list[bytes | str]()
    for number, image in enumerate(checked.images, start=1):
        if isinstance(image, str):  # fetching from a slow server counts as part of the upload
            with naming(number, len(checked.images)):
                image = await while_connected(request, image_bytes(image, service.settings))
        images.append(image)
    return replace(checked, images=tuple(images))


async def _in_time(service: Service, upload: Awaitable[T], ticket: Ticket) -> T:
    """Returns the upload.

    Raises:
        ApiError: 408 if it takes too long, 499 if the client disconnects.
    """
    seconds = service.settings.upload_timeout_s
    try:
        async with asyncio.timeout(seconds) as ticket.limit:
            return await upload
    except TimeoutError as error:
        raise late_upload(seconds) from error
    except ClientDisconnect as error:
        raise _client_gone() from error


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _client_gone() -> ApiError:
    return ApiError(499, "client_gone", "the client closed the connection")
