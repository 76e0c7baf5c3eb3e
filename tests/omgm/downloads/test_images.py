from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

from evaluation.datasets import find_query_image, forget_listings
from indexes.image_source import find_main
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.sources import find_image, open_images
from omgm.__main__ import main
from omgm.downloads.images.fetch import as_jpeg, fetch_images, scaled
from omgm.downloads.images.settings import DownloadSettings
from retriever.images import encoded, load_image
from retriever.types import ArticleImage, Entity
from tests.fakes.downloads import FILES, downloaded, fetch_command, missing_reasons, write_kb_of
from tests.fakes.images import noise
from tests.fakes.listening import free_port
from tests.fakes.rows import write_jsonl
from tests.fakes.web import FakeWeb, serve_web


@pytest.fixture
def web() -> Iterator[FakeWeb]:
    with serve_web(dict(FILES)) as server:
        yield server


def settings_for(web: FakeWeb, **changes: Any) -> DownloadSettings:
    quick: dict[str, Any] = {
        "user_agent": "test/1 (test@example.org)",
        "per_second": 1000.0,
        "megabits": 1e6,
        "retries": 2,
        "backoff_s": 0.01,
        "silence_s": 2.0,  # long enough for a busy machine
        "attempt_s": 2.5,
        "give_up_after": 100,
        "allow_private": frozenset({web.place}),
        "max_bytes": 300_000,
    }
    return DownloadSettings(**quick | changes)


def entities_of(urls: list[str]) -> list[Entity]:
    return [Entity(str(number), f"Entity {number}", (), image=url) for number, url in enumerate(urls)]


def fetch(web: FakeWeb, folder: Path, paths: list[str], **changes: Any) -> dict[str, Any]:
    urls = [path if "://" in path else web.url(path) for path in paths]
    return fetch_images(entities_of(urls), folder, settings_for(web, **changes))


FAULTS = {
    "missing/1.jpg": "gone",
    "forbidden/1.jpg": "forbidden",
    "teapot/1.jpg": "refused",
    "error/1.jpg": "server_error",
    "reset/1.jpg": "broken_off",
    "garbage/1.jpg": "broken_off",
    "truncated/1.jpg": "broken_off",
    "longer/1.jpg": "broken_off",
    "shorter/1.jpg": "damaged",
    "liar/1.jpg": "broken_off",
    "endless/1.jpg": "too_large",
    "gzipbomb/1.jpg": "too_large",
    "twicegzip/1.jpg": "damaged",
    "cutgzip/1.jpg": "damaged",
    "badgzip/1.jpg": "damaged",
    "html/1.jpg": "not_a_picture",
    "empty/1.jpg": "empty",
    "loop/1.jpg": "redirects",
    "private/1.jpg": "private_address",
    "file/1.jpg": "redirects",
    "nowhere/1.jpg": "redirects",
    "good/big.bmp": "too_large",
    "good/bomb.png": "too_many_pixels",
    "good/thin.png": "too_thin",
    "good/cut.png": "damaged",
}
FINE = [
    "good/1.jpg",
    "good/phone.heic",
    "once500/2.jpg",
    "oncereset/3.jpg",
    "busy/4.jpg",
    "gzip/5.jpg",
    "nolength/6.jpg",
    "moved/7.jpg",
]


def test_every_fault_is_named_and_the_rest_arrives(web: FakeWeb, tmp_path: Path) -> None:
    report = fetch(web, tmp_path, [*FAULTS, *FINE], per_host=40, retries=1)
    expected = {web.url(path): reason for path, reason in FAULTS.items()}
    assert missing_reasons(tmp_path) == expected
    assert sorted(downloaded(tmp_path)) == sorted(FINE)
    assert report["images"] == {
        "named": len(FAULTS) + len(FINE),
        "there": len(FINE),
        "not_from_here": 0,
        "duplicates": 0,
        "missing": len(FAULTS),
    }
    assert report["missing"]["redirects"]["images"] == 3
    assert report["missing"]["redirects"]["hosts"] == {web.place: 3}
    assert report == json.loads((tmp_path / ".omgm/report.json").read_text())
    for path in FINE:
        assert find_image(tmp_path, web.url(path)) == tmp_path / path
        with Image.open(tmp_path / path) as image:
            assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (40, 30))


