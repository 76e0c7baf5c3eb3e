from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import omgm as package
from indexes.store.index import Index
from omgm import OMGM
from retriever.images import ImageInput, encoded
from retriever.types import Generation, GenerationRequest
from tests.fakes.knowledge_base import write_kb
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.processes import run_python

QUESTION = "What is the flag of this country?"


class LastWord:
    """A generator that answers with the last word of the evidence."""

    name = "last-word"

    def __init__(self) -> None:
        self.loops: set[int] = set()

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        self.loops.add(id(asyncio.get_running_loop()))
        return [self._one(request) for request in requests]

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        yield self._one(request)

    def _one(self, request: GenerationRequest) -> Generation:
        assert request.evidence is not None
        text = request.evidence.text.rstrip(".")
        start = text.rfind(" ") + 1
        return Generation(text[start:], 0.5, (start, len(text)))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kb(tmp_path_factory.mktemp("kb"))[1]


@pytest.fixture(scope="module")
def omgm(images: Path) -> Iterator[OMGM]:
    door = OMGM.build(
        images.parent / "kb.json",
        images.parent / "index",
        images=images,
        summarizer=FakeSummarizer(),
        encoder=FakeEncoder(),
        fusion=FakeFusion(),
        generator=LastWord(),
    )
    with door:
        yield door


def test_public_names() -> None:
    assert sorted(package.__all__) == ["Answer", "OMGM", "Retrieval", "__version__"]
    assert [getattr(package, name).__name__ for name in ("Answer", "OMGM", "Retrieval")] == [
        "Answer",
        "OMGM",
        "Retrieval",
    ]
    assert package.__version__ == "0.1.0"
    with pytest.raises(AttributeError, match="Omgm"):
        package.Omgm  # noqa: B018


def test_importing_the_package_imports_no_model_library() -> None:
    code = "import sys, omgm; print(sorted({'torch', 'transformers', 'faiss'} & set(sys.modules)))"
    assert run_python("-c", code, check=True).stdout == "[]\n"


def test_ask(omgm: OMGM, images: Path) -> None:
    found = omgm.ask(images / "flag" / "France.png", f"  {QUESTION}\n")
    assert found.question == QUESTION  # as the service reads it
    assert found.entity is not None and found.evidence is not None
    assert (found.entity.title, found.entity.id) == ("France", "https://e.example/wiki/France")
    assert found.evidence.entity_id == found.entity.id and found.evidence.section_title == found.sections[0].title
    assert found.answer == found.evidence.text.rstrip(".").split()[-1] and not found.abstained
    assert found.confidence == 0.5 and found.span is not None
    assert found.evidence.text[slice(*found.span)] == found.answer
    assert [row.rank for row in found.candidates] == list(range(1, len(found.candidates) + 1))
    assert found.candidates[0].title == "France" and found.candidates[0].image is not None
    assert list(found.timings_ms) == ["step1", "step2", "step3", "generate"]


def test_nearest_is_step_1_as_ask_runs_it(omgm: OMGM, images: Path) -> None:
    with Image.open(images / "flag" / "France.png") as opened:
        flag = opened.convert("RGB")
    bordered = Image.new("RGB", (4 * flag.width, 4 * flag.height), (90, 90, 90))
    bordered.paste(flag, (flag.width, flag.height))  # the profile crops borders
    [nearest] = omgm.nearest(bordered, k=1)
    [candidate] = omgm.ask(bordered, QUESTION, k=1).candidates
    assert (nearest.title, nearest.sim_c) == ("France", candidate.sim_c)


def test_every_kind_of_image_gives_the_same(omgm: OMGM, images: Path) -> None:
    path = images / "flag" / "Ireland.png"
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    kinds: list[ImageInput] = [path, str(path), path.read_bytes(), image, np.asarray(image)]
    found = omgm.retrieve([(kind, QUESTION) for kind in kinds])
    assert [one.candidates for one in found] == [found[0].candidates] * 5
    assert found[0].candidates[0].title == "Ireland"


def test_transparent_pixels_are_white_in_every_kind(omgm: OMGM) -> None:
    logo = Image.new("RGBA", (40, 40), (0, 0, 0, 0))
    logo.paste((255, 0, 0, 255), (10, 10, 30, 30))
    found = omgm.retrieve([(kind, QUESTION) for kind in (encoded(logo), logo, np.asarray(logo))])
    assert [one.image and one.image.getpixel((0, 0)) for one in found] == [(255, 255, 255)] * 3
    scores = [[(row.title, round(row.fused, 5)) for row in one.candidates] for one in found]
    assert scores == [scores[0]] * 3


def test_batches_equal_single_questions(omgm: OMGM, images: Path) -> None:
    pairs = [(images / "flag" / f"{name}.png", f"{name}?") for name in ("France", "Ireland", "Plain")]
    together = omgm.retrieve(pairs, batch_size=2)
    alone = [omgm.retrieve([pair])[0] for pair in pairs]
    for batched, single in zip(together, alone, strict=True):
        assert [row.entity for row in batched.candidates] == [row.entity for row in single.candidates]
        for name in ("sim_c", "sim_m", "fused"):
            scores = [[getattr(row, name) for row in found.candidates] for found in (batched, single)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-6)  # other matrix shapes sum in another order
    assert omgm.retrieve([]) == []


def test_options(omgm: OMGM, images: Path) -> None:
    path = images / "flag" / "France.png"
    found = omgm.ask(path, QUESTION, k=2, alpha=1.0, beta=0.0)
    assert len(found.candidates) == 2
    assert found.candidates[0].fused == pytest.approx(found.candidates[0].sim_c)
    assert found.sections[0].score == pytest.approx(found.sections[0].sim_t)


