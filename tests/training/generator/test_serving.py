"""A trained model behind a real server gives the learned answers to our own generator."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path

import httpx
import pytest
from transformers import AutoTokenizer

from chat_models.chat import ChatClient
from chat_models.context import token_cut
from generators.chat import ChatGenerator
from retriever.files import write_lines
from retriever.types import Evidence, GenerationRequest
from tests.fakes.transformers_server import needs_server
from training.generator.config import GeneratorTrainingConfig
from training.generator.lora import load_base
from training.generator.rendering import IGNORED, PromptSettings, Renderer
from training.generator.samples import GeneratorSample
from training.generator.train import train_generator

pytest.importorskip("peft")
pytestmark = needs_server


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # asked for by peft 0.21
def test_the_generator_gets_the_answer_that_was_learned(llama: Path, transformers_server: str, tmp_path: Path) -> None:
    from peft import PeftModel

    evidence = Evidence("https://kb/blue", "Blueland", "Flag", "The flag of Blueland is of one color.")
    sample = GeneratorSample("q0", "What color is it?", "blue", evidence)
    write_lines(tmp_path / "samples.jsonl", [asdict(sample)])
    config = GeneratorTrainingConfig(steps=40, batch_size=1, accumulate=1, learning_rate=3e-2, rank=16, lora_alpha=32)
    train_generator(llama, tmp_path / "samples.jsonl", tmp_path / "out", PromptSettings(), config)
    # `transformers serve` does not load adapters, so it is merged into the weights.
    merged = PeftModel.from_pretrained(load_base(llama), tmp_path / "out" / "adapter").merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    AutoTokenizer.from_pretrained(llama).save_pretrained(tmp_path / "merged")

    async def answer() -> str | None:
        async with ChatClient(transformers_server, str(tmp_path / "merged")) as client:
            generator = ChatGenerator(client, max_tokens=16, cut=token_cut(llama))
            [generation] = await generator.generate([GenerationRequest(sample.question, None, evidence)])
            return generation.answer

    messages = Renderer(llama, PromptSettings()).messages(sample)
    body = {"model": str(tmp_path / "merged"), "messages": messages, "max_tokens": 1}
    usage = httpx.post(f"{transformers_server}/v1/chat/completions", json=body, timeout=30).json()["usage"]
    assert asyncio.run(answer()) == "blue"  # and it stops there
    learned = Renderer(llama, PromptSettings())(sample)["labels"].ne(IGNORED)
    assert usage["prompt_tokens"] == int((~learned).sum())
