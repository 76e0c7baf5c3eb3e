"""Generates replies as models write them, the odd ones included, from the right answers of questions."""

from __future__ import annotations

import random
from collections.abc import Sequence

FORMS = (
    "{0}", "{0}.", "The answer is {0}.", "the {0}", "A {0}", "{1}", "{0} and {1}", "{0}, {1}", "{0} & {1}", "**{0}**",
    "{0}\n\nI hope this helps!", "Answer: {0}", "{0} [1]", "{0} [2, 3].", "'{0}'", "\u201c{0}\u201d", "({0})",
    "{2}", "{3}", "It is {0}, not {1}.", "{0}\t{1}", "<answer>{0}</answer>", '{{"answer": "{0}"}}', "unknown",
    "Unknown.",
    "I cannot determine this from the image.", "invalid question", "", " ", ".", "...", "?", "-", "the", "a an the",
    "none", "zero", "one", "two of three", "don't", "dont", "it's {0}", "e.g. {0}", "U.S. {0}",
    "Dr. {0} went. He left.",
    "{0} \U0001f1ef\U0001f1f5", "na\u00efve {0}", "\uff14\uff12 {0}", "\u7b54\u6848\uff1a{0}\u3002", "{0}\u3001{1}",
    "12", "12.5", "1,200", "10-20", "10 - 20 km", "10 to 20", "between 10 and 20", "about 12 km\u00b2", "1.5e3", "-5",
    "20-10", ".5", "1.2.3", "12/5", "5%", "$5", "1990s", "2024-11-22", "22 November 2024", "\u00bd", "1\u00b2",
    "x" * 300 + " {0}", "{0} " * 40, "<extra_id_0> {0}", "{0}_{1}", "{0}`s", "A. {0}", "{0}\r\n{1}", "not {0}",
)  # fmt: skip
CHOICES = (
    "<Website {0}>", "<Website {0}>,<Website {1}>", "<website {0}>", "<Website Index {0}>", "<Website: {0}>",
    "Website {0}", "{0}", "<Website {0}> because it helps", "I choose <Website {0}>.", "<Website{0}>", "< Website {0}>",
    "<Website {0} >", "<Website 0>", "<Website 9>", "<Website 12>", "<Website -1>", "<Website>", "", "none",
    "<Website {0}><Website {0}>", "**<Website {0}>**", "<Website Index: {0}>", "<Website 0{0}>", "<Website {0}.>",
    "<Website \uff12>", "&lt;Website {0}&gt;", "[Website {0}]", "<WEBSITE {0}>", "<Website {0}>\n<Website {1}>",
)  # fmt: skip


def reply(rng: random.Random, answers: Sequence[str], number: int) -> str:
    """Returns a reply to a question with these right answers; each form is used in turn."""
    first, other = rng.choice(answers), rng.choice(answers)
    form = FORMS[number % len(FORMS)]
    return form.format(first, other, first.upper(), first.lower().replace(" ", "  "))


def choice(rng: random.Random, number: int) -> str:
    """Returns a reply that chooses a website, in any form."""
    return CHOICES[number % len(CHOICES)].format(rng.randint(1, 8), rng.randint(1, 8))
