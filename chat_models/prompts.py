"""The prompts of the paper's Tables 16 (E-VQA) and 17 (InfoSeek), as messages of the OpenAI API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from PIL import Image

from chat_models.messages import Message, image_part, text_part

Style = Literal["evqa", "infoseek"]
PUBLISHED: Mapping[str, Style] = {"evqa": "evqa", "evqa-all": "evqa", "infoseek": "infoseek"}
"""The prompt that the paper uses for each data set."""
TABLES: Mapping[Style, str] = {"evqa": "Table 16 (E-VQA)", "infoseek": "Table 17 (InfoSeek)"}
"""The prompts in words."""

_SEE = (  # multimodal models only
    "Answer the encyclopedic question about the given image. Don't mention the visual content of image in your output."
)
_ANSWER = "Directly output the answer of the question"
_LOOK = f"{_SEE} {_ANSWER} according to the context."
_HELP = "You are a helpful assistant for answering encyclopedic questions."  # text-only models only
_ONLY = " Do not answer anything else."
_FORMAT = (
    "If you need to answer questions about numbers or time, please output the corresponding numerical format directly."
)
_KNOWLEDGE = (
    "If the context does not contain the information required to answer the question, you should answer the question "
    "using internal model knowledge."
)
_SHORT = "Just answer the questions , no explanations needed. Short answer is:"
_EXAMPLE = f"""There is an example:
- Context: # Wiki Article: Dolomites
## Section Title: Dolomites
The Dolomites, also known as the Dolomite Mountains, Dolomite Alps or Dolomitic Alps, are a mountain range located in \
northeastern Italy. The Dolomites are located in the regions of Veneto, Trentino-Alto Adige/Südtirol and Friuli \
Venezia Giulia, covering an area shared between the provinces of Belluno, Vicenza, Verona, Trentino, South Tyrol, \
Udine and Pordenone.
- Question: Which city or region does this mountain locate in?
{_SHORT} Province of Belluno"""


def style_for(chosen: Style | Literal["auto"], dataset: str = "") -> Style:
    """Returns the prompt to use: the chosen one, or with "auto" that of the data set; Table 16 for all others."""
    return PUBLISHED.get(dataset, "evqa") if chosen == "auto" else chosen


def prompt_deviation(style: Style, dataset: str) -> dict[str, str]:
    """Returns a sentence by its short name if a data set is asked with another prompt than the paper's, else nothing.

    Example:
        >>> prompt_deviation("evqa", "infoseek")
        {'evqa-prompt': 'infoseek is asked with the prompt of Table 16 (E-VQA), not of Table 17 (InfoSeek).'}
    """
    published = PUBLISHED.get(dataset, style)
    if style == published:
        return {}
    return {f"{style}-prompt": f"{dataset} is asked with the prompt of {TABLES[style]}, not of {TABLES[published]}."}


def _system_prompt(style: Style, multimodal: bool, context: bool) -> str:
    """Returns the system prompt of a table (`style`) for a model that sees the image (`multimodal`) or does not.

    Without a context, multimodal models get the published code's prompt for that; text-only models the same prompt.
    """
    if multimodal and not context:
        return _SEE if style == "evqa" else f"{_SEE} {_ANSWER}.\n{_FORMAT}"
    if style == "evqa":
        return f"{_LOOK if multimodal else _HELP}\n{_KNOWLEDGE}"
    role = _LOOK if multimodal else _HELP + _ONLY
    return f"{role}\n{_FORMAT} {_KNOWLEDGE}\n{_EXAMPLE}"


def _user_prompt(style: Style, question: str, context: str | None) -> str:
    """Returns the prompt with context and question; without one, it is the published code's, for both data sets."""
    lines = [] if context is None else [f"- Context: {context}"]
    short = style == "infoseek" and context is not None
    return "\n".join([*lines, f"- Question: {question}", _SHORT if short else "The answer is:"])


def answer_messages(
    question: str, context: str | None, images: Sequence[Image.Image] = (), style: Style = "evqa"
) -> list[Message]:
    """Returns the messages that request an answer.

    Args:
        question: The question.
        context: The section with its headings (`retriever.texts.section_passage`), or `None` if nothing was retrieved.
        images: The images for a multimodal model; without any, the prompt is that of text-only models.
        style: "evqa" (Table 16) or "infoseek" (Table 17, with one example).

    Raises:
        ValueError: `style` is neither.
    """
    if style not in ("evqa", "infoseek"):
        raise ValueError(f"style must be 'evqa' or 'infoseek', got {style!r}")
    text = _user_prompt(style, question, context)
    return [
        {"role": "system", "content": _system_prompt(style, bool(images), context is not None)},
        {"role": "user", "content": [*map(image_part, images), text_part(text)] if images else text},
    ]
