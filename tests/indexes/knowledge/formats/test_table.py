from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from indexes.knowledge.knowledge_base import guess_format
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.bad_entries import SkippedEntries
from retriever.types import ArticleImage, Section
from tests.fakes.reading import facts, read

FOXES = (
    "Name,photo,description,Height in cm,url\r\n"
    'Red fox,a/red.jpg|b.jpg,"It is ""red"".\r\n\r\nIt runs.",40,\r\n'
    "Hen,,,,x\r\n"
)


def test_a_table_of_images(tmp_path: Path) -> None:
    path = tmp_path / "foxes.csv"
    path.write_bytes(b"\xef\xbb\xbf" + FOXES.encode())
    fox, hen = read(path)
    assert guess_format(path) == "csv"
    assert (fox.id, fox.title, fox.image, fox.images) == ("Red fox", "Red fox", "a/red.jpg", (ArticleImage("b.jpg"),))
    assert fox.sections == (Section("Red fox", 'It is "red".\nIt runs.', 0), Section("Facts", "Height in cm: 40", 1))
    assert (hen.id, hen.image, hen.url, hen.sections) == ("Hen", None, "x", ())
    (tmp_path / "foxes.csv.gz").write_bytes(gzip.compress(FOXES.encode()))
    assert read(tmp_path / "foxes.csv.gz") == [fox, hen]


def test_a_folder_of_images_with_a_table_is_named_by_the_table(tmp_path: Path) -> None:
    (tmp_path / "metadata.csv").write_text(FOXES)
    (tmp_path / "red.jpg").touch()
    with pytest.raises(ValueError, match=r"a folder without Markdown or pages; name the file in it: .*metadata\.csv$"):
        guess_format(tmp_path)


def test_other_separators_and_names(tmp_path: Path) -> None:
    path = tmp_path / "foxes.tsv"
    path.write_text("nr\tart\tfile_name\n7\tFuchs, rot\tf.png\n")
    (fox,) = read(path, id="nr", title="art")
    assert (fox.id, fox.title, fox.image, fox.sections) == ("7", "Fuchs, rot", "f.png", ())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"a\.csv: has no header"),
        ("title,x\nFox,1\n,2\n", r"a\.csv: line 3: no title; .* --map title=NAME"),
        ("title,x\nFox,1,2\n", r"a\.csv: line 2: 3 values, but the header has 2 columns"),
        ("id,title\nFox,1\nFox,2\n", r"a\.csv: line 3 \('Fox'\): field 'id': 'Fox' occurs a second time"),
        (
            'title,x\nFox,"1\n',
            r"a\.csv: line 2: unexpected end of data: a quotation mark that begins there is never closed",
        ),
    ],
)
def test_bad_tables(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "a.csv")


def test_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"title\nCaf\xe9\n")
    with pytest.raises(ValueError, match=r"a\.csv: not UTF-8"):
        read(tmp_path / "a.csv")


def test_a_header_with_a_line_break_in_a_name(tmp_path: Path) -> None:
    path = tmp_path / "foxes.csv"
    path.write_bytes(b'title,"Height\r\nin cm",text\r\nFox,40,Red\r\n,1,2\r\n')
    skipped = SkippedEntries(0.9)
    (fox,) = read_knowledge_base(path, skipped=skipped)
    assert fox.sections == (Section("Fox", "Red", 0), Section("Facts", "Height in cm: 40", 1))
    assert skipped.listed[0]["place"] == "line 4"


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "sep=;\r"])
def test_the_line_by_which_excel_names_the_delimiter(tmp_path: Path, first: str) -> None:
    path = tmp_path / "foxes.csv"
    path.write_bytes(f"{first}\ntitle;text\nFox;a, b, c\n;x\n".encode())
    skipped = SkippedEntries(0.5)
    [fox] = read_knowledge_base(path, skipped=skipped)
    assert (fox.title, fox.sections) == ("Fox", (Section("Fox", "a, b, c", 0),))
    assert skipped.listed[0]["place"] == "line 4"


def test_columns_of_one_name_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "foxes.csv"
    path.write_bytes(b"title,Note,Note,text,Note\nFox,red,,A fox.,shy\n")
    [fox] = read_knowledge_base(path)
    assert fox.sections == (Section("Fox", "A fox.", 0), Section("Facts", "Note: red\nNote (3): shy", 1))


def test_rows_that_go_on_with_the_row_above_them(tmp_path: Path) -> None:
    path = tmp_path / "products.csv"
    path.write_text(
        "Handle,Title,Body (HTML),Size,Price,Image Src\n"
        "mug,Mug,<p>A mug.</p>,small,5,https://a.example/1.jpg\n"
        "mug,,,large,7,https://a.example/2.jpg\n"
        "mug,,,huge,7,\n"
        "pot,Pot,,,9,\n"
    )
    mug, pot = read_knowledge_base(path, skipped=SkippedEntries(0))
    assert (mug.id, mug.title, mug.image, pot.id) == ("mug", "Mug", "https://a.example/1.jpg", "pot")
    assert mug.images == (ArticleImage("https://a.example/2.jpg"),)
    assert [section.text for section in mug.sections] == ["A mug.", "Size: small, large, huge\nPrice: 5, 7"]


@pytest.mark.parametrize(
    ("name", "advice"), [("objects.xlsx", "a spreadsheet; save it as CSV"), ("shop.sql", "a dump of a database")]
)
def test_files_that_have_to_be_converted(tmp_path: Path, name: str, advice: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(ValueError, match=advice):
        guess_format(tmp_path / name)


def test_a_table_without_a_header_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "foxes.csv"
    path.write_text("3,Red fox,species\n4,Fennec,species\n", encoding="utf-8")
    list(read_knowledge_base(path))
    assert "foxes.csv: its first column is called 3; does the table lack a header?" in caplog.text


def test_members_of_objects_in_columns_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "kb.csv"
    path.write_text(
        "name.common,name.official,chart_image,photo.url,photo.title,size.max.cm,size.min,No.,v1.2\n"
        "Loon,Great Loon,chart.png,loon.jpg,A loon,80,60,7,x\nTeal,,,,,,,8,\n"
    )
    loon, teal = read(path)
    assert (loon.title, loon.names, loon.image) == ("Loon", ("Great Loon",), "loon.jpg")
    assert facts(loon)[-3:] == ["Size, min: 60", "No.: 7", "V1.2: x"] and "Size, max, cm: 80" in facts(loon)
    assert (teal.title, teal.image, facts(teal)) == ("Teal", None, ["No.: 8"])
    assert [one.image for one in read(path, image="chart_image")] == ["chart.png", None]
