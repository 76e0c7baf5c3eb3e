"""The runs behind the tables, by their names in `paper.toml`: made when first needed, kept, and resumed."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from evaluation.ablation import SectionChoice, choices
from evaluation.bem import Bem
from evaluation.datasets import Question
from evaluation.records import RECORDS, QueryRecord, read_records
from evaluation.run import evaluate
from evaluation.sweep import best_section
from evaluation.tables.variants import (
    ArticleGenerator,
    BlindedEncoder,
    FirstTokenRerank,
    RecordedRetriever,
    clip_itc,
    qformer_itc,
)
from indexes.builder.build import build_index
from indexes.builder.plan import BuildPlan, IndexDesign
from indexes.builder.summarizers import ExtractiveSummarizer, Summarizer
from indexes.knowledge.knowledge_base import KnowledgeBase
from indexes.store.index import Index, check_candidates
from indexes.store.manifest import Candidates
from indexes.store.search import GpuSearch
from retriever.maxsim import ScoreMode
from retriever.pipeline import Retriever
from retriever.protocols import (
    DualEncoder,
    FusionEncoder,
    Generator,
    QueryRetriever,
    SectionEncoder,
    Step,
    TextReranker,
)
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank

logger = logging.getLogger(__name__)

_SIMILARITIES = {"clip": clip_itc, "qformer": qformer_itc}
_CANDIDATES: dict[str, Candidates] = {name: name for name in ("summary", "title", "article", "image")}


@dataclass(frozen=True, slots=True)
class Components:
    """The models and settings of a profile.

    Attributes:
        settings: Describes them in reports.
        bem: E-VQA's judge.
        deviations: A sentence on each deviation from the published protocol, see `evaluation.protocol.Protocol`.
        sections: Encodes sections for `reranker`, if it compares vectors.
    """

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
    design: IndexDesign
    trim_borders: bool = False
    device: str = "cpu"
    gpu_search: GpuSearch = "torch"
    bem: Bem | None = None
    deviations: Mapping[str, str] = field(default_factory=dict)
    sections: SectionEncoder | None = None

    @property
    def candidates(self) -> Candidates:
        """Which keys step 1 searches."""
        return self.design.candidates


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Questions with their knowledge base.

    Attributes:
        dataset: Name of the data set.
        questions: The questions.
        query_images: The folder of their images.
        knowledge: The knowledge base; if `index` is given, only tables that need other indexes use it.
        index: The profile's index of it; by default, it is built beside the runs.
    """

    dataset: str
    questions: Sequence[Question] = field(repr=False)
    query_images: Path
    knowledge: KnowledgeBase | None = None
    index: Path | None = None


class _IndexKind(NamedTuple):
    """What sets an index that a table needs apart from the profile's.

    Attributes:
        candidates: What step 1 searches.
        sees: What its tokens are made from: the image ("I"), the text ("T"), both, or "none" for no tokens.
        tokens: How they are stored; empty if as the profile says.
    """

    candidates: Candidates
    sees: str = "IT"
    tokens: str = ""

    @property
    def folder(self) -> str:
        return "-".join(filter(None, self))


