"""Hard negatives for step 2: the entities that step 1 finds for each question's image."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypedDict

from indexes.progress import progress_bar
from retriever.files import write_whole
from retriever.images import load_image
from retriever.protocols import DualEncoder, EntityIndex
from training.candidates import TrainingQuestion

logger = logging.getLogger(__name__)


class NegativeEntry(TypedDict):
    """One entity found by step 1."""

    entry: str


class ImageNegatives(TypedDict):
    """The entities found for one image, best first, and the URL of the gold entity's main image."""

    gt_entity_pos_img: str | None
    top_20: list[NegativeEntry]


def mine_negatives(
    encoder: DualEncoder,
    index: EntityIndex,
    questions: Iterable[TrainingQuestion],
    query_image_of: Callable[[str], Path | None],
    out: Path,
    k: int = 20,
    batch_size: int = 64,
    progress: bool = True,
) -> int:
    """Writes the `k` entities that step 1 finds for each question's image; returns the number of images.

    The file has OMGM's own format, so that files can be exchanged:
    `{image_id: {"gt_entity_pos_img": URL or null, "top_20": [{"entry": entity id}, …]}}`. The key is "top_20" whatever
    `k` is. Images that are missing or unreadable are left out and counted in the log. A killed run resumes from `out`
    with the suffix `.journal`.

    Args:
        encoder: Step 1's model.
        index: An index built with `encoder`.
        questions: The questions; each image is searched for once.
        query_image_of: Finds the file of an image by its id.
        out: The file to write.
        k: Entities per image.
        batch_size: Images per batch.
        progress: Shows a progress bar.

    Raises:
        ValueError: The journal was started with another encoder, index size or `k`.
    """
    gold: dict[str, tuple[str, ...]] = {}
    for question in questions:
        gold.setdefault(question.image_id, question.entity_ids)
    out.parent.mkdir(parents=True, exist_ok=True)
    journal = out.with_name(out.name + ".journal")
    mined = _resume(journal, {"encoder": encoder.fingerprint, "k": k, "entities": len(index)})
    waiting = [image_id for image_id in gold if image_id not in mined]
    left_out = 0
    bar = progress_bar(total=len(waiting), desc="negatives", unit="image", shown=progress)
    with journal.open("a", encoding="utf-8") as file, bar:
        for start in range(0, len(waiting), batch_size):
            batch = waiting[start : start + batch_size]
            images = {}
            for image_id in batch:
                path = query_image_of(image_id)
                try:
                    if path is not None:
                        images[image_id] = load_image(path)
                except ValueError as error:
                    logger.warning("%s", error)
            left_out += len(batch) - len(images)
            if images:
                _, rows = index.search(encoder.encode_images(list(images.values())), k)
                for image_id, found in zip(images, rows.tolist(), strict=True):
                    mined[image_id] = _negatives(index, gold[image_id], found)
                    file.write(json.dumps([image_id, mined[image_id]]) + "\n")
                file.flush()
            bar.update(len(batch))
    if left_out:
        logger.warning("%d of %d images are missing or unreadable and were left out", left_out, len(gold))
    result = {image_id: mined[image_id] for image_id in gold if image_id in mined}
    write_whole(out, (json.dumps(result, ensure_ascii=False, indent=0) + "\n").encode())
    journal.unlink()
    return len(result)


def read_negatives(path: Path) -> dict[str, list[str]]:
    """Returns the ids of the entities found for each image, best first, by image id.

    Raises:
        ValueError: The file is not in the format of `mine_negatives`; the message names the image and the field.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: not a readable JSON file ({error}); write it with mine-negatives") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected an object with image ids as keys; write it with mine-negatives")
    negatives = {}
    for image_id, row in content.items():
        try:
            negatives[image_id] = [str(found["entry"]) for found in row["top_20"]]
        except (KeyError, TypeError) as error:
            raise ValueError(f'{path}: {image_id}: expected {{"top_20": [{{"entry": …}}, …]}}, got {row!r}') from error
    return negatives


def _negatives(index: EntityIndex, gold: Sequence[str], found: Sequence[int]) -> ImageNegatives:
    rows = [row for entity_id in gold if (row := index.row_of(entity_id)) is not None]
    return {
        "gt_entity_pos_img": index.entity(rows[0]).image if rows else None,
        "top_20": [{"entry": index.entity(row).id} for row in found if row >= 0],
    }


def _resume(journal: Path, header: dict[str, object]) -> dict[str, ImageNegatives]:
    """Reads the journal and cuts off an unfinished last line."""
    lines = journal.read_text(encoding="utf-8").split("\n")[:-1] if journal.is_file() else []
    if lines and json.loads(lines[0]) != header:
        raise ValueError(f"{journal}: started with {lines[0]}, not {json.dumps(header)}; delete it to start over")
    lines = lines or [json.dumps(header)]
    write_whole(journal, "".join(line + "\n" for line in lines).encode())
    return dict(json.loads(line) for line in lines[1:])
