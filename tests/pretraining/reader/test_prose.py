"""Questions that prose does not answer, made from those that it does."""

from __future__ import annotations

import random

import pytest

from pretraining.reader.prose import names_in, pointing, prose_questions, turned
from pretraining.reader.questions import SpanAnswer, SpanQuestion

TOWER = SpanQuestion(
    "When did the Old Tower open after Anna Berg left?",
    "It was opened in 1931 by Carl Stone after Anna Berg left in 1930.",
    "Old Tower",
    (SpanAnswer("1931", 17),),
)


def test_a_question_may_point_at_an_image() -> None:
    found = {pointing(TOWER, random.Random(seed)).question for seed in range(20)}
    assert "When did this open after Anna Berg left?" in found and all("Tower" not in question for question in found)
    assert pointing(TOWER._replace(article="Bridge"), random.Random(0)).question == TOWER.question


@pytest.mark.parametrize("seed", range(10))
def test_a_turned_question_differs_in_a_name_a_figure_or_an_opposite(seed: int) -> None:
    for question in turned(TOWER, ["Carl Stone", "Eva Lind"], random.Random(seed)):
        assert question.question != TOWER.question and question.answers == () and question.passage == TOWER.passage
        assert any(part in question.question for part in ("Carl Stone", "Eva Lind", "close", "before", "joined"))


def test_names_do_not_begin_a_sentence() -> None:
    assert names_in(["Many saw Anna Berg. Later the Bank of England paid."]) == {"Anna Berg", "Bank of England"}


def test_questions_are_asked_about_other_paragraphs_of_the_article() -> None:
    other = TOWER._replace(question="Who?", passage="The tower leans.", answers=(SpanAnswer("tower", 4),))
    found = list(prose_questions([TOWER, other] * 20, random.Random(0)))
    elsewhere = [q for q in found if q.passage == other.passage and not q.answers and "open" in q.question]
    assert elsewhere and all(q.answers or q.passage in (TOWER.passage, other.passage) for q in found)
