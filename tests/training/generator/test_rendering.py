"""Training renders what serving sends: the same messages with the model's own template; only the answer is learned."""

from __future__ import annotations

import io
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from transformers import AutoProcessor, AutoTokenizer

from chat_models.chat import ChatClient
from chat_models.context import token_cut
from generators.chat import ChatGenerator
from retriever.images import load_image
from retriever.types import Evidence, GenerationRequest
from tests.fakes.chat_checkpoints import LLAMA3_TEMPLATE, write_llama, write_llava
from tests.fakes.chat_server import FakeChatServer
from training.generator.rendering import IGNORED, Collator, PromptSettings, Renderer
from training.generator.samples import GeneratorSample

TEXT_ONLY, MULTIMODAL = PromptSettings(), PromptSettings(multimodal=True)
SYSTEM = (
    "You are a helpful assistant for answering encyclopedic questions.\nIf the context does not contain the "
    "information required to answer the question, you should answer the question using internal model knowledge."
)
LOOK = (
    "Answer the encyclopedic question about the given image. Don't mention the visual content of image in your output. "
    "Directly output the answer of the question according to the context.\nIf the context does not contain the "
    "information required to answer the question, you should answer the question using internal model knowledge."
)
USER = (
    "- Context: # Wiki Article: Redland\n## Section Title: Wave\nThe wave length is 700 nm.\n"
    "- Question: What is the wave length?\nThe answer is:"
)

ASSISTANT = "<|start_header_id|>assistant<|end_header_id|>\n\n"


def text_of(folder: Path, ids: torch.Tensor) -> str:
    return str(AutoTokenizer.from_pretrained(folder).decode(ids))


@pytest.mark.parametrize(
    "settings",
    [
        TEXT_ONLY,
        MULTIMODAL,
        PromptSettings(style="infoseek", system_role=False),
        PromptSettings(style="infoseek", multimodal=True, system_role=False),
        PromptSettings(max_context_tokens=9),
    ],
)
async def test_the_messages_are_those_of_the_generator(
    llava: Path, given: list[GeneratorSample], settings: PromptSettings
) -> None:
    sample = given[2]
    assert sample.image is not None
    request = GenerationRequest(sample.question, load_image(sample.image), sample.evidence)
    with FakeChatServer() as server:
        async with ChatClient(server.url, "good", system_role=settings.system_role) as client:
            chat = ChatGenerator(
                client,
                settings.style,
                settings.multimodal,
                max_context_tokens=settings.max_context_tokens,
                cut=token_cut(llava),
            )
            await chat.generate([request])
    assert server.bodies[0]["messages"] == Renderer(llava, settings).messages(sample)


def test_a_text_only_sample(llama: Path, given: list[GeneratorSample]) -> None:
    inputs = Renderer(llama, TEXT_ONLY)(given[2])
    prompt = (
        f"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{SYSTEM}<|eot_id|>"
        f"<|start_header_id|>user<|end_header_id|>\n\n{USER}<|eot_id|>"
        f"{ASSISTANT}"
    )
    assert text_of(llama, inputs["input_ids"][0]) == f"{prompt}700 nm<|eot_id|>"
    # a token per byte, one for each of the ten special ones
    assert inputs["input_ids"].shape == inputs["attention_mask"].shape == (1, _tokens(prompt) + 7)
    learned = inputs["labels"][0] != IGNORED
    assert learned.nonzero().flatten().tolist() == list(range(_tokens(prompt), _tokens(prompt) + 7))
    assert text_of(llama, inputs["labels"][0][learned]) == "700 nm<|eot_id|>"
    assert torch.equal(inputs["labels"][0][learned], inputs["input_ids"][0][learned])


def _tokens(text: str) -> int:
    for special in ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"):
        text = text.replace(special, "*")
    return len(text)


