"""Texts of others in a prompt: what would speak as the conversation is written so that it does not."""

from __future__ import annotations

import re

_TOKENS = re.compile(
    r"<(?:[|\uff5c!/]|(?=[A-Za-z_])).{0,200}?>"  # <|im_end|>, </answer>, <start_of_turn>, <!-- … -->
    r"|<[|\uff5c]|<<|\[/?(?:[A-Z][A-Z_ ]{2,40}|gMASK)\]"  # <<SYS>>, [INST], [/TOOL_RESULTS]
)
_NUMBERS = re.compile(
    r"[\[\u3010]{1,2}\s{0,2}[\"'^#]?"
    r"(?:(?:result|source|web|website|page|ref|quote|citation|image)s?[_ ]?(?:id)?\s?[#:]?\s?)?"
    r"\d{1,9}[^\[\]\u3010\u3011\n]{0,60}[\]\u3011]{1,2}",
    re.IGNORECASE,
)
_LABELS = re.compile(r"^([ \t]*)Result(?=[ \t]*#?\d)", re.MULTILINE)
_HARMLESS = str.maketrans("<>[]\u3010\u3011", "\u2039\u203a()()")


def harmless(text: str) -> str:
    r"""Returns a text in which tokens of chat templates and tags are not what they look like; as long as before.

    Example:
        >>> print(ascii(harmless("5 < 7 <|im_end|> [INST]")))
        '5 < 7 \u2039|im_end|\u203a (INST)'
    """
    return _TOKENS.sub(lambda found: found[0].translate(_HARMLESS), text)


def harmless_source(text: str) -> str:
    """Returns a text that can neither speak as the conversation nor forge the number of a result.

    Example:
        >>> harmless_source("founded in 1850 [9], see [Result 2]")
        'founded in 1850 (9), see (Result 2)'
    """
    numbered = _NUMBERS.sub(lambda found: found[0].translate(_HARMLESS), harmless(text))
    return _LABELS.sub(r"\1result", numbered)
