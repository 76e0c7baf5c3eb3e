"""Finds alpha and beta from the records of a run (`omgm sweep`) by fusing its scores again, without running a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from evaluation.metrics import percent, rank_of, ranked, recall_at_k
from evaluation.records import QueryRecord, SectionRecord
from retriever.files import replacing, write_json
from retriever.fusion import WORDS, choose_weight, fuse
from retriever.wording import counted

WORD_WEIGHTS = [number / 20 for number in range(21)]
FEWEST_READ = 20
"""With fewer queries with words, the weight of words would be chance."""


@dataclass(frozen=True, slots=True)
class _Scores:
    """The scores of one record; lists run over the candidates of step 1, best first."""

    asks: tuple[str, str]
    image: str  # the name of its content
    gold: frozenset[str]
    gold_section: int | None
    entities: list[str]
    sim_c: list[float | None]
    sim_m: list[float | None]
    sim_w: list[float]
    sections: list[Sequence[SectionRecord]]


def sweep(
    tune: Iterable[QueryRecord],
    alphas: Sequence[float],
    betas: Sequence[float],
    *,
    tune_split: str,
    words: float = WORDS,
    report: Iterable[QueryRecord] | None = None,
    report_split: str | None = None,
    out: Path | None = None,
    contents: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Finds alpha, the weight of words and beta and, with `report`, the metrics they reach on another split.

    Alpha is chosen by Recall@1 after step 2, then the weight of words by that of queries whose images were
    read, then beta by section recall@1. Each is the middle of the values within one standard error of the best
    (`retriever.fusion.choose_weight`). Beta is `None` if no query has a labeled section.

    Step 3 scored only the sections of the entity that the run ranked first. If a different alpha ranks another entity
    first, `sim_t` is missing and `sim_m` alone chooses the section; `n_without_sim_t` counts these queries. For exact
    figures, make a run with the new alpha.

    Args:
        tune: The records of a run, as `records.read_records` yields them.
        alphas: Values of alpha to try, 0 to 1.
        betas: Values of beta to try, 0 to 1.
        tune_split: Name of the split of `tune`.
        words: The weight of words, unless there are `FEWEST_READ` queries with words to find a better one.
        report: The records of a run on another split.
        report_split: Name of that split.
        out: A folder for `sweep.json` and `sweep.png`.
        contents: A name for the content of each image, by its id, see `KnownImages.names`; by default the id.

    Returns:
        The content of `sweep.json`: the choice, and a row for each alpha and each beta.

    Raises:
        ValueError: There are no records, no query has candidates, a grid is empty, or `report` has the name or a query
            of the tuning split.
    """
    if not alphas or not betas:
        raise ValueError("alphas and betas need at least one value each")
    if report is not None and report_split in (None, tune_split):
        raise ValueError(f"report_split must differ from the tuning split, {tune_split!r}")
    tuning = [_scores(record, contents) for record in tune]
    if tuning and not any(scores.entities for scores in tuning):
        raise ValueError(f"{tune_split}: no question has candidates, so there is nothing to tune on")
    by_alpha = [{"alpha": alpha, **_entity_figures(tuning, alpha, words)} for alpha in alphas]
    alpha = choose_weight({row["alpha"]: row["recall@1"] for row in by_alpha}, len(tuning))
    read = [scores for scores in tuning if any(scores.sim_w)]
    by_words = [{"words": weight, **_entity_figures(read, alpha, weight)} for weight in WORD_WEIGHTS] if read else []
    if len(read) >= FEWEST_READ:
        words = choose_weight({row["words"]: row["recall@1"] for row in by_words}, len(read))
    by_beta = [{"beta": beta, **_section_figures(tuning, alpha, beta, words)} for beta in betas]
    labeled = by_beta[0]["n_with_section"]
    beta = choose_weight({row["beta"]: row["section_recall@1"] for row in by_beta}, labeled) if labeled else None
    table: dict[str, Any] = {"tuned_on": tune_split, "alpha": alpha, "beta": beta, "words": words}
    table |= {"by_alpha": by_alpha, "by_words": by_words, "by_beta": by_beta}
    if report is not None:
        held_out = [_scores(record, contents) for record in report]
        tuned = {(scores.image, scores.asks[1]) for scores in tuning}
        shared = [scores.asks for scores in held_out if (scores.image, scores.asks[1]) in tuned]
        if shared:
            raise ValueError(
                f"{report_split!r} and {tune_split!r} share {counted(len(shared), 'query')}, such as {min(shared)!r}"
            )
        seen = {scores.image for scores in tuning}
        overlap = sum(scores.image in seen for scores in held_out) / len(held_out) if held_out else 0.0
        table["reported"] = {"split": report_split, **_entity_figures(held_out, alpha, words), "overlap": overlap}
        if beta is not None:
            table["reported"] |= _section_figures(held_out, alpha, beta, words)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "sweep.json", table)
        _draw(table, out / "sweep.png")
    return table


