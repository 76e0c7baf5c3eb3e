"""HTML as it is written: the character sets that pages are in, and declare."""

from __future__ import annotations

import pytest

from indexes.html_source import decode_html, tree_of


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<p>Łódź</p>".encode(), "Łódź"),
        ('<meta charset="iso-8859-2"><p>Łódź</p>'.encode(), "Łódź"),  # UTF-8, whatever it says
        ('<meta charset="iso-8859-2"><p>Łódź</p>'.encode("iso-8859-2"), "Łódź"),
        ('<meta http-equiv="Content-Type" content="a; charset=iso-8859-1"><p>“Café”</p>'.encode("cp1252"), "“Café”"),
        ('<meta charset=gb2312><p>上海</p>'.encode("gbk"), "上海"),
        ('<meta charset="Shift_JIS"><p>東京</p>'.encode("cp932"), "東京"),
        ('<meta charset="iso-2022-jp"><p>東京</p>'.encode("iso-2022-jp"), "東京"),
        ('<?xml version="1.0" encoding="windows-1251"?><p>Да</p>'.encode("cp1251"), "Да"),
        ("<p>Über</p>".encode("latin-1"), "Über"),
        ("<p>Привет, как дела у вас сегодня</p>".encode("cp1251"), "Привет, как дела у вас сегодня"),
        ("<p>Sixteen</p>".encode("utf-16"), "Sixteen"),
        (b'<meta charset="nonsense"><p>\xe9t\xe9</p>', "été"),
        (b'<meta charset="base64"><p>\xe9t\xe9</p>', "été"),
        ("\ufeff<meta charset=latin-1><p>é</p>".encode(), "é"),
        ("<p>größer und größer, sehr viel größer</p>".encode() + b"\xe9", "größer und größer, sehr viel größer"),
    ],
)  # fmt: skip
def test_character_sets(content: bytes, text: str) -> None:
    assert tree_of(decode_html(content), True).body.text().strip().rstrip("\ufffd") == text
    assert decode_html(content, "utf-8" if text == "Über" else "") == decode_html(content) or text == "Über"
