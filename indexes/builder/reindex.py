"""Changes one part of a finished index: the kind of its entity index, or its columns."""

from __future__ import annotations

import logging

from indexes.builder.claim import claim, publish
from indexes.builder.column_stage import write_column
from indexes.builder.plan import BuildPlan
from indexes.builder.report import read_report
from indexes.lines import Articles
from indexes.store.columns import all_files, columns
from indexes.store.entity_index import write_entity_index
from indexes.store.manifest import (
    FORMAT_VERSION,
    KEY_IDS,
    MANIFEST,
    REPORT,
    SEARCH,
    VECTORS,
    describe_file,
    read_manifest,
)
from indexes.store.search_kinds import stored_keys
from retriever.files import write_json, write_whole

logger = logging.getLogger(__name__)


def change_search(plan: BuildPlan, kind: str) -> None:
    """Replaces the entity index in `plan.out` with one of another kind; otherwise only the manifest changes.

    The files are those of a build with that kind. A kill leaves the old index, the new one, or a resumable build.

    Raises:
        ValueError: The index has too few entities for the kind.
    """
    out, design = plan.out, plan.design
    manifest = read_manifest(out)
    inputs = manifest.inputs.model_copy(update={"search": kind})
    logger.info("%s: only the kind of entity index changes; rebuilding it from the stored vectors", out)
    parts = claim(out, inputs, overwrite=True)
    keys = stored_keys(out, parts / "stored.npy")
    record = write_entity_index(
        parts,
        keys,
        inputs,
        index=out,
        uri=design.search_uri,
        image_weight=design.image_weight,
        encoder=plan.encoder,
    )
    kept = {name: file for name, file in manifest.files.items() if name not in (SEARCH, VECTORS, KEY_IDS)}
    made = {name: describe_file(parts / name) for name in (SEARCH, VECTORS, KEY_IDS) if (parts / name).is_file()}
    files = kept | made
    changed = {
        "format_version": FORMAT_VERSION,
        "inputs": inputs,
        "search": record,
        "files": {name: files[name] for name in all_files() if name in files},
    }
    write_whole(parts / MANIFEST, manifest.model_copy(update=changed).to_json())
    publish(out)


def change_columns(plan: BuildPlan) -> None:
    """Computes the columns in `plan.out` that have other models than the plan's, and removes those that it lacks.

    The files are those of a build with these models. A kill leaves the old index, the new one, or a resumable build.
    """
    out = plan.out
    manifest = read_manifest(out)
    models = {name: model.fingerprint for name, model in plan.columns.items()}
    inputs = manifest.inputs.model_copy(update={"columns": models})
    names = [name for name in models if models[name] != manifest.inputs.columns.get(name)]
    gone = [name for name in manifest.inputs.columns if name not in models]
    done = [f"{', '.join(names)} computed" if names else "", f"{', '.join(gone)} removed" if gone else ""]
    logger.warning("%s: only columns change: %s; everything else is kept", out, " and ".join(filter(None, done)))
    parts, counts = claim(out, inputs, overwrite=True), dict(manifest.counts.columns)
    run, articles = plan.run(parts), Articles(out / "entities.jsonl")
    for name in names:
        counts[name] = write_column(run, articles, columns()[name], plan.source)
    changed_files = {file for name in (*names, *gone) for file in columns()[name].files}
    files = {name: file for name, file in manifest.files.items() if name not in changed_files}
    report = read_report(out)
    for report_on in filter(None, (columns()[name].report for name in names)):
        report |= report_on(parts)
    write_json(parts / REPORT, report)
    files |= {
        name: describe_file(parts / name) for name in (REPORT, *sorted(changed_files)) if (parts / name).is_file()
    }
    changed = {
        "format_version": FORMAT_VERSION,
        "inputs": inputs,
        "counts": manifest.counts.model_copy(update={"columns": {name: counts[name] for name in models}}),
        "files": {name: files[name] for name in all_files() if name in files},
    }
    write_whole(parts / MANIFEST, manifest.model_copy(update=changed).to_json())
    publish(out)
