"""The runs behind the tables, each by a name that `paper.toml` uses: made when first asked for, kept, resumed."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from evaluation.ablation import choices
from evaluation.bem import Bem
from evaluation.datasets import Question
from evaluation.records import Line, read_lines
from evaluation.run import LINES, evaluate
from evaluation.tables.variants import (
    Blinded,
    Choice,
    FirstTokenRerank,
    Replay,
    WholeArticle,
    clip_itc,
    qformer_itc,
)
from indexes.build import build_index
from indexes.manifest import Candidates
from indexes.store import Index
from indexes.summarize import Summarizer
from indexes.summarizers import ExtractiveSummarizer
from indexes.tokens import TokenType
from retriever.fusion import fuse
from retriever.maxsim import ScoreMode
from retriever.pipeline import Retriever
from retriever.protocols import DualEncoder, FusionEncoder, Generator, QueryRetriever, Step, TextReranker
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank

logger = logging.getLogger(__name__)

_SIMILARITIES = {"clip": clip_itc, "qformer": qformer_itc}
_CANDIDATES: dict[str, Candidates] = {name: name for name in ("summary", "title", "article", "image")}


@dataclass(frozen=True, slots=True)
class Parts:
    """The models and settings of a profile, built; `settings` is what reports say of them, `bem` E-VQA's judge."""

    profile: str
    settings: Mapping[str, Any]
    encoder: DualEncoder
    fusion: FusionEncoder
    reranker: TextReranker
    summarizer: Summarizer
    generator: Generator
    k: int
    alpha: float
    beta: float
    mode: ScoreMode
    tokens: TokenType
    candidates: Candidates
    device: str = "cpu"
    bem: Bem | None = None
    bem_fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of which knowledge base.

    Attributes:
        dataset: Name of the data set.
        questions: The questions.
        query_images: The folder of their pictures.
        kb: The knowledge base; with `index` only the tables that need another index need it.
        images: Its pictures.
        index: The profile's index of it; by default built beside the runs.
        kb_format: Format of `kb`; by default guessed.
    """

    dataset: str
    questions: Sequence[Question] = field(repr=False)
    query_images: Path
    kb: Path | None = None
    images: Path | None = None
    index: Path | None = None
    kb_format: str | None = None


class Runs:
    """Makes runs by name, below `out`: indexes in `indexes/`, runs in a folder of their questions and settings.

    Args:
        parts: What retrieves and answers.
        asked: What is asked.
        out: Where indexes and runs go.
        progress: Whether to show progress.
    """

    def __init__(self, parts: Parts, asked: Asked, out: Path, *, progress: bool = True) -> None:
        self.parts, self.asked, self._out, self._progress = parts, asked, out, progress
        self._indexes: dict[tuple[str, str], Index] = {}
        self._folder: Path | None = None

    def folder(self, name: str) -> Path:
        """Returns the folder of a finished run, made now if it is not there.

        Raises:
            ValueError: It cannot be made; the message says what is missing.
        """
        if self._folder is None:
            self._folder = self._out / "runs" / self._identity()
        done = self._folder / name
        if (done / "metrics.json").is_file():
            return done
        logger.info("run %s", name)
        retriever, generator = self._plan(name)
        evaluate(
            retriever,
            generator,
            self.asked.questions,
            self.asked.query_images,
            done,
            dataset=self.asked.dataset,
            profile_name=self.parts.profile,
            settings={**self.parts.settings, "variant": name},
            index_info=_about(self.main),
            progress=self._progress,
            bem=None if generator is None else self.parts.bem,
            bem_fingerprint=self.parts.bem_fingerprint,
        )
        return done

    def metrics(self, name: str) -> dict[str, Any]:
        """Returns the figures of a run."""
        found: dict[str, Any] = json.loads((self.folder(name) / "metrics.json").read_text(encoding="utf-8"))
        return found

    @property
    def main(self) -> Index:
        """The profile's own index."""
        return self._index(self.parts.candidates, "IT")

    def _plan(self, name: str) -> tuple[QueryRetriever, Generator | None]:
        """Returns the pipeline and the generator of a run; what follows the first "-" of its name is its variant."""
        kind, _, variant = name.partition("-")
        parts, index, answering = self.parts, self.main, self.parts.generator
        if kind == "full":
            step2 = FusionRerank(parts.fusion, index, parts.alpha, parts.mode)
            return self._steps(index, step2, SectionRerank(parts.reranker, index, parts.beta)), answering
        if kind == "alpha":
            return self._steps(index, FusionRerank(parts.fusion, index, float(variant), parts.mode)), None
        if kind == "k":
            step2 = FusionRerank(parts.fusion, index, parts.alpha, parts.mode)
            return self._steps(index, step2, k=int(variant)), None
        if kind == "search":
            searched = self._index(_CANDIDATES[variant], "none")
            return self._steps(searched, k=max(20, parts.k)), None
        if kind == "sees":
            query, candidate = variant.split("-")
            seen = self._index(parts.candidates, candidate)
            return self._steps(seen, FusionRerank(self._seeing(query), seen, 0.0, parts.mode)), None
        if kind == "compares":
            if variant == "compat":
                return self._steps(index, FusionRerank(parts.fusion, index, 0.0, "compat")), None
            return self._steps(index, FirstTokenRerank(parts.fusion, index, _SIMILARITIES[variant])), None
        if kind == "beta":
            return self._replay(partial(_by_beta, beta=float(variant))), answering
        if kind == "answers":
            if variant == "none":
                return self._replay(lambda line: (None, None)), answering
            reads = WholeArticle(answering, index) if variant == "1" else answering
            return self._replay(lambda line: choices(line)[variant]), reads
        raise ValueError(f"no run is called {name!r}")

    def _steps(self, index: Index, *later: Step, k: int | None = None) -> Retriever[Index]:
        first = EntitySearch(self.parts.encoder, index, k or self.parts.k)
        return Retriever([first, *later], index)

    def _replay(self, choose: Any) -> Replay:
        return Replay(self.main, read_lines(self.folder("full") / LINES), choose)

    def _seeing(self, what: str) -> FusionEncoder:
        return self.parts.fusion if what == "IT" else Blinded(self.parts.fusion, picture="I" in what, text="T" in what)

    def _index(self, candidates: Candidates, sees: str) -> Index:
        """Returns an index by what stands for an entity and what its tokens are made of ("none": without tokens)."""
        parts, asked = self.parts, self.asked
        if sees == "none" and candidates == parts.candidates:
            sees = "IT"  # the profile's own index will do
        key = candidates, sees
        if key in self._indexes:
            return self._indexes[key]
        fusion = None if sees == "none" else self._seeing(sees)
        own = key == (parts.candidates, "IT")
        folder = asked.index if own and asked.index is not None else self._out / "indexes" / f"{candidates}-{sees}"
        if folder != asked.index:
            if asked.kb is None:
                raise ValueError(
                    f"needs an index of {candidates} with tokens of {sees}: name the knowledge base (--kb)"
                )
            build_index(
                asked.kb,
                asked.images,
                folder,
                # Only summaries are worth asking a server for: the other kinds never read them.
                summarizer=parts.summarizer if candidates == "summary" else ExtractiveSummarizer(),
                encoder=parts.encoder,
                fusion=fusion,
                kb_format=asked.kb_format,
                candidates=candidates,
                tokens=parts.tokens,
                progress=self._progress,
            )
        self._indexes[key] = Index.open(folder, encoder=parts.encoder, fusion=fusion, device=parts.device)
        return self._indexes[key]

    def _identity(self) -> str:
        """Returns a name for all that runs depend on, so that other questions never find these runs."""
        asked = self.asked
        given = [self.parts.settings, self.parts.bem_fingerprint, _about(self.main), asked.dataset]
        given.append(str(asked.query_images.resolve()))
        digest = hashlib.sha256(json.dumps(given, sort_keys=True, default=str).encode())
        for question in asked.questions:
            digest.update(repr(question).encode())
        return digest.hexdigest()[:12]


