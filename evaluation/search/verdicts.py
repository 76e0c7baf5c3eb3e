"""Judges answers with a chat model, as MMSearch-Plus does, and measures its agreement with string matching."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from chat_models.thoughts import part
from evaluation.own_answers import own_contains

JUDGE = """\
You compare an answer with the accepted answers of a question. The answer is correct if it means the same as at least \
one of them: other wording, order, language, units or precision that changes nothing are fine, and so is further \
information that contradicts nothing. It is wrong if it names something else, hedges between several, misses a part of \
what was asked, or does not answer. Judge by the accepted answers only, not by what you know.

Reply with JSON only: {"correct": true or false}"""
"""This project's own prompt; the paper publishes none."""

VERDICT: Mapping[str, Any] = {
    "type": "object",
    "properties": {"correct": {"type": "boolean"}},
    "required": ["correct"],
    "additionalProperties": False,
}

_VERDICT = re.compile(r'"?correct"?\s*[:=]\s*"?(true|false|yes|no)', re.IGNORECASE)
_WORD = re.compile(r"\W*(correct|incorrect|wrong|true|false|yes|no)\b", re.IGNORECASE)
_RIGHT = ("true", "yes", "correct")


def judge_messages(question: str, accepted: Sequence[str], answer: str) -> list[dict[str, Any]]:
    """Returns the request for a verdict. Texts are passed as JSON, so that an answer cannot pose as an instruction."""
    given = {"question": question, "accepted_answers": list(accepted), "answer": answer}
    return [
        {"role": "system", "content": JUDGE},
        {"role": "user", "content": json.dumps(given, ensure_ascii=False, indent=1)},
    ]


def read_verdict(reply: str) -> bool | None:
    """Returns the last verdict in a reply, ignoring the model's thoughts; `None` if there is none.

    Example:
        >>> read_verdict('{"correct": true}'), read_verdict("Incorrect."), read_verdict("It depends.")
        (True, False, None)
    """
    text = part(reply[:20_000]).text.strip()
    found = _VERDICT.findall(text)
    if found:
        return found[-1].lower() in _RIGHT
    word = _WORD.match(text)
    return None if word is None else word[1].lower() in _RIGHT


def string_match(answer: str | None, accepted: Sequence[str]) -> bool:
    """Returns whether an answer contains an accepted one, as whole words, numbers and symbols.

    Example:
        >>> string_match("It is Sochi, Russia.", ["Sochi"]), string_match("Sochiville", ["Sochi"])
        (True, False)
    """
    return own_contains(answer or "", accepted)


def agreement(verdicts: Sequence[bool], matches: Sequence[bool]) -> dict[str, Any]:
    """Returns the share of answers on which a judge and string matching agree, and Cohen's kappa.

    Kappa is `None` without answers, or if both always give the same verdict, so that chance explains all agreement.

    Example:
        >>> agreement([True, True, False, False], [True, False, False, False])["kappa"]
        0.5
    """
    n = len(verdicts)
    both = sum(judged == matched for judged, matched in zip(verdicts, matches, strict=True))
    judged, matched = sum(verdicts), sum(matches)
    chance = (judged * matched + (n - judged) * (n - matched)) / n**2 if n else 1.0
    return {
        "n": n,
        "string_match": matched / n if n else None,
        "agreement": both / n if n else None,
        "kappa": (both / n - chance) / (1 - chance) if chance < 1 else None,
    }
