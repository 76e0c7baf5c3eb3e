"""What tables are measured with: a profile's models, questions, and the indexes that their runs search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from evaluation.datasets import Question
from evaluation.judge import LearnedJudge
from evaluation.tables.variants import BlindedEncoder
from indexes.builder.build import build_index
from indexes.builder.plan import BuildPlan, IndexDesign
from indexes.builder.summarizers import ExtractiveSummarizer
from indexes.knowledge.article_source import KnowledgeArticles
from indexes.knowledge.knowledge_base import KnowledgeBase
from indexes.store.index import Index, check_candidates
from indexes.store.manifest import Candidates
from indexes.store.search import GpuSearch
from retriever.asking import Generator
from retriever.maxsim import ScoreMode
from retriever.protocols import DualEncoder, FusionEncoder, SectionEncoder, Summarizer, TextReranker


@dataclass(frozen=True, slots=True)
class Components:
    """The models and settings of a profile.

    Attributes:
        settings: Describes them in reports.
        bem: E-VQA's judge.
        deviations: A sentence on each deviation from the published protocol, see `evaluation.protocol.Protocol`.
        sections: Encodes sections for `reranker`, if it compares vectors.
        trained: The folders that note what the profile was trained or tuned on (`evaluation.image_overlap`).
        used: Returns the weights and other content that results depend on, given the index (`omgm.identity.used`).
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
    bem: LearnedJudge | None = None
    deviations: Mapping[str, str] = field(default_factory=dict)
    sections: SectionEncoder | None = None
    trained: Sequence[Path] = ()
    used: Callable[[Index], Mapping[str, Any]] = lambda _: {}

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


class IndexKind(NamedTuple):
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
        """The name of its folder."""
        return "-".join(filter(None, self))


class TableIndexes:
    """The indexes of a table's runs, in folders under `out`; those that were not given are built.

    Args:
        components: The models.
        questions: The knowledge base, and the profile's index if it was given.
        out: The folder of the built indexes.
    """

    def __init__(self, components: Components, questions: QuestionSet, out: Path) -> None:
        self._components, self._questions, self._out = components, questions, out
        self._opened: dict[IndexKind, Index] = {}
        self.own = IndexKind(components.candidates)

    @property
    def main(self) -> Index:
        """The profile's own index."""
        return self.opened(self.own)

    def opened(self, kind: IndexKind) -> Index:
        """Returns an index of a kind, which is built unless it was given.

        Raises:
            ValueError: It has to be built, and there is no knowledge base; or it does not fit the models.
        """
        if kind not in self._opened:
            self._opened[kind] = self._open(kind)
        return self._opened[kind]

    def seeing(self, what: str) -> FusionEncoder:
        """Returns a fusion encoder that sees the image ("I"), the text ("T") or both ("IT")."""
        fusion = self._components.fusion
        return fusion if what == "IT" else BlindedEncoder(fusion, image="I" in what, text="T" in what)

    def _open(self, kind: IndexKind) -> Index:
        parts = self._components
        fusion = None if kind.sees == "none" else self.seeing(kind.sees)
        # only runs on the profile's own index have step 3
        columns = {"sections": parts.sections} if kind == self.own and parts.sections is not None else {}
        given = self._questions.index if kind == self.own else None
        folder = given or self._build(kind, fusion, columns)
        index = Index.open(
            folder,
            verify=True,
            encoder=parts.encoder,
            fusion=fusion,
            columns=columns,
            device=parts.device,
            image_weight=parts.design.image_weight,
            gpu_search=parts.gpu_search,
        )
        check_candidates(index, kind.candidates)
        return index

    def _build(self, kind: IndexKind, fusion: FusionEncoder | None, columns: Mapping[str, SectionEncoder]) -> Path:
        parts, folder, knowledge = self._components, self._out / kind.folder, self._questions.knowledge
        if knowledge is None:
            raise ValueError(f"the index {folder} has to be built: name the knowledge base (--kb)")
        plan = BuildPlan(
            articles=KnowledgeArticles(knowledge),
            out=folder,
            # Only summaries that are searched are worth asking a server for.
            summarizer=parts.summarizer if kind.candidates in ("summary", "combined") else ExtractiveSummarizer(),
            encoder=parts.encoder,
            fusion=fusion,
            columns=columns,
            design=replace(parts.design, candidates=kind.candidates, tokens=kind.tokens or parts.design.tokens),
        )
        build_index(plan)
        return folder
