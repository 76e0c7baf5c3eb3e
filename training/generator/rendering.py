"""Renders samples as tokens: the prompt exactly as a server receives and renders it, then the answer to learn.

The messages are those of `ChatGenerator`, rendered with the model's own chat template and tokenized without special
tokens beyond the template's, as vLLM does for `POST /v1/chat/completions`. Images are processed as in a request, too:
shrunk and encoded as JPEG in the data URI of the message.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from transformers import AutoConfig, AutoProcessor, AutoTokenizer
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

from chat_models.context import Cut, cut_characters, token_cut
from chat_models.messages import Message, without_system_role
from chat_models.prompts import Style
from generators.chat import request_messages
from retriever.images import load_image
from retriever.models.pretrained import check_words
from retriever.types import GenerationRequest
from training.generator.samples import GeneratorSample

IGNORED = -100
"""The label of tokens that are not learned, as in PyTorch's cross-entropy and transformers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSettings:
    """How the generator is prompted; the settings with the same names in a profile's `[generator]`.

    Attributes:
        style: The data set whose prompt from the paper is used.
        multimodal: Whether the image is sent.
        system_role: Whether the chat template accepts a system message.
        max_context_tokens: Longest section text in tokens.
    """

    style: Style = "evqa"
    multimodal: bool = False
    system_role: bool = True
    max_context_tokens: int = 3072


def reads_images(config: Any) -> bool:
    """Returns whether a transformers configuration is that of a model that reads images."""
    return type(config) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING


class Renderer:
    """Renders samples for one model.

    Args:
        folder: The model's folder.
        settings: How the generator is prompted.
        max_tokens: Longest sample in tokens; `None` is the model's limit.

    Raises:
        ValueError: The model has no chat template or no end-of-text token, a token has no row in its embedding, or it
            reads no images although `settings.multimodal` is set.
    """

    def __init__(self, folder: Path, settings: PromptSettings, max_tokens: int | None = None) -> None:
        config = AutoConfig.from_pretrained(folder)
        self._processor: Any = AutoProcessor.from_pretrained(folder) if reads_images(config) else None
        self._tokenizer: Any = self._processor.tokenizer if self._processor else AutoTokenizer.from_pretrained(folder)
        check_words(folder, self._tokenizer, config.get_text_config().vocab_size)
        if (self._processor or self._tokenizer).chat_template is None:
            raise ValueError(f"{folder}: has no chat template; use the instruction-tuned model")
        if settings.multimodal and self._processor is None:
            raise ValueError(
                f"{folder}: a {config.model_type} model reads no images, but generator.multimodal is true; use "
                "another base, or pass --set generator.multimodal=false"
            )
        if self._tokenizer.eos_token is None:
            raise ValueError(f"{folder}: its tokenizer has no eos_token, so the model could not learn where to stop")
        self._arguments = (folder, settings, max_tokens)
        self._folder, self._settings = folder, settings
        self._cut: Cut = token_cut(folder) if (folder / "tokenizer.json").is_file() else cut_characters
        self._max_tokens = max_tokens or config.get_text_config().max_position_embeddings
        self._image_token = getattr(config, "image_token_id", None)

    def __reduce__(self) -> tuple[type[Renderer], tuple[Path, PromptSettings, int | None]]:
        """Lets a process that loads images create its own renderer."""
        return Renderer, self._arguments

    @property
    def pad_token(self) -> int:
        """Id of the token that pads batches; padded positions are masked."""
        pad = self._tokenizer.pad_token_id
        return int(self._tokenizer.eos_token_id if pad is None else pad)

    def messages(self, sample: GeneratorSample, max_context_tokens: int | None = None) -> list[Message]:
        """Returns the messages that `ChatGenerator` sends for a sample."""
        settings = self._settings
        limit = settings.max_context_tokens if max_context_tokens is None else max_context_tokens
        image = load_image(sample.image) if settings.multimodal and sample.image is not None else None
        request = GenerationRequest(sample.question, image, sample.evidence)
        messages, _ = request_messages(request, settings.style, settings.multimodal, limit, self._cut)
        return messages if settings.system_role else without_system_role(messages)

    def __call__(self, sample: GeneratorSample) -> dict[str, Tensor]:
        """Returns the model's inputs for a sample, with batch size 1 and "labels".

        If a sample exceeds `max_tokens`, the end of its section is cut, never a token of the image or the answer.

        Raises:
            ValueError: The image cannot be read, the prompt has no image token, or the sample is too long even without
                its section.
        """
        limit = self._settings.max_context_tokens
        while True:
            inputs = self._render(sample, limit)
            length = inputs["input_ids"].shape[1]
            if length <= self._max_tokens:
                return inputs
            if limit == 0:
                raise ValueError(
                    f"{sample.id}: without its section the sample still has {length} tokens, more than "
                    f"{self._max_tokens}; raise max_tokens or leave the question out"
                )
            used = min(limit, len(self._ids(sample.evidence.text)))
            limit = max(0, used - (length - self._max_tokens))

    def _render(self, sample: GeneratorSample, max_context_tokens: int) -> dict[str, Tensor]:
        messages = self.messages(sample, max_context_tokens)
        parts, images = _as_template(messages, parts=self._processor is not None)
        prompt = self._template(parts, add_generation_prompt=True)
        inputs = self._prompt_inputs(prompt, images)
        if images and (self._image_token is None or not bool((inputs["input_ids"] == self._image_token).any())):
            raise ValueError(
                f"{sample.id}: the prompt has no image token, so the model would not see the image: the chat template "
                f"of {self._folder} ignores images; use a base with a multimodal one"
            )
        answer = torch.tensor([self._answer(parts, prompt, sample.answer)])
        length = inputs["input_ids"].shape[1]
        # Masks and token types, whatever their names, are extended with the values for text.
        ends = {"input_ids": answer, "attention_mask": torch.ones_like(answer)}
        extended = {
            name: torch.cat([value, ends.get(name, torch.zeros_like(answer))], 1)
            if value.shape == (1, length)
            else value
            for name, value in inputs.items()
        }
        labels = torch.cat([torch.full((1, length), IGNORED), answer], 1)
        return {**extended, "labels": labels}

    def _template(self, messages: list[Message], *, add_generation_prompt: bool) -> str:
        renderer = self._processor or self._tokenizer
        text = renderer.apply_chat_template(messages, tokenize=False, add_generation_prompt=add_generation_prompt)
        return str(text)

    def _prompt_inputs(self, prompt: str, images: list[Image.Image]) -> dict[str, Tensor]:
        if images:
            inputs = self._processor(text=[prompt], images=[images], add_special_tokens=False, return_tensors="pt")
        else:
            inputs = self._tokenizer([prompt], add_special_tokens=False, return_tensors="pt")
        return dict(inputs)

    def _answer(self, messages: list[Message], prompt: str, answer: str) -> list[int]:
        """Returns the tokens of the answer, up to and including the one that ends it."""
        content: Any = [{"type": "text", "text": answer}] if self._processor else answer
        whole = self._template([*messages, {"role": "assistant", "content": content}], add_generation_prompt=False)
        if not whole.startswith(prompt):
            raise ValueError(f"{self._folder}: its chat template does not continue the prompt that it renders")
        rest, end, _ = whole[len(prompt) :].partition(self._tokenizer.eos_token)
        # Some templates, such as LLaVA-1.5's, end an answer with a space.
        text = rest + end if end else rest.rstrip() + self._tokenizer.eos_token
        tokens, before = self._ids(prompt + text), self._ids(prompt)
        # When tokenizing the whole text, a tokenizer adds no space before the answer. If it merges characters of prompt
        # and answer, the prompt keeps the server's tokenization.
        return tokens[len(before) :] if tokens[: len(before)] == before else self._ids(text)

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])


