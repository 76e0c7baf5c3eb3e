"""Documents of the web, in many encodings and of many kinds, with what no reader sees."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Iterator

import pytest

from omgm import web_access
from omgm.downloads.images.settings import DownloadSettings
from omgm.web_access import WebAccess, WebSettings
from search_agents.documents import WebDocument, text_of
from tests.fakes.web import FakeWeb, serve_web

pytest.importorskip("trafilatura", reason="needs the extra agents")

TEXTS = {
    "utf-8": ("Mühlen – müzesi 水車", "Das Museum öffnete 1987; 入場料は五百円です。"),
    "utf-16": ("Musée des moulins", "Le musée a été ouvert en 1987 dans un bâtiment âgé."),
    "iso-8859-1": ("Musée des moulins à eau", "Le musée a été ouvert en 1987 dans un bâtiment âgé."),
    "windows-1252": ("The “mill” museum", "The entrance costs 5 £ – children’s tickets are free."),
    "iso-8859-2": ("Muzeum młynów", "Wstęp kosztuje dziesięć złotych, a dzieci wchodzą za darmo."),
    "windows-1250": ("Muzeum mlýnů", "Vstupné činí šedesát korun, děti mají vstup zdarma, žáci také."),
    "windows-1251": ("Музей мельниц", "Музей открыт в 1987 году в старом здании на берегу реки."),
    "koi8-r": ("Музей водяных мельниц", "Вход стоит двести рублей для взрослых."),
    "windows-1253": ("Μουσείο μύλων", "Το εισιτήριο κοστίζει πέντε ευρώ για τους ενήλικες."),
    "iso-8859-9": ("Değirmen müzesi", "Giriş ücreti yetişkinler için yüz liradır, çocuklar ücretsiz girer."),
    "windows-1255": ("מוזיאון הטחנות", "דמי הכניסה הם חמישים שקלים למבוגר."),
    "windows-1256": ("متحف الطواحين", "سعر الدخول خمسون درهما للبالغين."),
    "tis-620": ("พิพิธภัณฑ์กังหันน้ำ", "ค่าเข้าชมผู้ใหญ่ห้าสิบบาท เด็กเข้าชมฟรี"),
    "shift_jis": ("水車博物館のご案内", "この博物館は一九八七年に開館しました。大人の入場料は五百円です。"),
    "euc-jp": ("水車博物館", "三百点以上の展示品を所蔵し、毎年二万人が訪れます。"),
    "iso-2022-jp": ("水車博物館", "三百点以上の展示品を所蔵し、毎年二万人が訪れます。"),
    "euc-kr": ("물레방아 박물관 안내", "이 박물관은 1987년에 강가의 오래된 건물에서 문을 열었습니다."),
    "gb2312": ("水车博物馆介绍", "这座博物馆于一九八七年在河边的老建筑中开放。成人门票为二十元。"),
    "big5": ("水車博物館", "這座博物館於一九八七年在河邊的老建築中開放。成人門票為二十元。"),
}


def page(title: str, text: str, head: str = "") -> str:
    body = f"<article><h1>{title}</h1><p>{text}</p></article>"
    return f"<html><head>{head}<title>{title}</title></head><body>{body}</body></html>"


@pytest.mark.parametrize("charset", TEXTS)
@pytest.mark.parametrize("declared", ["header", "meta", "http-equiv"])
def test_titles_and_texts_are_read_in_their_encoding(charset: str, declared: str) -> None:
    title, text = TEXTS[charset]
    head = {
        "meta": f"<meta charset={charset}>",
        "http-equiv": f"<meta http-equiv='Content-Type' content='text/html; charset={charset}'>",
    }.get(declared, "")
    content = page(title, text, head).encode(charset)
    read = text_of(
        WebDocument(content, f"text/html; charset={charset}" if declared == "header" else "text/html"), "https://a/"
    )
    assert read.title == title and text in read.text


@pytest.mark.parametrize("charset", ["windows-1251", "shift_jis", "gb2312", "euc-kr", "windows-1250", "windows-1252"])
def test_an_undeclared_encoding_is_guessed(charset: str) -> None:
    title, text = TEXTS[charset]
    read = text_of(WebDocument(page(title, " ".join([text] * 5)).encode(charset)), "https://a/")
    assert read.title == title and text in read.text


def test_one_damaged_byte_is_one_damaged_character() -> None:
    title, text = TEXTS["utf-8"]
    read = text_of(WebDocument(page(title, text).encode() + b"<!-- \xff -->"), "https://a/")
    assert read.title == title and text in read.text


def test_the_header_counts_before_the_page() -> None:
    content = page("Вход", "Вход стоит двести рублей.", "<meta charset=windows-1252>").encode("windows-1251")
    assert text_of(WebDocument(content, "text/html; charset=windows-1251"), "https://a/").title == "Вход"


@pytest.mark.parametrize(
    ("content", "kind", "title", "text"),
    [
        (b"# Mill\n\nIt opened in 1987.", "text/markdown", "a b.md", "It opened in 1987."),
        (b"plain <b> text", "text/plain; charset=utf-8", "a b.md", "plain <b> text"),
        (b'{"opened": 1987}', "application/json", "a b.md", '{"opened": 1987}'),
        (b"name,year\nMill,1987\n", "text/csv", "a b.md", "Mill,1987"),
        (codecs.BOM_UTF16_LE + "größte Mühle".encode("utf-16-le"), "text/plain", "a b.md", "größte Mühle"),
        (
            b"<?xml version='1.0'?><rss version='2.0'><channel><title>News</title><item><title>Mill opens</title>"
            b"<link>https://a/1</link><description>&lt;p&gt;In &lt;b&gt;1987&lt;/b&gt;.&lt;/p&gt;"
            b"</description></item></channel></rss>",
            "application/rss+xml",
            "News",
            "Mill opens\nhttps://a/1\nIn 1987.",
        ),
        (
            b"<feed xmlns='http://www.w3.org/2005/Atom'><title>Blog</title><entry><title>Mill</title><link href='https://a/2'/>"
            b"<content type='html'>&lt;i&gt;old&lt;/i&gt; stones</content></entry></feed>",
            "application/atom+xml",
            "Blog",
            "Mill\nhttps://a/2\nold stones",
        ),
    ],
)
def test_other_kinds_of_text(content: bytes, kind: str, title: str, text: str) -> None:
    read = text_of(WebDocument(content, kind), "https://web/files/a%20b.md?x=1")
    assert (read.title, read.note) == (title, "") and text in read.text


def pdf(text: str) -> bytes:
    """Returns a PDF of one page, written by hand."""
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, start=1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % len(body)
    return body + b"xref\n0 6\n0000000000 65535 f \n" + table + end


def test_a_pdf_is_read() -> None:
    pytest.importorskip("pypdf", reason="needs the extra pdf")
    read = text_of(WebDocument(pdf("The mill opened in 1987."), "application/pdf"), "https://web/mill.pdf")
    assert (read.title, read.text) == ("mill.pdf", "The mill opened in 1987.")
    with pytest.raises(ValueError, match="is a damaged PDF"):
        text_of(WebDocument(pdf("x")[:100]), "https://web/mill.pdf")


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png", "not an HTML page but image/png"),
        (b"PK\3\4\x14\0\6\0", "", "not an HTML page but binary data"),
        (
            page("", "", "<noscript>You need to enable JavaScript to run this app.</noscript>").encode(),
            "",
            "asks for JavaScript",
        ),
        (page("Just a moment...", "Checking your browser before accessing the site.").encode(), "", "whether a person"),
        (
            page(
                "Before you continue", "We use cookies. Accept all cookies, or choose which cookies you allow."
            ).encode(),
            "",
            "consent to cookies",
        ),
        (b"<feed><!ENTITY a 'b'></feed>", "", "declares entities"),
        (b"   ", "text/plain", "holds no text"),
    ],
)
def test_what_is_no_page_is_said(content: bytes, kind: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        text_of(WebDocument(content, kind), "https://web/x")


def test_an_article_about_cookies_is_an_article() -> None:
    text = " ".join(f"Recipe {n} is for cookies with butter, sugar and flour." for n in range(30))
    assert "Recipe 29" in text_of(WebDocument(page("Cookies", text).encode()), "https://a/").text


def test_text_that_no_reader_sees_is_left_out() -> None:
    hidden = (
        "<p style='display:none'>secret A</p><p style='Display : None'>secret B</p><p hidden>secret C</p>"
        "<!-- secret D -->"
        "<p style='font-size:0'>secret E</p><p style='font-size: 0px'>secret F</p>"
        "<div style='visibility:hidden'>secret G</div>"
        "<template>secret H</template><script>secret I</script>"
    )
    seen = "<p style='font-size:0.9em'>The entrance costs 5 euros, and it opened in 1987 near the river.</p>"
    read = text_of(
        WebDocument(page("Mill", f"It is old.</p>{hidden}{seen}<p>ze\u200bro\U000e0041\u202ewidth").encode()),
        "https://a/",
    )
    assert "secret" not in read.text and "entrance costs 5 euros" in read.text and "zerowidth" in read.text


@pytest.mark.slow
def test_a_page_of_tiny_paragraphs_is_bounded() -> None:
    content = page("Many", "a b</p>" + "<p>a b</p>" * 250_000 + "<p>the end").encode()
    read = text_of(WebDocument(content), "https://a/")
    assert read.note == "The page was read up to its element 200000." and "the end" not in read.text
    assert read.text.count("a b") > 190_000


@pytest.fixture
def web() -> Iterator[FakeWeb]:
    text = page("Mill", "The museum opened in 1987.")
    with serve_web(
        {"mill.html": text.encode(), "long.html": text.replace("</p>", " It is old." * 3000).encode()}
    ) as pages:
        yield pages


def fetched(web: FakeWeb, path: str) -> WebDocument:
    async def fetch() -> WebDocument:
        allowed = frozenset({web.place})
        access = WebAccess(WebSettings(pages=DownloadSettings(user_agent="test", allow_private=allowed, silence_s=5)))
        assert access.fetch is not None
        try:
            return await access.fetch(web.url(path), 1 << 20)
        finally:
            await access.aclose()

    return asyncio.run(fetch())


@pytest.mark.parametrize("encoding", ["good", "gzip", "deflate", "rawdeflate"])
def test_content_encodings(web: FakeWeb, encoding: str) -> None:
    assert fetched(web, f"{encoding}/mill.html").content == web.files["mill.html"]


def test_the_content_type_arrives(web: FakeWeb) -> None:
    assert fetched(web, "page/mill.html") == WebDocument(web.files["mill.html"], "text/html; charset=utf-8")


def test_a_page_that_trickles_ends_with_what_was_read(web: FakeWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_access, "_ENOUGH_S", 0.5)
    document = fetched(web, "drip/long.html")
    assert document.is_cut and document.content and web.files["long.html"].startswith(document.content)
    assert text_of(WebDocument(web.files["mill.html"], is_cut=True), "https://a/").note.startswith(
        "The page was sent too slowly"
    )