def test_a_server_that_sends_nothing_or_never_ends_is_given_up(web: FakeWeb, tmp_path: Path) -> None:
    fetch(web, tmp_path, ["drip/1.jpg", "hang/1.jpg"], silence_s=0.2, attempt_s=0.5, retries=1, robots=False)
    assert missing_reasons(tmp_path) == {web.url("drip/1.jpg"): "timeout", web.url("hang/1.jpg"): "timeout"}
    assert downloaded(tmp_path) == {}


def test_addresses_that_are_none(web: FakeWeb, tmp_path: Path) -> None:
    odd = {
        "flag/jp.jpg": "not_a_url",
        "ftp://example.org/a.jpg": "not_a_url",
        "http://user:secret@example.org/a.jpg": "not_a_url",
        "http://example.org": "not_a_url",
        "http://example.org/a/..": "not_a_url",
        "http://example.org/.omgm/journal.sqlite": "not_a_url",
        "http://[broken/a.jpg": "not_a_url",
        "http://127.0.0.1:9/a9.jpg": "private_address",
        "http://10.1.2.3/a10.jpg": "private_address",
        "http://[::ffff:127.0.0.1]/a6.jpg": "private_address",
        "http://169.254.169.254/latest/meta-data": "private_address",
    }
    fetch_images(entities_of(list(odd)), tmp_path, settings_for(web))
    assert missing_reasons(tmp_path) == odd
    assert downloaded(tmp_path) == {}


def test_a_refused_connection_gives_up_the_host_at_once(web: FakeWeb, tmp_path: Path) -> None:
    dead = f"127.0.0.1:{free_port()}"
    paths = [f"http://{dead}/{number}.jpg" for number in range(5)]
    report = fetch(web, tmp_path, [*paths, "good/1.jpg"], allow_private=frozenset({"127.0.0.1"}))
    assert list(report["this_run"]["hosts_given_up"]) == [dead]
    assert missing_reasons(tmp_path) == dict.fromkeys(paths, "host_given_up")
    assert list(downloaded(tmp_path)) == ["good/1.jpg"]


def test_a_host_that_keeps_failing_is_given_up_and_asked_again_next_time(web: FakeWeb, tmp_path: Path) -> None:
    paths = [f"error/{number}.jpg" for number in range(20)] + ["good/1.jpg"]
    fetch(web, tmp_path, paths, per_host=1, retries=1, give_up_after=3)
    assert web.paths() == [f"/error/{number}.jpg" for number in (0, 0, 1, 1, 2, 2)]
    assert sorted(set(missing_reasons(tmp_path).values())) == ["host_given_up", "server_error"]
    web.forget()
    fetch(web, tmp_path, paths, per_host=1, retries=0)
    assert len(web.paths()) == 21
    assert list(downloaded(tmp_path)) == ["good/1.jpg"]


def test_a_missing_image_is_requested_once_unless_told_to_retry(web: FakeWeb, tmp_path: Path) -> None:
    urls = [web.url("missing/1.jpg"), web.url("good/2.jpg")]
    for retry, asked in ((False, 2), (False, 0), (True, 1)):
        web.forget()
        fetch_images(entities_of(urls), tmp_path, settings_for(web), retry=retry)
        assert len(web.paths()) == asked


def test_retry_after_is_kept_to_by_all_requests_of_the_host(web: FakeWeb, tmp_path: Path) -> None:
    fetch(web, tmp_path, ["busy/1.jpg", *(f"good/{number}.jpg" for number in range(2, 5))], per_host=1, robots=False)
    assert web.paths()[:2] == ["/busy/1.jpg", "/busy/1.jpg"]
    assert web.starts[1] - web.starts[0] >= 1.0
    assert len(downloaded(tmp_path)) == 4


