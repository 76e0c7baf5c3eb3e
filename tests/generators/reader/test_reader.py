"""The extractive reader on hand-written evidence of several styles."""

from __future__ import annotations

import asyncio

import pytest

from generators.reader.fields import fields
from generators.reader.question import AnswerKind, analyze
from generators.reader.reader import ExtractiveReader
from generators.reader.spans import Span, head, numbers
from retriever.lexical import Lexicon
from retriever.types import Evidence, Generation, GenerationRequest

FACTS = """Area: total: 12,300 sq km; land: 12,100 sq km; water: 200 sq km
Coastline: 88 km
Elevation: highest point: Mount Vell 2,114 m; lowest point: Grey Sea 0 m
Median age: total: 31.4 years (2025 est.); male: 30 years; female: 32.7 years
Government type: federal republic (formally a union)
Capital: name: Orrin (on Great Isle); geographic coordinates: 12 30 N, 3 10 E
National holiday: Founders' Day, 4 June (1961); Harvest Day, 2 September (1970)
National anthem(s): title: "Land of Two Rivers" (Our Land); lyrics/music: Ana TELLO/Unknown
Unemployment rate: Unemployment rate 2024: 11.7% (2024 est.); Unemployment rate 2023: 11.9% (2023 est.)
Citizenship: dual citizenship recognized: yes; residency requirement for naturalization: 4 out of the previous 7 years
Internet country code: .ov
Ethnic groups: Orrinese 62.5%, Vellan 30%, other 7.5% (2020 est.)
Major rivers (by length in km): Teal (shared [s]) - 420 km; Ister (Ist) river mouth - 910 km note: [s] marks a source
Airports: 14 (2025)"""
LABEL = (
    "Title: Havredryck Färsk Manufacturer and volume: NORRA GÅRDEN , 1l "
    "Manufacturing country: Finland Ingredients: vatten, HAVRE 10 %."
)
FRUIT = "Title: Quince Yellow Class 1 Country and volume: Costa Rica, ca 180g"
NUTRITION = (
    "Nutrition values per 100 gram:; energi ca 310 kilojoule; fett ca 2.1 gram; "
    "varav mättat fett ca 1.2 gram; protein ca 3.6 gram; salt ca 0.1 gram"
)
PROSE = (
    "Orrin is the largest city. About 4.2 million people (4,213,007) live in Velland, which covers 12,300 square "
    "kilometres. Its capital is Orrin. Velland is a federal republic. The currency is the Velland crown (VLC). People "
    "there speak Orrinese, Vellan and French. Its internet domain is .ov. It gained independence on 4 June 1961. The "
    "coastline is 88 km long. Unemployment was 11.9% in 2023 and 11.7% in 2024. The national anthem is “Land of Two "
    "Rivers”. The national bird lays 3 to 5 eggs. Cats are not allowed on the beach."
)
QUESTIONS = [
    (FACTS, "What is the total area of this country in square kilometres?", "12,300"),
    (FACTS, "How big is this country?", "12,300 sq km"),
    (FACTS, "How long is the coast of this nation in miles?", "54.6807"),
    (FACTS, "What is the highest point of this country?", "Mount Vell"),
    (FACTS, "How high is the highest mountain in this country?", "2,114 m"),
    (FACTS, "What is the median age in this country?", "31.4"),
    (FACTS, "What type of government does this country have?", "federal republic"),
    (FACTS, "What is the capital of the country with this flag?", "Orrin (on Great Isle)"),
    (FACTS, "Which city is the seat of government of this country?", "Orrin (on Great Isle)"),
    (FACTS, "What is the national holiday of this country?", "Founders' Day"),
    (FACTS, "When is the national day celebrated?", "4 June"),
    (FACTS, "What is the title of this country's national anthem?", "Land of Two Rivers"),
    (FACTS, "What was the unemployment rate of this country in 2024?", "11.7"),
    (FACTS, "What percentage of workers were jobless in 2023?", "11.9"),
    (FACTS, "How many years of residency does naturalization require?", "4"),
    (FACTS, "What is the top-level domain of this country?", ".ov"),
    (FACTS, "Which is the longest river in this country?", "Ister"),
    (FACTS, "Is dual citizenship recognized in this country?", "yes"),
    (FACTS, "What are the ethnic groups of this country?", "Orrinese 62.5%, Vellan 30%, other 7.5% (2020 est.)"),
    (FACTS, "How many airports does this country have?", "14"),
    (LABEL, "Which company makes this product?", "NORRA GÅRDEN"),
    (LABEL, "What brand is this drink?", "NORRA GÅRDEN"),
    (LABEL, "Which country does this product come from?", "Finland"),
    (FRUIT, "Which country does this product come from?", "Costa Rica"),
    (FRUIT, "Where was this fruit grown?", "Costa Rica"),
    (NUTRITION, "How many grams of fat does 100 grams of this product contain?", "2.1"),
    (NUTRITION, "How much saturated fat is in 100 g of this yoghurt, in milligrams?", "1200"),
    (NUTRITION, "What is the protein content per 100 grams?", "3.6 gram"),
    (PROSE, "How many people live in this country?", "4.2 million"),
    (PROSE, "What is the area of this country in km²?", "12,300"),
    (PROSE, "What is the capital of this country?", "Orrin"),
    (PROSE, "What kind of government does this country have?", "federal republic"),
    (PROSE, "What currency is used in this country?", "Velland crown"),
    (PROSE, "Which languages are spoken here?", "Orrinese, Vellan and French"),
    (PROSE, "What is the internet country code?", ".ov"),
    (PROSE, "When did this country become independent?", "4 June 1961"),
    (PROSE, "In which year did this country gain independence?", "1961"),
    (PROSE, "How long is the coastline?", "88 km"),
    (PROSE, "What was the unemployment rate in 2023?", "11.9"),
    (PROSE, "What is the anthem called?", "Land of Two Rivers"),
    (PROSE, "How many eggs does the national bird lay?", "3 to 5"),
    (PROSE, "Are cats allowed on the beach?", "no"),
]  # fmt: skip


