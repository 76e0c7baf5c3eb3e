"""Kinds of answers: whether a span is what a question asks for, judged by the question's own words."""

from __future__ import annotations

import re
from collections.abc import Callable

NUMBER = (
    r"(?:\d[\d.,/]*|zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|"
    r"seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|half|several|hundreds?|thousands?|"
    r"millions?|billions?|trillions?|dozens?)"
)
SCALE = r"(?:hundred|thousand|million|billion|trillion|dozen)"
UNIT = (
    rf"(?:{SCALE}|sq(?:uare)? \w+|cubic \w+|k?m[\u00b2\u00b3]?|[cmµ]m|mi|miles?|"
    r"(?:kilo|centi|milli)?(?:met(?:er|re)|gram|lit(?:er|re))s?|ft|feet|foot|in(?=\W|$)(?! \w)|inch(?:es)?|yards?|"
    r"k?g|mg|lbs?|pounds?|oz|ounces?|st|stone|t|tons?|tonnes?|ha|hectares?|acres?|[mcd]?l|years?|yrs?|months?|weeks?|days?|hours?|hrs?|h|"
    r"minutes?|mins?|seconds?|secs?|s|percent|per cent|kcal|kj|mph|km/h|rpm|degrees?|°?[cf]|"
    r"[gmk]?wh?|watts?|volts?|v|hz|bar|psi|[kmgt]b|"
    r"[€£$¥₹]|dollars?|euros?|francs?|kr|kron(?:er|or|e|a)|pesos?|yen|yuan|rupees?|zloty|cents?|pence|usd|eur|gbp|chf|jpy)"
)
_TIME = r"(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?)"
MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)\.?"
)
_COUNT = re.compile(r"\bhow many (\w+)", re.IGNORECASE)
_MEASURE = re.compile(rf"{NUMBER}\s?(?:[cmkµ]m[²³]?|m[²³]|[mk]?g|[cm]l|lbs?|oz|°[CF]|ft)(?![\w²³])", re.IGNORECASE)
_UNITS_COUNTED = re.compile(rf"\bhow many {UNIT}(?!\w)", re.IGNORECASE)
_SHARE = re.compile(r"\bper ?cent|%|\bpercentage|\bshare\b|\bproportion", re.IGNORECASE)
_SIZE = re.compile(r"\bhow (?:tall|high|wide|deep|thick|heavy|far)\b", re.IGNORECASE)
_YEAR = re.compile(r"\b(?:what|which) year\b", re.IGNORECASE)
_ONE_YEAR = re.compile(r"(?<!\d)(?:1\d|20)\d\d(?!\d)")
_DATE_ASKED = re.compile(r"^(?:in |since |from )?(?:when|(?:what|which) year)\b", re.IGNORECASE)
_WHEN = re.compile(r"\b(?:when|dates?|years?|days?|months?|time|since|old|how)\b", re.IGNORECASE)
_NAMED = re.compile(r"\b(?:who|whom|whose|where)\b", re.IGNORECASE)
_ONE_OF_ALL = re.compile(r"^(?:what|which)\b.*?\b(?:\w{2,}est|most|least)\b|^(?:who|where|which)\b", re.IGNORECASE)
_MEASURED = re.compile(
    r"\b(?:how|size|amount|number|figure|value|quantity|dimensions?|measures?|much|many)\b", re.IGNORECASE
)
_CHOICE = re.compile(
    r"^(?:is|are|was|were|do|does|did|has|have|can|could|will|should|must)\b.*?"
    r"\b(\w+),? or (?:(?:an?|the|is it|to) )?(\w+)",
    re.IGNORECASE,
)
_AGAINST = re.compile(
    r"\b(?:not|never|no|avoid\w*|without|incompatible|unsuitable|dis\w*like\w*|enem(?:y|ies)|bad|worst|forbidden|prohibited)\b"
    r"|n't\b",
    re.IGNORECASE,
)
_IMAGE = r"\b(?:photo\w*|picture|image|shot|snapshot)\b"
_MADE = r"\b(?:took|takes?|taken|taking|shot|shoots?|captured|snapped|uploaded|credit\w*|copyright)\b"
_PHOTOGRAPH = re.compile(rf"{_MADE}.*{_IMAGE}|{_IMAGE}.*{_MADE}|\bphotograph(?:er|ed)\b", re.IGNORECASE)
_OF_PHOTOGRAPHS = re.compile(r"\b(?:photo\w*|pictures?|images?|camera|snapshots?|credits?)\b", re.IGNORECASE)
"""A question about the photograph itself, and what a text that answers it says; what the image shows does not."""
_EXCEPT = re.compile(r"^(?:what|which|who|where|when|how)\b.*(?:\bnot\b|n['\u2019]t\b)", re.IGNORECASE)
_DENIED = re.compile(
    r"\b(?:no|without|except|other than|besides|lacks?|neither|nor|only|un\w+|in\w+ible)\b", re.IGNORECASE
)
"""A question for what is not so, and further words of a text that says it."""
_YEARS = re.compile(r"(?<![\d.,])(?:1\d|20)\d\d(?![\d.,]\d|\d|s|\s?(?:%|[ck]?m\b|f(?:t|eet)|people|visitors))")
_BREAK = re.compile(r"; |[.!?][\"\u201d')]* ")
_PERIOD = re.compile(r"(?<!\d)((?:1\d|20)\d\d)\s?(?:-|\u2013|to|until|and)\s?((?:1\d|20)\d\d|\d\d)(?!\d)")
_DATE = rf"(?:\d{{1,2}} {MONTH}(?: \d{{4}})?|{MONTH} \d{{1,2}}(?:, \d{{4}})?|\d{{4}})"
_FIGURES = re.compile(rf"\W*{NUMBER}(?:[\s-]*(?:{NUMBER}|%|{_TIME}|{MONTH}|to|or|and))*\W*", re.IGNORECASE)
_DATED = re.compile(rf"(?<=[^\W\d_])(?:, | \(|, \(){_DATE}\)?$", re.IGNORECASE)
_MEASURED_LAST = re.compile(rf",? \(?\d[\d.,]*\s?{UNIT}\.?\)?$", re.IGNORECASE)
_UNNAMED = re.compile(rf"\d|^{MONTH}$", re.IGNORECASE)
_COUNTED_TIME = re.compile(rf"%|\bper ?cent\b|{NUMBER} {_TIME}\b", re.IGNORECASE)
_LASTING = re.compile(r"\bhow long\b.*\b(?:takes?|taken|taking|took|lasts?|lasted)\b", re.IGNORECASE)
_VERB = re.compile(r"\b(?!who|that|which)\w+ (?:is|are|was|were|has|have|had) \w+")
"""A question for a duration, and a clause, which is no name."""
_HAS_NUMBER = re.compile(rf"(?<!\w){NUMBER}(?!\w)", re.IGNORECASE)
_HEDGES = re.compile(
    r"(?:about|around|approx\w*|up|to|over|under|at|least|most|more|less|than|nearly|from|c(?:irc)?a|\W)+", re.I
)


