"""Training samples for the generator: questions with the evidence that our own retrieval finds (appendix C.3)."""

from __future__ import annotations

import json
import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from indexes.growing import GrowingLines
from indexes.progress import progress_bar
from retriever.asking import QueryRetriever
from retriever.files import write_lines
from retriever.identity import Items, agree, files_as_items
from retriever.images import load_image
from retriever.results import best_evidence
from retriever.types import ArticleImage, Evidence, Query
from training.questions import AskedQuestion

logger = logging.getLogger(__name__)

SAMPLES = "samples.jsonl"
LEFT_OUT = "left_out.jsonl"
_JOURNAL = "samples.journal"
_NOTE = "samples.json"


class AnsweredQuestion(AskedQuestion, Protocol):
    """A question with its correct answers."""

    @property
    def answers(self) -> tuple[str, ...]:
        """Alternatives, any of which is correct; the items of a list are separated by `&&`."""

    @property
    def reference(self) -> str:
        """The answer to learn, if it is not the first of `answers`."""


@dataclass(frozen=True, slots=True)
class GeneratorSample:
    """A line of `samples.jsonl`: the generator's input, and the answer it should give.

    Attributes:
        id: Id of the question.
        question: Text of the question.
        answer: The answer to learn.
        evidence: The section that our retrieval found, whether right or wrong, as at inference.
        image: Path of the question's image; `None` for a text-only generator.
    """

    id: str
    question: str
    answer: str
    evidence: Evidence
    image: str | None = None


def target_answer(question: AnsweredQuestion) -> str:
    """Returns the answer to learn, the items of a list joined by ", "; empty if the question has none."""
    answer = question.reference or next((answer for answer in question.answers if answer), "")
    return ", ".join(item.strip() for item in answer.split("&&") if item.strip())


def make_samples(
    open_retriever: Callable[[], QueryRetriever],
    questions: Sequence[AnsweredQuestion],
    image_of: Callable[[str], Path | None],
    out: Path,
    *,
    multimodal: bool,
    most: int = 100_000,
    seed: int = 0,
    made_with: dict[str, Any] | None = None,
    batch_size: int = 16,
    overwrite: bool = False,
    advice: str = "",
) -> Path:
    """Writes samples of randomly selected questions to `out/samples.jsonl` and returns its path.

    `out/left_out.jsonl` lists the questions that cannot be used, with the reasons. A killed run resumes after its last
    complete batch, and a finished one is not repeated.

    Args:
        open_retriever: Opens the retriever that finds the evidence; not called if all samples exist.
        questions: The training questions.
        image_of: Finds the file of an image by its id.
        out: The folder to write to, created if absent.
        multimodal: Whether to record the image of every sample.
        most: Most samples; if fewer questions are usable, all of them are used.
        seed: Seed of the selection.
        made_with: What else the samples depend on (index, settings), as plain JSON; a resumed run must have the same.
        batch_size: Questions per batch.
        overwrite: Whether to replace samples of other inputs.
        advice: What to do about samples of other inputs, see `agree`.

    Raises:
        ValueError: No question can be used, two share an id, or `out` contains samples of other inputs.
    """
    if len({question.id for question in questions}) != len(questions):
        raise ValueError("two questions share an id; give every question its own")
    asked = ((q.id, [q.question, q.image_id, target_answer(q)]) for q in questions)
    ids = dict.fromkeys(question.image_id for question in questions)
    images = ((id, path) for id in ids if (path := image_of(id)) is not None)
    inputs = {
        "questions": Items(asked, "question", "another wording, image or answer"),
        "query images": files_as_items(images, "image"),
        **{"most": most, "seed": seed, "multimodal": multimodal, **(made_with or {})},
    }
    agree(out / _NOTE, inputs, work=[out / SAMPLES, out / _JOURNAL], overwrite=overwrite, advice=advice)
    if (out / SAMPLES).is_file():
        return out / SAMPLES
    chosen, left_out = _select(questions, image_of, most, seed)
    journal, retriever = out / _JOURNAL, open_retriever()
    bar = progress_bar(total=len(chosen), desc="samples", unit="question")
    with GrowingLines(journal, batch_size, len(chosen)) as lines, bar:
        bar.update(lines.done)
        while lines.done < len(chosen):
            batch = chosen[lines.done : lines.done + batch_size]
            lines.append(_retrieve(retriever, batch, multimodal))
            bar.update(len(batch))
    with journal.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    left_out += [row for row in rows if "reason" in row]
    for reason, count in Counter(row["reason"] for row in left_out).items():
        logger.warning("%d of %d questions left out: %s", count, len(questions), reason)
    write_lines(out / LEFT_OUT, left_out)
    samples = [row for row in rows if "reason" not in row]
    if not samples:
        raise ValueError(f"none of {len(questions)} questions can be trained on; {out / LEFT_OUT} says why")
    write_lines(out / SAMPLES, samples)
    journal.unlink()
    return out / SAMPLES


