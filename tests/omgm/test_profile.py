from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from omgm.profile import CONFIGS, load_profile, resolve
from omgm.written_profile import write_profile

BASE = """
[encoder]
model = "./models/encoder"
[fusion]
model = "/models/fusion"
alpha = 0.25
[sections]
beta = 0.75
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.toml"
    path.write_text(BASE, encoding="utf-8")
    return path


def test_values_and_defaults(base: Path, tmp_path: Path) -> None:
    profile = load_profile(str(base))
    assert profile.name == "base"
    assert profile.encoder.model == str(tmp_path / "models" / "encoder")
    assert profile.fusion.model == "/models/fusion"
    assert (profile.fusion.alpha, profile.sections.beta, profile.search.k) == (0.25, 0.75, 20)
    assert (profile.fusion.score_mode, profile.generator.kind) == ("cosine", "extractive")


def test_extends_keeps_what_it_does_not_name(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "trained"
    folder.mkdir()
    child = folder / "profile.toml"
    child.write_text('extends = "../base.toml"\n[encoder]\nmodel = "./weights"\n[search]\nk = 5\n', encoding="utf-8")
    profile = load_profile(str(child))
    assert profile.encoder.model == str(folder / "weights")
    assert profile.fusion.model == "/models/fusion"
    assert (profile.search.k, profile.fusion.alpha) == (5, 0.25)


def test_embedded_is_found_by_name() -> None:
    profile = load_profile("embedded")
    assert profile.name == "embedded"
    assert profile.encoder.model == str(CONFIGS.parent / "weights" / "embedded" / "encoder")
    assert resolve("embedded") == CONFIGS / "embedded.toml"


def test_every_shipped_profile_is_valid() -> None:
    for path in CONFIGS.glob("*.toml"):
        assert load_profile(path.stem).name == path.stem


def test_overrides_win(base: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["search.k=7", "fusion.score_mode=paper", "encoder.model=./here", "generator.multimodal=true", "name=mine"]
    profile = load_profile(str(base), given)
    assert (profile.search.k, profile.fusion.score_mode, profile.name) == (7, "paper", "mine")
    assert profile.encoder.model == str(tmp_path / "here")
    assert profile.generator.multimodal is True


def test_the_options_of_a_profile_load_it_again(base: Path) -> None:
    named = load_profile(str(base), {"search.k": 50, "search.kind": "flat"})
    written = load_profile(str(base), ["search.k=50", "search.kind=flat"])
    assert written.options == f"--profile {base} --set search.k=50 --set search.kind=flat"
    _, _, *words = shlex.split(named.options)
    assert words[::2] == ["--set", "--set"]
    assert load_profile(str(base), words[1::2]).search == named.search == written.search


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[search]\nkk = 3\n", r"profile\.toml: unknown key 'search\.kk'; search has k, candidates"),
        ("[serach]\nk = 3\n", r"profile\.toml: unknown key 'serach\.k'; expected one of name"),
        ("search = 3\n", r"profile\.toml: search is a table"),
        ("[search]\nk = 0\n", r"profile\.toml: search\.k: .*greater than or equal to 1"),
        ("[fusion]\nalpha = 1.5\n", r"profile\.toml: fusion\.alpha: .*less than or equal to 1"),
        ('[search]\nk = "many"\n', r"profile\.toml: search\.k: .*integer"),
        ("[name]\nx = 1\n", r"profile\.toml: unknown key 'name\.x'"),
        ("[search\n", r"profile\.toml: not TOML"),
        ('[generator]\napi_key = "k"\n', r"unknown key 'generator\.api_key'.*environment: OPENAI_API_KEY$"),
        ('[serving]\nread_keys = [""]\n', r"serving\.read_keys\.0: must be the SHA-256 digest"),
        ('[serving]\nread_keys = ""\n', r"serving\.read_keys\.0: must be the SHA-256 digest"),
    ],
)
def test_mistakes_name_file_and_key(base: Path, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "profile.toml"
    path.write_text('extends = "base.toml"\n' + text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_profile(str(path))


def test_the_cache_of_summaries_is_a_path_or_a_word(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "..")
    assert [load_profile(str(base), given).summarizer.cache for given in ([], ["summarizer.cache=none"])] == [
        "auto",
        "none",
    ]
    assert load_profile(str(base), ["summarizer.cache=kept.sqlite"]).summarizer.cache == str(
        tmp_path.parent / "kept.sqlite"
    )
    base.write_text(BASE + '[summarizer]\ncache = "kept.sqlite"\n')
    assert load_profile(str(base)).summarizer.cache == str(tmp_path / "kept.sqlite")


def test_a_hub_name_is_no_path(base: Path, tmp_path: Path) -> None:
    names = ["encoder.model=BAAI/EVA-CLIP-8B@0e4dca9", "fusion.model=org/fusion"]
    profile = load_profile(str(base), names)
    assert (profile.encoder.model, profile.fusion.model) == ("BAAI/EVA-CLIP-8B@0e4dca9", "org/fusion")
    folder = tmp_path / "trained"
    folder.mkdir()
    path = write_profile(folder, str(base), {"encoder.model": "org/name", "fusion.model": str(folder / "fusion")})
    assert 'model = "org/name"' in path.read_text() and 'model = "./fusion"' in path.read_text()
    with pytest.raises(ValueError, match="device"):
        load_profile(str(base), ["device=gpu"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("search.k", r"--set: expected section\.key=value, got 'search\.k'"),
        ("search.kk=1", r"--set: unknown key 'search\.kk'"),
        ("search.k=0", r"--set: search\.k: "),
    ],
)
def test_wrong_overrides(base: Path, override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_profile(str(base), [override])


def test_missing_settings_and_profiles(tmp_path: Path) -> None:
    path = tmp_path / "half.toml"
    path.write_text('[encoder]\nmodel = "x/y"\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"half\.toml: fusion: missing; set it, or extend a profile that does"):
        load_profile(str(path))
    with pytest.raises(ValueError, match=r"'nowhere' is neither a file nor one of configs/ \(.*embedded"):
        load_profile("nowhere")
    path.write_text('extends = "half.toml"\n', encoding="utf-8")
    with pytest.raises(ValueError, match="extends itself"):
        load_profile(str(path))


def test_wrong_values_are_named_in_full(base: Path) -> None:
    with pytest.raises(ValueError) as caught:
        load_profile(str(base), {"agents.prices": {"web_search": "much"}, "fusion.tokens": "float32"})
    assert "settings: agents.prices.web_search: Input should be a valid number" in str(caught.value)
    assert "settings: fusion.tokens: token codec 'float32' is unknown: use one of" in str(caught.value)


def test_a_trained_profile_extends_its_start_and_may_be_moved(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "run one"
    (out / "encoder").mkdir(parents=True)
    path = write_profile(out, str(base), {"encoder.model": str(out / "encoder"), "sections.beta": 0.1})
    moved = tmp_path / "moved"
    out.rename(moved)
    profile = load_profile(str(moved / path.name))
    assert profile.encoder.model == str(moved / "encoder")
    assert (profile.sections.beta, profile.fusion.alpha, profile.name) == (0.1, 0.25, "run one")


def test_a_trained_profile_names_a_shipped_one(tmp_path: Path) -> None:
    path = write_profile(tmp_path, "embedded", {"fusion.model": str(tmp_path / "fusion")})
    assert path.read_text(encoding="utf-8").startswith('extends = "embedded"\n')
    profile = load_profile(str(path))
    assert profile.fusion.model == str(tmp_path / "fusion")
    assert profile.fusion.alpha == load_profile("embedded").fusion.alpha
