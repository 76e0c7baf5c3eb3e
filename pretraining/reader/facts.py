"""Training questions about lists of labeled values, from infoboxes by strangers and from invented values.

What people ask, and how lists label it, is in `wordings.toml`. A list is written in one of many styles, so that no
single layout is learned; an infobox's labels are exchanged for others of the same meaning.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from pretraining.reader.questions import SpanAnswer, SpanQuestion

WORDINGS_FILE = Path(__file__).with_name("wordings.toml")
Split = Literal["ask", "validation", "test"]
DECLINED = 0.3
"""Share of the questions whose list lacks the fact."""
LONGEST_VALUE, LONGEST_LIST = 160, 1400
"""Values and lists of more characters are left out, or cut."""
_SIMPLE = (
    "What is the {label}?",
    "What is {its} {label}?",
    "{label}?",
    "Which {label} does {it} have?",
    "Tell me the {label}.",
)
_HELD_OUT = {"validation": "What {label} is given for {it}?", "test": "What do you know about the {label}?"}
_NOUNS = {
    "Person": "person", "Musician": "musician", "Movie": "film", "Album": "album", "City": "city", "Country": "country",
    "Painting": "painting", "Animal": "animal", "Food&Drink": "drink", "Organization": "organization", "Book": "book",
    "University": "university", "Bridge": "bridge", "Game": "game", "Aircraft": "aircraft", "Planet": "planet",
}  # fmt: skip
_THINGS = (
    "game", "plant", "animal", "machine", "tool", "product", "object", "building", "drink", "dish", "country", "coin",
    "",
)  # fmt: skip


def _parts(text: str) -> list[str]:
    return text.split("|")


_FIRST = _parts("Anna|Karl|Ruth|Omar|Mei|Luis|Ines|Pavel|Tara|Hugo|Nia|Sven|Aiko|Rosa|Igor|Maya|Lars|Olga|Ravi|Zoe")
_LAST = _parts(
    "Novak|Berg|Silva|Okoye|Tanaka|Moreau|Haas|Lindt|Ferri|Kaya|Doyle|Petrov|Quist|Amari|Weiss|Chan|Rossi|Vance",
)
_FIRMS = _parts(
    "Arden|Bolt|Civic|Delta|Ember|Fjord|Granite|Harbor|Iris|Juno|Kestrel|Lumen|Meridian|Norte|Orchard|Pioneer",
)
_KINDS = ("Works", "& Sons", "Press", "Group", "Games", "Ltd.", "GmbH", "Foods", "Studio", "Tools", "Inc.", "Records")
_GOODS = _parts(
    "cards|dice|a board|tokens|screws|two blades|a manual|rice|onions|2 eggs|olive oil|flour|salt|"
    "100 g butter|wheat|cocoa|timber|copper|cars|fish|cotton|a charger|cable|case|ginger|lime juice|3 boards|"
    "maps|ink|sand|tea|nuts|honey|milk",
)
_DETAILS = (
    " (since <1950-2020>)", ", ca <50-900> g", " <100-6000> m", ", <1-28> <May,July,November> (<1811-1991>)",
    ", <1,2,5> l", " (<big,small,local name,est.,approx.>)", " - <1990-2022>", ", <north,south> of the river",
    " [<1-9>]", "; <1-28> <June,March>",
    " (\"<Song of the Hills,Our Land,The Old One>\")", ", <10-90>%", ", <1-5> kg", " (<Karl Berg,Anna Novak,A. Rossi>)",
)  # fmt: skip
"""What may follow a value without being part of the answer."""
DETAILED = 0.35
"""Share of the values without figures that a detail follows."""
_PATTERN = re.compile(r"<([^<>]+)>")


@dataclass(frozen=True)
class Concept:
    """What people ask about one kind of fact; `labels` and `values` may be patterns."""

    labels: tuple[str, ...]
    values: tuple[str, ...]
    wordings: Mapping[Split, tuple[str, ...]]


class Fact(NamedTuple):
    """A label, its value, and the concept it belongs to, if any."""

    label: str
    value: str
    concept: str


@cache
def concepts() -> dict[str, Concept]:
    """Returns the concepts by name."""
    tables = tomllib.loads(WORDINGS_FILE.read_text(encoding="utf-8"))
    splits: tuple[Split, ...] = ("ask", "validation", "test")
    return {
        name: Concept(
            tuple(_alternatives(row["labels"])),
            tuple(_alternatives(row.get("values", ""))),
            {split: tuple(row[split].split("|")) for split in splits},
        )
        for name, row in tables.items()
    }


def _alternatives(text: str) -> list[str]:
    return [each for each in text.split("|") if each]


@cache
def concept_of(label: str) -> str:
    """Returns the concept that a label belongs to, or ""."""
    asked = _plain(label)
    for name, concept in concepts().items():
        if any(_plain(each.rsplit("/", 1)[-1]) == asked for each in concept.labels if "<" not in each):
            return name
    return ""


def _plain(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", re.sub(r"\(s\)|\([^)]*\)", "", label.lower())).strip()


def invented(pattern: str, rng: random.Random) -> str:
    """Fills a pattern of `wordings.toml`: "<2-9> g" becomes "7 g"."""
    if pattern == "name":
        return " ".join((rng.choice(_FIRST), rng.choice(_LAST)))
    if pattern == "first name":
        return rng.choice(_FIRST)
    if pattern == "company":
        return f"{rng.choice(_FIRMS)} {rng.choice(_KINDS)}"
    if pattern == "list":
        return rng.choice((", ", ", ", "; ")).join(rng.sample(_GOODS, rng.randint(2, 6)))

    def fill(match: re.Match[str]) -> str:
        if found := re.fullmatch(r"(\d+)-(\d+)", match[1]):
            return str(rng.randint(int(found[1]), int(found[2])))
        return str(rng.choice(match[1].split(",")))

    return _PATTERN.sub(fill, pattern)


def questions_about(
    infoboxes: Sequence[tuple[str, str, Mapping[str, Sequence[str]]]], count: int, split: Split, rng: random.Random
) -> Iterator[SpanQuestion]:
    """Yields questions about lists of facts, `DECLINED` of them about lists without the fact.

    Args:
        infoboxes: Kind, title, and values by label.
        count: Number of lists.
        split: Which wordings to use.
        rng: Chooses everything.
    """
    for _ in range(count):
        if rng.random() < 0.5:
            kind, title, box = rng.choice(infoboxes)
            noun, facts = _NOUNS.get(kind, ""), _real(box, rng)
        else:
            title, noun, facts = invented("company", rng).split()[0], rng.choice(_THINGS), _invented(rng)
        if len(facts) > 2:
            for _ in range(2):
                yield from _asked(title, noun, facts, split, rng)


def _real(box: Mapping[str, Sequence[str]], rng: random.Random) -> list[Fact]:
    facts = []
    for label, values in box.items():
        cleaned = [text for value in values if (text := _clean(value))]
        value = rng.choice(("; ", ", ", ", ")).join(cleaned[:6])
        if label.lower() == "title" or not value or len(value) > LONGEST_VALUE:
            continue
        concept = concept_of(label)
        if concept and rng.random() < 0.5:
            label = invented(rng.choice(concepts()[concept].labels), rng)
        facts.append(Fact(label.strip(), value, concept))
    return rng.sample(facts, min(len(facts), rng.randint(4, 24)))


def _clean(value: str) -> str:
    value = re.sub(r"\[[^\]]{0,12}\]|\(\s*\d{4}-\d\d-\d\d\s*\)|\ufeff", " ", value)
    return re.sub(r"\s+", " ", re.sub(r"\(\s+", "(", re.sub(r"\s+\)", ")", value))).strip(" ,;")


def _invented(rng: random.Random) -> list[Fact]:
    able = [name for name, concept in concepts().items() if concept.values]
    facts = []
    for name in rng.sample(able, rng.randint(4, 22)):
        concept = concepts()[name]
        label = invented(rng.choice(concept.labels), rng)
        facts.append(Fact(label, invented(rng.choice(concept.values), rng), name))
    return facts


def _asked(title: str, noun: str, facts: list[Fact], split: Split, rng: random.Random) -> Iterator[SpanQuestion]:
    known = [fact for fact in facts if fact.concept]
    asked = rng.choice(known if known and rng.random() < 0.8 else facts)
    question = _question(asked, noun, split, rng)
    if not question:
        return
    if rng.random() < DECLINED:
        left = [f for f in facts if f.label != asked.label and not (asked.concept and f.concept == asked.concept)]
        text, _ = written(left, None, rng)
        yield SpanQuestion(question, text, title, ())
    else:
        same = [
            f
            for f in facts
            if f is asked or (f.label != asked.label and not (asked.concept and f.concept == asked.concept))
        ]
        text, answer = written(same, asked, rng)
        if answer:
            yield SpanQuestion(question, text, title, (answer,))


def _question(fact: Fact, noun: str, split: Split, rng: random.Random) -> str:
    label = _spoken(fact.label)
    if fact.concept and (split != "ask" or rng.random() < 0.9):
        wording = rng.choice(concepts()[fact.concept].wordings[split])
    elif split == "ask":
        wording = rng.choice(_SIMPLE)
    else:
        wording = _HELD_OUT[split]
    thing = f"this {noun}" if noun else "this"
    it = rng.choice(("it", "it", thing, thing, "this"))
    if noun in ("person", "musician"):
        it = (
            rng.choice(("he", "she", "this person", thing))
            if re.search(r"(did|does|was|is|has) \{it\}", wording)
            else thing
        )
    its = "his" if it == "he" else "her" if it == "she" else "its" if it in ("it", "this") else f"{it}'s"
    text = (
        wording.replace("{its}", its).replace("{it}", it).replace("{label}", label).replace("{noun}", noun or "thing")
    )
    text = text[0].upper() + text[1:]
    way = rng.random()
    return text.lower() if way < 0.05 else text.rstrip("?") if way < 0.1 else text


def _spoken(label: str) -> str:
    label = re.sub(r"^(?:number of|no\. of)\s+", "", label.rsplit("/", 1)[-1], flags=re.IGNORECASE)
    label = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", label)
    return label if label.isupper() else label.lower()


def written(facts: Sequence[Fact], asked: Fact | None, rng: random.Random) -> tuple[str, SpanAnswer | None]:
    """Writes a list in one of many styles; returns it with the place of the value that is asked for."""
    between = rng.choice(("\n", "\n", "\n", "\n", "; ", " | ", "\n- ", ". ", "\n\n"))
    colon = rng.choice((": ", ": ", ": ", ": ", " - ", " = ", " | ", ":\n"))
    style = rng.choice((str, str, str, str.lower, str.upper, _snake, _joined))
    nested = rng.random() < 0.4
    text, answer = "", None
    for fact in facts:
        label = fact.label
        if "/" in label:
            label = label.replace("/", ": ")
        elif nested and re.match(r"\d", fact.value):
            label = f"{label}: {rng.choice(('total', 'total', 'overall', label.lower()))}"
        line = f"{style(label)}{colon}"
        start = len(text) + len(line)
        if len(text) + len(line) + len(fact.value) > LONGEST_LIST:
            continue
        text += line + fact.value
        if fact is asked:
            answer = SpanAnswer(_core(fact.value), start)
        if rng.random() < DETAILED and not re.search(r"[\d(]", fact.value):
            text += invented(rng.choice(_DETAILS), rng)
        if re.match(r"\d", fact.value):
            year = rng.randint(2010, 2025)
            text += rng.choice(("", "", "", f" ({year} est.)", f" ({year})", f", {year}" if nested else ""))
            if nested and rng.random() < 0.6:
                parts = rng.sample(
                    ("male", "female", "rural", "urban", "land", "water", "per head", "exports", str(year - 1)), 2
                )
                text += "".join(f"; {part}: {_varied(fact.value, rng)}" for part in parts)
        text += between
    head = rng.choice(("", "", "", "Details\n", "Facts:\n"))
    if answer is not None and answer.start is not None:
        answer = SpanAnswer(answer.text, answer.start + len(head))
    return (head + text).rstrip(" \n|-;"), answer


def _core(value: str) -> str:
    """Returns a value without a parenthesis at its end."""
    return re.sub(r"\s*\([^()]*\)$", "", value) or value


def _varied(value: str, rng: random.Random) -> str:
    return re.sub(r"\d", lambda digit: str((int(digit[0]) + rng.randint(1, 9)) % 10 or 1), value)


def _snake(label: str) -> str:
    return re.sub(r"\s+", "_", label.lower())


def _joined(label: str) -> str:
    return re.sub(r"\s+", "", label.title())
