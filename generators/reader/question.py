"""Analyzes a question: the kind of answer it expects, its unit and year, and the concepts it is about."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from generators.reader.spans import UNIT, UNITS, unit_at
from retriever.deixis import without_deixis
from retriever.lexical import Concept, Lexicon, words


class AnswerKind(Enum):
    """The kind of answer that a question expects."""

    NUMBER = "number"
    DATE = "date"
    YEAR = "year"
    NAME = "name"
    LIST = "list"
    YES_NO = "yes or no"
    ANY = "anything short"


@dataclass(frozen=True, slots=True)
class AnalyzedQuestion:
    """What a question asks for.

    Attributes:
        kind: The expected kind of answer.
        concepts: The concepts it is about, each with a weight: 1 for content words, less for words of any question.
        unit: The unit it names (a key of `UNITS`), or "".
        dimension: The measured dimension ("length") if its words reveal one, or "".
        bare: True if the figure alone is the answer because the question itself says what is counted.
        year: The year it names, or "".
        extreme: 1 for "longest", -1 for "shortest", 0 otherwise.
        words: Stems of the whole question; a span that only repeats them is not an answer.
    """

    kind: AnswerKind
    concepts: tuple[tuple[Concept, float], ...]
    unit: str
    dimension: str
    bare: bool
    year: str
    extreme: int
    words: frozenset[str]


def _stems(*lines: str) -> frozenset[str]:
    return frozenset(stem for line in lines for stem in words(line))


_QUANTITIES = _stems(  # nouns whose value is a number
    "age population area length height rate percentage percent share expectancy number elevation altitude density",
    "distance weight size ratio amount content temperature depth width mass fertility lifespan speed price cost",
    "inhabitants residents total proportion fraction figure requirement gdp wingspan unemployment inflation debt",
)
GENERIC = _stems(  # words that barely help to choose a field
    "total overall whole average mean number title country nation state main amount value official contain name",
    "require need year place located according world have use typical common size city town day item product thing",
    "major percentage percent share proportion fraction rate part serve newborn person someone figure live used",
    "become gain get national man woman see know go take available other current content unit come say here",
    "date calendar form english word people principal best biggest describe document state",
)
_MINOR = 0.3
_DIMENSIONS = {  # pattern in a question -> measured dimension
    r"\bhow (?:long|many years)\b.*\b(?:live|reside|wait)\b": "time",
    r"how (?:long|tall|high|far|wide|deep)\b|\b(?:length|height|elevation|altitude|depth|width|distance|wingspan|"
    r"diameter|circumference|coast(?:line)?|shoreline)\b": "length",
    r"\bhow (?:big|large)\b|\barea\b": "area",
    r"\bhow (?:heavy|much does .* weigh)\b|\bweight\b|\bmass\b": "mass",
    r"\bhow old\b|\bage\b|\blifespan\b|\blife expectancy\b|\bexpect(?:ed)? to live\b|\bhow many years\b": "time",
    r"\b(?:percent(?:age)?|per cent|share|proportion|fraction|rate)\b": "share",
    r"\bhow many (?:people|inhabitants|residents|citizens)\b|\bpopulation\b": "count",
}
_MAXIMA = r"\b(?:longest|largest|biggest|highest|tallest|greatest|most|deepest|oldest|heaviest|widest|main|principal)\b"
_MINIMA = r"\b(?:shortest|smallest|lowest|fewest|least|shallowest|youngest|lightest|narrowest)\b"
_YEAR = re.compile(r"\b(?:in|of|for|during|as of|by|around)?\s*(?:the year\s+)?\b((?:1[5-9]|20)\d\d)\b")
_PER = re.compile(
    r"\b(?:per|in|of|for|does|every|each)?\s*(?:a\s+)?(?:100|hundred|one hundred)[ -]?"
    r"(?:g|grams?|gr|ml|millilit(?:er|re)s?)\b",
    re.I,
)
_NAMED_UNIT = re.compile(r"\b(?:in|how many|number of|expressed in|measured in|what number of)\s+(?=(\w.*))", re.I)
_AUXILIARY = re.compile(r"^(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would|should)\b", re.I)


def analyze(question: str, lexicon: Lexicon) -> AnalyzedQuestion:
    """Analyzes a question; `lexicon` supplies its concepts."""
    text = question.strip().rstrip("?!. ")
    core = without_deixis(text)
    year = _YEAR.search(core)
    core = _PER.sub(" ", core[: year.start()] + " " + core[year.end() :] if year else core)
    unit, core = _unit(core)
    lower = text.lower()
    kind = _kind(lower, unit)
    dimension = next((name for pattern, name in _DIMENSIONS.items() if re.search(pattern, lower)), "")
    if unit and UNITS[unit][0] != "share":
        dimension = UNITS[unit][0]
    names_its_unit = bool(unit) or bool(re.search(r"\bhow many\b|percent|per cent|\bshare\b|\brate\b", lower))
    bare = names_its_unit or dimension in ("time", "share", "count")
    concepts = []
    for concept in lexicon.concepts(core):
        literal = concept.phrases[0] if concept.literal else ()
        minor = GENERIC.issuperset(literal) if len(literal) == 1 else not literal and ("locat",) in concept.phrases
        weight = _MINOR if minor else 1.0
        if concept.phrases:
            concepts.append((concept, weight))
    extreme = bool(re.search(_MAXIMA, lower)) - bool(re.search(_MINIMA, lower))
    return AnalyzedQuestion(
        kind, tuple(concepts), unit, dimension, bare, year[1] if year else "", extreme, frozenset(words(text))
    )


def _unit(text: str) -> tuple[str, str]:
    """Returns the unit that a question names ("" if none) and the question without it."""
    for match in _NAMED_UNIT.finditer(text):
        unit, end = unit_at(text, match.end())
        if unit and unit != "people":
            return unit, text[: match.end()] + " " + text[end:]
    if share := re.search(r"\b(?:percent(?:age)?|per cent)\b|%", text, re.I):
        return "%", text[: share.start()] + " " + text[share.end() :]
    for match in UNIT.finditer(text):
        unit, end = unit_at(text, match.start())
        if len(match[0]) > 3 and unit not in ("", "people", "year", "month", "day"):
            return unit, text[: match.start()] + " " + text[end:]
    return "", text


def _kind(lower: str, unit: str) -> AnswerKind:
    if re.search(r"\b(?:what|which) year\b|\byear (?:was|did|of)\b", lower):
        return AnswerKind.YEAR
    if re.search(r"^when\b|\bon (?:what|which) (?:date|day)\b|\b(?:what|which) date\b|\bdate of\b", lower):
        return AnswerKind.DATE
    if unit or re.search(
        r"\bhow (?:many|much|long|tall|high|big|large|old|far|wide|deep|heavy|fast|populous)\b", lower
    ):
        return AnswerKind.NUMBER
    if re.search(r"^(?:which|what) (?!does|was|has|is|makes|uses)\w\w+[^s\W]s\b(?! (?:is|was|has|does)\b)", lower):
        return AnswerKind.LIST
    if re.search(r"^who\b|^which\b|\bwhose\b|^where\b|\bwhat (?:is|'s) the name\b", lower):
        return (
            AnswerKind.LIST if re.search(r"^which (?:\w+ )?\w+[^s]s (?:are|do|were|have)\b", lower) else AnswerKind.NAME
        )
    if _AUXILIARY.match(lower):
        return AnswerKind.YES_NO
    object_ = re.search(r"^(?:what|what's|tell me|give|state|name)\b(?:\s*(?:is|was|are|were|'s))?\s*(.*)", lower)
    phrase = re.split(r"\b(?:of|in|for|at|with|on|to|that)\b", object_[1] if object_ else lower)[0]
    if any(word in _QUANTITIES for word in words(phrase)) and not re.search(r"\bnames?\b|\btitle\b", phrase):
        return AnswerKind.NUMBER
    if re.search(
        r"^what (?:\w+ )?(?:are|were)\b|^(?:list|name) (?:the|all|some)?\s*\w+s\b|^what \w+s (?:are|do)\b", lower
    ):
        return AnswerKind.LIST
    return AnswerKind.ANY