class TableRuns:
    """Makes runs by name under `out`: indexes in `indexes/`, runs in a folder per set of questions and settings.

    Args:
        components: The models that retrieve and answer.
        questions: The questions.
        out: The folder of indexes and runs.
        progress: Whether to show progress.
    """

    def __init__(self, components: Components, questions: QuestionSet, out: Path, *, progress: bool = True) -> None:
        self.components, self.questions, self._out, self._progress = components, questions, out, progress
        self._indexes: dict[_IndexKind, Index] = {}
        self._folder: Path | None = None

    def folder(self, name: str) -> Path:
        """Returns the folder of a finished run, making the run first unless it exists.

        Raises:
            ValueError: The run cannot be made; the message says what is missing.
        """
        if self._folder is None:
            self._folder = self._out / "runs" / self._identity()
        folder = self._folder / name
        if (folder / "metrics.json").is_file():
            return folder
        logger.info("run %s", name)
        retriever, generator = self._plan(name)
        metrics = evaluate(
            retriever,
            generator,
            self.questions.questions,
            self.questions.query_images,
            folder,
            dataset=self.questions.dataset,
            profile_name=self.components.profile,
            settings={**self.components.settings, "variant": name},
            index_info=_describe(self.main),
            progress=self._progress,
            bem=None if generator is None else self.components.bem,
            deviations=self.components.deviations,
        )
        if metrics["n_failed"]:  # not retried later, because the runs that replay this one must match it
            logger.warning("tables keep run %s despite its failures; delete %s to redo all runs", name, folder.parent)
        return folder

    def metrics(self, name: str) -> dict[str, Any]:
        """Returns the `metrics.json` of a run."""
        metrics: dict[str, Any] = json.loads((self.folder(name) / "metrics.json").read_text(encoding="utf-8"))
        return metrics

    @property
    def main(self) -> Index:
        """The profile's own index."""
        return self._index(self._own)

    def lacking(self, name: str) -> str:
        """Returns why a run cannot be made: its index is not the given one and there is no `kb` to build it from."""
        if self.questions.knowledge is not None or self._searches(name) == self._own:
            return ""
        return "this table needs indexes other than the profile's; pass the knowledge base to build them from (--kb)"

    def _searches(self, name: str) -> _IndexKind:
        """Returns the kind of index that a run searches."""
        kind, _, variant = name.partition("-")
        if kind == "search" and variant != self.components.candidates:  # else the profile's own index serves as well
            return _IndexKind(_CANDIDATES[variant], "none")
        if kind == "sees":
            return _IndexKind(self.components.candidates, variant.partition("-")[2])
        if kind == "compares" and variant in _SIMILARITIES and self.main.manifest.inputs.codec.pooled is not None:
            return self._own._replace(tokens="float16")  # the profile's merges the first tokens with others
        return self._own

    @property
    def _own(self) -> _IndexKind:
        return _IndexKind(self.components.candidates)

    def _plan(self, name: str) -> tuple[QueryRetriever, Generator | None]:
        """Returns the retriever and generator of a run; the part of its name after the first "-" is the variant."""
        kind, _, variant = name.partition("-")
        parts, index, generator = self.components, self._index(self._searches(name)), self.components.generator
        if kind == "full":
            step2 = FusionRerank(parts.fusion, index, parts.alpha, parts.mode)
            return self._steps(index, step2, SectionRerank(parts.reranker, index, parts.beta)), generator
        if kind == "alpha":
            return self._steps(index, FusionRerank(parts.fusion, index, float(variant), parts.mode)), None
        if kind == "k":
            step2 = FusionRerank(parts.fusion, index, parts.alpha, parts.mode)
            return self._steps(index, step2, k=int(variant)), None
        if kind == "search":
            return self._steps(index, k=max(20, parts.k)), None
        if kind == "sees":
            seeing = self._seeing(variant.partition("-")[0])
            return self._steps(index, FusionRerank(seeing, index, 0.0, parts.mode)), None
        if kind == "compares":
            if variant == "compat":
                return self._steps(index, FusionRerank(parts.fusion, index, 0.0, "compat")), None
            return self._steps(index, FirstTokenRerank(parts.fusion, index, _SIMILARITIES[variant])), None
        if kind == "beta":
            return self._replay(partial(_by_beta, beta=float(variant))), generator
        if kind == "answers":
            if variant == "none":
                return self._replay(lambda record: (None, None)), generator
            reads = ArticleGenerator(generator, index) if variant == "1" else generator
            return self._replay(lambda record: choices(record)[variant]), reads
        raise ValueError(f"there is no run named {name!r}")

    def _steps(self, index: Index, *later: Step, k: int | None = None) -> Retriever[Index]:
        parts = self.components
        first = EntitySearch(parts.encoder, index, k or parts.k)
        return Retriever([first, *later], index, trim_borders=parts.trim_borders, device=index.device)

    def _replay(self, choose: Callable[[QueryRecord], SectionChoice]) -> RecordedRetriever:
        return RecordedRetriever(self.main, read_records(self.folder("full") / RECORDS), choose)

    def _seeing(self, what: str) -> FusionEncoder:
        fusion = self.components.fusion
        return fusion if what == "IT" else BlindedEncoder(fusion, image="I" in what, text="T" in what)

    def _index(self, kind: _IndexKind) -> Index:
        """Returns an index of a kind, which is built unless it was given."""
        if kind in self._indexes:
            return self._indexes[kind]
        parts, given = self.components, self.questions
        fusion = None if kind.sees == "none" else self._seeing(kind.sees)
        sections = parts.sections if kind == self._own else None  # only runs on the profile's own index have step 3
        folder = self._out / "indexes" / kind.folder
        if kind == self._own and given.index is not None:
            folder = given.index
        if folder != given.index:
            if given.knowledge is None:
                raise ValueError(f"the index {folder} has to be built: name the knowledge base (--kb)")
            tokens = kind.tokens or parts.design.tokens
            plan = BuildPlan(
                knowledge=given.knowledge,
                out=folder,
                # Only summaries that are searched are worth asking a server for.
                summarizer=parts.summarizer if kind.candidates in ("summary", "combined") else ExtractiveSummarizer(),
                encoder=parts.encoder,
                fusion=fusion,
                sections=sections,
                design=replace(parts.design, candidates=kind.candidates, tokens=tokens),
                progress=self._progress,
            )
            build_index(plan)
        index = Index.open(
            folder,
            encoder=parts.encoder,
            fusion=fusion,
            sections=sections,
            device=parts.device,
            image_weight=parts.design.image_weight,
            gpu_search=parts.gpu_search,
        )
        check_candidates(index, kind.candidates)
        self._indexes[kind] = index
        return index

    def _identity(self) -> str:
        """Returns a hash of everything that the runs depend on."""
        given, bem = self.questions, self.components.bem
        inputs = [self.components.settings, None if bem is None else bem.fingerprint, _describe(self.main)]
        inputs += [given.dataset, str(given.query_images.resolve())]
        digest = hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode())
        for question in given.questions:
            digest.update(repr(question).encode())
        return digest.hexdigest()[:12]


