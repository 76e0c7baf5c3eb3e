"""What needs no chat model: summaries and answers in the words of the articles."""

from __future__ import annotations

from generators.reader.reader import ExtractiveReader
from indexes.builder.summarizers import ExtractiveSummarizer
from omgm.settings import Profile


def summarizer(profile: Profile) -> ExtractiveSummarizer:
    """Creates a summarizer that extracts sentences."""
    return ExtractiveSummarizer(profile.summarizer.max_words)


def generator(profile: Profile, apart: bool) -> ExtractiveReader:
    """Creates a reader that quotes the section; without its weights if another process reads (`apart`)."""
    return ExtractiveReader(apart=apart)