def test_the_prompt_is_what_transformers_itself_tokenizes(
    llama: Path, llava: Path, given: list[GeneratorSample]
) -> None:
    inputs = Renderer(llama, TEXT_ONLY)(given[0])
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": USER.replace("700", "7")}]
    tokenizer = AutoTokenizer.from_pretrained(llama)
    ids: Any = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert inputs["input_ids"][0, : len(ids)].tolist() == ids

    inputs = Renderer(llava, MULTIMODAL)(given[0])
    image = Image.open(str(given[0].image))
    parts = [
        {"role": "system", "content": [{"type": "text", "text": LOOK}]},
        {
            "role": "user",
            "content": [{"type": "image", "image": image}, {"type": "text", "text": USER.replace("700", "7")}],
        },
    ]
    expected = AutoProcessor.from_pretrained(llava).apply_chat_template(
        parts, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
    )
    length = expected["input_ids"].shape[1]
    assert torch.equal(inputs["input_ids"][:, :length], expected["input_ids"])


def test_a_multimodal_sample_has_its_image_tokens(llava: Path, given: list[GeneratorSample]) -> None:
    inputs = Renderer(llava, MULTIMODAL)(given[2])
    text = text_of(llava, inputs["input_ids"][0])
    # (24 / 4) ** 2 patches; LLaMA 2's tokenizer starts every stretch between special tokens with a space
    image = "<image>" * 36
    assert text == f" {LOOK} USER: {image} \n{USER} ASSISTANT: 700 nm</s>"
    learned = inputs["labels"][0].ne(IGNORED)
    assert learned.sum() == 8 and learned[-8:].all()  # a space, which the model must write too, and the end
    pieces = AutoTokenizer.from_pretrained(llava).convert_ids_to_tokens(inputs["labels"][0][learned].tolist())
    assert pieces == ["▁", "7", "0", "0", "▁", "n", "m", "</s>"]
    assert inputs["pixel_values"].shape == (1, 3, 24, 24)


def test_pixels_are_those_that_a_server_gets(llava: Path, tmp_path: Path, given: list[GeneratorSample]) -> None:
    photo = Image.effect_noise((1500, 700), 80).convert("RGB")
    photo.save(tmp_path / "noise.png")
    pixels = Renderer(llava, MULTIMODAL)(replace(given[0], image=str(tmp_path / "noise.png")))["pixel_values"]
    sent = io.BytesIO()
    photo.thumbnail((1024, 1024))
    photo.save(sent, "JPEG", quality=90)
    expected = AutoProcessor.from_pretrained(llava).image_processor(Image.open(sent), return_tensors="pt")
    assert torch.equal(pixels, expected["pixel_values"])


def test_published_sizes_give_576_image_tokens(tmp_path: Path, given: list[GeneratorSample]) -> None:
    folder = write_llava(tmp_path, side=336, patch=14)
    inputs = Renderer(folder, MULTIMODAL)(given[0])
    image: Any = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids("<image>")
    assert int(inputs["input_ids"].eq(image).sum()) == 576


def test_a_multimodal_model_can_learn_from_text_alone(llava: Path, given: list[GeneratorSample]) -> None:
    inputs = Renderer(llava, TEXT_ONLY)(given[2])
    assert text_of(llava, inputs["input_ids"][0]) == f" {SYSTEM} USER: {USER} ASSISTANT: 700 nm</s>"
    assert set(inputs) == {"input_ids", "attention_mask", "labels"}


