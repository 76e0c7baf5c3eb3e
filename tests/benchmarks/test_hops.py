from __future__ import annotations

from pathlib import Path

from benchmarks.hops import HopQuestion, is_right, longest_border, questions


def entry(title: str, borders: str) -> dict[str, object]:
    text = (
        f"Land boundaries: total: 6 km; border countries (2): {borders}\nCoastline: 998 km" if borders else "An island."
    )
    capital = "Capital: name: Nouakchot (main); etymology: unclear" if title == "Mauritania" else ""
    return {"title": title, "section_texts": ["Once upon a time.", text, capital]}


def test_questions_follow_the_longest_borders(tmp_path: Path) -> None:
    (tmp_path / "dev_country_dz_0.jpg").touch()
    kb = {
        title: entry(title, borders)
        for title, borders in {
            "Algeria": "Libya 989 km; Mali 1,359 km",
            "Mali": "Algeria 1,359 km; Niger 838 km; Mauritania 2,236 km",
            "Mauritania": "Mali 2,236 km",
            "Malta": "",
        }.items()
    }
    facts = [
        {"code": code, "name": name, "capital": capital}
        for code, name, capital in (
            ("dz", "Algeria", "Algiers"),
            ("ml", "Mali", "Bamako"),
            ("mr", "Mauritania", "Nouakchott"),
            ("mt", "Malta", "Valletta"),
        )
    ]
    two, three = questions(kb, facts, tmp_path)
    assert (two.path, two.answer) == (("Algeria", "Mali"), "Bamako")
    assert (three.path, three.answer) == (("Algeria", "Mali", "Mauritania"), "Nouakchott|Nouakchot")
    assert isinstance(two, HopQuestion) and two.question != three.question


def test_borders_and_answers() -> None:
    assert longest_border("border countries (1): Cote d'Ivoire 720 km; Burkina Faso 602.5 km") == "Cote d'Ivoire"
    assert longest_border("no borders") is None
    assert is_right("It is Yaounde.", "Yaoundé") and is_right("Sana'a", "Aden|Sanaa")
    assert not is_right(None, "Bamako") and not is_right("Niamey", "Bamako|Dakar")
