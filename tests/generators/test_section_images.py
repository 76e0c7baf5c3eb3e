"""Images of the section beside the question's: how a chat model gets them, and how many."""

from __future__ import annotations

import logging
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from PIL import Image
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from chat_models.chat import ChatClient
from generators.chat import ChatGenerator
from retriever.types import ArticleImage, Evidence, GenerationRequest
from tests.fakes.chat_server import FakeChatServer


class TwoImages(FakeChatServer):
    """A server that takes at most two images in a request."""

    async def answer(self, request: Request) -> Response:
        """Answers, or refuses."""
        body = await request.json()
        if len(pictures(body)) > 2:
            self.bodies.append(body)
            return JSONResponse({"error": {"message": "At most 2 image(s) may be provided in one prompt."}}, 400)
        return await super().answer(request)


def pictures(body: dict[str, Any]) -> list[dict[str, Any]]:
    content = body["messages"][-1]["content"]
    return [part for part in content if part["type"] == "image_url"] if isinstance(content, list) else []


def jpeg(color: str) -> bytes:
    buffer = BytesIO()
    Image.new("RGB", (40, 30), color).save(buffer, "JPEG")
    return buffer.getvalue()


IMAGES = (
    ArticleImage("https://kb/night.jpg", 2, "The tower at\nnight <|im_end|>"),
    ArticleImage("https://kb/lost.jpg", 2, "A lost one"),
    ArticleImage("pics/blue%20tower.png", 2),
    ArticleImage("https://kb/4.jpg", None, "Its plan"),
)
REQUEST = GenerationRequest(
    "What color is it at night?",
    Image.new("RGB", (64, 48), "red"),
    Evidence("kb/tower", "Tower", "Views", "It is lit.", 2, IMAGES),
    thumbnails={
        one.url: jpeg(color) for one, color in zip(IMAGES, ("navy", "", "blue", "white"), strict=True) if color
    },
)
NAMED = """\
It is lit.
## Pictures of this section
Picture 1: The tower at night \u2039|im_end|\u203a
Picture 2: A lost one
Picture 3: blue tower.png
- Question: What color is it at night?
The answer is:"""


async def asked(server: FakeChatServer, *requests: GenerationRequest, **options: Any) -> list[dict[str, Any]]:
    async with ChatClient(server.url, "good", retries=0) as client:
        generator = ChatGenerator(client, **options)
        for request in requests:
            [generation] = await generator.generate([request])
            assert generation.answer is not None and generation.answer.startswith("heard: ")
    return server.bodies


async def test_each_image_is_sent_by_the_number_that_it_has_in_the_result() -> None:
    with FakeChatServer() as server:
        [body] = await asked(server, REQUEST, multimodal=True, images=3)
    *shown, (kind, text) = [(part["type"], part.get("text")) for part in body["messages"][-1]["content"]]
    expected = [
        "image_url",
        "Picture 1:",
        "image_url",
        "Picture 3:",
        "image_url",
    ]  # no copy of 2
    assert [text or kind for kind, text in shown] == expected
    assert kind == "text" and text is not None and text.endswith(NAMED)


async def test_a_model_without_eyes_gets_the_captions() -> None:
    with FakeChatServer() as server:
        [body] = await asked(server, REQUEST, images=3)
    assert isinstance(body["messages"][-1]["content"], str) and body["messages"][-1]["content"].endswith(NAMED)


async def test_without_the_setting_the_prompt_is_that_of_the_paper() -> None:
    bare = replace(REQUEST, evidence=replace(REQUEST.evidence, images=()), thumbnails={})  # type: ignore[type-var]
    with FakeChatServer() as server:
        first, second, third = await asked(server, REQUEST, bare, replace(bare, image=None), multimodal=True)
    assert first == second and not pictures(third)


async def test_a_question_without_an_image_is_answered_from_those_of_the_section() -> None:
    with FakeChatServer() as server:
        [body] = await asked(server, replace(REQUEST, image=None), multimodal=True, images=1)
    assert [part["type"] for part in body["messages"][-1]["content"]] == ["text", "image_url", "text"]


async def test_a_server_that_takes_fewer_images_gets_fewer(caplog: pytest.LogCaptureFixture) -> None:
    with TwoImages() as server, caplog.at_level(logging.WARNING):
        bodies = await asked(server, REQUEST, REQUEST, multimodal=True, images=12)
    assert [len(pictures(body)) for body in bodies] == [4, 2, 2]  # the question's, and those of the section
    assert "good takes no more than 2 images of a section (generator.images)" in caplog.text
