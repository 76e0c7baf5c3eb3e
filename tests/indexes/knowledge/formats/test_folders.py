"""Folders as people have them: with hidden files, files of systems, links, and what may not be read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from indexes.knowledge.formats import guess_format, read_knowledge_base
from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.reading import SkippedEntries

BIRD = "The {0} sings before dawn."
FORMATS = {
    "markdown": (".md", "# {0}\n\n" + BIRD + "\n"),
    "website": (".html", "<html><body><h1>{0}</h1><p>" + BIRD + "</p></body></html>"),
    "jsonl": (".json", '{{"name": "{0}", "text": "' + BIRD + '"}}'),
    "xml": (".xml", "<bird><name>{0}</name><text>" + BIRD + "</text></bird>"),
}


def write(folder: Path, format: str, *names: str) -> None:
    suffix, text = FORMATS[format]
    for name in names:
        path = folder / f"{name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(path.stem))


def titles(path: Path, format: str, skipped: SkippedEntries | None = None, losses: Losses | None = None) -> list[str]:
    skipped = skipped or SkippedEntries(0)
    return [one.title for one in read_knowledge_base(path, format, skipped=skipped, losses=losses)]


@pytest.mark.parametrize("format", FORMATS)
def test_files_of_systems_are_not_read(tmp_path: Path, format: str) -> None:
    write(
        tmp_path,
        format,
        "robin",
        "north/wren",
        "._robin",
        ".git/owl",
        "__MACOSX/crow",
        "@eaDir/kite",
        ".Trash-1000/tit",
    )
    write(tmp_path, format, ".thumbnails/finch", "node_modules/emu", "$RECYCLE.BIN/swan", "north/.obsidian/hen")
    assert guess_format(tmp_path) == format
    assert titles(tmp_path, format) == ["wren", "robin"]


@pytest.mark.parametrize("format", FORMATS)
def test_what_cannot_be_read_is_one_bad_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    write(tmp_path, format, "robin", "secret", "wren", "closed/owl")
    scandir, open_file = os.scandir, Path.open

    def refusing_folder(path: Any) -> Any:
        if str(path).endswith("closed"):  # root may read everything
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    def refusing_file(path: Path, *args: Any, **kwargs: Any) -> Any:
        if path.stem == "secret":
            raise PermissionError(13, "Permission denied")
        return open_file(path, *args, **kwargs)

    monkeypatch.setattr(os, "scandir", refusing_folder)
    monkeypatch.setattr(Path, "open", refusing_file)
    skipped = SkippedEntries(1)
    assert guess_format(tmp_path) == format
    assert titles(tmp_path, format, skipped) == ["robin", "wren"]
    assert [(one["place"], one["reason"]) for one in skipped.listed] == [
        ("closed", "cannot be read: Permission denied"),
        (f"secret{FORMATS[format][0]}", "cannot be read: Permission denied"),
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_links(tmp_path: Path, format: str) -> None:
    kb, elsewhere, losses = tmp_path / "kb", tmp_path / "elsewhere", Losses()
    write(kb, format, "robin", "north/wren")
    write(elsewhere, format, "owl", "crow")
    suffix = FORMATS[format][0]
    (kb / "owls").symlink_to(elsewhere)
    (kb / "again").symlink_to(kb / "north")  # its files come once
    (kb / f"owl{suffix}").symlink_to(elsewhere / f"owl{suffix}")
    assert titles(kb, format, losses=losses) == ["wren", "owl", "robin"]
    (loss,) = [one for reason, one in losses.left_out.items() if "linked folders" in reason]
    assert loss.count == 2 and f"owls leads to {elsewhere}".startswith(loss.example)  # long examples are cut


def test_yaml_beside_json_is_counted(tmp_path: Path) -> None:
    write(tmp_path, "jsonl", "robin")
    (tmp_path / "wren.yml").write_text(json.dumps({"name": "Wren"}))
    losses = Losses()
    assert titles(tmp_path, "jsonl", losses=losses) == ["robin"]
    assert str(tmp_path / "wren.yml").startswith(losses.left_out["YAML files beside JSON files"].example)
