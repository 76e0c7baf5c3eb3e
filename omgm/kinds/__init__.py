"""The kinds of parts that a profile names, by settings called `kind`: each is a function that makes one.

They are imported when a profile names them, so that one model needs the code of no other. A package adds a kind by an
entry point in the group of the setting:

    [project.entry-points."omgm.rerankers"]
    longest = "longest_section:LONGEST"

`--set sections.kind=longest` then takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import AfterValidator

from retriever.entry_points import named
from retriever.protocols import SectionEncoder, TextReranker

_OURS = {
    "omgm.encoders": {name: f"omgm.kinds.encoders:{name}" for name in ("clip", "qwen3_vl")}
    | {name: f"omgm.kinds.served:{name}" for name in ("vllm", "infinity")},
    "omgm.fusions": {"qformer": "omgm.kinds.encoders:qformer"},
    "omgm.steps": {name: f"omgm.kinds.steps:{name}_step" for name in ("search", "fusion", "sections")}
    | {name: f"omgm.kinds.chat_steps:{name}_step" for name in ("identify", "inspect", "rewrite")}
    | {"manifold": "omgm.kinds.more_steps:manifold_step", "rerank-vl": "omgm.kinds.more_steps:rerank_vl_step"},
    "omgm.rerankers": {
        name: f"omgm.kinds.sections:{name.upper()}" for name in ("bm25", "hybrid", "cross_encoder", "flag")
    }
    | {name: f"omgm.kinds.served:{name.upper()}" for name in ("rerank", "tei")},
    "omgm.engines": dict.fromkeys(("auto", "flat", "sq8", "hnsw", "ivf-pq", "milvus", "lancedb"), ""),
    "omgm.summarizers": {"extractive": "omgm.kinds.extractive:summarizer", "openai": "omgm.kinds.chat:summarizer"},
    "omgm.generators": {"extractive": "omgm.kinds.extractive:generator", "openai": "omgm.kinds.chat:generator"},
    "omgm.guards": {"plain": "generators.guard:GuardedGenerator", "words": "generators.quoting:QuotingGenerator"},
    "omgm.questions": {"texts": "omgm.kinds.texts:mixed_retrieval", "parts": "omgm.kinds.front:mixed_retrieval"},
    "omgm.indexes": {"parts": "omgm.kinds.front:Front"},
    "omgm.builders": {"files": "omgm.indexing:build_with_progress"},
}
"""This project's kinds by their groups and names.

`omgm.rerankers` are `SectionKind`; others are functions: `omgm.steps` of `StepParts` and their own settings,
`omgm.encoders` and `omgm.fusions` of a profile and an image cache or `None`, `omgm.summarizers` of a profile,
`omgm.generators` also of whether other processes compute for a `serving.lanes.BatchedGenerator`. `omgm.guards` is what
a generator is behind, `omgm.questions` answers those without an image, `omgm.indexes` opens an index in parts,
`OMGM.build` calls a builder.
"""


@dataclass(frozen=True, slots=True)
class SectionKind:
    """A kind of model for step 3.

    Attributes:
        reranker: Makes the reranker of a profile.
        encoder: Makes the encoder of sections whose vectors an index stores for it, if it compares vectors.
    """

    reranker: Callable[..., TextReranker]
    encoder: Callable[..., SectionEncoder] | None = None


def kind_of(group: str, name: str) -> Any:
    """Returns the kind with a name in a group.

    Raises:
        ValueError: There is none, or it cannot be imported.
    """
    return named(group, name, _OURS[group], object)


def known_in(group: str) -> AfterValidator:
    """Returns a validator of settings: the value must be the name of a kind of the group."""

    def check(name: str) -> str:
        if name not in _OURS[group]:  # those of other packages are looked up, which takes some milliseconds
            kind_of(group, name)
        return name

    return AfterValidator(check)


def in_parts(folder: Path) -> bool:
    """Returns whether an index is not in a folder, but at the addresses of its parts: `http://HOST:PORT,http://…`."""
    return folder.parts[:1] in (("http:",), ("https:",))
