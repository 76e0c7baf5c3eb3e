"""Training questions about prose, and what must be declined: other paragraphs, questions turned against the text."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from pretraining.reader.questions import SpanQuestion
from retriever.models.bm25 import BM25

OTHER_PARAGRAPH = 0.15
"""Share of the answerable questions that are asked again about another paragraph of their article."""
TURNED = 0.3
"""Share that are asked again with one of their names or figures exchanged, or a word turned into its opposite."""
POINTING = 0.5
"""Share of the questions with their article's title that say "this" or "it" instead, as one does about an image."""
CLOSED = 0.04
"""Share of the questions beside which a yes-or-no question is asked that the text does not answer."""
_CLOSED = (
    ["Is it {}?", "Is this {}?", "Was it {}?", "Is it very {}?"],
    [
        *("good", "poisonous", "expensive", "dangerous", "edible", "heavy", "loud", "fragile", "waterproof", "old"),
        *("rare", "safe", "healthy", "popular", "big"),
    ],
    ["Does it have {}?", "Can it {}?", "Should I {} it?", "Does this need {}?", "Do I need {} for it?"],
    ["a handle", "swim", "wash", "batteries", "oil", "teeth", "a roof", "keep", "feed", "water", "a ticket", "gloves"],
)
_POINTERS = ("this", "it", "this one", "this place", "this thing")
_NAME = re.compile(r"(?<!^)(?<![.?!] )\b[A-Z][\w'-]+(?: (?:of |the |de )?[A-Z][\w'-]+)*")
_FIGURE = re.compile(r"\b\d[\d,.]*\d\b|\b\d\b")
_OPPOSITES: dict[str, str] = {}
for _pair in (
    "before after|first last|north south|east west|northern southern|eastern western|increase decrease|rise fall",
    "increased decreased|gain lose|high low|higher lower|highest lowest|large small|larger smaller|largest smallest",
    "most least|more fewer|majority minority|maximum minimum|above below|long short|longest shortest|tallest shortest",
    "fast slow|old new|older newer|oldest newest|early late|earlier later|earliest latest|begin end|began ended",
    "start stop|open close|opened closed|born buried|win lose|won lost|attack defend|attacked defended|ally enemy",
    "support oppose|supported opposed|accept reject|accepted rejected|allow prevent|allowed forbidden|cause prevent",
    "caused prevented|join leave|joined left|buy sell|bought sold|import export|imports exports|create destroy",
    "created destroyed|success failure|legal illegal|positive negative|strong weak|best worst|easy difficult",
    "common rare|always never|often rarely|same different|male female|inside outside|internal external|public private",
    "major minor|rich poor|domestic foreign|hot cold|light dark|like avoid|likes avoids|good bad|safe dangerous",
):
    for _words in _pair.split("|"):
        _one, _other = _words.split()
        _OPPOSITES |= {_one: _other, _other: _one}
_TURNABLE = re.compile(rf"\b(?:{'|'.join(_OPPOSITES)})\b")


def prose_questions(questions: Sequence[SpanQuestion], rng: random.Random) -> Iterator[SpanQuestion]:
    """Yields the questions, some of them pointing at an image, and others that their text does not answer."""
    paragraphs = defaultdict[str, list[str]](list)
    for question in questions:
        if question.passage not in paragraphs[question.article]:
            paragraphs[question.article].append(question.passage)
    names = {article: sorted(names_in(texts)) for article, texts in paragraphs.items()}
    for question in questions:
        if rng.random() < POINTING:
            question = pointing(question, rng)
        yield question
        if rng.random() < CLOSED:
            forms, words = rng.choice((_CLOSED[:2], _CLOSED[2:]))
            yield question._replace(question=rng.choice(forms).format(rng.choice(words)), answers=())
        if question.answers:
            if rng.random() < OTHER_PARAGRAPH:
                yield from _elsewhere(question, paragraphs[question.article], rng)
            if rng.random() < TURNED:
                yield from turned(question, names[question.article], rng)


def pointing(question: SpanQuestion, rng: random.Random) -> SpanQuestion:
    """Returns the question with "this" or "it" in place of its article's title, if it has it."""
    title = re.sub(r"\s*\(.*\)$", "", question.article)
    if not title or title.lower() not in question.question.lower():
        return question
    pattern = re.compile(rf"\b(?:the )?{re.escape(title)}\b", re.IGNORECASE)
    return question._replace(question=pattern.sub(rng.choice(_POINTERS), question.question))


def _elsewhere(question: SpanQuestion, paragraphs: Sequence[str], rng: random.Random) -> Iterator[SpanQuestion]:
    """Yields the question about one of the four most similar paragraphs of its article without its answers."""
    others = [text for text in paragraphs if not any(answer.text in text for answer in question.answers)]
    if len(others) > 24:
        others = rng.sample(others, 24)
    if others:
        [scores] = BM25().score([question.question], [others])
        best = sorted(range(len(others)), key=lambda i: -scores[i])[:4]
        yield question._replace(passage=others[rng.choice(best)], answers=())


def turned(question: SpanQuestion, names: Sequence[str], rng: random.Random) -> Iterator[SpanQuestion]:
    """Yields the question with something in it exchanged, so that its passage does not answer it any more."""
    ways = []
    lower = question.passage.lower()
    for match in _NAME.finditer(question.question):
        if match[0].lower() in lower:
            shape = match[0].count(" ")
            rivals = [name for name in names if name.count(" ") == shape and name not in question.question]
            if rivals:
                ways.append((match, rng.choice(rivals)))
    for match in _FIGURE.finditer(question.question):
        other = _another_figure(match[0], question.passage, rng)
        ways.append((match, other))
    for match in _TURNABLE.finditer(question.question):
        opposite = _OPPOSITES[match[0]]
        if opposite not in lower:
            ways.append((match, opposite))
    if ways:
        match, other = rng.choice(ways)
        text = question.question[: match.start()] + other + question.question[match.end() :]
        yield question._replace(question=text, answers=())


def _another_figure(figure: str, passage: str, rng: random.Random) -> str:
    others = [each for each in _FIGURE.findall(passage) if each != figure and len(each) == len(figure)]
    if others:
        return str(rng.choice(others))
    return "".join(str((int(each) + rng.randint(1, 9)) % 10) if each.isdigit() else each for each in figure)


def names_in(texts: Iterable[str]) -> set[str]:
    """Returns the names in texts: capitalized words, not at the beginning of a sentence."""
    return {name for text in texts for name in _NAME.findall(text)}
