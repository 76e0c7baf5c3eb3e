"""The shipped weights do what their card says, roughly: a broken file or preparation shows here."""

from __future__ import annotations

import random

import numpy as np
import pytest
from torch.nn import functional

from demo.articles import articles
from demo.draw import draw
from demo.facts import countries, url_of
from demo.flags import load_flags
from demo.photo import photograph
from omgm.parts import build_encoder, build_fusion
from omgm.profile import load_profile
from retriever.maxsim import max_sim_spans
from retriever.texts import blip_caption, section_passage
from retriever.types import StoredTokens
from tests.paths import ROOT

WEIGHTS = ROOT / "weights" / "embedded"


def test_they_are_small_and_safe() -> None:
    files = [path for path in WEIGHTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 25e6
    assert {path.suffix for path in files} == {".safetensors", ".json", ".md", ".png"}


def test_photographs_find_their_countries() -> None:
    """The card says 0.93 of 196; by chance 24 pictures would find 0.12 of them."""
    encoder = build_encoder(load_profile("embedded"))
    flags, rng = load_flags(), random.Random("test")
    codes = rng.sample(sorted(flags), 24)
    pictures = encoder.encode_images([photograph(draw(flags[code]), rng) for code in codes])
    leads = {code: articles()[url_of(country)]["section_texts"][1] for code, country in countries().items()}
    order = sorted(leads)
    texts = encoder.encode_texts([f"{countries()[code]['name']}. {leads[code]}" for code in order])
    best = [order[i] for i in (pictures @ texts.T).argmax(1)]
    assert sum(code == found for code, found in zip(codes, best, strict=True)) >= 18


@pytest.mark.parametrize(("code", "other"), [("jp", "fr"), ("ke", "br"), ("se", "no")])
def test_step_2_tells_the_picture_and_the_question_apart(code: str, other: str) -> None:
    fusion = build_fusion(load_profile("embedded"))
    flags, entries = load_flags(), articles()

    def similarity(of: str, section: int) -> float:
        entry = entries[url_of(countries()[of])]
        passage = section_passage(entry["title"], entry["section_titles"][section], entry["section_texts"][section])
        stored = functional.normalize(fusion.encode_sections([draw(flags[of])], [[blip_caption(passage)]]), dim=-1)
        [[score]] = max_sim_spans(query, StoredTokens(stored, None, np.array([0])), [0], [range(1)])
        return score

    photo = photograph(draw(flags[code]), random.Random(1))
    query = fusion.encode([photo], [blip_caption("How many people live in this country?")])
    population, economy = 3, 5
    right = similarity(code, population)
    assert right > similarity(other, population)  # the same section of another country
    assert right > similarity(code, economy)  # another section of the same country