def as_text(table: Mapping[str, Any]) -> str:
    """Returns the tables of a sweep as text for the terminal, in percent."""
    lines = []
    read = sum(row["n"] for row in table["by_words"][:1])
    kinds = (("alpha", "recall@1", ""), ("words", "recall@1", f", {counted(read, 'query')} with words"))
    for key, measure, of in (*kinds[: 1 + bool(read)], ("beta", "section_recall@1", "")):
        lines.append(f"{key:>6}  {measure} in percent{of}")
        lines += [f"{row[key]:6.2f}  {percent(row[measure]):>5}" for row in table[f"by_{key}"]]
    if "reported" in table:
        reported = table["reported"]
        figures = [f"{name} {percent(reported.get(name))}" for name in ("recall@1", "recall@5", "section_recall@1")]
        lines.append(f"on {reported['split']}, {counted(reported['n'], 'query')}: {', '.join(figures)}")
        lines += [overlap] if (overlap := overlap_text(reported)) else []
    return "\n".join(lines)


def overlap_text(reported: Mapping[str, Any]) -> str:
    """Says what share of the reported queries has an image of the tuning split; "" if none has."""
    share = reported["overlap"]
    return f"{percent(share)} percent of these queries have an image of the tuning split" if share else ""


def _scores(record: QueryRecord, contents: Mapping[str, str]) -> _Scores:
    by_entity = {candidate.entity: candidate for candidate in record.candidates}
    order = [entity for entity, _ in ranked(record.rankings.get("step1", [])) if entity in by_entity]
    candidates = [by_entity[entity] for entity in order or by_entity]
    return _Scores(
        asks=record.asks,
        image=contents.get(record.image_id, record.image_id),
        gold=frozenset(record.gold.entities),
        gold_section=record.gold.section,
        entities=[candidate.entity for candidate in candidates],
        sim_c=[candidate.sim_c for candidate in candidates],
        sim_m=[candidate.sim_m for candidate in candidates],
        sim_w=[candidate.sim_w or 0.0 for candidate in candidates],
        sections=[candidate.sections for candidate in candidates],
    )


def _entity_figures(queries: Sequence[_Scores], alpha: float, words: float) -> dict[str, Any]:
    if not queries:
        raise ValueError("the run has no records; run omgm evaluate first")
    ranks = [rank_of(query.gold, _fused(query, alpha, words)) for query in queries]
    mrr = sum(1 / rank for rank in ranks if rank) / len(ranks)
    return {"n": len(ranks), "recall@1": recall_at_k(ranks, 1), "recall@5": recall_at_k(ranks, 5), "mrr": mrr}


def _section_figures(queries: Sequence[_Scores], alpha: float, beta: float, words: float) -> dict[str, Any]:
    labeled = [query for query in queries if query.gold_section is not None]
    right = without = 0
    for query in labeled:
        if not query.entities:
            continue
        top = ranked(_fused(query, alpha, words))[0][0]
        sections = query.sections[query.entities.index(top)]
        if not sections:
            continue
        without += all(section.sim_t is None for section in sections)
        best = best_section(sections, beta)
        right += top in query.gold and best == query.gold_section
    share = right / len(labeled) if labeled else None
    return {"n_with_section": len(labeled), "section_recall@1": share, "n_without_sim_t": without}


def best_section(sections: Sequence[SectionRecord], beta: float) -> int:
    """Returns the published number of the section that `beta` ranks first."""
    fused = fuse([section.sim_m for section in sections], [section.sim_t for section in sections], beta)
    return sections[max(range(len(fused)), key=fused.__getitem__)].index


def _fused(query: _Scores, alpha: float, words: float) -> list[tuple[str, float]]:
    fused = fuse(query.sim_c, query.sim_m, alpha)
    scores = [score + words * similar for score, similar in zip(fused, query.sim_w, strict=True)]
    return list(zip(query.entities, scores, strict=True))


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
        values = [100 * row[measure] for row in rows]
        axes.plot([row[key] for row in rows], values, color="#2f6f8f", marker="o", markersize=4)
        chosen = table[key]
        if chosen is not None:
            axes.axvline(chosen, color="#9aa5b1", linewidth=1, linestyle=":")
        axes.set(
            xlabel=symbol if chosen is None else f"{symbol} (chosen: {chosen:g})",
            title=f"{title} on {table['tuned_on']}, percent",
        )
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=120)
