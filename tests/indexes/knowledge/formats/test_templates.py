"""Values of wikitext's templates are whole or absent, and unknown templates are counted by name."""

from __future__ import annotations

import pytest

from indexes.knowledge.ledger import Ledger as Losses
from indexes.knowledge.bad_entries import Reading
from indexes.knowledge.gone.templates import expand
from indexes.knowledge.gone.wiki_words import Namespaces
from indexes.knowledge.gone.wikitext import read_wikitext

pytest.importorskip("mwparserfromhell")

SENTENCES = {
    "It is {{convert|6|ft|1|in|m|abbr=on}} tall.": "It is 6 ft 1 in tall.",
    "It is {{convert|341|-|345|m|ft}} up.": "It is 341\u2013345 m up.",
    "It is {{convert|5|to|9|km|mi}} wide.": "It is 5 to 9 km wide.",
    "It is {{cvt|10|by|20|m}} large.": "It is 10 \u00d7 20 m large.",
    "It covers {{convert|12.5|km2|sqmi}}.": "It covers 12.5 km^2.",
    "At {{convert|-3|C|F}} it froze.": "At -3 °C it froze.",
    "It holds {{convert|1+1/2|usgal|L}}.": "It holds 1 1/2 US gal.",
    "It has {{formatnum:77000}} visitors and {{formatnum:{{#expr:4000+12}}}} rooms.": (
        "It has 77,000 visitors and 4,012 rooms."
    ),
    "It runs {{val|12.5|e=3|u=m/s}}, or {{val|1.2|0.1|u=kg}}.": "It runs 12.5\u00d710^3 m/s, or 1.2 ± 0.1 kg.",
    "Add {{frac|1|2}} and {{frac|3|1|4}}.": "Add 1/2 and 3 1/4.",
    "He is {{height|ft=6|in=2}}.": "He is 6 ft 2 in.",
    "Built {{circa|1620}}, {{as of|2015|3}} it stands.": "Built c. 1620, As of March 2015 it stands.",
    "Born {{birth date and age|df=yes|1950|2|7}}.": "Born 1950-02-07.",
    "It is {{lang|sv|Vättern}}, {{langx|no|Fjell}}, {{lang-de|See}} or {{ill|Lilleby|no}}.": (
        "It is Vättern, Fjell, See or Lilleby."
    ),
    "All of them{{snd}}fishers{{nbsp}}here.": "All of them \u2013 fishers here.",
    "It cost {{US$|2 million}}, {{€|30}}, {{currency|30|GBP}} or {{INRConvert|5|c}}.": (
        "It cost US$2 million, €30, £30 or ₹5 crore."
    ),
    "She said:{{quote|It is deep.|Nora|Letters}}": "She said:\nIt is deep.\nNora, Letters",
    "See {{blockquote|text=Seven bays.|author=Ole}}": "See\nSeven bays.\nOle",
    "They are {{br list|one|two}}": "They are one\ntwo",
    "It weighs {{convert|14|st|7|lb|kg}} or {{convert|2|ST|t}}.": "It weighs 14 st 7 lb or 2 short tons.",
    "A {{convert|6|ft|m|adj=mid|-high}} wall is {{convert|input=6 ft 1 in}}.": "A 6 ft-high wall is 6 ft 1 in.",
    "He is {{height|ft=5|in=11+1/2}}, {{convert|6|'|2|\"|m}}.": "He is 5 ft 11 1/2 in, 6 ft 2 in.",
    "She died in {{death year and age|2000|1950}} aged {{age|1950|5|7|2000|3|4}}.": "She died in 2000 aged 49.",
    "Shown {{film date|1999|5|6|Cannes|1999|6|1}}.": "Shown 1999-05-06 (Cannes), 1999-06-01.",
    "It is {{zh|c=北京|p=Běijīng}} or {{Korean|hangul=서울}}, {{okina}}Oahu.": (
        "It is 北京, Běijīng or 서울, \u02bbOahu."
    ),
    "Made of {{chem|H|2|O}} and {{CO2}} in {{circa}}1700.": "Made of H2O and CO2 in c. 1700.",
    "It has 3{{e|5}} or {{10^|6}} seeds.": "It has 3\u00d710^5 or 10^6 seeds.",
    "{{unknown thing|x}}A {{nowrap|red fox}} ({{IPAc-en|f}}; {{lang|la|Vulpes}}).": "A red fox (Vulpes).",
}


@pytest.mark.parametrize("source", SENTENCES)
def test_sentences(source: str) -> None:
    assert read_wikitext(source, "A", Namespaces(), Reading()).sections == [("A", SENTENCES[source])]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("convert", ["high", "m"]),
        ("convert", ["5"]),
        ("val", ["much"]),
        ("val", ["5", "-", "7"]),
        ("age", ["1950", "2", "7"]),
        ("frac", ["a", "b"]),
        ("mystery", ["3"]),
    ],
)
def test_what_cannot_be_read_is_absent(name: str, given: list[str]) -> None:
    assert expand(name, given, {}) is None


def test_a_sentence_that_would_lack_its_value_is_left_out() -> None:
    losses = Losses()
    source = "It is a lake. The mean is {{zork|3}} °C in May. It is {{zork|70|km}} long. Nice{{zork|1}}."
    source += " Fish {{zork|a}} live. It is aged {{age|1950|2|7}}."
    found = read_wikitext(source, "A", Namespaces(), Reading(ledger=losses))
    assert found.sections == [("A", "It is a lake. Nice. Fish live.")]
    losses.keep("It is a lake. Nice. Fish live.")
    assert losses.left_out["template {{zork}}"].places == 4 and losses.left_out["template {{zork}}"].count == 5
    assert losses.left_out["sentences that lack a value"].count == 9 + 3
    assert losses.left_out["template {{age}}"].count == 3
    assert losses.to_json()["words"] == {"source": 27, "kept": 7}


def test_infoboxes_in_infoboxes_and_values_that_are_unknown() -> None:
    losses = Losses()
    box = """{{Infobox lake
| name = Torn
| depth = {{cvt|168|m|ft}}
| islands = {{collapsible list|title=Three|Abo|Bero}}
| inflow = {{ubl|Abisko|Rautas}}
| cost = about {{zork|5}} euros
| module = {{Infobox protected area
  | embed = yes
  | established = {{start date|1909|5|24}}
  | visitors = {{formatnum:77000}}
  }}
}}A lake."""
    found = read_wikitext(box, "Torn", Namespaces(), Reading(ledger=losses))
    facts = "Depth: 168 m\nIslands: Three, Abo, Bero\nInflow: Abisko, Rautas\nEstablished: 1909-05-24\nVisitors: 77,000"
    assert found.sections == [("Torn", "A lake."), ("Facts", facts)]
    assert losses.left_out["values with unknown templates"].example == "about euros"