def test_retry_after_as_a_date(web: FakeWeb, tmp_path: Path) -> None:
    fetch(web, tmp_path, ["busydate/1.jpg"], robots=False)
    assert web.starts[1] - web.starts[0] >= 0.9  # a date has whole seconds
    assert len(downloaded(tmp_path)) == 1


def test_a_host_that_asks_for_a_day_is_left_alone(web: FakeWeb, tmp_path: Path) -> None:
    report = fetch(web, tmp_path, ["tomorrow/1.jpg", "good/2.jpg"], per_host=1)
    assert web.paths() == ["/tomorrow/1.jpg"]
    assert "86400" in report["this_run"]["hosts_given_up"][web.place]
    assert missing_reasons(tmp_path) == {web.url("tomorrow/1.jpg"): "busy", web.url("good/2.jpg"): "host_given_up"}


def test_concurrency_pace_and_who_asks(web: FakeWeb, tmp_path: Path) -> None:
    web.pause = 0.05
    paths = [f"good/{number}.jpg" for number in range(10)]
    fetch(web, tmp_path / "a", paths, per_host=2, per_second=1000.0)
    assert web.busiest == 2
    web.pause = 0.0
    web.forget()
    fetch(web, tmp_path / "b", paths, per_host=2, per_second=20.0)
    assert web.starts[-1] - web.starts[0] >= 0.25  # half a second, less what the first request may come late
    _, headers = web.log[-1]
    assert headers["user-agent"] == "test/1 (test@example.org)"
    assert headers["accept-encoding"] == "identity"
    assert "cookie" not in headers


def test_bandwidth_is_kept_to(web: FakeWeb, tmp_path: Path) -> None:
    """Four images of 480 054 bytes at 8 Mbit/s with a burst of one second: 1.92 s minus 1 s."""
    web.files |= {f"b{number}.bmp": FILES["big.bmp"] for number in range(4)}
    start = time.monotonic()
    fetch(web, tmp_path, [f"good/b{number}.bmp" for number in range(4)], megabits=8.0, max_bytes=10**6, attempt_s=5.0)
    assert time.monotonic() - start >= 0.9
    assert len(downloaded(tmp_path)) == 4


def test_robots_txt_is_obeyed_unless_it_is_turned_off(web: FakeWeb, tmp_path: Path) -> None:
    web.robots = b"User-agent: *\nDisallow: /good/2\n\nUser-agent: other\nDisallow: /\n"
    fetch(web, tmp_path / "a", ["good/1.jpg", "good/2.jpg", "moved/2.jpg"])
    assert missing_reasons(tmp_path / "a") == {web.url("good/2.jpg"): "robots", web.url("moved/2.jpg"): "robots"}
    fetch(web, tmp_path / "b", ["good/1.jpg", "good/2.jpg"], robots=False)
    assert len(downloaded(tmp_path / "b")) == 2


