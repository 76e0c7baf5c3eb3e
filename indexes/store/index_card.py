"""The card of a published index, generated from its manifest."""

from __future__ import annotations

import json
from pathlib import Path

from indexes.store.manifest import Manifest
from retriever.card import NOT_RECORDED, code, escaped, make_card, table

_WHAT = (
    "An index of OMGM, a knowledge base prepared for questions about images: articles, a vector per entity, fused "
    "tokens per section and thumbnails. It was built with the models whose fingerprints are below, and opens only with "
    "these."
)
_USE = """
from indexes.store.index import Index

index = Index.from_pretrained({name})
print(len(index), index.entity(0).title, index.summary(0))
"""


def index_card(folder: Path, manifest: Manifest, repo: str | None = None, license: str | None = None) -> str:
    """Returns the card of an index.

    Args:
        folder: The folder of the index.
        manifest: Its manifest.
        repo: Where it is published, for the title and the example.
        license: A license identifier of the hub, such as `cc-by-sa-4.0`; by default "unknown".
    """
    counts, inputs, title = manifest.counts, manifest.inputs, repo or folder.resolve().name
    front = {
        "license": license or "unknown",
        "library_name": "omgm",
        "tags": ["omgm", "knowledge-based-vqa", "multimodal-retrieval", "index"],
        "task_categories": ["visual-question-answering"],
        "viewer": False,
    }
    content = {
        "knowledge base": manifest.name,
        "entities": counts.entities,
        "sections": counts.sections,
        "entities with an image": counts.with_image,
        "entities that step 1 can find": counts.searchable,
        "sections with tokens": counts.token_sections,
        "windows of sections with vectors": counts.section_windows,
    }
    settings = {
        "searched in step 1": inputs.candidates,
        "entity index": "flat" if manifest.search is None else str(manifest.search),
        "summaries": inputs.summarizer,
        "encoder, fingerprint": inputs.encoder,
        "fusion encoder, fingerprint": inputs.fusion or "none",
        "encoder of sections, fingerprint": inputs.sections or "none",
        "vector length": manifest.dimension,
        "tokens per section": " x ".join(map(str, manifest.token_shape)),
        "tokens stored as": inputs.tokens,
        "format of the knowledge base": inputs.kb_format,
        "hash of the knowledge base": inputs.knowledge_base,
        "sections left out": ", ".join(inputs.drop_sections) or "none",
        "format of the index": manifest.format_version,
    }
    rows = [f"| {escaped(name)} | {file.bytes:,} | `{file.sha256}` |" for name, file in manifest.files.items()]
    total = sum(file.bytes for file in manifest.files.values())
    files = "\n".join(["| file | bytes | SHA-256 |", "| --- | --- | --- |", *rows, f"| all of them | {total:,} | |"])
    name = json.dumps(repo or f"./{title}", ensure_ascii=False)
    opened = "`OMGM.open(index.folder, profile=...)` answers questions from it, with the profile it was built with."
    sections = [
        ("", _WHAT),
        ("Use", f"{code(_USE.format(name=name))}\n\n{opened}"),
        ("Data", table(content, ("content", "value"))),
        ("Settings", table(settings, ("setting", "value"))),
        ("Metrics", NOT_RECORDED),
        ("Files", f"{files}\n\nThumbnails, all together: `{manifest.thumbnails}`."),
        ("Commit", f"Built with {escaped(manifest.created_with)}."),
    ]
    return make_card(front, title, sections)