def refuse_tuned(tuned_on: Path, questions: Sequence[Question]) -> None:
    """Checks that alpha and beta were not chosen on any of the questions.

    Args:
        tuned_on: The run that they were chosen on.
        questions: The questions to report on.

    Raises:
        ValueError: `tuned_on` is not a run, or shares a question.
    """
    if not (tuned_on / RECORDS).is_file():
        raise ValueError(f"--tuned-on: {tuned_on} has no {RECORDS}; pass a folder that omgm evaluate or sweep wrote")
    used = {record.asks for record in read_records(tuned_on / RECORDS)}
    shared = [question.id for question in questions if (question.image_id, question.question) in used]
    if shared:
        raise ValueError(
            f"--queries: {len(shared)} of {len(questions)} questions, such as {shared[0]!r}, are also in the tuning "
            f"run {tuned_on}; report on another split"
        )


def _by_beta(record: QueryRecord, beta: float) -> SectionChoice:
    """Returns the section of the best entity that `beta` ranks first."""
    if not record.candidates:
        return None, None
    best = record.candidates[0]
    return best.entity, best_section(best.sections, beta) if best.sections else None


def _describe(index: Index) -> dict[str, Any]:
    manifest = index.manifest
    return {
        "name": manifest.name,
        "counts": manifest.counts.model_dump(mode="json"),
        "inputs": manifest.inputs.model_dump(mode="json"),
    }
