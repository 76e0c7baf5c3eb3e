"""Files as programs compress and encode them."""

from __future__ import annotations

import bz2
import codecs
import gzip
import zipfile
from pathlib import Path

import pytest

from indexes.decoding import decoded, likely_encoding, opened, opened_text

TEXT = "Füchse 狐 🦊\n" + "".join(f"Fox {number},{number} kg\n" for number in range(3000))


def packed(path: Path, content: bytes) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("folder/kb.csv", content)
            archive.writestr("__MACOSX/._kb.csv", b"x")
    else:
        compressed = {".gz": gzip.compress(content), ".bz2": bz2.compress(content)}
        path.write_bytes(compressed.get(path.suffix, content))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["kb.csv", "kb.csv.gz", "kb.csv.bz2", "kb.zip"])
def test_every_form_of_unicode_is_read(tmp_path: Path, name: str, encoding: str) -> None:
    path = packed(tmp_path / name, TEXT.encode(encoding))
    with opened_text(path) as file:
        assert file.read().decode("utf-8-sig") == TEXT
    with opened(path) as file:
        assert decoded(file.read(), str(path)) == TEXT


@pytest.mark.parametrize("name", ["kb.csv.gz", "kb.csv.bz2", "kb.zip"])
def test_damaged_archives_are_named(tmp_path: Path, name: str) -> None:
    whole = packed(tmp_path / name, TEXT.encode()).read_bytes()
    for data in (whole[: len(whole) // 2], whole.replace(b"1234", b"1235") if name == "kb.zip" else whole[:-20]):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ValueError, match=r"damaged or cut short .*fetch it again"), opened(tmp_path / name) as file:
            file.read()


def test_an_archive_of_several_files_is_refused(tmp_path: Path) -> None:
    path = packed(tmp_path / "kb.zip", b"{}")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("second.json", "{}")
    with pytest.raises(ValueError, match=r"kb\.zip: must contain one file, got 2"), opened(path):
        pass


SAMPLES = {
    "CP932": "東京,首都\nきつねは森に住む。",
    "EUC-JP": "東京は日本の首都です。\n狐は森に住む動物です。\n" * 9,
    "CP949": "여우는 숲에 산다",
    "GB18030": "狐狸住在森林里\n上海博物馆",
    "BIG5": "國立故宮博物院\n狐狸住在森林裡",
    "WINDOWS-1251": "Москва\nЛиса живёт в лесу.",
    "KOI8-R": "Лиса живёт в лесу.",
    "WINDOWS-1250": "Łódź jest miastem\nPříliš žluťoučký kůň",
    "WINDOWS-1252": "München,Straße\ncafé, Øresund, naïve “quotes”",
}


@pytest.mark.parametrize(("name", "text"), SAMPLES.items())
def test_the_likely_encoding_is_named_with_the_command_that_converts(tmp_path: Path, name: str, text: str) -> None:
    content = f"title,text\n{text}\n".encode(codecs.lookup(name.replace("WINDOWS-", "cp")).name)
    assert likely_encoding(content) == name
    with pytest.raises(
        ValueError, match=rf"a/kb\.csv: not UTF-8 .* iconv --from-code {name} --to-code UTF-8 kb\.csv > "
    ):
        decoded(content, "a/kb.csv")


def test_bytes_that_are_no_text_are_called_so() -> None:
    with pytest.raises(ValueError, match=r"kb\.md: not UTF-8 .* no text in any encoding"):
        decoded(b"text\n" * 900 + b"\xff\0\xfe\1", "kb.md")
    with pytest.raises(ValueError, match=r"kb\.md: damaged UTF-16"):
        decoded("Fox".encode("utf-16") + b"\xd8", "kb.md")
