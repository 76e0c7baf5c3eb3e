"""Builds by keywords: the settings of an index beside what is built from and with."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from indexes.builder import build
from indexes.builder.plan import BuildPlan, IndexDesign
from indexes.knowledge.article_source import KnowledgeArticles
from indexes.knowledge.knowledge_base import KnowledgeBase, image_source
from indexes.store.index import Index
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer

_SETTINGS, _READING = ({field.name for field in fields(kind)} for kind in (IndexDesign, KnowledgeBase))


def plan(kb: Path, images: Path | None, out: Path, **options: Any) -> BuildPlan:
    """Returns a plan; `options` are attributes of `BuildPlan`, `IndexDesign` and `KnowledgeBase`, and `sections`.

    That is the model of the column of sections. Without others, the models are fakes.
    """
    models: dict[str, Any] = {"summarizer": FakeSummarizer(), "encoder": FakeEncoder(), "fusion": FakeFusion()}
    if (sections := options.pop("sections", None)) is not None:
        options["columns"] = {"sections": sections}
    design = {name: options.pop(name) for name in _SETTINGS & options.keys()}
    reading = {name: options.pop(name) for name in _READING & options.keys()}
    articles = KnowledgeArticles(KnowledgeBase(kb=kb, images=images, **reading))
    return BuildPlan(articles=articles, out=out, design=IndexDesign(**design), **models | options)


def build_index(kb: Path, images: Path | None, out: Path, **options: Any) -> Index:
    """Builds an index."""
    return build.build_index(plan(kb, images, out, **options))


def indexed(kb: Path, images: Path | None = None, *, out: Path | None = None, **options: Any) -> dict[str, Any]:
    """Returns the articles of a knowledge base by its index, built beside it, and their images: what trainings read."""
    out = out or kb.with_name(f"{kb.name}-index")
    source = image_source(images, kb, options.get("kb_format"))
    return {"index": build_index(kb, images or kb, out, **{"fusion": None} | options), "originals": source}
