"""The words that common templates of Wikipedia produce: quantities, dates, lists, quotations, currencies, languages.

A template's value is whole or absent: `expand` returns `None` for templates that it does not know, and for parameters
that it cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from indexes.knowledge.formats import quantities
from indexes.knowledge.formats.quantities import Arguments, Named

_Function = Callable[[Arguments, Named], str | None]

_PREFIXES = {
    name: pair.partition("=")[0].replace("_", " ")
    for pair in (
        *("US$=USD,US$", "$=$", "€=EUR,€,EURO", "£=GBP,£", "¥=JPY,¥,YEN", "CN¥=CNY,CN¥,RMB", "₹=INR,₹"),
        *("A$=AUD,A$,AU$",),
        *("C$=CAD,C$,CA$", "NZ$=NZD,NZ$", "HK$=HKD,HK$", "S$=SGD,S$", "₩=KRW,₩", "₽=RUB,₽", "R$=BRL,R$", "Mex$=MXN"),
        *("CHF_=CHF", "SEK_=SEK", "NOK_=NOK", "DKK_=DKK", "PLN_=PLN", "₺=TRY,₺", "R=ZAR", "₱=PHP,₱", "฿=THB"),
        *("₪=ILS,NIS",),
        "₴=UAH,₴",
    )
    for name in pair.partition("=")[2].split(",")
}
"""What stands before an amount of money, by currency."""
_SCALES = {"c": " crore", "l": " lakh", "k": " thousand", "t": " trillion", "m": " million", "b": " billion"}


def expand(name: str, given: Arguments, named: Named) -> str | None:
    """Returns the words of a template, `None` if they are unknown.

    Args:
        name: Its name, in lower case and with spaces; a parser function's ends with a colon and has no argument in it.
        given: The values without a name, as words.
        named: The values with a name.

    Example:
        >>> expand("convert", ["341", "-", "345", "m", "ft"], {}), expand("val", ["52"], {"u": "m"})
        ('341\u2013345 m', '52 m')
        >>> expand("convert", ["high", "m"], {}) is expand("mystery", ["3"], {}) is None
        True
    """
    function = _FUNCTIONS.get(name)
    if function is None:
        function = next((one for one, pattern in _PATTERNS if pattern.fullmatch(name)), None)
    return None if function is None else function([one.strip() for one in given], named)


def _money(prefix: str) -> _Function:
    def amount(given: Arguments, named: Named) -> str | None:
        if not given or not given[0]:
            return prefix.strip() or None
        scale = _SCALES.get(given[1].lower(), "") if len(given) > 1 else ""
        return f"{prefix}{quantities.number(given[0]) or given[0]}{scale}" if re.search(r"\d", given[0]) else None

    return amount


def _currency(given: Arguments, named: Named) -> str | None:
    code = given[1] if len(given) > 1 else named.get("2", "USD")
    prefix = _PREFIXES.get(code.upper(), f"{code} ")
    return _money(prefix)(given[:1], named)


def _quote(given: Arguments, named: Named) -> str | None:
    text = next(
        (named[key] for key in ("text", "quote", "content", "original") if named.get(key)), given[0] if given else ""
    )
    names = ("author", "sign", "by", "title", "source", "character", "translation")
    said = [value for key in names if (value := named.get(key, "").strip())] or [one for one in given[1:3] if one]
    return f"\n{text}\n{', '.join(said)}\n" if text else None


def _items(given: Arguments, named: Named) -> str | None:
    return "\n".join(one for one in given if one)


def _titled_items(given: Arguments, named: Named) -> str | None:
    return "\n".join(filter(None, (named.get("title", ""), *given)))


def _argument(place: int) -> _Function:
    return lambda given, named: given[place] if place < len(given) and given[place] else None


def _last(given: Arguments, named: Named) -> str | None:
    return given[-1] if given else None


def _shown(given: Arguments, named: Named) -> str | None:
    """Returns the words of a link to an article in another language."""
    return named.get("lt") or next((one for one in given if one), None)


def _beside(given: Arguments, named: Named) -> str | None:
    """Returns a word with its form in another script: `{{nihongo|Fox|狐}}`."""
    others = ", ".join(one for one in given[1:3] if one)
    first = given[0] if given else ""
    return f"{first} ({others})" if first and others else first or others or None


def _scripts(given: Arguments, named: Named) -> str | None:
    """Returns a word in several scripts, which have names: `{{zh|c=北京|p=Běijīng}}`."""
    said = [
        value for key, value in named.items() if value and key not in ("labels", "links", "label", "scase", "first")
    ]
    return ", ".join(dict.fromkeys([*filter(None, given), *said])) or None


def _marriage(given: Arguments, named: Named) -> str | None:
    if not given:
        return None
    years = "\u2013".join(one for one in given[1:3] if one)
    return f"{given[0]} (m. {years})" if years else given[0]


def _text(text: str) -> _Function:
    return lambda given, named: text


def _if(given: Arguments, named: Named) -> str | None:
    tested, then, other = [*given, "", "", ""][:3]
    return then if tested else other


def _answer(word: str) -> _Function:
    return lambda given, named: given[0] if given and given[0] else word


def _joined(given: Arguments, named: Named) -> str | None:
    return " ".join(given[:2])


_NAMES: tuple[tuple[_Function, str], ...] = (
    (quantities.quantity, "convert|cvt|convinfobox"),
    (quantities.scientific, "val"),
    (quantities.fraction, "frac|fraction|sfrac|frac2"),
    (quantities.measure, "height|weight"),
    (quantities.about("c."), "circa|c.|ca|ca.|approx"),
    (quantities.about("fl."), "floruit|fl.|fl"),
    (quantities.about("r."), "reign|r."),
    (quantities.about("b."), "born in|b."),
    (quantities.about("d."), "died in|d."),
    (quantities.as_of, "as of|asof"),
    (quantities.age, "age|age in years|ayd"),
    (quantities.date, "date|dts"),
    (_money("₹"), "inrconvert|indian rupee|indian rupees"),
    (_currency, "currency|monnaie"),
    (
        _quote,
        "quote|blockquote|cquote|quotation|bq|quote box|centered pull quote|poemquote|poem quote|pull quote|zitat",
    ),
    (
        _items,
        "br list|brlist|ubl|unbulleted list|ublist|blist|bulleted list|hlist|flatlist|flat list|plainlist|plain list",
    ),
    (_items, "cslist|csv|ordered list|olist|unbulleted|startplainlist|endplainlist|comma separated entries|enum"),
    (_titled_items, "collapsible list|hidden"),
    (_items, "verse translation|lang-verse"),
    (_last, "lang|langue|langx|transl|transliteration|translit|script|url|flag|flagcountry|flagu|flagdeco|country"),
    (_last, "sort|sort2|color|colour|font color|fontcolor|resize|font|bg"),
    (_shown, "ill|interlanguage link|illm|link-interwiki|ill-wd|lien"),
    (_beside, "nihongo|nihongo2|nihongo3"),
    (_scripts, "zh|zh-full|korean|ko-hhrm"),
    (_marriage, "marriage|married"),
    (
        _argument(0),
        "nowrap|no wrap|nobr|small|smaller|big|larger|sc|smallcaps|em|strong|center|noitalic|nobold|mono|code|tt",
    ),
    (_argument(0), "var|mvar|math|sub|abbr|tooltip|abbrlink|hover title|nts|formatprice|-"),
    (_argument(0), "chem2|fmtn|number"),
    (_joined, "linktext|sortname|gaps"),
    (lambda given, named: "".join(given) or None, "chem|chemical formula"),
    (lambda given, named: f"\u00d710^{given[0]}" if given else None, "e"),
    (lambda given, named: f"10^{given[0]}" if given else None, "10^"),
    (_text(" \u2013 "), "snd|spaced ndash|spnd|sndash|spaced en dash|snds|\u2013"),
    (_text("\u2013"), "ndash|en dash|nsndns|dash"),
    (_text("\u2014"), "mdash|em dash|\u2014"),
    (_text(" "), "nbsp|space|thinsp|hair space|nbs|spaces|thin space|em space"),
    (_text(" · "), "·|•|dot|middot|bull|bullet|\\|pipe"),
    (_text("="), "="),
    (_text("'"), "'"),
    (_text("'s"), "'s"),
    (_text("\u02bb"), "okina|\u02bbokina"),
    (_text("\u03c0"), "pi"),
    (_text("°"), "deg|degree"),
    (_text("CO2"), "co2"),
    (_text("H2O"), "h2o"),
    (_text(""), "shy|zwsp|wbr|zwj|zwnj|clear|clr"),
    (_answer("Yes"), "yes|tick|check|aye"),
    (_answer("No"), "no|cross|x mark|nay"),
    (_answer("N/A"), "n/a"),
    (_answer("TBA"), "tba"),
    (_answer("Won"), "won"),
    (_answer("Nominated"), "nom|nominated"),
    (_argument(0), "lc:|uc:|lcfirst:|ucfirst:"),
    (_if, "#if:"),
    (lambda given, named: quantities.number(given[0]) if given else None, "formatnum:"),
    (lambda given, named: quantities.calculated(given[0]) if given else None, "#expr:"),
)
"""Templates by name, in lower case; those whose words depend on today's date are unknown."""
_FUNCTIONS: dict[str, _Function] = {
    **{name.lower(): _money(prefix) for name, prefix in _PREFIXES.items()},
    **{name: function for function, names in _NAMES for name in names.split("|")},
    "!": _text("|"),
}
_PATTERNS: tuple[tuple[_Function, re.Pattern[str]], ...] = (
    (quantities.year, re.compile(r"death[ -]year.*")),
    (quantities.dates, re.compile(r"(?:film|opening|release|launch)[ -]?date.*")),
    (quantities.date, re.compile(r"(?:birth|death|start|end|founding|established)[ -]?(?:date|year).*")),
    (quantities.date, re.compile(r"(?:dob|bda|b-da|dda|sda|birthdate|deathdate).*")),
    (_argument(0), re.compile(r"lang-[a-z-]+|zh-?[a-z]*")),
)
_NO_WORDS = {
    "footnote marks and references": r"efn|refn|sfnp?|harv\w*|r|rp|ref|note|notetag|cite .*|citation.*|cn|fact"
    r"|by whom.*|when\??|who\??|which\??|verify.*|dubious.*|better source.*|page needed.*|full citation.*|isbn|doi"
    r"|failed verification.*|webarchive|issn|oclc|dead link.*|clarify.*|reflist|notelist.*|refbegin|refend|references"
    r"|anchors?|specify.*|vague.*|update.*",
    "notices": r"short description|use .* (?:dates|english|spelling)|good article|featured (?:article|list)|pp(?:-.*)?"
    r"|about|distinguish.*|for\d?|redirect.*|hatnote.*|main|main article|see also|further.*|other uses.*|unreferenced.*"
    r"|more citations.*|stub|.*[ -]stub|refimprove.*|multiple issues|cleanup.*|orphan.*|italic title.*|displaytitle:"
    r"|defaultsort:|lowercase.*|engvar.*|no footnotes|tone|notability|expand .*|sister project.*|commons.*|portal.*"
    r"|wiki(?:tionary|quote|source|voyage|species|data).*|subject bar",
    "navigation": r"navbox.*|authority control.*|toc.*|taxonbar|s-\w+|succession box|(?:start|end) box|sidebar.*"
    "|.* sidebar",
    "coordinates": r"coord.*|geobox coor.*",
    "pronunciations": r"ipa.*|respell.*|pronunciation.*|audio.*|listen.*|pron.*",
    "flags and icons": r"flag ?icon.*|icon|increase|decrease|steady|profit|loss|gold\d*|silver\d*|bronze\d*|hs",
}
"""Templates without words of the article, by what they are."""
_KINDS = {kind: re.compile(pattern) for kind, pattern in _NO_WORDS.items()}


def kind_of(name: str) -> str:
    """Returns the kind of a template that adds no words to the article, such as a navigation box; "" for others."""
    return next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(name)), "")
