"""Builds by keywords: the settings of an index beside what is built from and with."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from indexes.builder import build
from indexes.builder.plan import BuildPlan, IndexDesign
from indexes.knowledge.article_source import KnowledgeArticles
from indexes.knowledge.knowledge_base import KnowledgeBase
from indexes.store.index import Index

_SETTINGS, _READING = ({field.name for field in fields(kind)} for kind in (IndexDesign, KnowledgeBase))


def plan(kb: Path, images: Path | None, out: Path, **options: Any) -> BuildPlan:
    """Returns a plan; `options` are attributes of `BuildPlan`, `IndexDesign` and `KnowledgeBase`."""
    design = {name: options.pop(name) for name in _SETTINGS & options.keys()}
    reading = {name: options.pop(name) for name in _READING & options.keys()}
    articles = KnowledgeArticles(KnowledgeBase(kb=kb, images=images, **reading))
    return BuildPlan(articles=articles, out=out, design=IndexDesign(**design), **options)


def build_index(kb: Path, images: Path | None, out: Path, **options: Any) -> Index:
    """Builds an index."""
    return build.build_index(plan(kb, images, out, **options))
