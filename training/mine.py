"""Hard negatives for step 2: what step 1 finds for each question's picture."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from tqdm import tqdm

from retriever.images import load_image
from retriever.protocols import DualEncoder, EntityIndex

logger = logging.getLogger(__name__)


class MinedQuestion(Protocol):
    """What mining asks of a question."""

    @property
    def image_id(self) -> str:
        """Names its picture."""

    @property
    def entity_ids(self) -> tuple[str, ...]:
        """The entities that it is about."""


def mine_negatives(
    encoder: DualEncoder,
    index: EntityIndex,
    questions: Iterable[MinedQuestion],
    query_image_of: Callable[[str], Path | None],
    out: Path,
    k: int = 20,
    batch_size: int = 64,
    progress: bool = True,
) -> int:
    """Returns how many pictures `out` holds: for each, the `k` entities that step 1 finds, best first.

    The file is OMGM's own, so that files may be exchanged:
    `{image_id: {"gt_entity_pos_img": URL or null, "top_20": [{"entry": entity id}, …]}}`; the URL is that of the gold
    entity's main image, and the key stays "top_20" whatever `k` is. Pictures that are missing or unreadable are left
    out and counted in the log. A run that was cut off goes on from `out` with `.partial` at its end.

    Args:
        encoder: Step 1's model.
        index: Built with it.
        questions: Each picture is searched for once.
        query_image_of: Finds the file of a picture by its id.
        out: The file to write.
        k: Entities a picture.
        batch_size: Pictures at a time.
        progress: Shows a progress bar.

    Raises:
        ValueError: The partial file was begun with another encoder or another `k`.
    """
    gold: dict[str, tuple[str, ...]] = {}
    for question in questions:
        gold.setdefault(question.image_id, question.entity_ids)
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(out.name + ".partial")
    header = {"encoder": encoder.fingerprint, "k": k, "entities": len(index)}
    mined = _resume(partial, header)
    waiting = [image_id for image_id in gold if image_id not in mined]
    left_out = 0
    with partial.open("a", encoding="utf-8") as file, tqdm(total=len(waiting), disable=not progress) as bar:
        for start in range(0, len(waiting), batch_size):
            part = waiting[start : start + batch_size]
            images = {}
            for image_id in part:
                path = query_image_of(image_id)
                try:
                    if path is not None:
                        images[image_id] = load_image(path)
                except ValueError as error:
                    logger.warning("%s", error)
            left_out += len(part) - len(images)
            if images:
                _, rows = index.search(encoder.encode_images(list(images.values())), k)
                for image_id, found in zip(images, rows.tolist(), strict=True):
                    row = _row(index, gold[image_id], found)
                    mined[image_id] = row
                    file.write(json.dumps([image_id, row]) + "\n")
                file.flush()
            bar.update(len(part))
    if left_out:
        logger.warning("%d of %d pictures are missing or unreadable and were left out", left_out, len(gold))
    temporary = out.with_name(out.name + ".tmp")
    result = {image_id: mined[image_id] for image_id in gold if image_id in mined}
    temporary.write_text(json.dumps(result, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    temporary.replace(out)
    partial.unlink()
    return len(result)


def read_negatives(path: Path) -> dict[str, list[str]]:
    """Returns, per picture id, the ids of the entities found for it, best first.

    Raises:
        ValueError: The file is not as `mine_negatives` writes it; the message names the picture and the field.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: not a readable JSON file ({error}); write it with mine-negatives") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected an object that names pictures; write it with mine-negatives")
    negatives = {}
    for image_id, row in content.items():
        try:
            negatives[image_id] = [str(found["entry"]) for found in row["top_20"]]
        except (KeyError, TypeError) as error:
            raise ValueError(f'{path}: {image_id}: expected {{"top_20": [{{"entry": …}}, …]}}, got {row!r}') from error
    return negatives


def _row(index: EntityIndex, gold: tuple[str, ...], found: list[int]) -> dict[str, Any]:
    rows = [row for entity_id in gold if (row := index.row_of(entity_id)) is not None]
    return {
        "gt_entity_pos_img": index.entity(rows[0]).image if rows else None,
        "top_20": [{"entry": index.entity(row).id} for row in found if row >= 0],
    }


def _resume(partial: Path, header: dict[str, object]) -> dict[str, Any]:
    lines = partial.read_text(encoding="utf-8").split("\n")[:-1] if partial.is_file() else []  # an unfinished one drops
    if lines and json.loads(lines[0]) != header:
        raise ValueError(f"{partial}: was begun with {lines[0]}, not {json.dumps(header)}; delete it to start again")
    lines = lines or [json.dumps(header)]
    temporary = partial.with_name(partial.name + ".tmp")
    temporary.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    temporary.replace(partial)
    return dict(json.loads(line) for line in lines[1:])
