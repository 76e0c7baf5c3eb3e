"""Reads the reply of a chat server from the bytes of its response: server-sent events, or one JSON document.

Servers deviate from OpenAI's API in many ways. Whatever loses nothing is accepted; a reply that may lack a part is an
error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from chat_models.event_lines import BOM, EventLines
from chat_models.replies import (
    begun_character,
    ending_of,
    error_message,
    is_broken,
    own_choice,
    page_title,
    reasoning_of,
    shortened,
    well_formed,
    written,
)
from chat_models.turns import merged

_PINGS = {"", "null", "ping", "pong", "heartbeat", "keepalive", "keep-alive", "keep_alive", "processing"}
"""Data and names of events that only keep a connection open."""
_NO_REASON = ("", "null", "none")
"""Finish reasons of replies that go on."""
_LONGEST_PAGE = 2**16
"""Maximum bytes of a page that are read."""


class ReplyError(ValueError):
    """A response that is no complete reply.

    Attributes:
        status: The HTTP status of the failure that it reports, if any.
        incomplete: Whether it is only a part of a reply.
    """

    def __init__(self, message: str, status: int | None = None, *, incomplete: bool = False) -> None:
        super().__init__(message)
        self.status, self.incomplete = status, incomplete


class ReplyReader:
    """Reads one response.

    Attributes:
        finish: Why the model stopped, as the server says; "" before that.
        marked: Whether `[DONE]` has been read.
        reasoned: Whether the server keeps thoughts apart from the text.
    """

    def __init__(self) -> None:
        self.finish, self.marked, self.reasoned = "", False, False
        self._kind, self._raw = "", bytearray()
        self._lines, self._name, self._data, self._odd = EventLines(), "", "", ""
        self._text: list[str] = []
        self._high = ""  # the first half of a character whose second half comes with the next event
        self._message: dict[str, Any] = {}  # all other fields of the turn
        self._calls: list[dict[str, Any]] = []
        self._places: dict[object, int] = {}
        self._usage: object = None
        self._model = ""
        self._others: list[Mapping[str, Any]] = []  # pieces with another index than 0

    @property
    def whole(self) -> bool:
        """Whether the reply has ended, so that nothing is lost if the connection breaks."""
        if self._kind != "document":
            return bool(self.finish) or self.marked
        try:
            return isinstance(json.loads(bytes(self._raw)), dict)
        except ValueError:
            return False

    def feed(self, data: bytes) -> list[str]:
        """Reads the next bytes; returns the pieces of text in the events that they complete.

        Raises:
            ReplyError: An event is damaged or reports a failure, or the response is a page.
        """
        if not self._kind:
            self._raw += data
            begin = self._raw.removeprefix(BOM).lstrip()
            if not begin or BOM.startswith(bytes(self._raw)):
                return []
            self._kind = "document" if bytes(begin[:1]) in (b"{", b"[", b"<") else "events"
            data, self._raw = bytes(self._raw), bytearray()
        if self._kind == "document":
            self._raw += data
            if len(self._raw) > _LONGEST_PAGE and self._raw.lstrip().startswith(b"<"):
                self._read_document()
            return []
        return [piece for line in self._lines.feed(data) for piece in self._line(line)]

    def close(self) -> tuple[dict[str, Any], list[str]]:
        """Returns the whole chat completion, and the last pieces of its text.

        Raises:
            ReplyError: It is incomplete, or the response is something else.
        """
        if self._kind == "document" and (completion := self._read_document()) is not None:
            return completion, []
        rest = [piece for line in self._lines.close() for piece in self._line(line)]
        if self._data:
            raise _damaged(self._data)
        if len({str(one.get("index")) for one in self._others}) == 1 and not (self.finish or self._text):
            marked, self.marked = self.marked, False
            rest += [piece for one in self._others for piece in self._choice(one)]  # this server counts from 1
            self.marked = marked
        if self._kind != "events":
            raise ReplyError("the response is empty")
        said = (*self._text, *self._calls, *(value for name, value in self._message.items() if name != "role"))
        if not self.finish and not (self.marked and any(said)):
            odd = f"; it has an event {self._odd}" if self._odd else ""
            raise ReplyError(f"the stream ended before the answer was complete{odd}", incomplete=True)
        _check_finish(self.finish)
        message = {"role": "assistant", **self._message}
        if not isinstance(message.get("content"), list):
            message["content"] = "".join(self._text) + self._high or message.get("content")
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"message": message, "finish_reason": self.finish or None}
        return {"choices": [choice], "usage": self._usage, "model": self._model}, rest

    def _read_document(self) -> dict[str, Any] | None:
        """Returns the completion that is the whole body; `None` if the body is lines of events instead.

        Raises:
            ReplyError: It is something else.
        """
        text = bytes(self._raw).decode("utf-8-sig", "replace").strip()
        if text.startswith("<"):
            raise ReplyError(f"not a chat completion but a page, {page_title(text)}; check base_url")
        try:
            value = json.loads(text)
        except ValueError as error:
            lines = text.splitlines()
            if not all(line.startswith("{") and line.endswith("}") for line in lines if line) or len(lines) < 2:
                raise ReplyError(f"not a chat completion: {shortened(text)}") from error
            self._kind = "events"
            for line in lines:
                self._event(line)
            return None
        value = value[0] if isinstance(value, list) and value else value
        if not isinstance(value, dict):
            raise ReplyError(f"not a chat completion: {shortened(text)}")
        _check(value)
        choices = value.get("choices")
        if not isinstance(choices, list) or not choices or not all(isinstance(one, dict) for one in choices):
            raise ReplyError(f"not a chat completion: {shortened(text)}")
        choice = own_choice(choices)
        if not isinstance(choice.get("message"), dict):
            self._kind = "events"
            self._event(json.dumps(value))
            return None
        _check_finish(choice.get("finish_reason"))
        return value

    def _line(self, line: str) -> list[str]:
        """Reads a line; returns the text of the event that it completes."""
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if self._data:
                raise _damaged(self._data)
            self._name = self._data = ""
        elif field == "event":
            self._name = value.strip()
        elif field == "error":  # sent by llama.cpp's server, before data: {"error": ...}
            raise ReplyError(f"the server reports {error_message(value.strip())}", 500)
        elif field == "data" or line.startswith("{"):
            data = f"{self._data}\n{value}" if self._data else (value if field == "data" else line)
            if data.strip() == "[DONE]":
                self.marked = True
            elif data.strip().lower() not in _PINGS and not (self._name and self._name.lower() in _PINGS):
                try:
                    pieces = self._event(data)
                except json.JSONDecodeError:
                    if self._name == "error":
                        raise ReplyError(f"the server reports {shortened(data)}", 500) from None
                    self._data = data  # perhaps it continues on the next line
                    return []
                self._data = ""
                return pieces
        elif field in ("", "id", "retry") or line.strip().lower() in _PINGS:  # the first is a comment
            pass
        elif not self.marked:  # after the end, a proxy may add a line of its own
            raise _damaged(line)
        return []

    def _event(self, data: str) -> list[str]:
        """Reads the data of an event; returns its text.

        Raises:
            json.JSONDecodeError: It is not JSON.
            ReplyError: It is damaged or reports a failure.
        """
        event = json.loads(data)
        if event is None:
            return []
        if not isinstance(event, dict):
            raise _damaged(data)
        _check(event, self._name)
        self._usage = event.get("usage") or self._usage
        self._model = event.get("model") or self._model
        choices = event.get("choices")
        if not choices:  # the event with the usage, or one of a proxy
            if not self._usage:
                self._odd = shortened(data)
            return []
        try:
            choice = own_choice(choices)
            if choice and str(choice.get("index")) not in ("0", "None"):
                self._others.append(choice)
                return []
            return self._choice(choice) if choice else []
        except (TypeError, AttributeError, LookupError) as error:
            raise _damaged(data) from error

    def _choice(self, choice: Mapping[str, Any]) -> list[str]:
        _check(choice)
        delta, message = choice.get("delta") or {}, choice.get("message") or {}
        part = {**message, **{name: value for name, value in delta.items() if value is not None}}
        text = written(part.get("content", choice.get("text")))
        finish, so_far = choice.get("finish_reason"), "".join(self._text) if message else ""
        if finish and so_far and not delta.get("content") and text.startswith(so_far):
            text = text[len(so_far) :]  # the last event repeats the whole message
        if self.marked and text:
            raise ReplyError("text follows the end of the stream, [DONE]")
        thoughts = reasoning_of(part)
        self.reasoned = self.reasoned or bool(thoughts)
        fields = {name: value for name, value in part.items() if name not in ("tool_calls", "function_call")}
        if isinstance(fields.get("content"), str):
            fields["content"] = text
        self._message = {**self._message, **fields} if finish and message else merged(self._message, fields)
        for call in filter(None, part.get("tool_calls") or ()):
            self._add_call(call)
        if called := part.get("function_call"):  # the older API, before tool calls
            self._add_call({"index": 0, "function": called})
        if str(finish or "").lower() not in _NO_REASON and not (
            is_broken(self.finish) or ending_of(self.finish) != "complete"
        ):
            self.finish = str(finish)
        text = self._high + text
        self._high = begun_character(text)
        text = well_formed(text.removesuffix(self._high))
        self._text.append(text)
        return [text] if text else []

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        """Adds a piece of a tool call to the call that it continues, or begins a new one."""
        function, id_ = piece.get("function") or {}, piece.get("id") or ""
        name, arguments = function.get("name") or "", function.get("arguments")
        others = {key: value for key, value in piece.items() if key not in ("id", "index", "function") and value}
        if not (id_ or name or arguments or others):
            return
        place = piece.get("index")
        at = self._places.get(place, -1) if place is not None else len(self._calls) - 1
        known = self._calls[at] if at >= 0 else None
        if known is None or (id_ and id_ != known["id"]) or (name and place is None and not id_):
            self._places[place] = len(self._calls)
            known = {"id": id_, "type": "function", "function": {"name": "", "arguments": ""}}
            self._calls.append(known)
        known.update(merged(known, others))
        said = known["function"]
        if name != said["name"]:  # some servers repeat the name with every piece
            said["name"] += name
        if isinstance(arguments, str) and isinstance(said["arguments"], str):
            said["arguments"] += arguments
        elif arguments:
            said["arguments"] = arguments


def _check(value: Mapping[str, Any], name: str = "") -> None:
    """Checks that a document or event reports no failure.

    Raises:
        ReplyError: It does.
    """
    if not value.get("error") and value.get("object") != "error" and name != "error":
        return
    error = value.get("error") or value
    code = str(error.get("code") or "") if isinstance(error, Mapping) else ""
    status = int(code) if code.isdecimal() and 400 <= int(code) <= 599 else 500
    raise ReplyError(f"the server reports {error_message(json.dumps(value))}", status)


def _check_finish(reason: object) -> None:
    if is_broken(reason):
        raise ReplyError(f"the server ended the reply before it was complete (finish_reason {reason!r})", 500)


def _damaged(data: str) -> ReplyError:
    return ReplyError(f"not a piece of a chat completion: {shortened(data)}")