def test_a_prompt_without_image_tokens_is_an_error(
    tmp_path: Path, llava: Path, given: list[GeneratorSample], monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer = Renderer(llava, MULTIMODAL)
    # As in the paper's published code: text and image reach the model, but the text does not mention the image.
    lost = renderer._processor.tokenizer([f"{LOOK} USER: {USER} ASSISTANT:"], return_tensors="pt")
    monkeypatch.setattr(renderer, "_prompt_inputs", lambda prompt, images: dict(lost))
    with pytest.raises(ValueError, match=r"^q0: the prompt has no image token, so the model would not see the image"):
        renderer(given[0])

    blind = "{% for message in messages %}{% for p in message['content'] %}{{ p['text'] }}{% endfor %}{% endfor %}"
    with pytest.raises(ValueError, match=r"0 <image> tokens and 1 images"):  # transformers' own check
        Renderer(write_llava(tmp_path, template=blind), MULTIMODAL)(given[0])


def test_a_base_that_does_not_fit_is_an_error(tmp_path: Path, llama: Path, given: list[GeneratorSample]) -> None:
    with pytest.raises(ValueError, match=r"a llama model reads no images, but generator\.multimodal is true"):
        Renderer(llama, MULTIMODAL)
    with pytest.raises(ValueError, match="has no chat template; use the instruction-tuned model"):
        Renderer(write_llama(tmp_path / "base", template=None), TEXT_ONLY)
    backward = "{% for message in messages | reverse %}{{ message['content'] }}{% endfor %}"
    with pytest.raises(ValueError, match="does not continue the prompt"):
        Renderer(write_llama(tmp_path / "odd", template=backward), TEXT_ONLY)(given[0])


def test_what_follows_the_end_of_the_answer_is_not_learned(tmp_path: Path, given: list[GeneratorSample]) -> None:
    template = LLAMA3_TEMPLATE.replace("{% endfor %}", "{{ '\\n' }}{% endfor %}", 1)
    inputs = Renderer(write_llama(tmp_path, template=template), TEXT_ONLY)(given[2])
    assert text_of(tmp_path, inputs["input_ids"][0]).endswith(f"{USER}<|eot_id|>\n{ASSISTANT}700 nm<|eot_id|>")


def test_a_long_section_is_cut_and_nothing_else(llama: Path, given: list[GeneratorSample]) -> None:
    section = replace(given[2].evidence, text="Wavy. " * 400)
    sample = replace(given[2], evidence=section)
    whole = Renderer(llama, TEXT_ONLY)(given[2])["input_ids"].shape[1]
    fixed = whole - len(given[2].evidence.text)
    inputs = Renderer(llama, TEXT_ONLY, max_tokens=fixed + 100)(sample)
    # 100 bytes of the section are 16 times "Wavy. " and "Wavy"
    text = text_of(llama, inputs["input_ids"][0])
    assert f"\n{'Wavy. ' * 16}Wavy\n- Question: What is the wave length?" in text
    assert inputs["input_ids"].shape[1] == fixed + 100 and text.endswith("\n\n700 nm<|eot_id|>")
    # the limit of the prompt applies first, as at inference
    inputs = Renderer(llama, PromptSettings(max_context_tokens=4), max_tokens=fixed + 100)(sample)
    assert "\nWavy\n- Question" in text_of(llama, inputs["input_ids"][0])

    assert Renderer(llama, TEXT_ONLY, max_tokens=fixed)(sample)["input_ids"].shape[1] == fixed
    with pytest.raises(ValueError, match=f"q2: without its section the sample still has {fixed} tokens, more than"):
        Renderer(llama, TEXT_ONLY, max_tokens=fixed - 1)(sample)


def test_the_models_own_length_is_the_default(tmp_path: Path, given: list[GeneratorSample]) -> None:
    renderer = Renderer(write_llama(tmp_path, positions=420), TEXT_ONLY)
    sample = replace(given[0], evidence=Evidence("e", "Redland", "Wave", "x" * 1000))
    assert renderer(sample)["input_ids"].shape[1] == 420


def test_another_process_renders_the_same(llava: Path, given: list[GeneratorSample]) -> None:
    renderer = Renderer(llava, MULTIMODAL, max_tokens=600)
    there = pickle.loads(pickle.dumps(renderer))  # as DataLoader passes it to a process that it does not fork
    here, sent = renderer(given[0]), there(given[0])
    assert here.keys() == sent.keys() and all(torch.equal(here[name], sent[name]) for name in here)


def test_batches_are_filled_up_on_the_right(llava: Path, given: list[GeneratorSample]) -> None:
    renderer = Renderer(llava, MULTIMODAL)
    alone = [renderer(sample) for sample in given[:3]]
    lengths = [inputs["input_ids"].shape[1] for inputs in alone]
    assert [length - lengths[0] for length in lengths] == [0, 2, 4]  # a digit more in the section and in the answer
    batch = Collator(renderer)(given[:3])
    pad = AutoTokenizer.from_pretrained(llava).pad_token_id
    assert batch["pixel_values"].shape == (3, 3, 24, 24)
    for row, (inputs, length) in enumerate(zip(alone, lengths, strict=True)):
        rest = lengths[2] - length
        assert batch["input_ids"][row].tolist() == inputs["input_ids"][0].tolist() + [pad] * rest
        assert batch["labels"][row].tolist() == inputs["labels"][0].tolist() + [-100] * rest
        assert batch["attention_mask"][row].tolist() == [1] * length + [0] * rest
