"""Tells whether an article is in another language than English, by the function words of its sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice


def words_of(*lines: str) -> frozenset[str]:
    """Returns the words of some lines."""
    return frozenset(word for line in lines for word in line.split())


_LOOKED_AT, _SECTIONS = 600, 5  # characters of a text that are looked at, and texts of an article
_ENGLISH = words_of(
    "the of and to in is was are were be been being has have had it its this that these those with as by on from",
    "at which who when where they them their he she his her but or not can may will would also than into about",
    "between during after before there only a an for if one all most some other more each",
)
_FOREIGN = words_of(
    "der die das den dem des und ist nicht ein eine einen einer eines mit von zum zur im auf bei wird wurde auch",
    "sich oder le la les un une et est dans du des que qui sur par pour au aux avec son sa ses ce cette ne pas",
    "plus el los las y en con del una por es su se lo como más para fue il lo gli di che e è per della del nel",
    "sono alla het een van op te dat niet zijn werd wordt om voor door os uma não ao dos das pelo pela são foi og",
    "av til som ikke er det på fra och att är för med den ett inte ja on ei se että ovat w z na się jest oraz",
    "przez ve bir bu için ile olarak v je se na že jsou și este cu pe din egy az hogy nem của và là các",
)
_END = re.compile(r"[.!?\u2026]")  # the end of a sentence
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_FEWEST = 5  # fewest words of a sentence: less may be names or numbers
_ENOUGH, _SHARE = 25, 0.1  # from so many words on, English has at least this share of its function words


def is_foreign(texts: Iterable[str]) -> bool:
    """Returns whether an article is in another language than English.

    Only sentences count, so lists of names, numbers and facts are not judged; capitalized words within a sentence may
    be names and do not count either. A text mostly in another script than the Latin one is foreign.

    Example:
        >>> is_foreign(["Der Turm ist hoch und steht in Oslo."]), is_foreign(["Ojo de Liebre, Baja California; 1951"])
        (True, False)
    """
    english = foreign = counted = 0
    for text in islice(texts, _SECTIONS):
        start = text[:_LOOKED_AT]
        letters = sum(map(str.isalpha, start))
        if letters > 2 * len(_LATIN.findall(start)):
            return True
        for sentence in _END.split(start)[:-1]:  # the last one may be cut
            found = _WORD.findall(sentence)
            words = [word.lower() for n, word in enumerate(found) if n == 0 or not word[0].isupper()]
            if len(found) >= _FEWEST:
                english += sum(word in _ENGLISH for word in words)
                foreign += sum(word in _FOREIGN and word not in _ENGLISH for word in words)
                counted += len(words)
    return foreign > english or (counted >= _ENOUGH and english < _SHARE * counted)