def asked_of(line: Line) -> tuple[str, str]:
    """Returns what makes two records ask the same: picture and words."""
    return line["image_id"], line["question"]


def refuse_tuned(tuned_on: Path, questions: Sequence[Question]) -> None:
    """Returns when no question was among those that alpha and beta were chosen on.

    Args:
        tuned_on: The run that they were chosen on.
        questions: What is to be reported on.

    Raises:
        ValueError: `tuned_on` is no run, or shares a question.
    """
    if not (tuned_on / LINES).is_file():
        raise ValueError(f"--tuned-on: {tuned_on} holds no {LINES}; name a folder that omgm evaluate or sweep wrote")
    used = {asked_of(line) for line in read_lines(tuned_on / LINES)}
    shared = [question.id for question in questions if (question.image_id, question.question) in used]
    if shared:
        raise ValueError(
            f"--queries: {len(shared)} of {len(questions)} questions, {shared[0]!r} for one, are among those that "
            f"{tuned_on} tuned on; report on another split"
        )


def _by_beta(line: Line, beta: float) -> Choice:
    """Returns the section of the best entity that `beta` puts first."""
    if not line["candidates"]:
        return None, None
    best = line["candidates"][0]
    if not best["sections"]:
        return best["entity"], None
    fused = fuse([section[1] for section in best["sections"]], [section[2] for section in best["sections"]], beta)
    return best["entity"], best["sections"][max(range(len(fused)), key=fused.__getitem__)][0]


def _about(index: Index) -> dict[str, Any]:
    manifest = index.manifest
    return {
        "name": manifest.name,
        "counts": manifest.counts.model_dump(mode="json"),
        "inputs": manifest.inputs.model_dump(mode="json"),
    }
