"""Step 2's training batches: questions about photographs, and sections of articles with their main images."""

from __future__ import annotations

import functools
import random
from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset

from pretraining.camera import Camera
from pretraining.demo.articles import ArticleEntry, articles
from pretraining.demo.facts import countries, url_of
from pretraining.demo.questions import Row, questions
from pretraining.designs import DesignBatches, joined
from pretraining.flag_batches import FlagBatches, made_up_name
from pretraining.pair_losses import same_pairs
from pretraining.stickers import StickerBatches
from retriever.texts import blip_caption, section_passage

KNOWN, MADE_UP, DESIGNS, STICKERS = 24, 40, 24, 48  # entities per batch: countries, random flags, designs, stickers
SECTIONS = 2  # per entity: the evidence, then others of its article
NONSENSE = 0.4  # share of entities whose question has nothing to do with their sections: only images tell them apart
VOWELS, CONSONANTS = "aeiouy", "bcdfghjklmnpqrstvwxz"
COMMON = 2  # questions with their sections per batch that entities share
CUT_OUT = 0.6  # share of designs on another ground in the photograph
SMALL = 0.35  # share of photographs in which the design takes up less of the frame
QUESTIONS = 40  # per country, from which a batch chooses


@dataclass(frozen=True)
class FusionBatch:
    """N entities with a question each.

    Attributes:
        photographs: The questions' images, float32 [N, 3, S, S] in 0..1.
        keys: The entities' main images, float32 [N, 3, S, S] in 0..1.
        questions: N texts as step 2 reads them.
        sections: N times `SECTIONS` texts as step 2 reads them, the evidence of each entity first.
        alike: Pairs of different entities that look alike, bool [N, N].
        kinds: Number of entities of each kind, in their order.
    """

    photographs: Tensor
    keys: Tensor
    questions: list[str]
    sections: list[str]
    alike: Tensor
    kinds: dict[str, int]


