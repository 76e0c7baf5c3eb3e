"""Alpha and beta from the records of a run (`omgm sweep`): scores are fused anew, no model is asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.metrics import rank_of, ranked, recall_at_k
from evaluation.records import Line
from retriever.files import write_whole
from retriever.fusion import fuse

Sections = list[tuple[int, float | None, float | None]]


@dataclass(frozen=True, slots=True)
class _Scores:
    """What fusion needs of one record; lists run over the candidates of step 1, best first."""

    asked: tuple[str, str]
    gold: frozenset[str]
    gold_section: int | None
    entities: list[str]
    sim_c: list[float | None]
    sim_m: list[float | None]
    sections: list[Sections]


def sweep(
    tune: Iterable[Line],
    alphas: Sequence[float],
    betas: Sequence[float],
    *,
    tune_split: str,
    report: Iterable[Line] | None = None,
    report_split: str | None = None,
    out: Path | None = None,
) -> dict[str, Any]:
    """Returns the best alpha and beta with a table for each, and with `report` the figures they reach on another split.

    Alpha is chosen by Recall@1 after step 2 (between equals by mean reciprocal rank, then the smaller), then beta by
    section recall@1. Step 3 scored the sections of the entity that the run put first; where another alpha puts another
    one first, `sim_t` is absent and `sim_m` alone chooses: `n_without_sim_t` counts those queries, and a run with the
    new alpha settles them.

    Args:
        tune: The records of a run, as `records.read_lines` yields them.
        alphas: What to try for alpha, 0 to 1.
        betas: What to try for beta, 0 to 1.
        tune_split: What the split of `tune` is called.
        report: The records of a run on another split.
        report_split: What that split is called.
        out: A folder for `sweep.json` and `sweep.png`.

    Raises:
        ValueError: No records, an empty grid, or a report on the split, or on a query, that the choice was made on.
    """
    if not alphas or not betas:
        raise ValueError("alphas and betas need at least one value each")
    if report is not None and report_split in (None, tune_split):
        raise ValueError(f"report_split: {report_split!r} names no other split than {tune_split!r}, which chose them")
    tuning = [_scores(line) for line in tune]
    by_alpha = [{"alpha": alpha, **_entity_figures(tuning, alpha)} for alpha in alphas]
    alpha = max(by_alpha, key=lambda row: (row["recall@1"], row["mrr"], -row["alpha"]))["alpha"]
    by_beta = [{"beta": beta, **_section_figures(tuning, alpha, beta)} for beta in betas]
    beta = max(by_beta, key=lambda row: (row["section_recall@1"] or 0.0, -row["beta"]))["beta"]
    table: dict[str, Any] = {"tuned_on": tune_split, "alpha": alpha, "beta": beta}
    table |= {"by_alpha": by_alpha, "by_beta": by_beta}
    if report is not None:
        held_out = [_scores(line) for line in report]
        shared = {scores.asked for scores in tuning} & {scores.asked for scores in held_out}
        if shared:
            raise ValueError(
                f"{report_split!r} and {tune_split!r} share {len(shared)} queries, {min(shared)!r} for one"
            )
        figures = _entity_figures(held_out, alpha) | _section_figures(held_out, alpha, beta)
        table["reported"] = {"split": report_split, **figures}
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / "sweep.json", json.dumps(table, indent=2, ensure_ascii=False).encode() + b"\n")
        _draw(table, out / "sweep.png")
    return table


def _scores(line: Line) -> _Scores:
    found = {candidate["entity"]: candidate for candidate in line["candidates"]}
    order = [entity for entity, _ in ranked(line["rankings"].get("step1", [])) if entity in found]
    candidates = [found[entity] for entity in order or found]
    return _Scores(
        asked=(line["image_id"], line["question"]),  # ids count rows of a file: two files share them
        gold=frozenset(line["gold"]["entities"]),
        gold_section=line["gold"]["section"],
        entities=[candidate["entity"] for candidate in candidates],
        sim_c=[candidate["sim_c"] for candidate in candidates],
        sim_m=[candidate["sim_m"] for candidate in candidates],
        sections=[[(i, sim_m, sim_t) for i, sim_m, sim_t, _ in c["sections"]] for c in candidates],
    )


def _entity_figures(queries: Sequence[_Scores], alpha: float) -> dict[str, Any]:
    if not queries:
        raise ValueError("the run has no records; evaluate first")
    ranks = [rank_of(query.gold, _fused(query, alpha)) for query in queries]
    mrr = sum(1 / rank for rank in ranks if rank) / len(ranks)
    return {"n": len(ranks), "recall@1": recall_at_k(ranks, 1), "recall@5": recall_at_k(ranks, 5), "mrr": mrr}


def _section_figures(queries: Sequence[_Scores], alpha: float, beta: float) -> dict[str, Any]:
    labelled = [query for query in queries if query.gold_section is not None]
    right = without = 0
    for query in labelled:
        if not query.entities:
            continue
        top = ranked(_fused(query, alpha))[0][0]
        sections = query.sections[query.entities.index(top)]
        if not sections:
            continue
        without += all(sim_t is None for _, _, sim_t in sections)
        fused = fuse([sim_m for _, sim_m, _ in sections], [sim_t for _, _, sim_t in sections], beta)
        best = sections[max(range(len(fused)), key=fused.__getitem__)][0]
        right += top in query.gold and best == query.gold_section
    share = right / len(labelled) if labelled else None
    return {"n_with_section": len(labelled), "section_recall@1": share, "n_without_sim_t": without}


def _fused(query: _Scores, alpha: float) -> list[tuple[str, float]]:
    return list(zip(query.entities, fuse(query.sim_c, query.sim_m, alpha), strict=True))


def _draw(table: Mapping[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    panels = [
        ("alpha", "\N{GREEK SMALL LETTER ALPHA}", "recall@1", "Recall@1 after step 2"),
        ("beta", "\N{GREEK SMALL LETTER BETA}", "section_recall@1", "section recall@1"),
    ]
    for position, (key, symbol, measure, title) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, 2, position)
        rows = sorted((row for row in table[f"by_{key}"] if row[measure] is not None), key=lambda row: row[key])
        axes.plot([row[key] for row in rows], [row[measure] for row in rows], color="#2f6f8f", marker="o", markersize=4)
        axes.axvline(table[key], color="#9aa5b1", linewidth=1, linestyle=":")
        axes.set(xlabel=f"{symbol} (chosen: {table[key]:g})", title=f"{title} on {table['tuned_on']}")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    partial = path.with_name(path.name + ".partial")
    figure.savefig(partial, format="png", dpi=120)
    partial.replace(path)
