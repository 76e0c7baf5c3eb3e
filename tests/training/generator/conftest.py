"""Fixtures for training the generator: two chat models, an image and samples."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from PIL import Image

from retriever.files import write_lines
from retriever.types import Evidence
from tests.fakes.chat_checkpoints import write_llama, write_llava
from training.generator.samples import GeneratorSample


@pytest.fixture(scope="package")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text-only model; tests write elsewhere."""
    return write_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="package")
def llava(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A multimodal model; tests write elsewhere."""
    return write_llava(tmp_path_factory.mktemp("llava"))


@pytest.fixture(scope="package")
def given(tmp_path_factory: pytest.TempPathFactory) -> list[GeneratorSample]:
    """Six samples with answers of different lengths that occur in their evidence."""
    image = tmp_path_factory.mktemp("images") / "red.png"
    Image.new("RGB", (50, 30), "red").save(image)
    return [
        GeneratorSample(
            f"q{number}",
            "What is the wave length?",
            f"{7 * 10**number} nm",
            Evidence("https://kb/red", "Redland", "Wave", f"The wave length is {7 * 10**number} nm."),
            str(image),
        )
        for number in range(6)
    ]


@pytest.fixture(scope="package")
def samples(tmp_path_factory: pytest.TempPathFactory, given: list[GeneratorSample]) -> Path:
    """The file with the samples."""
    path = tmp_path_factory.mktemp("samples") / "samples.jsonl"
    write_lines(path, map(asdict, given))
    return path