class FusionBatches(Dataset[FusionBatch]):
    """Generates the batch of a step from (seed, step) alone.

    A country has its own article. Random flags and designs borrow the article of any country under a made-up title, so
    what their sections say tells which section is the evidence, but not which entity is meant.

    Args:
        size: Side S of an image in pixels.
        seed: Seed of everything random.
        shared: Share of entities whose question and sections are those of others of the batch but for the titles, like
            articles about the same topics: only images tell them apart.
    """

    def __init__(self, size: int, seed: int = 0, shared: float = 0.7):
        self.size, self.seed, self.shared = size, seed, shared

    @functools.cached_property
    def _sources(self) -> tuple[FlagBatches, DesignBatches, StickerBatches]:
        camera = Camera(self.size, self.seed)
        return (
            FlagBatches(camera, KNOWN, MADE_UP, {}, self.seed),
            DesignBatches(camera, DESIGNS, self.seed, cut_out=CUT_OUT, small=SMALL),
            StickerBatches(camera, STICKERS, self.seed, small=SMALL),
        )

    @functools.cached_property
    def _rows(self) -> dict[str, list[Row]]:
        """Questions by country code."""
        rows = defaultdict(list)
        for row in questions(random.Random(self.seed), QUESTIONS):
            rows[row["dataset_category_id"]].append(row)
        return rows

    @functools.cached_property
    def _articles(self) -> dict[str, ArticleEntry]:
        """Articles by country code."""
        entries = articles()
        return {code: entries[url_of(country)] for code, country in countries().items()}

    @functools.cached_property
    def _words(self) -> list[str]:
        texts = [text for entry in self._articles.values() for text in entry["section_texts"]]
        return sorted({word for text in texts for word in blip_caption(text).split()})

    def __getitem__(self, step: int) -> FusionBatch:
        """Returns the batch of `step`."""
        flag_source, design_source, sticker_source = self._sources
        flags = flag_source(step, KNOWN + MADE_UP, texts=False)
        designs = joined(design_source(step), sticker_source(step))
        rng = random.Random(f"texts {self.seed} {step}")
        asked: list[str] = []
        sections: list[str] = []
        common = [self._common_texts(rng) for _ in range(COMMON)]
        for code in [*flags.codes, *[None] * len(designs.keys)]:
            if rng.random() < self.shared:
                question, passages = _titled(*rng.choice(common), rng)
            else:
                question, passages = self._texts(code, rng)
            asked.append(question)
            sections += passages
        return FusionBatch(
            torch.cat([flags.photographs, designs.photographs]),
            torch.cat([flags.drawings, designs.keys]),
            asked,
            sections,
            torch.block_diag(same_pairs(flags.looks), designs.alike),
            {"known": KNOWN, "unknown": MADE_UP, "designs": DESIGNS, "stickers": STICKERS},
        )

    def _texts(self, code: str | None, rng: random.Random) -> tuple[str, list[str]]:
        if rng.random() < NONSENSE:
            return self._unrelated_texts(rng)
        country = code or rng.choice(sorted(self._rows))
        row, entry = rng.choice(self._rows[country]), self._articles[country]
        title = entry["title"] if code else made_up_name(rng)
        evidence = int(row["evidence_section_id"])
        others = [number for number in range(len(entry["section_texts"])) if number != evidence]
        passages = [self._passage(title, country, number) for number in (evidence, *rng.sample(others, SECTIONS - 1))]
        return blip_caption(row["question"]), passages

    def _common_texts(self, rng: random.Random) -> tuple[str, list[tuple[str, str]]]:
        """Returns a question and sections, each a title and a text; both are empty if the article is only a name."""
        code = rng.choice(sorted(self._rows))
        question, entry = rng.choice(self._rows[code])["question"], self._articles[code]
        pairs = list(zip(entry["section_titles"], entry["section_texts"], strict=True))
        return question, rng.sample(pairs, SECTIONS) if rng.random() < 0.5 else [("", "")] * SECTIONS

    def _unrelated_texts(self, rng: random.Random) -> tuple[str, list[str]]:
        """Returns a question and sections that have nothing to do with each other, each nonsense or not.

        If both were always nonsense, the kind of text would tell entities apart, as in no knowledge base.
        """
        countries = sorted(self._rows)
        asked = blip_caption(rng.choice(self._rows[rng.choice(countries)])["question"])
        sections = []
        for _ in range(SECTIONS):
            country = rng.choice(countries)
            number = rng.randrange(len(self._articles[country]["section_texts"]))
            sections.append(self._passage(made_up_name(rng), country, number))
        kinds = [rng.choice(["sense", "known words", "unknown words"]) for _ in range(2)]
        words = {"known words": self._words, "unknown words": [random_word(rng) for _ in range(60)]}
        if kinds[0] != "sense":
            asked = _some(words[kinds[0]], rng, 4, 12)
        if kinds[1] != "sense":
            sections = [_some(words[kinds[1]], rng, 8, 80) for _ in range(SECTIONS)]
        return asked, sections

    def _passage(self, title: str, country: str, number: int) -> str:
        entry = self._articles[country]
        return blip_caption(section_passage(title, entry["section_titles"][number], entry["section_texts"][number]))


def _titled(question: str, sections: list[tuple[str, str]], rng: random.Random) -> tuple[str, list[str]]:
    """Returns a question and sections of an article with a title of its own."""
    title = " ".join(random_word(rng) for _ in range(rng.randint(1, 3)))
    passages = [section_passage(title, section or title, text or title) for section, text in sections]
    return blip_caption(question), [blip_caption(passage) for passage in passages]


def random_word(rng: random.Random) -> str:
    """Returns one to four syllables of random letters."""
    syllables = rng.randint(1, 4)
    return "".join(
        rng.choice(["", rng.choice(CONSONANTS)]) + rng.choice(VOWELS) + rng.choice(["", rng.choice(CONSONANTS)])
        for _ in range(syllables)
    )


def _some(words: list[str], rng: random.Random, fewest: int, most: int) -> str:
    return " ".join(rng.choices(words, k=rng.randint(fewest, most)))
