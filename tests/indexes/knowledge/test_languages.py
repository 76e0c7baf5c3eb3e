from __future__ import annotations

import pytest

from indexes.knowledge.languages import is_foreign

ENGLISH = [
    "A white stem with a broad base; Latin name: Russula aeruginea.",
    "Ojo de Liebre, Guerrero Negro, San Ignacio. El Vizcaíno. 1951-03-04.",  # names and a date
    "The Château de la Roche was built by the Comte de Foix in 1380.",
    "Grows quickly, tolerates frost, prefers sandy soil.",
    "17",
    "Café au lait",
    "Ingredients: crème de menthe, crème de cacao, crème fraîche.",
    "Москва (Moscow) is the capital of Russia and its largest city.",
]
FOREIGN = [
    "Почта Минска, Michel 1927.",
    "樹齢1000年を超える紅枝垂桜。",
    "Pied blanc, à la base élargie.",
    "Der Turm ist 40 m hoch und wurde 1880 gebaut.",
    "La torre fue construida en 1880 por el rey de Castilla.",
    "De toren is in 1880 gebouwd en werd later een museum.",
    "Wieża została zbudowana w 1880 roku i jest wysoka na 40 m.",
    "बाघ एक बड़ा जानवर है।",
]


@pytest.mark.parametrize("text", ENGLISH)
def test_english_with_names_of_other_languages(text: str) -> None:
    assert not is_foreign([text])


@pytest.mark.parametrize("text", FOREIGN)
def test_other_languages(text: str) -> None:
    assert is_foreign([text])