def read_samples(path: Path) -> list[GeneratorSample]:
    """Reads the samples that `make_samples` wrote.

    Raises:
        ValueError: A line is not a sample; the message names it.
    """
    samples = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                images = tuple(ArticleImage(**image) for image in row["evidence"].pop("images", ()))
                samples.append(GeneratorSample(**row | {"evidence": Evidence(**row["evidence"], images=images)}))
            except (ValueError, TypeError, LookupError) as error:
                raise ValueError(f"{path}:{number}: not a sample ({error}); delete the file to recreate it") from error
    return samples


def count_left_out(samples: Path) -> dict[str, int]:
    """Returns the number of questions that were left out of a file of samples, by reason."""
    path = samples.with_name(LEFT_OUT)
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8") as file:
        return dict(Counter(json.loads(line)["reason"] for line in file))


_Row = dict[str, Any]


def _select(
    questions: Sequence[AnsweredQuestion], image_of: Callable[[str], Path | None], most: int, seed: int
) -> tuple[list[tuple[AnsweredQuestion, Path]], list[_Row]]:
    """Returns random usable questions in order, each with its image, and those that cannot be used."""
    usable: list[tuple[AnsweredQuestion, Path]] = []
    left_out: list[_Row] = []
    for question in questions:
        if not target_answer(question):
            left_out.append({"id": question.id, "reason": "no answer"})
        elif (path := image_of(question.image_id)) is None:
            left_out.append({"id": question.id, "reason": "the image is missing"})
        else:
            usable.append((question, path))
    rng = random.Random(f"{seed}:samples")
    rows = sorted(rng.sample(range(len(usable)), min(most, len(usable))))
    return [usable[row] for row in rows], left_out


def _retrieve(
    retriever: QueryRetriever, batch: Sequence[tuple[AnsweredQuestion, Path]], multimodal: bool
) -> list[_Row]:
    """Returns a line of the journal per question: its sample, or the reason why it has none."""
    queries: dict[str, Query] = {}
    rows: dict[str, _Row] = {}
    for question, path in batch:
        try:
            queries[question.id] = Query(load_image(path), question.question, question.id)
        except ValueError as error:
            logger.warning("%s", error)
            rows[question.id] = {"id": question.id, "reason": "the image is unreadable"}
    results = retriever.retrieve(list(queries.values())) if queries else []
    found = {r.query_id: best_evidence(retriever.index, r.candidates) for r in results}
    for question, path in batch:
        if question.id in rows:
            continue
        evidence = found[question.id]
        if evidence is None:
            rows[question.id] = {"id": question.id, "reason": "retrieval found no section"}
        else:
            image = str(path.resolve()) if multimodal else None
            sample = GeneratorSample(question.id, question.question, target_answer(question), evidence, image)
            rows[question.id] = asdict(sample)
    return [rows[question.id] for question, _ in batch]
