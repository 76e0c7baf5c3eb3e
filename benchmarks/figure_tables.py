"""The tables of `figures.py`: each function turns the results of one part into Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.frame import table
from benchmarks.load import GOALS, MOST
from evaluation.metrics import CUTOFFS, percent
from retriever.token_codec import TokenCodec

Results = Mapping[str, Any]


def service(results: Results) -> str:
    """Tabulates the service's capacity and latency beside a plain server's."""
    load = results["load"]
    plain = {
        "capacity_per_s": load["answers_per_s"]["plain"],
        "single_ms": round(load["parts_ms"] + load["plain_added_ms"], 2),
        "single_added_ms": load["plain_added_ms"],
    }
    labels = {
        "capacity_per_s": "capacity, answers per second",
        "retrievals_per_s": "the same of `/retrieve`",
        "batching_gain": "gain by batches",
        "single_ms": "one request at a time, p50, ms",
        "single_added_ms": "of it beside decoding, retrieval and reading",
    }
    rows = [(f"{label} ({goal(name)})", load[name], plain.get(name)) for name, label in labels.items()]
    return table(("", "service", "plain FastAPI server"), rows)


def overload(results: Results) -> str:
    """Tabulates what the service answers at multiples of its capacity, and a plain server at twice that."""
    report = results["load"]
    plain = report["plain_at_2"]
    share = round(plain["answered_per_s"] / report["answers_per_s"]["plain"], 3)
    rows = [*report["loads"], {**plain, "factor": "plain server at 2", "share_of_capacity": share}]
    answered = f"answered, of the capacity ({goal('share_of_capacity')})"
    relative, client = f"p99, of that at 0.8 ({goal('p99_against_0.8')})", f"client's cores ({goal('client_cpu')})"
    lines = []
    for row in rows:
        answers, refusals, against = pair(row["latency_ms"]), pair(row["refusal_ms"]), row.get("p99_against_0.8")
        lines.append((row["factor"], row["share_of_capacity"], answers, against, refusals, row["client_cpu"]))
    return table(("load", answered, "p50, p99, ms", relative, "a refusal's p50, p99, ms", client), lines)


def stages(results: Results) -> str:
    """Tabulates how long each stage of a request takes, alone and with two batches in flight."""
    alone, full = (results["load"]["stages_ms"][when] for when in ("alone", "full"))
    labels = {
        "decode": "decoding",
        "queue": "waiting for the models",
        "step1": "step 1 with parts of what is not recognized",
        "step2": "step 2",
        "step3": "step 3",
        "generate": "waiting for the reader, and reading",
    }
    return table(("ms", "alone", "at capacity"), [(text, alone[name], full[name]) for name, text in labels.items()])


def search(results: Results) -> str:
    """Tabulates each kind of entity index: time, recall, build and size."""
    rows = []
    for entities, run in results["scale"]["runs"].items():
        for kind, index in run["search"].items():
            chosen = {**index["parameters"], "rescored": index["rescored"]}
            settings = ", ".join(f"{name} {value}" for name, value in chosen.items() if value)
            measured = (run["search_ms_p50"][kind], run["recall@20_against_exact"][kind], f"{index['build_s']:.1f} s")
            rows.append((f"{int(entities):,}", f"`{kind}`", *measured, f"{index['bytes'] / 1e6:.1f} MB", settings))
    names = ("entities", "kind", "search p50, ms", "recall@20 against float32", "build", "on disk", "settings")
    return table(names, rows)


def builds(results: Results) -> str:
    """Tabulates builds with stand-in models, and updates of a live index."""
    rows = []
    for entities, run in results["scale"]["runs"].items():
        if "sections" in run:
            sizes = (f"{int(entities):,}", f"{run['sections']:,}", f"{run['index_bytes'] / 1e6:.0f} MB")
            needed = (f"{run['build_s']['all']:.1f} s", f"{run['peak_rss_mb']['all']} MB")
            rows.append((*sizes, *needed, f"{run['update_ms_p50']}, {run['found_ms_p50']} ms"))
    update = "an update: acknowledged, searchable"
    return table(("articles", "sections", "index", "time", "peak of memory", update), rows)


def codecs(results: Results) -> str:
    """Tabulates the size of each codec of tokens, and the points that it loses against float16."""
    report = results["codecs"]
    keys = ("recall@1", "section_recall@1")
    entities, sections = (percent(report["codecs"][0][key]["value"]) for key in keys)
    rows = []
    for row in report["codecs"]:
        large = TokenCodec.parse(row["codec"]).bytes_per_section((32, 768))
        lost = (f"{row[key]['loss']:.2f} (p {row[key]['p']:.2g})" for key in keys)
        rows.append((f"`{row['codec']}`", f"{large:,}", f"{row['bytes_per_section']:,}", *lost))
    names = ("codec", "bytes, 32 x 768 (BLIP-2)", "bytes, 32 x 128 (embedded)")
    return table((*names, f"Recall@1 (float16: {entities})", f"section recall (float16: {sections})"), rows)


def steps(results: Results) -> str:
    """Tabulates Recall@K after steps 1 and 2; below are the right sections after step 3, and the right answers."""
    metrics = results["metrics"]
    rows = [
        (label, *(f"{metrics[step][f'recall@{k}']:.3f}" for k in CUTOFFS))
        for label, step in (("step 1, by the image", "step1"), ("step 2, with the question", "step2"))
    ]
    section, answer = metrics["step3"]["section_recall@1"], metrics["answer"]
    right = f", and {answer['accuracy']:.3f} of the answers are right" if answer["accuracy"] is not None else ""
    header = [f"{metrics['n_queries']:,} questions", *(f"Recall@{k}" for k in CUTOFFS)]
    return f"{table(header, rows)}\n\nThe right section is first for {section:.3f}{right}."


def training(results: Results) -> str:
    """Tabulates the rate of step 2's training, and the time that the paper's samples would take."""
    keys = ("samples_per_s", "hours_191k", "hours_191k_preparation", "peak_rss_mb")
    names = ("samples/s", "hours for 191,000 samples", "of it for preparation", "memory, MB")
    return table(names, [[results["train"][key] for key in keys]])


def first_use(results: Results) -> str:
    """Says how long `make demo` takes in a fresh clone, and how much it loads and leaves."""
    [way] = results["ways"]
    sizes = f"{way['mb_to_load']:,} MB to download, {way['mb_on_disk']:,} MB on disk"
    return f"From nothing to the first answers of `make demo`: {way['seconds']} seconds, {sizes}."


def goal(name: str) -> str:
    """Returns a goal of `benchmarks.load` in words."""
    return f"goal: {'at most' if name in MOST else 'at least'} {GOALS[name]:g}"


def pair(percentiles: Mapping[str, float | None]) -> str | None:
    """Returns p50 and p99, `None` if nothing was measured."""
    p50, p99 = percentiles["p50"], percentiles["p99"]
    return None if p50 is None or p99 is None else f"{p50:.0f}, {p99:.0f}"
