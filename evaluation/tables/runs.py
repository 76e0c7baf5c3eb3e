"""The runs behind the tables, by their names in `paper.toml`: made when first needed, kept, and resumed."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from evaluation.ablation import SectionChoice, choices
from evaluation.datasets import find_query_image
from evaluation.image_overlap import ImageOverlap, images_of, note_images, read_images
from evaluation.records import RECORDS, QueryRecord, read_records
from evaluation.report import write_report
from evaluation.run import evaluate
from evaluation.sweep import best_section
from evaluation.tables.indexes import Components, IndexKind, QuestionSet, TableIndexes
from evaluation.tables.variants import ArticleGenerator, FirstTokenRerank, RecordedRetriever, clip_itc, qformer_itc
from indexes.store.index import Index
from indexes.store.manifest import Candidates
from retriever.asking import Generator, QueryRetriever
from retriever.identity import files_as_items
from retriever.pipeline import Retriever
from retriever.protocols import FusionEncoder, Step
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank
from retriever.wording import counted

logger = logging.getLogger(__name__)

_SIMILARITIES = {"clip": clip_itc, "qformer": qformer_itc}
_CANDIDATES: dict[str, Candidates] = {name: name for name in ("summary", "title", "article", "image")}


class _RunPlan(NamedTuple):
    """How a run is made: the kind of index that it searches, its retriever over that index, and what answers."""

    searches: IndexKind
    retriever: Callable[[Index], QueryRetriever]
    generator: Generator | None = None


class TableRuns:
    """Makes runs by name under `out`: indexes in `indexes/`, runs in a folder per set of questions and settings."""

    def __init__(self, components: Components, questions: QuestionSet, out: Path) -> None:
        self.components, self.questions, self._out = components, questions, out
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
        plan = self._plan(name)
        metrics = evaluate(
            plan.retriever(self._indexes.opened(plan.searches)),
            plan.generator,
            self.questions.questions,
            self.questions.query_images,
            folder,
            dataset=self.questions.dataset,
            profile_name=self.components.profile,
            settings={**self.components.settings, "variant": name},
            index_info=_describe(self.main),
            bem=None if plan.generator is None else self.components.bem,
            deviations=self.components.deviations,
            further=self._overlap,
        )
        write_report(folder, Path(self.questions.query_images))
        note_images(folder, self._overlap.images)
        if metrics["n_failed"]:  # not retried later, because the runs that replay this one must match it
            logger.warning("tables keep run %s despite its failures; delete %s to redo all runs", name, folder.parent)
        return folder

    def metrics(self, name: str) -> dict[str, Any]:
        """Returns the `metrics.json` of a run."""
        metrics: dict[str, Any] = json.loads((self.folder(name) / "metrics.json").read_text(encoding="utf-8"))
        return metrics

    @cached_property
    def _overlap(self) -> ImageOverlap:
        asked, index = self.questions, self.main
        folder = asked.index or index.folder
        images = images_of(asked.questions, asked.query_images)
        return ImageOverlap.of(asked.questions, images, index, folder, self.components.trained)

    @cached_property
    def _indexes(self) -> TableIndexes:
        return TableIndexes(self.components, self.questions, self._out / "indexes")

    @property
    def main(self) -> Index:
        """The profile's own index."""
        return self._indexes.main

    def lacking(self, name: str) -> str:
        """Returns why a run cannot be made: its index is not the given one and there is no `kb` to build it from."""
        if self.questions.knowledge is not None or self._plan(name).searches == self._indexes.own:
            return ""
        return "this table needs indexes other than the profile's; pass the knowledge base to build them from (--kb)"

    def _plan(self, name: str) -> _RunPlan:
        """Returns how a run is made; its name is the kind of run and, after the first "-", what it varies."""
        kinds: dict[str, Callable[[str], _RunPlan]] = {
            "full": self._full,
            "alpha": self._alpha,
            "k": self._k,
            "search": self._search,
            "sees": self._sees,
            "compares": self._compares,
            "beta": self._beta,
            "answers": self._answers,
        }
        kind, _, varied = name.partition("-")
        if kind not in kinds:
            raise ValueError(f"there is no run named {name!r}")
        return kinds[kind](varied)

    def _full(self, _: str) -> _RunPlan:
        """All three steps and the answers, as the profile says."""
        parts = self.components
        return self._own_index(
            lambda index: [self._rerank(index), SectionRerank(parts.reranker, index, parts.beta)],
            generator=parts.generator,
        )

    def _alpha(self, alpha: str) -> _RunPlan:
        """Steps 1 and 2, with another weight of step 1."""
        return self._own_index(lambda index: [self._rerank(index, alpha=float(alpha))])

    def _k(self, k: str) -> _RunPlan:
        """Steps 1 and 2, with another number of candidates."""
        return self._own_index(lambda index: [self._rerank(index)], k=int(k))

    def _search(self, candidates: str) -> _RunPlan:
        """Step 1 alone, on other keys than the profile's or on the same."""
        own = self._indexes.own
        searches = own if candidates == own.candidates else IndexKind(_CANDIDATES[candidates], "none")
        return _RunPlan(searches, partial(self._steps, k=max(20, self.components.k)))

    def _sees(self, varied: str) -> _RunPlan:
        """Step 2 alone, blind to some inputs: first those of questions, then those of the index, such as "I-IT"."""
        query, _, index_sees = varied.partition("-")
        seeing = self._indexes.seeing(query)
        return _RunPlan(
            IndexKind(self.components.candidates, index_sees),
            lambda index: self._steps(index, self._rerank(index, alpha=0.0, fusion=seeing)),
        )

    def _compares(self, how: str) -> _RunPlan:
        """Step 2 alone, comparing tokens as the reference code does ("compat"), as CLIP or as the Q-Former's ITC."""
        own, fusion = self._indexes.own, self.components.fusion
        if how == "compat":
            return self._own_index(lambda index: [FusionRerank(fusion, index, 0.0, "compat")])
        pooled = self.main.manifest.inputs.codec.pooled is not None  # merges the first tokens with others
        return _RunPlan(
            own._replace(tokens="float16") if pooled else own,
            lambda index: self._steps(index, FirstTokenRerank(fusion, index, _SIMILARITIES[how])),
        )

    def _beta(self, beta: str) -> _RunPlan:
        """Answers from the section that another weight of step 2 ranks first; no step runs again."""
        return self._replay(partial(_by_beta, beta=float(beta)), self.components.generator)

    def _answers(self, steps: str) -> _RunPlan:
        """Answers without evidence ("none"), or from what the first steps alone find ("1", "1+2")."""
        generator = self.components.generator
        if steps == "none":
            return self._replay(lambda record: (None, None), generator)
        reads = ArticleGenerator(generator, self.main) if steps == "1" else generator
        return self._replay(lambda record: choices(record)[steps], reads)

    def _own_index(
        self, later: Callable[[Index], list[Step]], *, k: int | None = None, generator: Generator | None = None
    ) -> _RunPlan:
        return _RunPlan(self._indexes.own, lambda index: self._steps(index, *later(index), k=k), generator)

    def _replay(self, choose: Callable[[QueryRecord], SectionChoice], generator: Generator) -> _RunPlan:
        def recorded(index: Index) -> RecordedRetriever:
            return RecordedRetriever(index, read_records(self.folder("full") / RECORDS), choose)

        return _RunPlan(self._indexes.own, recorded, generator)

    def _steps(self, index: Index, *later: Step, k: int | None = None) -> Retriever[Index]:
        parts = self.components
        first = EntitySearch(parts.encoder, index, k or parts.k)
        return Retriever([first, *later], index, trim_borders=parts.trim_borders, device=index.device)

    def _rerank(self, index: Index, *, alpha: float | None = None, fusion: FusionEncoder | None = None) -> FusionRerank:
        parts = self.components
        return FusionRerank(fusion or parts.fusion, index, parts.alpha if alpha is None else alpha, parts.mode)

    def _identity(self) -> str:
        """Returns a hash of everything that the runs depend on."""
        given, bem = self.questions, self.components.bem
        images = {one.image_id: find_query_image(given.query_images, one.image_id) for one in given.questions}
        inputs = [self.components.settings, None if bem is None else bem.fingerprint, _describe(self.main)]
        inputs += [given.dataset, self.components.used(self.main), files_as_items(images.items(), "image").digest]
        digest = hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode())
        for question in given.questions:
            digest.update(repr(question).encode())
        return digest.hexdigest()[:12]


