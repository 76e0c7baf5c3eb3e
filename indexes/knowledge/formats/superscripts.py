"""Writes superscripts as plain text: 10^6, m^2 and Ca^2+, but 1st; footnote marks are left out.

Uses `^` rather than Unicode superscripts, which exist for few letters; and to the tokenizers of the embedded models, m²
is not a word at all. Subscripts need no mark: CO2.
"""

from __future__ import annotations

import re

START, END = "\ue000", "\ue001"
"""Mark a superscript until the text before it is known; private-use characters that do not occur in texts."""

_RAISED = re.compile(
    rf"(?P<before>[^{START}{END}]?){START}(?P<text>[^{START}{END}]*){END}(?P<over>(?=[/\N{{FRACTION SLASH}}]\s*\d))?"
)
_NOTE = re.compile(r"\[.*\]|\d+(?:\s*[,;]\s*\d+)+")
"""Footnote marks: [1], and several numbers."""
_PHRASE_ENDS = frozenset('.,;:!?"»。、\N{RIGHT SINGLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}')
"""A number after these is a footnote mark, too."""
_POWER = re.compile(r"[+-]?\d.*|[i-nx-z](?:[+-].+)?|[+-].+")
"""A number, or a letter that usually stands for one; others are endings (1st, Mme) or marks."""
_SIMPLE = re.compile(r"[+-]?[\w.]+[+-]?")


def write_superscripts(text: str) -> str:
    """Returns a text without `START` and `END`."""
    return _RAISED.sub(_written, text).replace(START, "").replace(END, "") if START in text else text


def _written(found: re.Match[str]) -> str:
    before, raised = found["before"], found["text"].strip().replace("\N{MINUS SIGN}", "-")
    if _NOTE.fullmatch(raised) or (before in _PHRASE_ENDS and raised.isdecimal()):
        return before
    if found["over"] is not None and before.isdecimal():  # 1 1/2
        return f"{before} {raised}"
    if found["over"] is None and (before.isalnum() or before in (")", "]")) and _POWER.fullmatch(raised):
        return f"{before}^{raised}" if _SIMPLE.fullmatch(raised) else f"{before}^({raised})"
    return before + found["text"]
