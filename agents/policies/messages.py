"""Messages that several policies write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from PIL import Image

from agents.parsing import is_abstention
from agents.regions import overlay
from agents.state import IMAGE, AgentRun, Decision, Round
from llm.chat import Message, image_part, text_part


def user(text: str, images: Sequence[Image.Image] = ()) -> Message:
    """Returns a message of the user, images first."""
    return {"role": "user", "content": [*(image_part(image) for image in images), text_part(text)] if images else text}


def system(text: str) -> Message:
    """Returns a system message."""
    return {"role": "system", "content": text}


async def question_message(run: AgentRun, after: str = "") -> Message:
    """Returns the question with its image and, if it has regions, the overlay that numbers them."""
    image = run.image(IMAGE)
    if not run.image_parts:
        run.image_parts = await asyncio.to_thread(_encoded, run)
    size = f'The image is named "{IMAGE}" and has {image.width} x {image.height} pixels.'
    text = f"{size}\nQuestion: {run.question}{after}"
    return {"role": "user", "content": [*run.image_parts, text_part(text)]}


def _encoded(run: AgentRun) -> list[Message]:
    image = run.image(IMAGE)
    return [image_part(one) for one in ([image, overlay(image, run.boxes)] if run.boxes else [image])]


def results_message(run: AgentRun, one: Round, problem: str = "") -> Message:
    """Returns the results of a round, new images included, and what was wrong with the reply."""
    images = [image for record in one.calls for image in record.observation.images.values()]
    texts = [text for text in (run.results(one.calls), problem) if text]
    return user("\n\n".join(texts) or "nothing found", images)


def followed_by(messages: Sequence[Message], text: str) -> list[Message]:
    """Returns messages with a further text of the user, within the last one if that is the user's too.

    Some chat templates refuse two messages of the user in a row.
    """
    last = messages[-1]
    if last["role"] != "user":
        return [*messages, user(text)]
    content = last["content"]
    joined = f"{content}\n\n{text}" if isinstance(content, str) else [*content, text_part(text)]
    return [*messages[:-1], {**last, "content": joined}]


def answered(answer: str, thought: str = "") -> Decision:
    """Returns the decision to answer, or to abstain if that is what the answer says."""
    if is_abstention(answer):
        return Decision(thought, abstains=True)
    return Decision(thought, answer=answer)