def test_async_equals_sync(omgm: OMGM, images: Path) -> None:
    path = images / "flag" / "Plain.png"

    async def both() -> None:
        answer, [retrieval] = await asyncio.gather(
            omgm.ask_async(path, QUESTION), omgm.retrieve_async([(path, QUESTION)])
        )
        assert answer.answer == omgm.ask(path, QUESTION).answer
        assert retrieval.candidates == answer.candidates

    asyncio.run(both())
    asyncio.run(both())  # in another loop
    assert isinstance(omgm.generator, LastWord) and len(omgm.generator.loops) == 1


def test_works_inside_a_running_loop(omgm: OMGM, images: Path) -> None:
    async def notebook() -> str | None:
        return omgm.ask(images / "flag" / "Plain.png", QUESTION).answer

    assert asyncio.run(notebook()) == omgm.ask(images / "flag" / "Plain.png", QUESTION).answer


def test_open_finds_what_build_wrote(omgm: OMGM, images: Path) -> None:
    again = OMGM.open(
        omgm.index.folder, encoder=FakeEncoder(), fusion=FakeFusion(), generator=LastWord(), settings={"search.k": 3}
    )
    path = images / "flag" / "France.png"
    assert isinstance(again.index, Index)
    assert again.ask(path, QUESTION).candidates == omgm.ask(path, QUESTION, k=3).candidates
    again.close()


def test_open_refuses_other_models(omgm: OMGM) -> None:
    with pytest.raises(ValueError, match="does not match this profile"):
        OMGM.open(omgm.index.folder)
    with pytest.raises(ValueError, match="settings: unknown key"):
        OMGM.open(omgm.index.folder, settings={"search.q": 3})


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (b"no image", "not an image"),
        (b"", "empty"),
        ("missing.png", "missing.png"),
        ("https://e.example/a.png", "a URL"),
        (np.zeros((4, 4, 2), np.uint8), r"\[4, 4, 2\]"),
        (np.zeros((4, 4, 3), np.float32), "uint8"),
    ],
)
def test_bad_images_are_named(omgm: OMGM, images: Path, image: ImageInput, message: str) -> None:
    good = (images / "flag" / "France.png", QUESTION)
    with pytest.raises(ValueError, match=f"pair 1: .*{message}"):
        omgm.retrieve([good, (image, QUESTION)])
    assert omgm.ask(*good).answer  # and the next one is answered
    with pytest.raises(ValueError, match="pair 1: "):
        omgm.retrieve([good, "image.png"])  # type: ignore[list-item]


def test_bad_questions_and_options_are_named(omgm: OMGM, images: Path) -> None:
    path = images / "flag" / "France.png"
    with pytest.raises(ValueError, match=r"^the question is empty"):
        omgm.ask(path, "  ")
    with pytest.raises(ValueError, match="k"):
        omgm.ask(path, QUESTION, k=0)
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        omgm.retrieve([(path, QUESTION)], batch_size=0)
    with pytest.raises(TypeError, match="got int"):
        omgm.ask(5, QUESTION)  # type: ignore[arg-type]


class PageParser(HTMLParser):
    """Collects the texts and the tags of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_html_for_notebooks(omgm: OMGM, images: Path) -> None:
    found = omgm.ask(images / "flag" / "France.png", "<b>Which?</b>")
    page = PageParser(found._repr_html_())
    assert "<b>Which?</b>" in page.texts  # shown as text, not interpreted
    assert found.answer in page.texts and "mark" in page.tags
    assert page.tags.count("tr") == 1 + min(5, len(found.candidates))
    assert "script" not in page.tags


def test_rows_are_plain_values(omgm: OMGM, images: Path) -> None:
    found = omgm.ask(images / "flag" / "France.png", QUESTION)
    assert list(asdict(found.candidates[0])) == [
        *("rank", "entity", "title", "sim_c", "sim_m", "fused", "image", "url", "row", "photograph")
    ]
    assert list(asdict(found.sections[0])) == ["rank", "title", "index", "sim_m", "sim_t", "score", "text", "images"]


def test_a_build_names_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"kb: .*none\.json does not exist"):
        OMGM.build(tmp_path / "none.json", tmp_path / "index")
    (tmp_path / "kb.csv").write_text("title,text\nFox,A fox is red.\n")
    with pytest.raises(ValueError, match="names: unknown field 'titel'; fields are id, title"):
        OMGM.build(tmp_path / "kb.csv", tmp_path / "index", images=tmp_path, names={"titel": "title"})
    with pytest.raises(ValueError, match=r"images: name the folder with the images \("):
        OMGM.build(tmp_path / "kb.csv", tmp_path / "index", kb_format="evqa")


def test_results_refer_to_their_images(omgm: OMGM, images: Path) -> None:
    path = next(one for one in images.rglob("*") if one.is_file())
    pixels = np.asarray(Image.open(path).convert("RGB"))
    by_path, by_bytes = omgm.retrieve([(path, "What?"), (path.read_bytes(), "What?")])
    assert (by_path.picture, by_bytes.picture) == (str(path.absolute()), path.read_bytes())
    assert np.array_equal(np.asarray(by_path.image), np.asarray(by_bytes.image))
    assert omgm.ask(path, "What?").picture == str(path.absolute())
    assert omgm.ask(pixels, "What?").picture is pixels
    with path.open("rb") as stream:  # it cannot be read again, so its pixels are kept
        assert isinstance(omgm.ask(stream, "What?").picture, Image.Image)
