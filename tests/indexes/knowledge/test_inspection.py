"""What inspecting a knowledge base says, and in which language its articles are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from indexes.knowledge.inspection import html_page, inspect_knowledge_base, text_lines
from indexes.knowledge.understanding.languages import is_foreign
from omgm.__main__ import main
from tests.fakes.images import write_image


def write_notes(folder: Path, count: int = 12) -> Path:
    folder.mkdir()
    Image.new("RGB", (80, 60), "red").save(folder / "0.png")
    (folder / "1.png").write_bytes(b"not an image")
    for number in range(count):
        image = f"![]({number}.png)" if number < 3 else ""
        (folder / f"{number:02}.md").write_text(
            f"# Note <{number}>\n{image}\nText of {number}.\n## More\nWords & words, {number}.\n"
        )
    (folder / "empty.md").write_text("# Note <1>\n![](0.png)\n")
    (folder / "latin.md").write_bytes(b"Caf\xe9")
    return folder


def test_counts_and_problems(tmp_path: Path) -> None:
    found = inspect_knowledge_base(write_notes(tmp_path / "notes"), count=4)
    assert (found.entities, found.sections, found.without_text, found.repeated_titles) == (13, 24, 1, 1)
    assert (found.named, found.found, found.missing) == (4, 3, ["2.png of 02 (no file of this name)"])
    assert found.skipped.listed[0]["place"] == "latin.md" and found.skipped.count == 1
    assert len(found.specimens) == 4
    # "Text of 1." and "Words & words, 1." without the titles, and "More"
    assert found.counts()["words"] == {"source": 12 * 8, "kept": 12 * 8} and found.counts()["pictures"]["found"] == 3
    assert found.counts()["left_out"][0]["unit"] == "entities"
    lines = "\n".join(text_lines(found))
    assert "kept 100.0 % of 96 words; left out: entries that cannot be used 1 entity, e.g. latin.md: not UTF-8" in lines
    assert "13 entities, 24 sections, 4 with an image, 3 of them found" in lines
    assert "1 entity without text" in lines and "1 image missing, such as 2.png of 02" in lines
    assert "1 title already used by an earlier entity" in lines
    assert "1 of 14 entries cannot be used: latin.md: not UTF-8" in lines


def test_texts_that_are_not_in_english(tmp_path: Path) -> None:
    texts = [
        "Почта Минска, Michel 1927.",
        "樹齢1000年を超える紅枝垂桜。",
        "Pied blanc, à la base élargie.",
        "A white stem with a broad base; Latin name: Russula aeruginea.",
        "17",
    ]
    path = tmp_path / "kb.json"
    path.write_text(json.dumps([{"name": f"E{i}", "text": text} for i, text in enumerate(texts)]))
    found = inspect_knowledge_base(path)
    assert found.not_english == found.counts()["not_english"] == 3
    assert "3 entities not in English: the extractive reader" in "\n".join(text_lines(found))


def test_the_choice_is_seeded(tmp_path: Path) -> None:
    kb = write_notes(tmp_path / "notes")
    chosen = [[one.entity.id for one in inspect_knowledge_base(kb, count=4, seed=seed).specimens] for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert chosen[0] == sorted(chosen[0])


def test_the_page_holds_text_and_images(tmp_path: Path) -> None:
    found = inspect_knowledge_base(write_notes(tmp_path / "notes"), count=20)
    sizes = [(one.image, one.size, one.problem) for one in found.specimens[:4]]
    assert sizes[0] == ("0.png", (80, 60), None) and sizes[3] == (None, None, None)
    assert sizes[1][2] is not None and "not an image" in sizes[1][2]
    assert sizes[2] == ("2.png", None, "missing")
    page = html_page(found).decode()
    assert page.count("data:image/jpeg;base64,") == 2
    assert (
        "Note &lt;0&gt;" in page
        and "Words &amp; words, 3." in page
        and "<td>entries that cannot be used</td><td>1</td>" in page
    )
    assert "<script" not in page


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kb, page = write_notes(tmp_path / "notes"), tmp_path / "page.html"
    assert main(["kb", "inspect", str(kb), "--count", "2", "--html", str(page)]) == 0
    shown = capsys.readouterr().out
    assert "Text of " in shown and f"with images: {page}" in shown and page.is_file()
    assert main(["kb", "inspect", str(kb), "--count", "2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["entities"], report["images_found"], len(report["examples"])) == (13, 3, 2)
    (tmp_path / "kb.csv").write_text("year,rain\n1990,12\n1991,13\n")
    for form in ([], ["--json"]):
        with pytest.raises(SystemExit, match="1"):
            main(["kb", "inspect", str(tmp_path / "kb.csv"), *form])
    assert '"entities": 0' in capsys.readouterr().out
    assert main(["kb", "inspect", str(tmp_path / "absent")]) == 2
    assert "FILE: " in capsys.readouterr().err
    assert main(["kb", "inspect", str(kb), "--map", "heading=x"]) == 2
    assert "unknown field 'heading'" in capsys.readouterr().err


ENGLISH = [
    "A white stem with a broad base; Latin name: Russula aeruginea.",
    "Ojo de Liebre, Guerrero Negro, San Ignacio. El Vizcaíno. 1951-03-04.",  # names and a date
    "The Château de la Roche was built by the Comte de Foix in 1380.",
    "Grows quickly, tolerates frost, prefers sandy soil.",
    "17",
    "Café au lait",
    "Ingredients: crème de menthe, crème de cacao, crème fraîche.",
    "Москва (Moscow) is the capital of Russia and its largest city.",
]
FOREIGN = [
    "Почта Минска, Michel 1927.",
    "樹齢1000年を超える紅枝垂桜。",
    "Pied blanc, à la base élargie.",
    "Der Turm ist 40 m hoch und wurde 1880 gebaut.",
    "La torre fue construida en 1880 por el rey de Castilla.",
    "De toren is in 1880 gebouwd en werd later een museum.",
    "Wieża została zbudowana w 1880 roku i jest wysoka na 40 m.",
    "बाघ एक बड़ा जानवर है।",
]


def test_languages() -> None:
    assert [text for text in ENGLISH if is_foreign([text])] == []
    assert [text for text in FOREIGN if not is_foreign([text])] == []


def test_git_lfs_pointers_are_no_images(tmp_path: Path) -> None:
    for name in ("fox", "owl"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\n![]({name}.png)\n\nText.")
    write_image(tmp_path / "owl.png", "red")
    (tmp_path / "fox.png").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")
    left_out = inspect_knowledge_base(tmp_path).account()["left_out"]
    assert [(one["unit"], one["count"], one["example"]) for one in left_out] == [("images", 1, "fox: fox.png")]


def test_groups_and_images_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kb, index = tmp_path / "kb", tmp_path / "index"
    (kb / "docs").mkdir(parents=True)
    write_image(kb / "fox.png", "red")
    write_image(kb / "owl.png", "blue")
    rows = [{"title": name, "image": f"{name}.png", "text": f"The {name} is red."} for name in ("fox", "owl")]
    (kb / "kb.json").write_text(json.dumps(rows))
    (kb / "docs" / "note.md").write_text("# Note\n\nOn words.\n")
    groups = "kb.json (jsonl): 2 entities, 2 with an image", "docs/* (markdown): 1 entity, none with an image"
    advice = "1 entity in groups with hardly any image; to leave these out: --skip 'docs/*'"
    result = inspect_knowledge_base(kb)
    assert {*groups, advice} <= {*text_lines(result)} and advice in html_page(result).decode().replace("&#39;", "'")
    assert [group["skip"] for group in result.counts()["groups"]] == ["--skip 'docs/*'", "--skip kb.json"]
    assert main(["build-index", "--kb", str(kb), "--out", str(index)]) == 0
    assert {*groups, advice} <= {*capsys.readouterr().out.splitlines()}
    report = json.loads((index / "report.json").read_bytes())
    assert {*groups, advice} <= {*report["notes"]} and report["pictures"]["found"] == 2
    (tmp_path / "kb.jsonl").touch()
    build = ["build-index", "--kb", str(tmp_path / "kb.jsonl"), "--kb-format", "evqa", "--out", str(tmp_path / "other")]
    assert main(build) == 2 and f"images: name the folder with the images ({tmp_path}" in capsys.readouterr().err
