"""Miniatures of MMSearch and MMSearch-Plus in their published file formats."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image


def jpeg(color: str, size: tuple[int, int] = (40, 30)) -> bytes:
    """Returns an encoded JPEG of one color."""
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, "JPEG")
    return buffer.getvalue()


def embedded(content: bytes | None) -> dict[str, Any] | None:
    """Returns an image as the library `datasets` stores it in Parquet."""
    return None if content is None else {"bytes": content, "path": None}


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Writes rows as Parquet, images as structs of bytes and path."""
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra parquet")
    image = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    with_images = {key for row in rows for key, value in row.items() if isinstance(value, dict) and "bytes" in value}
    with_images |= {"query_image", "image_search_result"} & rows[0].keys()
    table = pyarrow.table(
        {key: pyarrow.array([row[key] for row in rows], image if key in with_images else None) for key in rows[0]}
    )
    parquet.write_table(table, path)
    return path


def mmsearch_rows(
    images: Sequence[bytes | None], answers: Sequence[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns rows of MMSearch's end2end, rerank and summarization files, one question per image."""
    common: list[dict[str, Any]] = [
        {
            "sample_id": f"s{at}",
            "query": f"Question {at}?",
            "query_image": embedded(image),
            "image_search_result": embedded(None if image is None else jpeg("gray")),
            "area": "news" if at % 2 else "knowledge",
            "subfield": "Sports",
            "timestamp": "2024-08-01",
        }
        for at, image in enumerate(images)
    ]
    gold: list[dict[str, Any]] = [
        {"gt_answer": answer, "alternative_gt_answers": [f"{answer} city"]} for answer in answers
    ]
    first = [
        row | one | {"gt_requery": f"capital {at}"} for at, (row, one) in enumerate(zip(common, gold, strict=True))
    ]
    sites: dict[str, Any] = {}
    for site in range(8):
        sites[f"website{site}_info"] = {"title": f"title {site}", "snippet": f"snippet {site}", "url": "https://web"}
        sites[f"website{site}_head_screenshot"] = embedded(jpeg("white"))
    second = [row | sites | {"valid": [1], "not_sure": [2, 3], "invalid": [0, 4, 5, 6, 7]} for row in common]
    page = {"website_title": "t", "website_snippet": "s", "website_retrieved_content": "content of the page"}
    shot: dict[str, Any] = {"website_fullpage_screenshot": embedded(jpeg("white", (60, 1100)))}
    third = [row | one | page | shot for row, one in zip(common, gold, strict=True)]
    return first, second, third


def write_mmsearch(folder: Path, images: Sequence[bytes | None], answers: Sequence[str]) -> Path:
    """Writes MMSearch's three files; returns their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in zip(("end2end", "rerank", "summarization"), mmsearch_rows(images, answers), strict=True):
        write_parquet(folder / f"{name}.parquet", rows)
    return folder


def encrypted(text: str, canary: str) -> str:
    """Encrypts a text as MMSearch-Plus does."""
    key = hashlib.sha256(canary.encode()).digest()
    return base64.b64encode(bytes(b ^ key[at % 32] for at, b in enumerate(text.encode()))).decode()


def plus_rows(images: Sequence[bytes], answers: Sequence[str], canary: str = "") -> list[dict[str, Any]]:
    """Returns rows of MMSearch-Plus, encrypted if a canary is given; the first question has two images."""

    def hidden(text: str) -> str:
        return encrypted(text, canary) if canary else text

    return [
        {
            "question": hidden(f"Question {at}?"),
            "answer": [hidden(answer)],
            "num_images": 2 if at == 0 else 1,
            "img_1": embedded(image),
            "img_2": embedded(jpeg("gray")) if at == 0 else None,
            "category": "Geo.",
            "difficulty": "easy" if at else "difficult",
            "subtask": "",
        }
        for at, (image, answer) in enumerate(zip(images, answers, strict=True))
    ]
