"""The extractive reader with its shipped weights, on texts that no training text contains."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from generators.reader.model import SpanModel, Window
from generators.reader.reader import ExtractiveReader
from retriever.types import NOT_RECOGNIZED, Evidence, FloatArray, Generation, GenerationRequest, OtherSection

BIRD = (
    "The adult is 20\u201324 cm long with a wingspan of 33\u201334.5 cm. It has a black cap and a white rump. "
    "The female lays four to six eggs, which hatch after 14 days. It feeds on insects and spiders."
)
PLANT = "It grows up to 3 m tall. The plant bears white flowers in June and red berries in autumn."
HOUSE = (
    "The hall was designed by Herzog & de Meuron and opened in March 1996. The company that built it was founded in "
    "Flint, Michigan. It seats 1,200 people."
)
PAINTER = (
    "The painter died of pneumonia on 5 December 1926 at the age of 86. The tower leans by 3.99 degrees because the "
    "ground is soft. Its plumage is lavender-blue to mid-blue."
)
QUESTIONS = [
    (BIRD, "What is the wingspan of this bird?", "33\u201334.5 cm"),
    (BIRD, "How many eggs does the female lay?", "four to six"),
    (BIRD, "What does this bird feed on?", "insects and spiders"),
    (BIRD, "After how many days do the eggs hatch?", "14"),
    (PLANT, "What color are its flowers?", "white"),
    (PLANT, "How tall does this plant grow?", "3 m"),
    (HOUSE, "Who designed this hall?", "Herzog & de Meuron"),
    (HOUSE, "When did it open?", "March 1996"),
    (HOUSE, "Where was the company founded?", "Flint, Michigan"),
    (HOUSE, "How many people does it seat?", "1,200"),
    (PAINTER, "What color is its plumage?", "lavender-blue to mid-blue"),
]


def read(question: str, text: str, title: str = "Subject") -> Generation:
    return ExtractiveReader().read(question, Evidence("e", title, "s", text))


@pytest.mark.parametrize(("text", "question", "answer"), QUESTIONS)
def test_the_answer_is_a_span_of_the_text(text: str, question: str, answer: str) -> None:
    result = read(question, text)
    assert result.answer is not None and result.span is not None
    assert result.answer == answer == text[slice(*result.span)]
    assert result.confidence is not None and 0 < result.confidence < 1


SWITCHES = "Series: Works on paper\nFeatured: yes\nEdible: yes\nToxic to dogs: no\nRotate: false"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Is it featured?", "yes"), ("Can I eat it?", "yes"), ("Is it dangerous to dogs?", "no"),
        ("Is this a sculpture?", None), ("Is it signed?", None), ("Was it made for a church?", None),
        ("In which year was it painted?", None), ("Who made it?", None), ("What is its height?", None),
    ],
)  # fmt: skip
def test_yes_and_no_are_answers_only_where_they_are_asked_for(question: str, answer: str | None) -> None:
    said = read(question, SWITCHES).answer
    assert (said and said.lower()) == answer


def test_a_museums_number_is_one_answer() -> None:
    text = "accession number: 76.AO.82\nculture: Etruscan\nprovenance: Gift of the J. Paul Getty Museum"
    assert read("What is the accession number?", text).answer == "76.AO.82"
    assert read("Who gave it?", text).answer not in ("J", "Paul Getty")


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("花生米需要多少", "the extractive reader reads questions in English only"),
        ("Wie hoch ist der Turm aus Stein?", "the extractive reader reads questions in English only"),
        ("Is it made of stone?", "the generator found none in the evidence"),
        ("Who painted it?", "the generator found none in the evidence"),
    ],
)
def test_why_there_is_no_answer(question: str, reason: str) -> None:
    answer = read(question, "")
    assert (answer.answer, answer.confidence, answer.reason) == (None, 0.0, reason)


def test_an_answer_has_no_reason() -> None:
    assert read("What is the height?", "height: 12 m").reason is None
    assert Generation(None, declined=True).reason == NOT_RECOGNIZED


def test_length_is_not_width() -> None:
    assert read("How long is this pendant?", "Length: 120 mm\nWidth: 35 mm").answer == "120 mm"
    assert read("How wide is this pendant?", "Length: 120 mm\nWidth: 35 mm").answer == "35 mm"


def test_a_question_that_the_evidence_does_not_answer_has_a_lower_confidence() -> None:
    answered = [read(question, text).confidence or 0.0 for text, question, _ in QUESTIONS]
    others = [read(question, text).confidence or 0.0 for text in (BIRD, PLANT, HOUSE) for _, question, _ in QUESTIONS
              if (text, question) not in {(t, q) for t, q, _ in QUESTIONS}]  # fmt: skip
    assert sorted(answered)[len(answered) // 2] > 2 * sorted(others)[len(others) // 2]


ISLAND = (
    "The president was first elected in 2019. The human development index has risen since 2004. Mount Olen, 1,233 m, "
    "is the highest point. Fresh water is scarce."
)
MINE = (
    "Ores were found in 1901 by Erik Holm, who became president of the mining company. The railway line to the coast "
    "has 644 kilometers of track and was first opened in 1934."
)
STRAYS = [
    "When was the first email sent?",
    "What is the freezing point of mercury?",
    "Who was the first president of the United Nations?",
    "How many chambers does the human heart have?",
    "Who won the world cup in 2006?",
    "When did the first human walk on the moon?",
    "Who found the tomb of Tutankhamun?",
    "Which company makes the Mustang?",
    "What is the highest score in bowling?",
    "How long is a football field?",
    "Who opened Pandora's box?",
]


def test_questions_about_something_else_are_declined() -> None:
    answers = [read(question, text, "Arland").answer for question in STRAYS for text in (ISLAND, MINE)]
    assert sum(answer is not None for answer in answers) <= 5  # 12 of 22 before the confidence used drift


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How big is it?", "42,434 square kilometers"),
        ("How many people live here?", "85,370"),
        ("What is the money of this country called?", "Arland krone"),
    ],
)
def test_a_paraphrase_that_points_at_the_image_is_answered(question: str, answer: str) -> None:
    text = "Prices are in Arland krone. The total area is 42,434 square kilometers. It is home to 85,370 people."
    assert read(question, text, "Arland").answer == answer


@pytest.mark.parametrize("text", ["", "  \n ", "...", ";;;", ":", "\ufeff", "(((", "?!"])
def test_evidence_without_words(text: str) -> None:
    assert read("What is the capital of this country?", text) == Generation(None, 0.0)


def test_the_threshold_decides_what_is_left_unanswered() -> None:
    evidence = Evidence("e", "Bird", "s", BIRD)
    bold, shy = ExtractiveReader(threshold=0.0), ExtractiveReader(threshold=1.0)
    question = "Who composed the opera?"
    assert bold.read(question, evidence).answer is not None
    assert shy.read(question, evidence) == Generation(None, bold.read(question, evidence).confidence)


def test_generator_interface() -> None:
    reader = ExtractiveReader()
    evidence = Evidence("e", "Hall", "Design", HOUSE)
    requests = [GenerationRequest("Who designed this hall?", None, given) for given in (evidence, None)]

    async def pieces(request: GenerationRequest) -> list[str | Generation]:
        return [piece async for piece in reader.stream(request)]

    answers = asyncio.run(reader.generate(requests))
    assert [answer.answer for answer in answers] == ["Herzog & de Meuron", None]
    assert asyncio.run(pieces(requests[0])) == ["Herzog & de Meuron", answers[0]]
    assert asyncio.run(pieces(requests[1])) == [answers[1]]


@pytest.mark.parametrize(
    ("fact", "question", "answer"),
    [
        ("Height: 6 ft 1 in", "How tall is she?", "6 ft 1 in"),
        ("Weight: 11 st 4 lb", "What is her weight?", "11 st 4 lb"),
        ("Length: 20 ft in all", "How long is it?", "20 ft"),
    ],
)
def test_a_quantity_in_two_units_stays_whole(fact: str, question: str, answer: str) -> None:
    assert read(question, f"Birth place: Oslo, Norway\n{fact}\nChildren: 3").answer == answer


LIST = (
    "Creator: Mara Quill\nMaker: Oddstone Press\nGamelength: 20 min\nPlayers: 2-5\nAges: 8 and up\nShelf: B4\n"
    "Box contents: 40 cards; 1 die; 5 pawns"
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who thought up this game?", "Mara Quill"),
        ("How long does one game take?", "20 min"),
        ("How many people can play?", "2-5"),
        ("What do I get in the box?", "40 cards; 1 die; 5 pawns"),
    ],
)
def test_a_persons_words_find_a_label(question: str, answer: str) -> None:
    assert read(question, LIST, "Rook's End").answer == answer


@pytest.mark.parametrize("question", ["How much does it cost?", "Which prize did it win?", "Is it dangerous for dogs?"])
def test_what_a_list_does_not_say_is_declined(question: str) -> None:
    assert read(question, LIST, "Rook's End").answer is None


def test_a_better_section_answers() -> None:
    texts = ("Oak hall", "The hall stands by a lake."), ("Data", "Height: 31 m")
    sections = [Evidence("e", "Oak hall", title, text, i) for i, (title, text) in enumerate(texts)]
    others = (OtherSection(sections[1], -0.02),)
    request = GenerationRequest("How tall is it?", None, sections[0], others=others)
    [found] = ExtractiveReader().read_all([request])
    assert (found.answer, found.evidence, found.span) == ("31 m", sections[1], (8, 12))


def test_questions_are_read_together_as_alone() -> None:
    requests = [
        GenerationRequest(question, None, Evidence("e", "Subject", "s", text)) for text, question, _ in QUESTIONS
    ]
    reader = ExtractiveReader()
    together, alone = reader.read_all(requests), [reader.read_all([request])[0] for request in requests]
    assert [one.answer for one in together] == [one.answer for one in alone]


def test_what_stands_in_place_of_a_value_is_no_answer() -> None:
    reader = ExtractiveReader(threshold=0)

    def artist(value: str) -> str | None:
        text = f"Artist: {value}\nYear: 1987"
        return reader.read("Who is the artist?", Evidence("s", "Antique Archaeology", "Facts", text)).answer

    assert artist("Ann Lee") == "Ann Lee"
    assert artist("N/A") not in ("N/A", "N", "A") and artist("n/a") not in ("n/a", "n", "a")


def test_the_window_with_the_questions_words_is_read_first(monkeypatch: pytest.MonkeyPatch) -> None:
    filler = "The valley is quiet, and little is known of its early years. " * 30
    text = f"{filler}\nHighest point: Mount Karo 948 m\nUnemployment rate: 4.1%\n"
    read_windows = list[int]()
    scores = SpanModel.scores

    def counted(self: SpanModel, windows: Sequence[Window]) -> list[FloatArray]:
        read_windows.append(len(windows))
        return scores(self, windows)

    monkeypatch.setattr(SpanModel, "scores", counted)
    other = OtherSection(Evidence("e", "Valley", "Other", "Highest point of the road: 12 m"), -0.05)
    request = GenerationRequest("What is the unemployment rate?", None, Evidence("e", "Valley", "Facts", text))
    [found] = ExtractiveReader().read_all([replace(request, others=(other,))])
    assert found.answer == "4.1%" and sum(read_windows) == 1
    [found] = ExtractiveReader().read_all([replace(request, question="Who is the mayor?", others=(other,))])
    assert sum(read_windows) == 1 + 3  # all windows of both sections
