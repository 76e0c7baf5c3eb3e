"""The prompts match the paper's Tables 16 and 17, for each kind of model."""

from __future__ import annotations

import pytest
from PIL import Image

from chat_models.prompts import Style, answer_messages

IMAGE = Image.new("RGB", (8, 8))


def test_evqa_text_only() -> None:
    system, user = answer_messages("How tall is it?", "# Wiki Article: Fir\n## Section Title: Fir\nIt is tall.")
    assert system == {
        "role": "system",
        "content": "You are a helpful assistant for answering encyclopedic questions.\n"
        "If the context does not contain the information required to answer the question, you should answer the "
        "question using internal model knowledge.",
    }
    assert user == {
        "role": "user",
        "content": "- Context: # Wiki Article: Fir\n## Section Title: Fir\nIt is tall.\n- Question: How tall is it?\n"
        "The answer is:",
    }


def test_evqa_multimodal() -> None:
    system, user = answer_messages("How tall is it?", "Fir.", [IMAGE])
    assert system["content"].startswith("Answer the encyclopedic question about the given image.")
    assert "Don't mention the visual content" in system["content"]
    assert "You are a helpful assistant" not in system["content"]
    image, text = user["content"]
    assert image["type"] == "image_url"
    assert text == {"type": "text", "text": "- Context: Fir.\n- Question: How tall is it?\nThe answer is:"}


@pytest.mark.parametrize("image", [None, IMAGE])
def test_infoseek_has_rules_and_one_example(image: Image.Image | None) -> None:
    system, user = answer_messages("How tall is it?", "Fir.", [] if image is None else [image], "infoseek")
    assert "corresponding numerical format directly" in system["content"]
    assert system["content"].count("- Question:") == 1
    assert system["content"].endswith("Short answer is: Province of Belluno")
    assert ("Do not answer anything else." in system["content"]) == (image is None)
    assert ("about the given image" in system["content"]) == (image is not None)
    text = user["content"] if image is None else user["content"][-1]["text"]
    assert text.endswith("Just answer the questions , no explanations needed. Short answer is:")


def test_without_context() -> None:
    """As in OMGM's published code: one prompt for both data sets, and no context in what multimodal models are told."""
    styles: tuple[Style, ...] = ("evqa", "infoseek")
    for style in styles:
        system, user = answer_messages("Who?", None, style=style)
        assert user["content"] == "- Question: Who?\nThe answer is:"
        assert "If the context does not contain" in system["content"]
        system, user = answer_messages("Who?", None, [IMAGE], style)
        assert user["content"][1]["text"] == "- Question: Who?\nThe answer is:"
        assert "context" not in system["content"].lower() and system["content"].startswith("Answer the encyclopedic")
        assert ("numerical format" in system["content"]) == (style == "infoseek")


def test_unknown_style() -> None:
    with pytest.raises(ValueError, match="style"):
        answer_messages("Who?", None, style="okvqa")  # type: ignore[arg-type]