def contents_of(tuned_on: Path, questions: QuestionSet) -> dict[str, str]:
    """Returns names for the contents of the images of questions and of a tuning run, see `KnownImages.names`.

    Raises:
        ValueError: `tuned_on` is not a run.
    """
    if not (tuned_on / RECORDS).is_file():
        raise ValueError(f"--tuned-on: {tuned_on} has no {RECORDS}; pass a folder that omgm evaluate or sweep wrote")
    tuned = {record.image_id for record in read_records(tuned_on / RECORDS)}
    names = read_images([*tuned, *(one.image_id for one in questions.questions)], questions.query_images).names()
    if missing := len(tuned - names.keys()):
        what = f"{missing} of {counted(len(tuned), 'image')} not in {questions.query_images}"
        logger.warning("--tuned-on: %s: %s, so these are compared with the questions' by name only", tuned_on, what)
    return names


def refuse_tuned(tuned_on: Path, questions: QuestionSet) -> None:
    """Checks that alpha and beta were not chosen on any of the questions, whose images may have other names.

    Raises:
        ValueError: `tuned_on` is not a run, or shares a question.
    """
    names = contents_of(tuned_on, questions)
    used = {(names.get(one.image_id, one.image_id), one.question) for one in read_records(tuned_on / RECORDS)}
    asked = questions.questions
    shared = [one.id for one in asked if (names.get(one.image_id, one.image_id), one.question) in used]
    if shared:
        raise ValueError(
            f"--queries: {len(shared)} of {len(asked)} questions, such as {shared[0]!r}, are also in the tuning "
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