def kind_of_answer(question: str, context: str = "") -> Callable[[str, int, int], bool]:
    """Returns a function that tells whether a span of a text is of the kind that a question asks for.

    Args:
        question: The question.
        context: Titles, whose years every line of the text may mean.

    Example:
        >>> [kind_of_answer("How many people live here?")(text, 0, len(text)) for text in ("84%", "81 years", "4,200")]
        [False, False, True]
    """
    counted = _COUNT.search(question)
    units = _UNITS_COUNTED.search(question)
    time_counted = counted is not None and re.fullmatch(_TIME, counted[1], re.IGNORECASE) is not None
    year, named, share = _YEAR.search(question), _NAMED.match(question), _SHARE.search(question)
    dated, size = _DATE_ASKED.search(question), _SIZE.search(question)
    choice, against = _CHOICE.match(question.strip()), _AGAINST.search(question)
    lasting = _LASTING.search(question)
    photograph, excluded = _PHOTOGRAPH.search(question), _EXCEPT.match(question)
    years = {int(one) for one in _YEARS.findall(question) if one not in context}

    def fits(text: str, start: int, end: int) -> bool:
        span = text[start:end]
        if counted and not _HAS_NUMBER.search(span):
            return False
        if counted and not share and not time_counted and _COUNTED_TIME.search(span):
            return False
        if counted and not units and _MEASURE.search(text[start : end + 5]):
            return False
        if year and not re.search(r"\d\d|century", span):
            return False
        if dated and re.fullmatch(r"\W*\d{5,}\W*", span):
            return False
        if not named and not dated and _is_label(text, start, end):
            return False
        if (share or size) and not _HAS_NUMBER.search(span):
            return False
        if named and (_FIGURES.fullmatch(span) or _VERB.search(span)):
            return False
        if lasting and (not _HAS_NUMBER.search(span) or re.search(rf"\d-{_TIME}", span)):
            return False
        if choice and not any(_forms(span, option) for option in choice.groups()):
            return False
        line = _line(text, start, end) if years or photograph or excluded else ""
        if years:
            begin = text.rfind("\n", 0, start) + 1
            part = _sentence(line, start - begin, end - begin)
            if not any(_is_about(part if _YEARS.search(part) else line, year) for year in years):
                return False
        if photograph and not _OF_PHOTOGRAPHS.search(line):
            return False
        if excluded and not (_AGAINST.search(line) or _DENIED.search(line)):
            return False
        return bool(against) or not _AGAINST.search(_label(text, start))

    return fits


