"""The parts of an index at their addresses: asks them at the same time, and notices which are down and back."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from indexes.parts.layout import Part
from indexes.parts.messages import CONTENT_TYPE, Message, read, write
from retriever.types import EngineError
from retriever.wording import counted

logger = logging.getLogger(__name__)

DEADLINE = 5.0
"""Seconds for which a part may work on a question."""
RETRY = 1.0
"""Seconds until a part that is down is asked again, beside all questions."""


class PartLostError(EngineError):
    """A part is down or slow; what was asked can be asked again, of the others.

    Attributes:
        part: Which one, for people.
    """

    part = "a part of the index"


class PartRestartedError(PartLostError):
    """A part was restarted, and answers."""


class Up(NamedTuple):
    """A part that answers.

    Attributes:
        address: Where it is.
        session: What it calls the time since it was started.
        number: The number of this session among those of the part, from 0: rows are others in each.
    """

    address: Address
    session: str
    number: int


class Address:
    """Where a part is; thread-safe.

    Args:
        url: Its address, such as `http://10.0.0.5:8001`.
    """

    def __init__(self, url: str) -> None:
        self.url, split = url, urlsplit(url)
        if split.scheme not in ("http", "https") or not split.hostname:
            raise ValueError(f"the address of a part must be like http://HOST:PORT, got {url!r}")
        self._host, self._path = split.netloc.rpartition("@")[2], split.path.rstrip("/")
        self._connect = HTTPConnection if split.scheme == "http" else HTTPSConnection
        self._idle: deque[HTTPConnection] = deque()
        weakref.finalize(self, _close, self._idle)

    def ask(self, name: str, content: bytes) -> Message:
        """Returns the answer to a question (`indexes.parts.answering`).

        Raises:
            PartLostError: It does not answer.
        """
        for is_last in (False, True):
            try:
                connection, is_fresh = self._idle.pop(), False
            except IndexError:
                connection, is_fresh = self._connect(self._host, timeout=DEADLINE), True
            try:
                connection.request("POST", f"{self._path}/{name}", content, {"Content-Type": CONTENT_TYPE})
                response = connection.getresponse()
                answer = response.read()
            except (OSError, HTTPException) as error:
                connection.close()
                if is_fresh or is_last or isinstance(error, TimeoutError):
                    raise PartLostError(f"{self.url}: {error or type(error).__name__}") from error
                _close(self._idle)  # the part has closed the others, too, or was restarted
                continue
            self._idle.append(connection)
            if response.status == 410:
                raise PartRestartedError(f"{self.url}: {answer.decode()}")
            if response.status != 200:
                raise PartLostError(f"{self.url}: status {response.status}: {answer[:200].decode(errors='replace')}")
            try:
                return read(answer)
            except ValueError as error:
                raise PartLostError(f"{self.url}: {error}") from error
        raise AssertionError


def _close(connections: deque[HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


class Parts:
    """The parts of one index.

    Args:
        urls: Their addresses, in any order.

    Attributes:
        of: The number of parts.
        changes: How often a part was found to have changed.
        manifest: The manifest of the whole index, in JSON.
        recognition: Its `recognition.json`, empty without one.

    Raises:
        ValueError: They are parts of different indexes, or not one of each.
        EngineError: None of them answers.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._addresses = [Address(url) for url in urls]
        self._threads = ThreadPoolExecutor(4 * len(urls), "ask parts")
        self._up: dict[int, Up] = {}
        self._sessions: dict[int, tuple[str, int]] = {}
        self._sizes: dict[int, tuple[int, int]] = {}
        self.changes = 0
        self._changed, self._probing = threading.Lock(), False
        self._part: Part | None = None
        self.of = 0
        self._started, self._problem = False, ""
        self.manifest = self.recognition = b""
        failures = [self._join(address) for address in self._addresses]
        if self._part is None:
            raise EngineError(f"no part of the index answers: {failures[0]}")
        self.of = self._part.of
        if len(urls) != self.of:
            raise ValueError(f"the index has {counted(self.of, 'part')}, so give as many addresses, got {len(urls)}")
        self._started = True
        if any(failures):
            logger.warning("answers come without some parts: %s", "; ".join(filter(None, failures)))
            self._probe()

    @property
    def up(self) -> dict[int, int]:
        """The sessions of the parts that answer, by the numbers of these, from 0."""
        return {number: up.number for number, up in sorted(self._up.items())}

    @property
    def entities(self) -> int | None:
        """The number of entities, those of parts that are down as when they were last up; `None` if one never was."""
        return sum(size for size, _ in self._sizes.values()) if len(self._sizes) == self.of else None

    def _note(self, number: int, values: Mapping[str, Any]) -> None:
        """Notes what a part says of its size, and whether that has changed."""
        if "entities" in values:
            size = values["entities"], values["logged"]
            self.changes += self._sizes.get(number, size) != size
            self._sizes[number] = size

    def ask(self, name: str, contents: Mapping[int, bytes], sessions: Mapping[int, int]) -> dict[int, Message]:
        """Asks some parts at the same time.

        Args:
            name: The name of the question.
            contents: What each is asked, by its number.
            sessions: Of which session's rows, by the numbers of parts.

        Raises:
            PartLostError: One of them does not answer in time, and counts as down from now on; or it was restarted.
        """
        until = time.monotonic() + DEADLINE
        asked: dict[int, tuple[Up, Future[Message]]] = {}
        for number, content in contents.items():
            up = self._up.get(number)
            if up is None or up.number != sessions.get(number):
                raise self.lost(number, "is down" if up is None else "was restarted")
            asked[number] = up, self._threads.submit(up.address.ask, f"{up.session}/{name}", content)
        answers, lost = dict[int, Message](), list[PartLostError]()
        for number, (up, future) in asked.items():
            try:
                answers[number] = future.result(max(until - time.monotonic(), 0))
                self._note(number, answers[number].values)
            except (PartLostError, TimeoutError) as error:
                future.cancel()
                slow = f"gave no answer within {DEADLINE:g} s"
                lost.append(self.lost(number, str(error) if isinstance(error, PartLostError) else slow))
                self._drop(number, up, lost[-1], isinstance(error, PartRestartedError))
        if lost:
            raise lost[0]
        return answers

    def lost(self, number: int, why: str) -> PartLostError:
        """Returns the error that a part is lost."""
        part = f"part {number + 1} of {self.of}"
        error = PartLostError(f"{part} {why}")
        error.part = f"{part} of the index"
        return error

    def _drop(self, number: int, up: Up, error: PartLostError, restarted: bool) -> None:
        """Leaves a part out from now on, unless it was restarted, or another thread has noticed it."""
        if restarted and not self._join(up.address):
            return
        with self._changed:
            dropped = self._up.get(number) is up and self._up.pop(number)
        if dropped:
            logger.warning("answers come without it: %s", error)
            self._probe()

    def _probe(self) -> None:
        """Asks the parts that are down, in a thread, until all answer."""
        with self._changed:
            if self._probing:
                return
            self._probing = True
        threading.Thread(target=_wait, args=(weakref.ref(self),), name="wait for parts", daemon=True).start()

    def _are_up(self) -> bool:
        """Asks the parts that are down once; returns whether all are up, so that nobody needs to ask again."""
        for address in self._addresses:
            if address not in [up.address for up in self._up.values()]:
                self._join(address)
        with self._changed:
            self._probing = len(self._up) < self.of
            return not self._probing

    def _join(self, address: Address) -> str:
        """Asks the part at an address what it is; returns why it does not answer, or "".

        Raises:
            ValueError: At the start, if it does not belong to the others.
        """
        try:
            message = address.ask("about", write({}))
        except PartLostError as error:
            return str(error)
        part = Part(*message.values["part"])
        first, number = self._part or part, part.number - 1
        others = [up.address for other, up in self._up.items() if other == number and up.address is not address]
        if part != first._replace(number=part.number) or others:
            problem = f"{address.url} serves {part}, as another address does; give one address of each part"
            if part.whole != first.whole or part.of != first.of:
                problem = (
                    f"{address.url} serves {part}, and others {first} of another index; restart those that are old"
                )
            if not self._started:
                raise ValueError(problem)
            if problem != self._problem:
                logger.error("%s", problem)
            self._problem = problem
            return problem
        if self._part is None:
            self._part = part
            self.manifest, self.recognition = (message.columns[name][0] for name in ("whole", "recognition"))
        session, before = message.values["session"], self._sessions.get(number, ("", -1))
        with self._changed:
            self._sessions[number] = (session, before[1] + (session != before[0]))
            self._up[number] = Up(address, *self._sessions[number])
        self._note(number, message.values)
        if self._started:
            logger.warning("%s is back", part)
        return ""


def _wait(reference: weakref.ref[Parts]) -> None:
    """Asks parts that are down, for as long as somebody uses the index."""
    while True:
        time.sleep(RETRY)
        parts = reference()
        if parts is None or parts._are_up():
            return
        del parts  # while it sleeps, it does not keep them
