"""Deixis: the words of a question that only point at the image ("this country's", "shown in the photo").

They do not help find the passage with the answer. "This" is a determiner in "When was this bridge built?", where both
words are removed, and a pronoun in "When was this built?", where the verb must stay. Without a parser, the two are told
apart by the word before "this" (a form of be or have, a form of do or a modal, or any other) and by whether the clause
has another verb. When in doubt, a word is kept: an extra noun costs less than a lost verb.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

_NOUN = (
    r"(?:sovereign |independent )?(?:country|nation|state|territory|land|place|region|product|item|article|food|"
    r"foodstuff|fruit|vegetable|drink|beverage|juice|milk|goods?|thing|flag|banner|entity|object|package|carton)"
)
_IMAGE = r"(?:picture|image|photo|photograph)"
_POINTING = re.compile(
    rf"\b(?:the|a|this|that)\s+{_NOUN}\s+(?:(?:with|behind|under|having|using|flying|to which|whose|that|which|"
    rf"represented|symboli[sz]ed|identified)\s+.{{0,25}}?)?\b(?:this|that|the)\s+(?:flag|banner|{_IMAGE})\b"
    r"(?:\s+(?:belongs? to|represents?|stands for|is shown|is from|comes from))?"
    rf"|\b(?:the|a|that)\s+{_NOUN}\s+whose\s+(?:flag|banner|logo|label|{_IMAGE})\s+(?:this|that)\s+is\b"
    rf"|\bthe\s+{_NOUN}(?:'s)?\s+(?:that is |which is )?"
    r"(?:shown|pictured|depicted|displayed|seen|in the|in this|on the)\b"
    r"|\b(?:shown|pictured|depicted|displayed|seen)\s+here\b"
    rf"|\b(?:(?:shown|pictured|depicted|displayed|seen)\s+)?(?:in|on) (?:the|this) {_IMAGE}\b"
    r"|(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bwere )(?<!\bbe )(?<!\bbeen )(?<!\bthis )(?<!\bthese )"
    r"\b(?:shown|pictured|depicted|displayed|seen)\b"
    rf"|\b{_IMAGE}\b",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"\w+(?:['\u2019-]\w+)*['\u2019]?|[^\w\s]")


def _set(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


_BE_OR_HAVE = _set("is are was were am be been being has have had what's who's where's when's how's why's")
_DO_OR_MODAL = _set("do does did can could will would shall should may might must cannot")
_AUXILIARIES = _BE_OR_HAVE | _DO_OR_MODAL
_QUESTION_WORDS = _set("when where why how what who whom which")
_ADVERBS = _set(
    "first last once ever never now today currently still already also best most more often always sometimes later",
    "then there here again together alone well better worse less just even back away",
)
_FUNCTION_WORDS = _set(
    "a an the and or but nor so if than as at by for from in into of off on onto out over to under up upon with",
    "within without about above across after against along among around before behind below beside besides between",
    "beyond down during inside like near outside past per since through throughout toward towards until via while",
    "that it its it's he she they we you i his her their our your my him them us me this these those not no all both",
    "each every some any such",
)
_NO_CONTENT = _AUXILIARIES | _QUESTION_WORDS | _FUNCTION_WORDS
_KINDS = _set("kind type sort species breed variety style form class family genus")
_ADJECTIVES = _set(
    "old new ancient modern young big large small little tiny huge tall short long high low wide narrow round flat",
    "red green blue yellow white black brown grey gray orange pink purple golden silver bright dark",
    "wooden stone brick metal bronze marble glass beautiful famous particular specific same exact special strange",
    "great grand historic national local wild rare common tropical native whole entire popular important notable",
    "sovereign independent two three four five few other",
)
_PREDICATES = _set("famous native similar common popular important notable unique close rare special different")
_VERBS = _set(  # base forms that are not also nouns, so that an object without an article may follow
    "become get give take come go make need want require contain include consist produce create cause carry eat grow",
    "live belong originate occur happen appear mean represent symbolize depict resemble prefer inhabit exist weigh",
    "attract provide protect prevent treat begin open close serve receive win lose sell buy earn taste smell sound",
    "feel seem stay remain keep hold use lay",
)
_PARTICIPLES = _set(  # irregular participles that are not also nouns
    "built made found known born worn grown sold held kept sung fought won drawn written taken given seen done gone",
    "begun broken brought bought caught chosen driven eaten fallen flown forgotten frozen got gotten hidden lost laid",
    "meant overthrown paid proven risen sent shaken slain spoken stolen struck sunk taught thought thrown told torn",
    "understood woven hung dug fed bred",
)
_AMBIGUOUS_PARTICIPLES = _set(  # participles that are also nouns or adjectives
    "cast cut hit left led lit met put read run set shot split spread spun swept"
)
_NOT_REGULAR = _set("hundred sacred kindred naked quadruped moped infrared thoroughbred")
_SINGULAR = _set("series species lens news mars")
_LY_NOUNS = re.compile(r"(?:fly|family|lily|jelly|assembly|belly|holy|lovely|ugly|friendly)$")


def without_deixis(question: str) -> str:
    """Returns the question without the words that only point at the image.

    Example:
        >>> without_deixis("When was this old church built?")
        'When was built?'
        >>> without_deixis("When was this built?")
        'When was built?'
    """
    text = _POINTING.sub(" ", question)
    tokens = list(_TOKEN.finditer(text))
    words = [token[0].lower().replace("\u2019", "'") for token in tokens]
    pieces, kept_to, at = [], 0, 0
    while at < len(words):
        count = _pointing_words(words, at)
        if count:
            pieces.append(text[kept_to : tokens[at].start()])
            kept_to = tokens[at + count - 1].end()
        at += max(count, 1)
    return " ".join(" ".join([*pieces, text[kept_to:]]).split())


def renamed(question: str, name: str, by: str) -> str:
    """Returns a question with another name, or "it", in place of a name with its article.

    Example:
        >>> renamed("How tall is the Eiffel Tower?", "Eiffel Tower (Paris)", "it"), renamed("Peru's flag", "Peru", "it")
        ('How tall is it?', 'its flag')
    """
    title = re.escape(re.sub(r"\s*\([^()]*\)$", "", name))
    pattern = rf"(?<!\w)(?:(?:the|an?)\s+)?{title}(?:(?P<owns>['\u2019]s|(?<=s)['\u2019])|(?:e?s)?)(?!\w)"
    owns = "its" if by == "it" else f"{by}'s"
    return re.sub(pattern, lambda match: owns if match["owns"] else by, question, flags=re.IGNORECASE)


def _pointing_words(words: Sequence[str], at: int) -> int:
    """Returns how many words from `at` on point at the image: a demonstrative with its noun phrase, or alone."""
    if words[at] not in ("this", "these", "that", "those"):
        return 0
    rest = words[at + 1 :]
    kind = 2 if len(rest) > 1 and rest[0] in _KINDS and rest[1] == "of" else 0
    kind += bool(kind) and rest[kind : kind + 1] in (["a"], ["an"])
    phrase = kind + (_noun_phrase(["of"], "this", rest[kind:]) if kind else _noun_phrase(words[:at], words[at], rest))
    if words[at] in ("this", "these"):
        return 1 + phrase
    # "That" and "those" also open relative clauses, so they need a noun that certainly names the pictured thing.
    return 1 + phrase if any(_names_a_thing(word) for word in rest[:phrase]) else 0


def _noun_phrase(before: Sequence[str], demonstrative: str, rest: Sequence[str]) -> int:
    """Returns the length of the noun phrase that a demonstrative opens, or 0 if the demonstrative is a pronoun."""
    if rest[:1] == ["one"]:
        return 1
    run = list(takewhile(_is_content, rest))
    if not run:
        return 0
    # Adverbs do not end the clause: "this tree usually grow".
    words = list(takewhile(lambda word: _is_content(word) or _is_adverb(word), rest))
    clause = [word for word in words if not _is_adverb(word)]
    boundary = rest[len(words)] if len(words) < len(rest) else ""
    if not _is_possessive(run[0]) and _is_verb(before, demonstrative, clause, boundary):
        return 0
    longest = len(run)
    if before and before[-1] in _DO_OR_MODAL and len(clause) == len(run) > 1 and boundary not in _AUXILIARIES:
        longest -= 1  # the last one is the verb
    length = 1
    while length < longest and _modifies(run[length - 1]):
        length += 1
    if length == 1 < longest and not _is_possessive(run[0]) and _names_a_thing(run[1]):
        length = 2
    return length


def _is_verb(before: Sequence[str], demonstrative: str, clause: Sequence[str], boundary: str) -> bool:
    """Returns whether `clause` begins with a verb or predicate, which makes the demonstrative before it a pronoun."""
    first, *others = clause
    last = before[-1] if before else ""
    if demonstrative in ("this", "that") and _is_third_person(first):
        return True
    if demonstrative == "that" and first in _VERBS:
        return True
    if boundary in _AUXILIARIES:
        return False
    if last in _DO_OR_MODAL:
        return not others or first in _VERBS or all(word.endswith("s") for word in others)
    if last in _BE_OR_HAVE:
        if _is_participle(first) or (first in _AMBIGUOUS_PARTICIPLES and not others):
            return not any(_is_participle(word) for word in others)
        if others or boundary in ("a", "an", "the") or _names_a_thing(first):
            return False
        return first in _PREDICATES or list(before[:-1]) in ([], ["why"], ["how"])  # "Is this edible?"
    if last in _QUESTION_WORDS and not others:
        return True
    return first in _VERBS or (_is_participle(first) and not others)


def _is_content(word: str) -> bool:
    return word[0].isalnum() and word not in _NO_CONTENT and not _is_adverb(word)


def _is_adverb(word: str) -> bool:
    return word in _ADVERBS or (word.endswith("ly") and not _LY_NOUNS.search(word))


def _is_possessive(word: str) -> bool:
    return word.endswith(("'s", "s'"))


def _is_third_person(word: str) -> bool:
    """Returns whether a word after "this" ends like a verb ("eats"): a noun in -s would be a plural."""
    return re.search(r"[^aious']s$", word) is not None and word not in _SINGULAR and not _names_a_thing(word)


def _is_participle(word: str) -> bool:
    regular = re.search(r"[aeiouy].*(?<!e)ed$", word) is not None and word not in _NOT_REGULAR
    return regular or word in _PARTICIPLES


def _modifies(word: str) -> bool:
    return word in _ADJECTIVES or word[0].isdigit() or _is_participle(word)


def _names_a_thing(word: str) -> bool:
    return re.fullmatch(rf"{_NOUN}(?:'s|s'|s)?", word) is not None