class Collator:
    """Renders samples as one batch, padded on the right.

    Args:
        renderer: Renders each sample.
    """

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def __call__(self, samples: Sequence[GeneratorSample]) -> dict[str, Tensor]:
        """Returns the model's inputs for `samples`."""
        rows = [self._renderer(sample) for sample in samples]
        lengths = [row["input_ids"].shape[1] for row in rows]
        fill = {"input_ids": self._renderer.pad_token, "labels": IGNORED}

        def padded(name: str, value: Tensor, length: int) -> Tensor:
            if value.shape != (1, length):  # pixels, not tokens
                return value
            return torch.nn.functional.pad(value, (0, max(lengths) - length), value=fill.get(name, 0))

        names = dict.fromkeys(name for row in rows for name in row)
        return {
            name: torch.cat([padded(name, row[name], n) for row, n in zip(rows, lengths, strict=True) if name in row])
            for name in names
        }


def _as_template(messages: Sequence[Message], *, parts: bool) -> tuple[list[Message], list[Image.Image]]:
    """Returns OpenAI messages in the form that a chat template expects, and their images.

    Args:
        messages: The messages.
        parts: Whether the template expects all content as a list of parts, as those of multimodal models do.
    """
    images: list[Image.Image] = []
    converted: list[Message] = []
    for message in messages:
        content = message["content"]
        if parts and isinstance(content, str):
            content = [{"type": "text", "text": content}]
        elif not isinstance(content, str):
            for part in content:
                if part["type"] == "image_url":
                    images.append(load_image(base64.b64decode(part["image_url"]["url"].partition(",")[2])))
            content = [{"type": "image"} if part["type"] == "image_url" else part for part in content]
        converted.append({"role": message["role"], "content": content})
    return converted, images
