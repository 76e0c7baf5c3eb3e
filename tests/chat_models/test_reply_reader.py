"""The reader of chat replies: deviations of real servers, and mutations of a good stream."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from chat_models.replies import ToolCall, read_reply
from chat_models.reply_reader import ReplyError, ReplyReader

TEXT = "Paris 🗼, vraiment"


def chunk(content: object = "", finish: object = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish}], **more}


def sse(*events: object, ascii_: bool = True) -> bytes:
    lines = [event if isinstance(event, str) else json.dumps(event, ensure_ascii=ascii_) for event in events]
    return "".join(f"data: {line}\n\n" for line in lines).encode()


def read(data: bytes, size: int | None = None) -> tuple[str, str]:
    """Returns the streamed text and that of the whole reply."""
    reader, pieces = ReplyReader(), list[str]()
    for begin in range(0, len(data), size or max(1, len(data))):
        pieces += reader.feed(data[begin : begin + (size or len(data))])
    completion, rest = reader.close()
    return "".join([*pieces, *rest]), read_reply(completion).text


GOOD: Sequence[Any] = (
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
    chunk("Pa"),
    chunk("ris 🗼"),
    chunk(", vraiment"),
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
    "[DONE]",
)
"""A good stream; events 1 to 3 have the text."""

DEVIATIONS: dict[str, bytes] = {
    "delta null": sse(chunk(TEXT), {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]}),
    "delta missing": sse(chunk(TEXT), {"choices": [{"finish_reason": "stop"}]}),
    "data null": sse(chunk("Paris"), "null", chunk(" 🗼, vraiment"), chunk("", "stop"), "[DONE]"),
    "no choices": sse({"prompt_filter_results": []}, chunk(TEXT), chunk("", "stop"), {"usage": {}}, "[DONE]"),
    "choices null": sse({"choices": None}, chunk(TEXT), chunk("", "stop"), {"choices": None}, "[DONE]"),
    "null in choices": sse({"choices": [None]}, chunk(TEXT, "stop")),
    "error null": sse(chunk(TEXT, error=None), chunk(None, "stop", error=None)),
    "error empty": sse(chunk(TEXT, error={}), chunk(None, "stop", error="")),
    "pings": b': ok\n\nevent: ping\ndata: {"type": "ping"}\n\ndata: ping\n\ndata:\n\nevent: keepalive\ndata: x\n\n'
    + sse(chunk(TEXT, "stop")),
    "message": sse({"choices": [{"message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}]}),
    "message in pieces": sse(
        {"choices": [{"message": {"content": "Paris"}}]},
        {"choices": [{"message": {"content": " 🗼, vraiment"}, "finish_reason": "stop"}]},
    ),
    "message at the end": sse(
        chunk("Paris 🗼"), chunk(", vraiment"),
        {"choices": [{"delta": {}, "message": {"content": TEXT}, "finish_reason": "stop"}]},
    ),
    "text": sse({"choices": [{"text": TEXT, "finish_reason": "stop"}]}),
    "parts": sse(chunk([{"type": "text", "text": "Paris"}]), chunk({"type": "text", "text": " 🗼, vraiment"}, "stop")),
    "CR": sse(*GOOD).replace(b"\n", b"\r"),
    "CR LF": sse(*GOOD).replace(b"\n", b"\r\n"),
    "no blank lines": sse(*GOOD).replace(b"\n\n", b"\n"),
    "no blank after the colon": sse(*GOOD).replace(b"data: ", b"data:"),
    "no last line break": sse(*GOOD[:-1]).rstrip(),
    "BOM": b"\xef\xbb\xbf" + sse(*GOOD),
    "characters as they are": sse(*GOOD, ascii_=False),
    "blank lines before": b"\n\r\n" + sse(*GOOD),
    "ids and retry": b"retry: 10\nid: 1\n" + sse(*GOOD),
    "data in two lines": sse(chunk(TEXT, "stop")).replace(b', "finish', b',\ndata: "finish'),
    "surrogates apart": b'data: {"choices":[{"delta":{"content":"Paris \\ud83d"}}]}\n\n'
    b'data: {"choices":[{"delta":{"content":"\\uddfc, vraiment"},"finish_reason":"stop"}]}\n\n',
    "surrogates apart around a ping": b'data: {"choices":[{"delta":{"content":"Paris \\ud83d"}}]}\n\n: ping\n\n'
    b'data: {"choices":[]}\n\ndata: {"choices":[{"delta":{"content":"\\uddfc, vraiment"},"finish_reason":"stop"}]}\n\n',
    "other choices": sse(chunk(TEXT), {"choices": [{"index": 1, "delta": {"content": "Lyon"}}]}, chunk("", "stop")),
    "only DONE": sse(chunk(TEXT), "[DONE]"),
    "choices of which the second is ours": sse(
        {"choices": [{"index": 1, "delta": {"content": "Lyon"}, "finish_reason": "stop"}]},
        {"choices": [{"index": 1, "delta": {}}, {"index": 0, "delta": {"content": TEXT}, "finish_reason": "stop"}]},
    ),
    "an index that begins at 1": sse(
        {"choices": [{"index": 1, "delta": {"content": TEXT}, "finish_reason": "stop"}]}, "[DONE]"
    ),
    "an index that is text": sse({"choices": [{"index": "0", "delta": {"content": TEXT}, "finish_reason": "stop"}]}),
    "parts that are text": sse(chunk(["Paris", " 🗼"]), chunk([{"text": {"value": ", vraiment"}}], "stop")),
    "finish null in words": sse(chunk("Paris", "null"), chunk(" 🗼, vraiment", "None"), chunk("", "stop")),
    "a second reason": sse(chunk(TEXT), chunk("", "eos_token"), chunk("", "stop"), "[DONE]"),
    "calls without anything": sse(
        {"choices": [{"delta": {"content": TEXT, "tool_calls": [None, {"index": 0, "id": None, "function": None}]}}]},
        chunk("", "stop"),
    ),
    "byte order marks": sse(*GOOD).replace(b"data: ", b"\xef\xbb\xbfdata: "),
    "a ping within an event": sse(chunk(TEXT, "stop")).replace(b', "finish', b',\n: ping\ndata: "finish'),
    "events of other names": sse(*GOOD).replace(b"data: ", b"event: message\nid: 1\ndata: ") + b"event: end\n\n",
    "a comment after the end": sse(*GOOD) + b"<!-- served by a proxy -->\n",
    "blanks around the data": sse(*GOOD).replace(b"data: ", b"data:\t  "),
    "a character's bytes apart": sse(chunk("Paris |"), chunk("|, vraiment", "stop"))
    .replace(b"|\"", b"\xf0\x9f\"").replace(b"\"|", b"\"\x97\xbc"),
    "whole": json.dumps({"choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}]}, indent=1).encode(),
    "whole, with BOM": b"\xef\xbb\xbf" + json.dumps({"choices": [{"message": {"content": TEXT}}]}).encode(),
    "whole, as one event": sse({"choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}]}),
    "lines of JSON": b"\n".join(json.dumps(event).encode() for event in GOOD[:-1]),
}  # fmt: skip


@pytest.mark.parametrize("name", DEVIATIONS)
def test_text_that_arrived_is_the_answer(name: str) -> None:
    data = DEVIATIONS[name]
    for size in (None, 1, 7):
        streamed, whole = read(data, size)
        assert whole == TEXT and (streamed or TEXT) == TEXT, (size, streamed, whole)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (sse(*GOOD[:4]), "ended before the answer was complete"),
        (sse(chunk("Par", ""), chunk("is", "")), "ended before"),
        (sse(chunk("Par"), "[DONE]", chunk("is")), "text follows"),
        (sse(chunk("Par"), chunk("", "error")), "finish_reason 'error'"),
        (sse(chunk("Par"), chunk("", "abort")), "finish_reason 'abort'"),
        (sse(chunk("Par"), {"error": {"message": "out of memory", "code": 502}}), "out of memory"),
        (sse(chunk("Par"), {"choices": [{"delta": {}, "error": {"message": "lost"}}]}), "lost"),
        (sse(chunk("Par")) + b'event: error\ndata: {"message": "no slot"}\n\n', "no slot"),
        (sse(chunk("Par")) + b'error: {"message": "no slot"}\n\n', "no slot"),
        (sse(chunk("Par"), {"object": "error", "message": "too much"}), "too much"),
        (sse(chunk("Par"), '{"choices": [{"del'), "not a piece"),
        (sse(chunk("Par"), {"choices": [{"delta": {"content": 5}}]}, chunk("", "stop")), "not a piece"),
        (sse(chunk("Par"), {"code": 9, "msg": "quota"}), "it has an event.*quota"),
        (sse(chunk("Par")) + b"event: error\ndata: no free slot\n\n", "the server reports no free slot"),
        (sse(chunk("Par", "null"), chunk("is", "None")), "ended before"),
        (sse(chunk("Par"), chunk("", "error"), chunk("", "stop")), "finish_reason 'error'"),
        (sse(chunk([5], "stop")), "not a piece"),
        (sse(chunk([{"text": 5}], "stop")), "not a piece"),
        (b'{"error": {"message": "Internal: no free slot", "code": 500}}', "no free slot"),
        (b'[{"error": {"message": "bad key", "code": 400}}]', "bad key"),
        (b"<html><head><title>502 Bad Gateway</title></head></html>", '"502 Bad Gateway" .HTML.; check base_url'),
        (b"<!doctype html>" + b"x" * 70_000, "a page"),
        (b'{"choices": [', "not a chat completion"),
        (b'{"choices": []}', "not a chat completion"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b": ping\n\n", "ended before"),
    ],
)
def test_no_reply(data: bytes, message: str) -> None:
    for size in (None, 1):
        with pytest.raises(ReplyError, match=message):
            read(data, size)


def test_the_status_of_a_reported_failure() -> None:
    for code, status in ((502, 502), ("429", 429), (None, 500), ("no_slot", 500)):
        with pytest.raises(ReplyError) as caught:
            read(sse({"error": {"message": "x", "code": code}}))
        assert caught.value.status == status


@pytest.mark.parametrize(
    ("reasons", "ending"),
    [
        ("stop STOP FinishReason.STOP eos eos_token end_turn END_TURN stop_sequence COMPLETE tool_calls", "complete"),
        ("length LENGTH max_tokens FinishReason.MAX_TOKENS model_length model_context_window_exceeded", "cut"),
        ("MAX_OUTPUT_TOKENS token_limit ERROR_LIMIT max_time", "cut"),
        ("content_filter content-filter contentFilter SAFETY IMAGE_SAFETY RECITATION BLOCKLIST SPII", "filtered"),
        ("guardrail_intervened sensitive PROHIBITED_CONTENT ERROR_TOXIC content_filter:SAFETY", "filtered"),
        ("refusal", "refused"),
        ("error ERROR abort aborted cancelled USER_CANCEL failed incomplete timeout time_out network_error", None),
        ("insufficient_system_resource preempted server_error MALFORMED_FUNCTION_CALL OTHER rate_limit", None),
        ("FINISH_REASON_UNSPECIFIED unknown pause_turn interrupted engine_overloaded LANGUAGE", None),
    ],
)  # fmt: skip
def test_reasons_of_servers(reasons: str, ending: str | None) -> None:
    """`None` is an error: what has arrived may be a part."""
    for reason in reasons.split():
        for data in (
            sse(chunk("Par", reason)),
            sse(chunk("Par"), chunk("", reason), chunk("", "stop"), "[DONE]"),
            json.dumps({"choices": [{"message": {"content": "Par"}, "finish_reason": reason}]}).encode(),
        ):
            reader = ReplyReader()
            reader.feed(data)
            if ending is None:
                with pytest.raises(ReplyError, match="before it was complete"):
                    reader.close()
            else:
                assert read_reply(reader.close()[0]).ending == ending, reason


def mutations() -> dict[str, bytes]:
    """Returns streams that differ from `GOOD` in one place."""
    found: dict[str, bytes] = {}
    for at in range(len(GOOD)):
        events = list(GOOD)
        found[f"{at} is null"] = sse(*events[:at], "null", *events[at + 1 :])
        found[f"{at} twice"] = sse(*events[: at + 1], *events[at:])
        found[f"null before {at}"] = sse(*events[:at], "null", *events[at:])
        found[f"{at} is cut"] = sse(*events[:at]) + sse(events[at])[: 6 + len(json.dumps(events[at])) // 2]
        found[f"{at} is cut, and others follow"] = (
            sse(*events[:at])
            + sse(events[at])[: 6 + len(json.dumps(events[at])) // 2]
            + b"\n\n"
            + sse(*events[at + 1 :])
        )
        found[f"{at} dropped"] = sse(*events[:at], *events[at + 1 :])
        found[f"ends before {at}"] = sse(*events[:at])
        for to in range(len(GOOD)):
            moved = [*events[:at], *events[at + 1 :]]
            found[f"{at} moved to {to}"] = sse(*moved[:to], events[at], *moved[to:])
    for key in ("choices", "delta", "finish_reason", "content", "index", "role"):
        for change in (None, "drop"):
            data = json.loads(json.dumps(GOOD))
            for event in data[:-1]:
                _change(event, key, change)
            found[f"{key} {change}"] = sse(*data)
    return found


def _change(value: Any, key: str, change: str | None) -> None:
    if isinstance(value, dict):
        if key in value:
            if change is None:
                value[key] = None
            else:
                del value[key]
        for one in value.values():
            _change(one, key, change)
    elif isinstance(value, list):
        for one in value:
            _change(one, key, change)


def test_a_part_never_passes_as_the_whole() -> None:
    """No protocol shows that text was lost or moved within a stream, so those mutations are told apart by hand."""
    text = ("1", "2", "3")  # the events with text
    undetectable = {f"{at} {what}" for at in text for what in ("is null", "twice", "dropped")}
    undetectable |= {f"{at} moved to {to}" for at in text for to in text if at != to}
    undetectable |= {f"{at} moved to {to}" for at, to in (("1", "4"), ("1", "5"), ("1", "6"), ("2", "4"), ("2", "5"))}
    undetectable |= {"2 moved to 6", "2 moved to 0", "3 moved to 0", "content None", "content drop"}
    undetectable |= {"delta None", "delta drop"}
    results = dict[str, str]()
    for name, data in mutations().items():
        try:
            results[name] = read(data)[1]
        except ReplyError as error:
            results[name] = f"error: {error}"
    told = {name: result for name, result in results.items() if name not in undetectable}
    assert len(told) >= 80
    wrong = {name: result for name, result in told.items() if result != TEXT and not result.startswith("error: ")}
    assert not wrong
    intact = sum(result == TEXT for result in told.values())
    assert intact >= 45, sorted(name for name, result in told.items() if result != TEXT)


def test_a_stream_may_be_split_anywhere() -> None:
    for ends in (b"\n", b"\r\n", b"\r"):
        data = sse(*GOOD, ascii_=False).replace(b"\n", ends)
        for at in range(len(data)):
            reader = ReplyReader()
            pieces = [*reader.feed(data[:at]), *reader.feed(data[at:])]
            assert "".join(pieces) == TEXT and read_reply(reader.close()[0]).text == TEXT


def test_a_stream_that_is_cut_anywhere_is_no_reply() -> None:
    data = sse(*GOOD, ascii_=False)
    finished = data.index(b'"stop"}]}') + len(b'"stop"}]}')
    for end in range(finished):
        with pytest.raises(ReplyError):
            read(data[:end])
    for end in range(finished, len(data)):
        try:
            assert read(data[:end])[1] == TEXT
        except ReplyError as error:
            assert "not a piece" in str(error)  # the event with the usage is cut


def test_damage_outside_of_strings_is_seen() -> None:
    random_ = random.Random(7)
    text = sse(*GOOD).decode()
    inside, places = False, list[int]()
    for at, character in enumerate(text):
        inside ^= character == '"'
        places += [] if inside or character == '"' else [at]
    intact = 0
    for _ in range(500):
        at, change = random_.choice(places), random_.choice(("", "{", "\n", "\r\n\r\n", "}", '"', "\\", " "))
        try:
            streamed, whole = read((text[:at] + change + text[at + 1 :]).encode())
        except ReplyError:
            continue
        assert streamed == whole == TEXT, (text[at - 20 : at], change)
        intact += 1
    assert intact > 30


def calls(*deltas: dict[str, Any], finish: str = "tool_calls") -> tuple[ToolCall, ...]:
    events = [{"choices": [{"delta": {"tool_calls": [delta]}}]} for delta in deltas]
    reader = ReplyReader()
    reader.feed(sse(*events, chunk("", finish), "[DONE]"))
    return read_reply(reader.close()[0]).calls


def call(
    index: int | None = 0, id_: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    return {"index": index, "id": id_, "function": {"name": name, "arguments": arguments}}


A, B = ToolCall("a", '{"q": 1}', "1"), ToolCall("b", "{}", "2")
AB = (A, B)


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([call(0, "1", "a", ""), call(0, arguments='{"q": 1'), call(0, arguments="}"), call(1, "2", "b", "{}")], AB),
        ([call(0, "1", "a", '{"q": 1'), call(1, "2", "b", "{"), call(0, arguments="}"), call(1, arguments="}")], AB),
        ([call(0, "1", "a", '{"q": 1}'), call(0, "2", "b", "{}")], (A, B)),  # Gemini: all have the index 0
        ([call(None, "1", "a", '{"q": 1}'), call(None, "2", "b", "{}")], (A, B)),
        ([call(None, "1", "a"), call(None, arguments='{"q": 1}'), call(None, "2", "b", "{}")], AB),
        ([call(0, "1", "a", '{"q":'), call(0, "1", "a", " 1}")], (A,)),  # the name and id with every piece
        ([call(0, "1", "a", {"q": 1})], (A,)),
    ],
)  # fmt: skip
def test_calls(deltas: list[dict[str, Any]], expected: tuple[ToolCall, ...]) -> None:
    assert calls(*deltas) == expected


def test_what_the_model_thinks_and_refuses() -> None:
    def last(*events: object) -> Any:
        reader = ReplyReader()
        reader.feed(sse(*events))
        return read_reply(reader.close()[0])

    thought = {"choices": [{"delta": {"reasoning_content": "A disc"}}]}
    assert last(thought, chunk("Tokyo", "stop")).thoughts == "A disc"
    refused = last(
        {"choices": [{"delta": {"refusal": "I can"}}]}, {"choices": [{"delta": {"refusal": "not."}}]}, chunk("", "stop")
    )
    assert (refused.text, refused.ending, refused.refusal) == ("", "refused", "I cannot.")
    assert last(chunk("Par"), chunk("", "content_filter: SAFETY")).ending == "filtered"
    assert last(chunk("Par"), chunk("", "model_length")).ending == "cut"
