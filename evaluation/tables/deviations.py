"""Where a run's settings are not those of the paper, in words, to stand under its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PUBLISHED: Mapping[str, tuple[object, ...]] = {
    "encoder.model": ("BAAI/EVA-CLIP-8B",),
    "search.k": (20,),
    "search.candidates": ("summary",),
    "search.trim_borders": (False,),
    "fusion.tokens": ("float32", "float16"),
    "fusion.score_mode": ("compat",),
    "fusion.alpha": (0.9,),
    "sections.kind": ("cross_encoder", "flag"),
    "sections.model": ("BAAI/bge-reranker-v2-m3",),
    "sections.max_tokens": (6000,),
    "sections.beta": (0.2,),
    "summarizer.kind": ("openai",),
    "summarizer.model": ("meta-llama/Meta-Llama-3-8B-Instruct",),
    "generator.kind": ("openai",),
}
"""Settings of the paper and its code, by their names in a profile; any of several counts."""
_MODELS = ("encoder.model", "sections.model")


def setting_deviations(metrics: Mapping[str, Any]) -> list[str]:
    """Returns every point in which the settings of a run are not the paper's, such as "search.kind ivf-pq (flat)".

    Args:
        metrics: The `settings` and the `index` of a `metrics.json`.
    """
    settings = metrics.get("settings", {})
    said = []
    for key, published in PUBLISHED.items():
        section, _, name = key.partition(".")
        value = settings.get(section, {}).get(name)
        plain = str(value).partition("@")[0].rpartition("/")[2] if key in _MODELS else value
        accepted = [str(one).rpartition("/")[2] if key in _MODELS else one for one in published]
        if value is not None and plain not in accepted:
            said.append(f"{key} {_shown(plain)} ({_shown(accepted[0])})")
    search = (metrics.get("index", {}).get("search") or {}).get("kind") or settings.get("search", {}).get("kind")
    if search not in (None, "flat", "auto"):
        said.append(f"search.kind {search} (flat)")
    dtype = settings.get("sections", {}).get("dtype", "auto")
    dtype = settings.get("dtype") if dtype == "auto" else dtype
    if settings.get("sections", {}).get("kind") in PUBLISHED["sections.kind"] and dtype != "float32":
        said.append(f"sections.dtype {dtype} (float32)")
    return said


def deviation_note(name: str, metrics: Mapping[str, Any]) -> str:
    """Returns the deviations of a run as a sentence with the paper's values in brackets, "" if there are none."""
    said = setting_deviations(metrics)
    return f"{name}: not as in the paper (whose values are in brackets): {'; '.join(said)}." if said else ""


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