def test_what_is_kept_of_an_image(web: FakeWeb, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # displayed rotated by 90 degrees clockwise
    exif[0x010E] = "SECRET"
    left_red = Image.new("RGB", (2000, 1000), "blue")
    left_red.paste("red", (0, 0, 1000, 1000))
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    web.files["turned.jpg"] = encoded(left_red, "JPEG", exif=exif, comment=b"SECRET", icc_profile=profile) + b"SECRET"
    clear = Image.new("RGBA", (20, 10), (255, 0, 0, 0))
    clear.paste((0, 128, 0, 255), (0, 0, 10, 10))
    web.files["clear.png"] = encoded(clear)
    web.files["moving.gif"] = encoded(
        Image.new("P", (20, 10), 1), "GIF", save_all=True, append_images=[Image.new("P", (20, 10), 2)]
    )
    fetch(web, tmp_path, ["good/turned.jpg", "good/clear.png", "good/moving.gif"], max_side=100)
    turned = (tmp_path / "good/turned.jpg").read_bytes()
    assert b"SECRET" not in turned and b"ICC_PROFILE" not in turned and b"Exif" not in turned
    with Image.open(io.BytesIO(turned)) as image:
        assert image.size == (50, 100)
        top, bottom = np.asarray(image)[20, 25].astype(int), np.asarray(image)[80, 25].astype(int)
    assert np.abs(top - (254, 0, 0)).max() <= 3 and np.abs(bottom - (0, 0, 254)).max() <= 3
    with Image.open(tmp_path / "good/clear.png") as image:
        assert (image.format, image.mode) == ("JPEG", "RGB")
        green, white = np.asarray(image)[5, 2].astype(int), np.asarray(image)[5, 18].astype(int)
    assert np.abs(green - (0, 128, 0)).max() <= 4 and np.abs(white - 255).max() <= 4


def test_modes_of_pixels() -> None:
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([255, 0, 0, 0, 0, 255])
    palette.info["transparency"] = 0
    deep = Image.fromarray(np.full((8, 8), 0x8000, np.uint16))
    half = Image.new("LA", (8, 8), (0, 128))
    for image, value in ((palette, 255), (deep, 128), (half, 127)):
        with Image.open(io.BytesIO(as_jpeg(encoded(image), 4))) as kept:
            assert (kept.mode, kept.size) == ("RGB", (4, 4))
            assert np.abs(np.asarray(kept).astype(int) - value).max() <= 2


def test_no_tls_where_it_is_due(web: FakeWeb, tmp_path: Path) -> None:
    url = web.url("good/1.jpg").replace("http:", "https:")
    fetch(web, tmp_path, [url], robots=False, silence_s=0.2, retries=0)
    # A server without TLS waits for the end of a line, which the client's handshake may contain by chance.
    assert missing_reasons(tmp_path) in ({url: "no_connection"}, {url: "timeout"})


def test_the_same_content_is_stored_once(web: FakeWeb, tmp_path: Path) -> None:
    web.files["again.jpg"] = web.files["copy.png"] = FILES["1.jpg"]
    report = fetch(web, tmp_path, ["good/1.jpg", "good/again.jpg", "good/copy.png", "good/2.jpg"], per_host=4)
    assert report["images"]["duplicates"] == 2
    inodes = {(tmp_path / name).stat().st_ino for name in ("good/1.jpg", "good/again.jpg", "good/copy.png")}
    assert len(inodes) == 1
    assert report["bytes"]["as_sent"] == 3 * len(FILES["1.jpg"]) + len(FILES["2.jpg"])


def test_the_same_content_without_hard_links(web: FakeWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refused)
    web.files["again.jpg"] = FILES["1.jpg"]
    fetch(web, tmp_path, ["good/1.jpg", "good/again.jpg"])
    one, two = tmp_path / "good/1.jpg", tmp_path / "good/again.jpg"
    assert one.read_bytes() == two.read_bytes()
    assert one.stat().st_ino != two.stat().st_ino


def test_places(web: FakeWeb, tmp_path: Path) -> None:
    long = "%D0%96" * 60 + ".jpg"  # 364 bytes as written, 124 decoded
    web.files |= {"a%20b.jpg": FILES["1.jpg"], long: FILES["2.jpg"], "x": FILES["3.jpg"], "x/y.jpg": FILES["4.jpg"]}
    urls = [f"good/{name}" for name in ("a%20b.jpg", long, "x", "x/y.jpg", "x?other", "1.jpg#part")]
    fetch(web, tmp_path, urls)
    assert sorted(downloaded(tmp_path)) == sorted(
        ["good/a%20b.jpg", f"good/{'Ж' * 60}.jpg", "good/x", "good/x?other", "good/1.jpg"]
    )
    assert missing_reasons(tmp_path) == {web.url("good/x/y.jpg"): "name_taken"}
    for url in (*urls[:3], "good/x?other"):
        assert find_image(tmp_path, web.url(url)) is not None


def test_files_that_were_there_before_are_kept(web: FakeWeb, tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(b"mine")
    for _ in range(2):
        report = fetch(web, tmp_path, ["good/1.jpg", "good/2.jpg"])
        assert report["images"]["not_from_here"] == 1
    assert web.paths() == ["/good/2.jpg"]
    (tmp_path / "1.jpg").unlink()
    (tmp_path / "good/2.jpg").unlink()
    fetch(web, tmp_path, ["good/1.jpg", "good/2.jpg"])
    assert sorted(downloaded(tmp_path)) == ["good/1.jpg", "good/2.jpg"]


def test_main_image_or_all(web: FakeWeb, tmp_path: Path) -> None:
    one, two, gone = web.url("good/1.jpg"), web.url("good/2.jpg"), web.url("missing/3.jpg")
    entities = [
        Entity("a", "A", (), image=one, images=(ArticleImage(one), ArticleImage(two, section=1))),
        Entity("b", "B", (), image=one, images=(ArticleImage(one),)),
        Entity("c", "C", (), image=gone, images=(ArticleImage(gone),)),
        Entity("d", "D", ()),
    ]
    report = fetch_images(iter(entities), tmp_path, settings_for(web))
    assert list(downloaded(tmp_path)) == ["good/1.jpg"]
    assert report["entities"] == {"all": 4, "main_image_there": 2, "main_image_missing": 1, "no_image_named": 1}
    report = fetch_images(iter(entities), tmp_path, settings_for(web), every=True)
    assert sorted(downloaded(tmp_path)) == ["good/1.jpg", "good/2.jpg"]
    assert report["entities"]["main_image_there"] == 2
    assert report["images"] == {"named": 3, "there": 2, "not_from_here": 0, "duplicates": 0, "missing": 1}


def test_one_process_a_folder_and_one_size(web: FakeWeb, tmp_path: Path) -> None:
    from omgm.downloads.images.journal import Journal

    pinned = {"max_side": 1024, "thumbnails": False}
    with Journal(tmp_path, pinned), pytest.raises(ValueError, match="another process is using"):
        fetch(web, tmp_path, ["good/1.jpg"])
    with pytest.raises(ValueError, match="max_side 1024, not 512"):
        fetch(web, tmp_path, ["good/1.jpg"], max_side=512)


def test_the_fetch_command(web: FakeWeb, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kb = write_kb_of([web.url("good/1.jpg"), web.url("missing/2.jpg")], tmp_path / "kb.json")
    assert main(fetch_command(web, kb, tmp_path / "images")) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["entities"]["main_image_there"] == 1
    assert main([*fetch_command(web, kb, tmp_path / "images")[:8], "--allow-private", web.place]) == 0
    said = capsys.readouterr().out
    assert "1 of 2 images are there, 0 fetched now" in said
    assert f"missing, gone: 1 ({web.place} 1): 404 or 410" in said
    assert main([*fetch_command(web, kb, tmp_path / "images"), "--max-side", "9"]) == 2
    assert main(["kb", "images", "--kb", str(kb), "--images", str(tmp_path / "i"), "--contact", "me"]) == 2
    assert "neither an e-mail address nor a URL" in capsys.readouterr().err
    assert main(["kb", "images", "--kb", str(kb), "--images", str(tmp_path / "i"), "--user-agent", "ü"]) == 2
    assert "--user-agent must be printable ASCII text, got 'ü'" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_an_error_of_one_line(
    web: FakeWeb, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kb = write_kb_of([web.url("good/1.jpg")], tmp_path / "kb.json")
    images = tmp_path / "images"
    images.mkdir()
    (images / "good").symlink_to("/dev/full")  # a folder cannot be made here
    assert main(fetch_command(web, kb, images)) == 2
    assert "omgm: error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "side", "expected"),
    [
        ("commons/4/47/A.jpg", 1024, "commons/thumb/4/47/A.jpg/960px-A.jpg"),
        ("en/a/a1/Map%20B.svg", 500, "en/thumb/a/a1/Map%20B.svg/500px-Map%20B.svg.png"),
        ("commons/thumb/4/47/A.jpg/800px-A.jpg", 400, "commons/thumb/4/47/A.jpg/330px-A.jpg"),
        ("commons/4/47/A.jpg", 200, None),
        ("commons/4/47/A.tif", 1024, None),
        ("commons/A.jpg", 1024, None),
    ],
)
def test_wikimedia_scales(path: str, side: int, expected: str | None) -> None:
    base = "https://upload.wikimedia.org/wikipedia/"
    assert scaled(base + path, side) == (expected and base + expected)
    assert scaled("https://example.org/wikipedia/" + path, side) is None


def test_the_original_if_there_is_no_scaled_image(
    web: FakeWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omgm.downloads.images.fetch.scaled", lambda url, side: url.replace("/good/", "/missing/"))
    fetch(web, tmp_path, ["good/1.jpg"], thumbnails=True)
    assert web.paths() == ["/missing/1.jpg", "/good/1.jpg"]
    assert list(downloaded(tmp_path)) == ["good/1.jpg"]


def test_remote_images_of_notes(web: FakeWeb, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes, images = tmp_path / "notes", tmp_path / "images"
    notes.mkdir()
    Image.new("RGB", (90, 90), "red").save(notes / "own.png")
    first, second = web.url("good/1.jpg"), web.url("good/2.jpg")
    (notes / "a.md").write_text(f"---\npic: {first}\n---\nText. ![]({second})")
    (notes / "b.md").write_text(f"Text. ![](own.png) ![]({second})")
    command = [*fetch_command(web, notes, images), "--map", "image=pic"]
    assert main(command) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["images"]["there"] == report["entities"]["all"] == 1  # b has an image of its own
    assert main([*command, "--all"]) == 0
    assert json.loads(capsys.readouterr().out)["images"]["there"] == 2
    source = open_images(images, notes, "markdown")
    assert source is not None
    a, b = read_knowledge_base(notes, names={"image": "pic"})
    assert find_main(source, a) == "images:good/1.jpg" and find_main(source, b) == "own.png"
    assert source.content("images:good/1.jpg") == images / "good/1.jpg"
    assert source.load("images:good/1.jpg").size == load_image(web.files["1.jpg"]).size
    assert source.load("own.png").getpixel((3, 3)) == (255, 0, 0)


@pytest.mark.parametrize("mirror", ["{root}/good/", "{root}/good", "{root}/good/2024id_/{{url}}"])
def test_images_of_questions_come_from_a_mirror(
    mirror: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = "https://gone.invalid/data/Timeqa/images/image_1.jpeg"
    image = encoded(noise(1), "JPEG")
    rows = [
        {"image_url": gone, "question": "Who?", "question_id": "1", "answer": ["a"]},
        {"image_url": gone.replace("_1", "_2"), "question": "Where?", "question_id": "2", "answer": ["b"]},
    ]
    queries = write_jsonl(tmp_path / "q.jsonl", *rows)
    places = ("data/Timeqa/images/image_1.jpeg", f"2024id_/{gone}")  # below the first folder
    with serve_web(dict.fromkeys(places, image)) as web:
        command = ["kb", "images", "--queries", str(queries), "--images", str(tmp_path / "i"), "--retries", "0"]
        given = ["--contact", "test@example.org", "--allow-private", web.place, "--per-second", "100"]
        assert main([*command, *given, "--mirror", mirror.format(root=web.url("").rstrip("/")), "--ignore-robots"]) == 0
    assert "1 of 2 images of questions" in capsys.readouterr().out
    forget_listings()
    found = [find_query_image(tmp_path / "i", str(row["image_url"])) for row in rows]
    assert found == [tmp_path / "i" / "data/Timeqa/images/image_1.jpeg", None]