def core(text: str, start: int, end: int, question: str) -> tuple[int, int]:
    """Returns the part of a span that a question asks for.

    This is the year of a longer phrase, one side of a choice, or a name without the figure or date behind it.

    Example:
        >>> text = "Mount Gimie 948 m"
        >>> text[slice(*core(text, 0, len(text), "What is the highest point?"))]
        'Mount Gimie'
    """
    span = text[start:end]
    if _YEAR.search(question):
        years = list(_ONE_YEAR.finditer(span))
        return (start + years[0].start(), start + years[0].end()) if len(years) == 1 else (start, end)
    if choice := _CHOICE.match(question.strip()):
        words = [word for option in choice.groups() for word in _forms(span, option)]
        best = min(words, key=lambda word: len(word[0]), default=None)
        return (start + best.start(), start + best.end()) if best else (start, end)
    if not _WHEN.search(question) and (found := _DATED.search(span)) and not _UNNAMED.search(span[: found.start()]):
        return start, start + found.start()
    if _ONE_OF_ALL.search(question) and not _MEASURED.search(question):
        found = _MEASURED_LAST.search(span)
        if found and not re.search(r"\d", span[: found.start()]) and not _HEDGES.fullmatch(span[: found.start()]):
            return start, start + found.start()
    return start, end


def _line(text: str, start: int, end: int) -> str:
    """Returns the line of a text that a span is in."""
    stop = text.find("\n", end)
    return text[text.rfind("\n", 0, start) + 1 : len(text) if stop < 0 else stop]


def _sentence(line: str, start: int, end: int) -> str:
    """Returns the sentence, or the part before or behind a semicolon, that a span of a line is in."""
    breaks = [found.span() for found in _BREAK.finditer(line)]
    begin = max((last for _, last in breaks if last <= start), default=0)
    return line[begin : min((first for first, _ in breaks if first >= end), default=len(line))]


def _is_about(line: str, year: int) -> bool:
    """Returns whether a line names a year, or a period with it: "1948-52"."""
    periods = ((int(first), int(first[: 4 - len(last)] + last)) for first, last in _PERIOD.findall(line))
    return re.search(rf"(?<!\d){year}(?!\d)", line) is not None or any(a <= year <= b for a, b in periods)


def _label(text: str, start: int) -> str:
    """Returns the label of a labeled value, "" for prose."""
    line = text[text.rfind("\n", 0, start) + 1 : start]
    label = line.rpartition(":")[0]
    return label if len(label.split()) <= 6 else ""


def _is_label(text: str, start: int, end: int) -> bool:
    """Returns whether a span without figures is in the label of a labeled value: "Area" of "Area: 5 ha"."""
    after = re.match(r"[^\n:;.]{0,40}:(?=\s)", text[end:])
    before = re.split(r"[\n;]|[.] ", text[:start])[-1]
    label = before + text[start:end] + (after[0] if after else "")
    return after is not None and ":" not in before and len(label.split()) <= 6 and not re.search(r"\d", text[start:end])


def _forms(span: str, option: str) -> list[re.Match[str]]:
    """Returns the forms of a word in a span: "shaking" of "shaken"."""
    stem = option.lower()[: max(3, min(len(option) - 2, 5))]
    return list(re.finditer(rf"\b{re.escape(stem)}\w*", span, re.IGNORECASE))
