"""Judges answers by the rules of each question's data set, or with a chat model, as MMSearch-Plus does.

The agreement of such a model with string matching is measured, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chat_models.thoughts import part
from evaluation.answers import evqa_match, numeric_match, text_match
from evaluation.overlap import can_segment, f1_recall, language_of, token_f1
from evaluation.own_answers import own_contains, own_match
from evaluation.search.scores import answer_f1
from evaluation.vqa import relaxed_match, vqa_accuracy

if TYPE_CHECKING:
    from evaluation.bem import Bem
    from evaluation.datasets import Question

Scores = dict[str, float]
"""Scores (0 to 1) of one answer by metric. The first is the data set's own metric, which `accuracy` reports."""

NOTES = {
    "evqa_exact_match": "Measured without BEM: this is exact match alone, a lower bound of E-VQA's own metric.",
    "infoseek_csv": "From the CSV alone: every answer is judged as text, without InfoSeek's ranges, aliases and "
    "splits; for its own metric, put the official NAME.jsonl beside NAME.csv.",
    "string_match": "No chat model judged the answers (--judge-url, --judge-model); this is string matching.",
    "token_f1": "F1-Recall's tokenizers are not installed (pip install 'omgm[dynvqa]'); this is token F1 alone.",
}
"""Notes that a report shows beside a main metric."""


def judge(question: Question, answer: str | None) -> Scores:
    """Scores one answer by the metrics that need no model; a missing or empty answer scores 0.

    Of MMSearch, only a missing one does: in its published code, an empty answer equals a reference without words.
    """
    scores = _RULES[question.style](question, answer or "")
    given = answer is not None and (bool(answer.strip()) or question.style == "mmsearch")
    return scores if given else dict.fromkeys(scores, 0.0)


def judge_all(questions: Sequence[Question], answers: Sequence[str | None], bem: Bem | None = None) -> list[Scores]:
    """Scores many answers; E-VQA's first metric is BEM's with `bem`, exact match without.

    BEM judges all answers without an exact match in one call, each against every reference; the best reference counts.
    """
    scores = [judge(question, answer) for question, answer in zip(questions, answers, strict=True)]
    if bem is None:
        return scores
    inputs = [
        (place, answer, _bem_reference(question, reference), question.question)
        for place, (question, answer) in enumerate(zip(questions, answers, strict=True))
        if question.style == "evqa" and answer and answer.strip() and not scores[place]["evqa_exact_match"]
        for reference in question.answers
    ]
    verdicts = bem.equivalent([row[1:] for row in inputs])
    equivalent = {row[0] for row, verdict in zip(inputs, verdicts, strict=True) if verdict}
    return [
        {"evqa_bem": max(own["evqa_exact_match"], float(place in equivalent)), **own}
        if "evqa_exact_match" in own
        else own
        for place, own in enumerate(scores)
    ]


def _bem_reference(question: Question, reference: str) -> str:
    return reference.replace("&&", ",") if question.question_type == "multi_answer" else reference


def _evqa(question: Question, answer: str) -> Scores:
    multiple = question.question_type == "multi_answer"
    return {"evqa_exact_match": float(evqa_match(answer, question.answers, multi_answer=multiple))}


def _infoseek(question: Question, answer: str) -> Scores:
    accepted = question.numeric_range
    right = text_match(answer, question.answers) if accepted is None else numeric_match(answer, accepted)
    return {"infoseek": float(right)}


def _infoseek_csv(question: Question, answer: str) -> Scores:
    return {"infoseek_csv": float(text_match(answer, question.answers))}


def _okvqa(question: Question, answer: str) -> Scores:
    return {"vqa_accuracy": vqa_accuracy(answer, question.answers)}


def _dynvqa(question: Question, answer: str) -> Scores:
    scores = {"token_f1": token_f1(answer, question.answers)}
    if not can_segment():
        return scores
    return {"f1_recall": f1_recall(answer, question.answers, language_of(question.question))} | scores


def _plain(question: Question, answer: str) -> Scores:
    relaxed = any(relaxed_match(answer.strip(), reference) for reference in question.answers)
    right = own_match(answer, question.answers)
    return {"exact_match": float(right), "relaxed_accuracy": float(right or relaxed)}


def _mmsearch(question: Question, answer: str) -> Scores:
    return {"mmsearch_f1": answer_f1(answer, question.answers)}


def _mmsearch_plus(question: Question, answer: str) -> Scores:
    return {
        "string_match": float(string_match(answer, question.answers)),
        "exact_match": float(own_match(answer, question.answers)),
        "max_f1": answer_f1(answer, question.answers),
    }


_RULES: Mapping[str, Callable[[Question, str], Scores]] = {
    "evqa": _evqa,
    "infoseek": _infoseek,
    "infoseek-csv": _infoseek_csv,
    "okvqa": _okvqa,
    "dynvqa": _dynvqa,
    "plain": _plain,
    "mmsearch": _mmsearch,
    "mmsearch-plus": _mmsearch_plus,
}


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
