"""Chromium's process, and its DevTools protocol over a pipe."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

_MESSAGE_BYTES = 256 << 20
_START_S, _REPLY_S, _CLOSE_S = 60.0, 30.0, 5.0


_PREFIX = "omgm-chromium-"
"""The folder of a browser is named after the process that started it."""


def remove_folders_of_killed() -> None:
    """Removes the folders of browsers whose process was killed before it could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        process = re.match(rf"{_PREFIX}(\d+)-", folder.name)
        if process is None or folder.stat().st_uid != os.geteuid():
            continue
        try:
            os.kill(int(process[1]), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except (PermissionError, OverflowError):
            continue


class BrowserError(ValueError):
    """The browser is missing or has failed, or a page cannot be opened."""


class DevTools:
    """A running browser, created by `open`. Messages in both directions are JSON, terminated by a null byte."""

    def __init__(self, process: asyncio.subprocess.Process, folder: tempfile.TemporaryDirectory[str]) -> None:
        self._process, self._folder = process, folder
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._quiet: dict[str, dict[str, asyncio.Event]] = {}
        self._reading = asyncio.ensure_future(self._read())
        self.ended = False

    @classmethod
    async def open(cls, command: list[str]) -> DevTools:
        """Starts the browser.

        Raises:
            BrowserError: The browser did not start.
        """
        await asyncio.to_thread(remove_folders_of_killed)
        folder = tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", ignore_cleanup_errors=True)
        # The protocol uses file descriptors 3 and 4, to which the shell redirects standard input and output.
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null', "sh", *command, f"--user-data-dir={folder.name}",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            limit=_MESSAGE_BYTES, start_new_session=True,
        )  # fmt: skip
        pipe = cls(process, folder)
        try:
            await pipe.ask("Browser.getVersion", seconds=_START_S)
        except BaseException as error:
            pipe.ended = True
            await pipe.aclose()
            if isinstance(error, OSError | TimeoutError):
                raise BrowserError(f"{command[0]} did not start") from error
            raise  # such as the cancellation of a run
        return pipe

    async def ask(
        self, method: str, values: dict[str, Any] | None = None, session: str = "", seconds: float = _REPLY_S
    ) -> dict[str, Any]:
        """Sends a command and returns its result.

        Raises:
            BrowserError: The browser refused the command.
            OSError: The browser has ended.
            TimeoutError: The browser did not respond in time.
        """
        if self.ended:
            raise OSError("it has ended")
        number = self.tell(method, values, session)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            answer = await asyncio.wait_for(self._waiting[number], seconds)
        finally:
            self._waiting.pop(number, None)
        if "error" in answer:
            raise BrowserError(f"the browser refused {method}: {answer['error'].get('message')}")
        result: dict[str, Any] = answer["result"]
        return result

    def tell(self, method: str, values: dict[str, Any] | None = None, session: str = "") -> int:
        """Sends a command without waiting for the result, and returns its number."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": values or {}}
        if session:
            message["sessionId"] = session
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        return number

    async def quiet(self, session: str, loader: str) -> None:
        """Waits until a document has loaded and the network is almost idle."""
        await self._event(session, loader).wait()

    def forget(self, session: str) -> None:
        """Drops the state of a page."""
        self._quiet.pop(session, None)

    def _event(self, session: str, loader: str) -> asyncio.Event:
        return self._quiet.setdefault(session, {}).setdefault(loader, asyncio.Event())

    async def aclose(self) -> None:
        """Closes the browser; kills it if it does not exit in time."""
        if self._process.returncode is None and not self.ended:
            self.tell("Browser.close")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 0 if self.ended else _CLOSE_S)
        with contextlib.suppress(ProcessLookupError):  # the whole process group has already exited
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await asyncio.to_thread(self._folder.cleanup)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while True:
                self._take(json.loads((await self._process.stdout.readuntil(b"\0"))[:-1]))
        except (EOFError, OSError, ValueError, asyncio.LimitOverrunError):
            pass  # the browser has ended, or its output is not the DevTools protocol
        finally:
            self.ended = True
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(OSError("it has ended"))

    def _take(self, message: dict[str, Any]) -> None:
        session, values = message.get("sessionId", ""), message.get("params", {})
        if "id" in message:
            future = self._waiting.get(message["id"])
            if future is not None and not future.done():
                future.set_result(message)
        elif message.get("method") == "Page.lifecycleEvent" and values["name"] == "networkAlmostIdle":
            self._event(session, values["loaderId"]).set()
        elif message.get("method") == "Page.javascriptDialogOpening":
            self.tell("Page.handleJavaScriptDialog", {"accept": False}, session)
