"""Messages of the OpenAI chat API: their content parts, and the form for models without a system role."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

from PIL import Image

Message = dict[str, Any]
"""One message as the OpenAI API takes it: {"role": ..., "content": text or a list of content parts}."""


def image_part(image: Image.Image, max_side: int = 1024, quality: int = 90) -> Message:
    """Encodes an image as a content part with a JPEG data URI, scaled down if a side exceeds `max_side` pixels."""
    copy = image.convert("RGB")
    copy.thumbnail((max_side, max_side))
    buffer = io.BytesIO()
    copy.save(buffer, "JPEG", quality=quality)
    data = base64.b64encode(buffer.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}}


def text_part(text: str) -> Message:
    """Wraps a text as a content part."""
    return {"type": "text", "text": text}


def without_system_role(messages: Sequence[Message]) -> list[Message]:
    """Moves the system messages into the first of the others, for chat templates that refuse a system role."""
    said = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    first, *others = [message for message in messages if message["role"] != "system"]
    content = first["content"]
    content = f"{said}\n\n{content}" if isinstance(content, str) else [text_part(said), *content]
    return [{**first, "content": content} if said else first, *others]
