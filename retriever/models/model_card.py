"""The card of a model folder, generated from its files and its training record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from retriever.card import NOT_RECORDED, code, escaped, make_card, table
from retriever.files import read_object
from retriever.models.folder import RECORD_NAME, Kind, count_parameters, folder_fingerprint, kind_of, stored_dtype

_HUB_ID = re.compile(r"(?P<repo>\w[\w.-]*/\w[\w.-]*)(@[\w./-]+)?")
_WHAT = {
    "encoder": "A dual encoder, step 1 of OMGM: it embeds images and texts as vectors whose inner product finds the "
    "entity that an image shows.",
    "reranker": "A fusion encoder, step 2 of OMGM: a BLIP-2 Q-Former fuses an image and a text into tokens, whose "
    "MaxSim with the tokens of a section reranks entities and sections.",
    "sections": "Low-rank matrices for step 3 of OMGM: added to a published sentence encoder, they encode a question "
    "near the section of an article that answers it. Sections are encoded by the encoder as published.",
}
_PIPELINES = {"encoder": "feature-extraction", "reranker": "text-ranking", "sections": "sentence-similarity"}
_TAGS = {"encoder": "dual-encoder", "reranker": "multimodal-reranker", "sections": "lora"}
_SETTINGS = {"encoder": "encoder.model", "reranker": "fusion.model", "sections": "sections.model"}
_USES = {
    "encoder": """
from PIL import Image
from retriever.models.encoder import ClipEncoder

encoder = ClipEncoder.from_pretrained({name})
image = encoder.encode_images([Image.open("photo.jpg")])
texts = encoder.encode_texts(["the flag of Japan", "the flag of Kenya"])
print(image @ texts.T)
""",
    "reranker": """
from PIL import Image
from retriever.models.qformer import QFormerFusion

fusion = QFormerFusion.from_pretrained({name})
tokens = fusion.encode([Image.open("photo.jpg")], ["What is the capital of this country?"])
print(tokens.shape)
""",
    "sections": """
from retriever.models.section_encoder import SectionEncoder

encoder = SectionEncoder.load({name})
[question] = encoder.encode_questions(["Which share of the labor force had no job?"])
print(encoder.encode_passages(["Unemployment rate: 4.1 %"])[0] @ question)
""",
}


def model_card(folder: Path, repo: str | None = None, license: str | None = None) -> str:
    """Returns the card of a model folder. Facts that were not recorded are marked as such, never guessed.

    Args:
        folder: A model folder, with or without a training record.
        repo: Where it is published, for the title and the example.
        license: A license identifier of the hub, such as `apache-2.0`; by default "unknown".

    Raises:
        ValueError: The folder is not a model folder, or its training record is not a JSON object.
    """
    kind, record = kind_of(folder), _read_record(folder)
    title, data, commit = repo or folder.resolve().name, record.get("data"), record.get("commit")
    remarks = record.get("remarks")
    remarks = remarks if isinstance(remarks, list) else []
    datasets = data.get("datasets") if isinstance(data, Mapping) else None
    front = {
        "license": license or "unknown",
        "library_name": "omgm",
        "pipeline_tag": _PIPELINES[kind],
        "tags": ["omgm", "knowledge-based-vqa", "multimodal-retrieval", _TAGS[kind]],
        "base_model": next(iter(_hub_ids([record.get("base")])), None),
        "datasets": _hub_ids(datasets if isinstance(datasets, list) else [datasets]),
    }
    sections = [
        ("", _WHAT[kind]),
        ("Use", _use(kind, repo or f"./{title}")),
        ("Model", table(_facts(folder, kind, record), ("property", "value"))),
        ("Training data", table(data, ("data", "value"))),
        ("Settings", table(_settings(record), ("setting", "value"))),
        ("Metrics", table(record.get("metrics"), ("metric", "value"))),
        *([("Remarks", "\n".join(f"- {escaped(one)}" for one in remarks))] if remarks else []),
        ("Commit", escaped(commit) if commit else NOT_RECORDED),
    ]
    return make_card(front, title, sections)


def _read_record(folder: Path) -> dict[str, Any]:
    """Returns the training record of a model, empty if there is none.

    Raises:
        ValueError: The record is not a JSON object.
    """
    path = folder / RECORD_NAME
    return read_object(path) if path.is_file() else {}


def _use(kind: Kind, name: str) -> str:
    """Returns an example and the setting that names the model in a profile."""
    example = code(_USES[kind].format(name=json.dumps(name, ensure_ascii=False)))
    fetched = "the folder" if kind == "sections" else "fetched by `omgm download`"
    return f"{example}\n\nIn a profile: `--set {_SETTINGS[kind]}={name}`, {fetched}."


def _vector_length(config: Mapping[str, Any]) -> int | None:
    own: int | None = config.get("projection_dim")
    return own if own is None or config.get("base_model") is None else own + int(config["photo_dim"])


def _facts(folder: Path, kind: Kind, record: Mapping[str, Any]) -> dict[str, object]:
    path = folder / "config.json"
    config = read_object(path) if path.is_file() else {}
    base = record.get("base")
    facts: dict[str, object] = {
        "type": config.get("model_type") or {"reranker": "qformer", "sections": "LoRA"}.get(kind, "open_clip"),
        "base model": config.get("base_model"),
        # The last part of a path names the model; the rest only describes a machine.
        "trained from": Path(base).name if isinstance(base, str) and not _hub_ids([base]) else base,
        "parameters": count_parameters(folder),
        "stored as": str(stored_dtype(folder)).removeprefix("torch."),
        "vector length": _vector_length(config) if kind == "encoder" else None,
        "query tokens": config.get("queries") if kind == "reranker" else None,
        "longest text, tokens": config.get("max_text_tokens"),
        "fingerprint": folder_fingerprint(folder),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _settings(record: Mapping[str, Any]) -> object:
    """Returns the settings of the training, the recipe first."""
    settings, recipe = record.get("settings"), record.get("recipe")
    if recipe is None:
        return settings
    return {"recipe": recipe} | (dict(settings) if isinstance(settings, Mapping) else {})


def _hub_ids(names: Iterable[object]) -> list[str]:
    """Returns those names that are hub repositories, without their revisions."""
    return [found["repo"] for name in names if isinstance(name, str) and (found := _HUB_ID.fullmatch(name))]
