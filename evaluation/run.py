"""Runs an evaluation, from questions and images to metrics (`omgm evaluate`)."""

from __future__ import annotations

import atexit
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from chat_models.background import BackgroundLoop
from evaluation.ask import Asker
from evaluation.calibration import calibration_of
from evaluation.commit import commit
from evaluation.datasets import Question, find_query_image, forget_listings
from evaluation.datasets.coverage import unknown_entities
from evaluation.journal import fill, repeated_lines, warn_of_failures
from evaluation.judge import LearnedJudge
from evaluation.metrics import Outcome, latency_of, summarize
from evaluation.protocol import protocol_of, write_scores
from evaluation.recording import judge_again
from evaluation.records import RECORDS, outcome_of, read_records, to_json
from evaluation.trec import write_trec
from indexes.progress import bars
from retriever.asking import EntityIndex, Generator, QueryRetriever
from retriever.files import read_object, write_whole
from retriever.identity import Items, agree, files_as_items
from retriever.types import Generation, GenerationRequest

_LATENCY_SAMPLE = 100
_WARM_UP = 2  # first calls pay for lazy initialization

logger = logging.getLogger(__name__)


def evaluate(
    retriever: QueryRetriever,
    generator: Generator | None,
    questions: Sequence[Question],
    query_images: Path | str,
    out: Path | str,
    *,
    dataset: str | None = None,
    profile_name: str = "custom",
    settings: Mapping[str, Any] | None = None,
    index_info: Mapping[str, Any] | None = None,
    batch_size: int = 16,
    progress: bool = True,
    bem: LearnedJudge | None = None,
    depends_on: Mapping[str, Any] = MappingProxyType({}),
    deviations: Mapping[str, str] = MappingProxyType({}),
    further: Callable[[Sequence[Outcome]], Mapping[str, Any]] = lambda outcomes: {},
    overwrite: bool = False,
) -> dict[str, Any]:
    """Asks all questions, measures every step and the answers, and writes the run to `out`.

    `out` gets `metrics.json`, `scores.PROTOCOL.json`, `queries.jsonl` (one record per query, see
    `records.QueryRecord`), and a TREC run file per step with `qrels.txt`; `evaluation.report` makes a page of them.

    Records are written batch by batch: a run that is killed and restarted with the same arguments resumes after its
    last whole batch. A query fails if its image is missing or unreadable, or if the retriever or the generator raise
    for it alone. It then counts as wrong. Called again with the same arguments, a run asks once more only what failed.
    With another `bem`, or without, its answers are judged again and not asked.

    Latency is measured on single queries: `retrieve` is the time of the steps once the image is decoded, `answer` that
    of the steps and the generator. With a `batch_size` above 1, up to 100 questions are asked again for it, once.

    Args:
        retriever: The retriever.
        generator: Answers from the evidence; `None` measures retrieval alone.
        questions: The questions, as `evaluation.datasets.load` returns them.
        query_images: The folder of their images.
        out: The folder to write to, created if absent.
        dataset: Name of the data set in the report; by default the style of the questions.
        profile_name: Name of the profile in the report.
        settings: Settings to record in the report.
        index_info: Description of the index in the report; by default its name and size.
        batch_size: Queries per batch.
        progress: Whether to show a progress bar.
        bem: E-VQA's learned judge; without it, exact match is used and the report says so.
        depends_on: What else the answers depend on, such as weights; a resumed run must have the same.
        deviations: A sentence on each deviation from the published protocol, by its short name (`Protocol`).
        further: Computes further entries of `metrics.json`, such as `evaluation.image_overlap.ImageOverlap`.
        overwrite: Whether to replace a run with other inputs.

    Returns:
        The content of `metrics.json`.

    Raises:
        ValueError: There are no questions, two share an id, `query_images` is no folder, or `out` holds another run
            (`bem` apart).
    """
    query_images, out = Path(query_images), Path(out)
    _check(questions, query_images, batch_size)
    _warn_of_unknown(questions, retriever.index)
    forget_listings()  # images that an earlier run in this process missed may exist now
    index = retriever.index
    header: dict[str, Any] = {
        "dataset": dataset or questions[0].style,
        "profile": profile_name,
        "settings": settings or {},
        "index": index_info or {"name": index.name, "counts": {"entities": len(index)}},
    }
    header |= {} if bem is None else {"bem": bem.fingerprint}
    records = out / RECORDS
    adapt = {} if generator is None else {"bem": lambda: judge_again(records, questions, bem)}
    answering = {"generator": generator and generator.name, "batch_size": batch_size, **depends_on}
    claim(out, header | answering, questions, query_images, adapt=adapt, overwrite=overwrite)

    def generate(requests: Sequence[GenerationRequest]) -> list[Generation]:
        assert generator is not None
        return _loop().submit(generator.generate(requests)).result()

    asker = Asker(retriever, None if generator is None else generate, query_images)
    with bars(progress):
        written = fill(
            records,
            lambda: questions,
            len(questions),
            batch_size,
            lambda batch: map(to_json, asker.ask(batch, bem)),
            lambda _, row: row["failed"] is not None,
        )
    if not written and "generator's server" in depends_on:
        what = "its server may have other weights under the same name; another --out asks it"
        logger.warning("%s: all questions were answered before and none is asked again; %s", out, what)
    noted = out / "metrics.json"
    known = read_object(noted) if noted.is_file() and not written else None
    latency = known["latency_ms"] if known else _latency(asker, questions, records, batch_size)
    outcomes = [outcome_of(record, len(index)) for record in read_records(records)]
    metrics = {**_metrics(outcomes, header, questions[0].style, latency), **further(outcomes)}
    main = metrics["answer"]["metric"] if generator is not None else None
    metrics |= protocol_of(header["dataset"], main, deviations).as_dict()
    warn_of_failures(out, (outcome.failed for outcome in outcomes))
    write_trec(read_records(records), out, tag=f"omgm-{profile_name}")
    write_whole(noted, json.dumps(metrics, indent=2, ensure_ascii=False, default=str).encode() + b"\n")
    write_scores(out, metrics)
    return metrics