def read(question: str, text: str, title: str = "Velland") -> Generation:
    return ExtractiveReader().read(question, Evidence("e", title, "s", text))


@pytest.mark.parametrize(("text", "question", "answer"), QUESTIONS)
def test_answer(text: str, question: str, answer: str) -> None:
    result = read(question, text)
    assert result.answer == answer
    assert result.confidence is not None and 0.5 <= result.confidence <= 1
    assert result.span is not None
    start, end = result.span
    if answer not in ("yes", "no", "54.6807", "1200"):
        assert text[start:end].startswith(answer) or answer.startswith(text[start:end])


def test_a_converted_number_points_at_its_source() -> None:
    result = read("How long is the coast of this nation in miles?", FACTS)
    assert result.span is not None and FACTS[slice(*result.span)] == "88"


@pytest.mark.parametrize(
    "question",
    ["Who composed the opera Tosca?", "What is the life expectancy in this country?", "How many islands does it have?"],
)
def test_abstains_when_nothing_fits(question: str) -> None:
    result = read(question, FACTS)
    assert result.abstained and result.span is None
    assert result.confidence is not None and result.confidence < 0.5


@pytest.mark.parametrize("text", ["", "  \n ", "...", ";;;", ":", "\ufeff", "(((", "a: b: c: d: e"])
def test_odd_evidence(text: str) -> None:
    assert read("What is the capital of this country?", text).abstained


@pytest.mark.parametrize("question", ["", "?", "the", "How many?", "2024"])
def test_odd_questions(question: str) -> None:
    assert read(question, FACTS).abstained


def test_generator_interface() -> None:
    reader = ExtractiveReader()
    evidence = Evidence("e", "Velland", "Geography", FACTS)
    requests = [
        GenerationRequest("What is the capital?", None, evidence),
        GenerationRequest("What is the capital?", None, None),
        GenerationRequest("How many airports are there?", None, evidence),
    ]

    async def pieces(request: GenerationRequest) -> list[str | Generation]:
        return [piece async for piece in reader.stream(request)]

    answers = asyncio.run(reader.generate(requests))
    assert [answer.answer for answer in answers] == ["Orrin (on Great Isle)", None, "14"]
    assert asyncio.run(pieces(requests[0])) == ["Orrin (on Great Isle)", answers[0]]
    assert asyncio.run(pieces(requests[1])) == [answers[1]]


def test_fields() -> None:
    text = "Area: total: 26 sq km; land: 20 sq km\nIt is small. It lies far away."
    found = [(field.labels, text[slice(*field.span)], field.prose) for field in fields(text)]
    assert found == [
        (("Area", "total"), "26 sq km", False),
        (("Area", "land"), "20 sq km", False),
        ((), "It is small.", True),
        ((), "It lies far away.", True),
    ]


def test_numbers_and_years() -> None:
    text = "3.9% (2024 est.); 1.284 million sq km; -59 m; 0,5 g"
    found = [(number.value, number.unit, number.year) for number in numbers(text, Span(0, len(text)))]
    assert found == [(3.9, "%", "2024"), (2024, "", ""), (1284000, "sq km", ""), (-59, "m", ""), (0.5, "g", "")]


@pytest.mark.parametrize(
    ("value", "short"),
    [
        ("Emi Koussi 3,445 m", "Emi Koussi"),
        ("BRAVO , 2l", "BRAVO"),
        ("Italy, ca 180g", "Italy"),
        ('"Koste Seselwa" (Unite)', "Koste Seselwa"),
        ("Gita (political), Buja (commercial)", "Gita (political), Buja (commercial)"),
        ("King OTTO (since 30 July 1999)", "King OTTO"),
        ("Jamhuri Day (Independence Day), 12 December (1963)", "Jamhuri Day"),
        ("8th tee, golf course, Villingi Island 5 m", "8th tee, golf course, Villingi Island"),
    ],
)  # fmt: skip
def test_head_of_a_value(value: str, short: str) -> None:
    assert value[slice(*head(value, Span(0, len(value))))] == short


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("When was it built?", AnswerKind.DATE),
        ("In what year was it built?", AnswerKind.YEAR),
        ("Who built it?", AnswerKind.NAME),
        ("How much does it weigh?", AnswerKind.NUMBER),
        ("What is the population density?", AnswerKind.NUMBER),
        ("Does it have a coast?", AnswerKind.YES_NO),
        ("Which languages are spoken?", AnswerKind.LIST),
        ("What is the capital?", AnswerKind.ANY),
    ],
)
def test_kinds(question: str, kind: AnswerKind) -> None:
    assert analyze(question, Lexicon()).kind is kind