@cache
def _loop() -> BackgroundLoop:
    """Returns the event loop shared by all runs, because a generator's connections belong to the loop that opened them.

    It runs in its own thread: in a notebook, the caller's thread already runs a loop.
    """
    loop = BackgroundLoop()
    atexit.register(loop.close)
    return loop


def _latency(asker: Asker, questions: Sequence[Question], path: Path, batch_size: int) -> dict[str, Any]:
    """Returns percentiles in milliseconds over single queries, taken from the run itself if its batch size is 1."""
    if batch_size == 1:
        timings = [record.timings_ms for record in read_records(path) if record.failed is None]
    else:
        records = zip(questions, read_records(path), strict=True)
        usable = [question for question, record in records if record.failed is None]
        sample = usable[:: -(-len(usable) // _LATENCY_SAMPLE) or 1]
        for question in sample[:_WARM_UP]:
            asker.ask([question])
        again = [record for question in sample for record in asker.ask([question])]
        timings = [record.timings_ms for record in again if record.failed is None]
    return latency_of(timings, answered=asker.generate is not None)


def _metrics(
    outcomes: Sequence[Outcome], header: Mapping[str, Any], style: str, latency: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "dataset": header["dataset"],
        "profile": header["profile"],
        **summarize(outcomes, style),
        "calibration": calibration_of(outcomes),
        "latency_ms": latency,
        **{key: header[key] for key in ("settings", "index", "bem") if key in header},
        "commit": commit(),
    }


def _check(questions: Sequence[Question], query_images: Path, batch_size: int) -> None:
    check_ids([question.id for question in questions])
    if not query_images.is_dir():
        raise ValueError(f"{query_images}: no such folder of query images (--query-images)")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")


def _warn_of_unknown(questions: Sequence[Question], index: EntityIndex) -> None:
    """Warns, before hours are spent, if the index has none of the entities that the questions name."""
    wanted = {entity for question in questions for entity in question.entity_ids}
    if wanted and all(index.row_of(entity) is None for entity in wanted):
        logger.warning("%s", unknown_entities(wanted))


def check_ids(ids: Sequence[str]) -> None:
    """Checks the ids of a run's questions.

    Raises:
        ValueError: There are none, or two are the same.
    """
    if not ids:
        raise ValueError("there are no questions: the question file has no usable row")
    if len(set(ids)) != len(ids):
        raise ValueError("two questions share an id; give every question its own")


def claim(
    out: Path,
    header: Mapping[str, Any],
    questions: Sequence[Question],
    images: Path | None,
    *,
    adapt: Mapping[str, Callable[[], None]] = MappingProxyType({}),
    recorded: Sequence[Path] = (),
    overwrite: bool = False,
) -> None:
    """Writes what this run is to `run.json`, or checks that the run in the folder is the same.

    Args:
        out: The folder of the run.
        header: What describes the run.
        questions: The questions.
        images: The folder of their images, if they are in one.
        adapt: The keys that may differ, see `agree`.
        recorded: Further files and folders of a run, which go if another one replaces it.
        overwrite: Whether to replace another run.
    """
    settings = {"settings": _by_name(header["settings"])} if "settings" in header else {}
    inputs = {
        **header,
        **settings,
        "questions": Items(((q.id, repr(q)) for q in questions), "question", "another text or label"),
    }
    if images is not None:
        ids = dict.fromkeys(question.image_id for question in questions)
        inputs["query images"] = files_as_items(((id, find_query_image(images, id)) for id in ids), "image")
    rows = [out / f"{name}.jsonl" for name in ("queries", "rerank", "summarization", "judge")]
    work = [*rows, *map(repeated_lines, rows), *(recorded if (out / "run.json").is_file() else ())]
    agree(out / "run.json", inputs, adapt=adapt, work=work, overwrite=overwrite)


def _by_name(settings: Any) -> Any:
    """Returns settings with paths by their last part: what is there is compared by content, wherever it is."""
    if isinstance(settings, Mapping):
        return {key: _by_name(value) for key, value in settings.items()}
    return Path(settings).name if isinstance(settings, str) and Path(settings).is_absolute() else settings
