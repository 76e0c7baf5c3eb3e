"""Profiles: the model and settings of every step, read from TOML and checked key by key."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator

from retriever.files import write_whole
from retriever.token_codec import TokenCodec
from serving.settings import ServingSettings

_PACKAGE = Path(__file__).resolve().parent
CONFIGS = next(folder for folder in (_PACKAGE / "configs", _PACKAGE.parent / "configs") if folder.is_dir())
"""The named profiles: inside the package in an installed wheel, else at the top of the repository."""
MODELS = {
    "encoder.model", "fusion.model", "sections.model", "regions.model", "summarizer.tokenizer", "generator.tokenizer",
}  # fmt: skip
"""Settings that name a model: a folder if they begin with ".", "/" or "~", else a name on the Hugging Face hub."""
PATHS = MODELS | {"serving.examples_dir", "summarizer.cache", "agents.publish_dir", "agents.web_corpus"}
"""Settings that can be paths: relative to the profile's file, or to the working folder after `--set`."""
_WORDS = ("auto", "none")
"""Values of `summarizer.cache` that are not paths."""

Values = dict[str, Any]
"""Settings by their dotted names: `{"search.k": 20}`."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EncoderSettings(_Table):
    """Step 1's model: a folder, or `org/name` or `org/name@revision` on the hub."""

    model: str = Field(min_length=1)
    long_texts: Literal["cut", "windows"] = "cut"


class SearchSettings(_Table):
    """Step 1: the number of candidates, and the part of an entity that the image is compared with.

    Attributes:
        image_weight: Weight of the main image against the summary if the two are `combined`.
        image_keys: Images of an entity that are searched, at most, the main image first; the best one counts.
        trim_borders: Whether uniform borders are cut off query images, for this step and the next.
        kind: The kind of entity index, see `indexes.search_kinds`.
        uri: For `milvus` the server's address, or a file that ends with `.db`.
    """

    k: int = Field(default=20, ge=1)
    candidates: Literal["summary", "title", "article", "image", "combined"] = "summary"
    image_weight: float = Field(default=0.5, ge=0, le=1)
    image_keys: int = Field(default=1, ge=1)
    trim_borders: bool = False
    kind: Literal["auto", "flat", "sq8", "hnsw", "ivf-pq", "milvus"] = "auto"
    uri: str = ""


class IndexSettings(_Table):
    """What goes into an index.

    Attributes:
        drop_sections: Titles of sections to leave out, in any case; `*` stands for any text. By default lists such as
            "References" and "See also", and for E-VQA's files what the paper's code drops.
    """

    drop_sections: tuple[str, ...] | None = None


class FusionSettings(_Table):
    """Step 2: its model, how tokens are stored and compared, and the weight of step 1.

    Attributes:
        section_images: Whether a section's tokens are made with its own image if it has one, else with the main image.
    """

    model: str = Field(min_length=1)
    tokens: str = "float16"
    section_images: bool = False
    score_mode: Literal["cosine", "paper", "compat"] = "cosine"
    alpha: float = Field(ge=0, le=1)

    @field_validator("tokens")
    @classmethod
    def _known(cls, name: str) -> str:
        return TokenCodec.parse(name).name


class RecognitionSettings(_Table):
    """When an image counts as recognized, as `omgm calibrate` found it (see `retriever.recognition`).

    Attributes:
        fitted_to: Models, weights and number of image keys of the fit; with others, nothing is declined.
    """

    fitted_to: str = ""
    threshold: float = Field(default=0.5, ge=0, le=1)
    bias: float = 0
    sim_c: float = 0
    sim_m: float = 0
    lead_c: float = 0
    lead: float = 0
    distance: float = 0


class SectionsSettings(_Table):
    """Step 3: the kind of reranker, its model if it has one, and the weight of step 2."""

    kind: Literal["bm25", "cross_encoder", "flag"] = "bm25"
    model: str = ""
    max_tokens: int = Field(default=1024, ge=16)
    beta: float = Field(ge=0, le=1)


class RegionSettings(_Table):
    """What proposes regions of images to agents: Grounding DINO, or without a model the encoder's feature map.

    Attributes:
        labels: Kinds of things that the model looks for.
        box_threshold: The least score of a region.
        text_threshold: The least score of a word of its label.
        most: Regions at most.
    """

    model: str = ""
    labels: tuple[str, ...] = Field(
        default=(
            "flag", "logo", "sign", "label", "person", "animal", "plant", "food", "product", "building", "vehicle",
            "artwork", "book", "screen", "tool",
        ),
        min_length=1,
    )  # fmt: skip
    box_threshold: float = Field(default=0.4, ge=0, le=1)
    text_threshold: float = Field(default=0.3, ge=0, le=1)
    most: int = Field(default=6, ge=1, le=50)


class _ChatModelSettings(_Table):
    """A chat model behind any OpenAI-compatible server; its key is read from OPENAI_API_KEY."""

    kind: Literal["extractive", "openai"] = "extractive"
    base_url: str = ""
    model: str = ""
    tokenizer: str = ""
    max_tokens: int = Field(default=128, ge=1)
    max_context_tokens: int = Field(default=3072, ge=1)
    system_role: bool = True
    reasoning_effort: str = ""
    timeout_s: float = Field(default=60, gt=0)
    retries: int = Field(default=3, ge=0)
    concurrency: int = Field(default=8, ge=1)


class SummarizerSettings(_ChatModelSettings):
    """The summarizer.

    Attributes:
        max_words: Limits the extractive kind.
        cache: The file that keeps a chat model's summaries; "auto" for `summary_cache.default_cache`, "none" for none.
    """

    max_words: int = Field(default=64, ge=1)
    max_tokens: int = Field(default=256, ge=1)
    max_context_tokens: int = Field(default=6144, ge=1)
    cache: str = Field(default="auto", min_length=1)


class GeneratorSettings(_ChatModelSettings):
    """The generator of answers."""

    style: Literal["evqa", "infoseek"] = "evqa"
    multimodal: bool = False


class AgentSettings(_Table):
    """Search agents: the limits of a run, and what it may search. The generator's `base_url` and `model` plan.

    Attributes:
        rounds: Decisions of a policy; by default its own number.
        tokens: Prompt and completion tokens of all requests to the model.
        seconds: Wall time.
        money: Price of model and tools; by default unlimited.
        prompt_price: Price of a million prompt tokens.
        completion_price: Price of a million completion tokens.
        prices: Price of a call of a tool, or of a query of a search, by the tool's name.
        calls: Most calls of a tool in a run, by its name; by default unlimited.
        context_tokens: The model's context.
        runs: Runs at the same time in the service.
        search_engine: Searches the web; by default `searxng` if it has an address, else none.
        searxng_url: A SearXNG server.
        publish_dir: For searches by image with SerpAPI: a folder that a web server serves.
        publish_url: Its address there.
        contact: Who opens web pages, for the user agent; without it none are opened.
        screenshots: Whether web pages can be seen as images; needs Chromium and a contact.
        allow_private: Hosts of web pages (`name` or `name:port`) that may be on a private network.
        web_corpus: A folder that `omgm web record` wrote, replayed in place of the web.
        propose_regions: Whether regions are proposed for an image that comes without any.
    """

    rounds: int | None = Field(default=None, ge=1)
    tokens: int = Field(default=200_000, ge=1)
    seconds: float = Field(default=300, gt=0)
    money: float | None = Field(default=None, ge=0)
    prompt_price: float = Field(default=0, ge=0)
    completion_price: float = Field(default=0, ge=0)
    context_tokens: int = Field(default=16_384, ge=1024)
    runs: int = Field(default=4, ge=1)
    prices: dict[str, Annotated[float, Field(ge=0)]] = {}
    calls: dict[str, Annotated[int, Field(ge=0)]] = {}
    search_engine: Literal["", "searxng", "serpapi", "duckduckgo"] = ""
    searxng_url: str = ""
    publish_dir: str = ""
    publish_url: str = ""
    contact: str = ""
    screenshots: bool = False
    allow_private: tuple[str, ...] = ()
    web_corpus: str = ""
    propose_regions: bool = False


class Profile(_Table):
    """The model of every step and its settings."""

    name: str
    device: str = Field(default="auto", pattern="^(auto|cpu|cuda)$")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    cuda_graphs: bool = False
    encoder: EncoderSettings
    search: SearchSettings = SearchSettings()
    fusion: FusionSettings
    sections: SectionsSettings
    recognition: RecognitionSettings = RecognitionSettings()
    index: IndexSettings = IndexSettings()
    summarizer: SummarizerSettings = SummarizerSettings()
    generator: GeneratorSettings = GeneratorSettings()
    regions: RegionSettings = RegionSettings()
    agents: AgentSettings = AgentSettings()
    serving: ServingSettings = ServingSettings()
    _options: str = PrivateAttr("")

    @property
    def options(self) -> str:
        """The options that name this profile on a command line: `--profile P --set key=value`."""
        return self._options or shlex.join(["--profile", self.name])


def load_profile(name_or_path: str, overrides: Sequence[str] | Mapping[str, Any] = ()) -> Profile:
    """Loads a profile, with what it extends and with overrides.

    Args:
        name_or_path: A name from `configs/` or a file.
        overrides: `section.key=value`, the value as in TOML or a bare word; or a mapping of `section.key` to values.

    Raises:
        ValueError: The profile does not exist, or a key or value is wrong; the message names the file and the key.
    """
    path = resolve(name_or_path)
    values, origins = _read(path, ())
    given, origin = _given(overrides)
    values |= given
    origins |= dict.fromkeys(given, origin)
    try:
        profile = Profile.model_validate(_nested(values))
    except ValidationError as error:
        problems = []
        for problem in error.errors():
            key = ".".join(str(part) for part in problem["loc"][:2])
            problems.append(f"{origins.get(key, path)}: {key}: {problem['msg']}")
        raise ValueError("; ".join(problems)) from error
    profile._options = shlex.join(["--profile", name_or_path, *(word for one in overrides for word in ("--set", one))])
    return profile


def resolve(name_or_path: str, beside: Path | None = None) -> Path:
    """Finds the file of a profile.

    Args:
        name_or_path: A name from `configs/` or a file.
        beside: The folder that relative paths start at; by default the working folder.

    Raises:
        ValueError: Neither exists.
    """
    named = CONFIGS / f"{name_or_path}.toml"
    if "/" not in name_or_path and named.is_file():
        return named
    path = (beside or Path()) / name_or_path
    if path.is_file():
        return path.resolve()
    known = ", ".join(sorted(file.stem for file in CONFIGS.glob("*.toml")))
    raise ValueError(f"profile: {name_or_path!r} is neither a file nor one of configs/ ({known})")


def parse_overrides(overrides: Sequence[str]) -> Values:
    """Parses settings written as `section.key=value`; paths become absolute.

    Raises:
        ValueError: A setting is not of that form, or its key is unknown.
    """
    values: Values = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        key = key.strip()
        if not equals:
            raise ValueError(f"--set: expected section.key=value, got {override!r}")
        _check_key(key, "--set")
        try:
            value: Any = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        values[key] = str(Path(str(value)).expanduser().resolve()) if is_path(key, value) else value
    return values


def _given(overrides: Sequence[str] | Mapping[str, Any]) -> tuple[Values, str]:
    """Returns the caller's settings, and what error messages call their source."""
    if not isinstance(overrides, Mapping):
        return parse_overrides(overrides), "--set"
    values: Values = {}
    for key, value in overrides.items():
        _check_key(key, "settings")
        text = str(value) if isinstance(value, Path) else value
        values[key] = str(Path(text).expanduser().resolve()) if is_path(key, text) else text
    return values, "settings"


def is_folder(model: str) -> bool:
    """Returns whether the value of a setting names a folder rather than a model on the hub."""
    return model.startswith((".", "/", "~"))


def is_path(key: str, value: object) -> bool:
    """Returns whether the value of a setting is a path."""
    if key not in PATHS or not isinstance(value, str) or (key == "summarizer.cache" and value in _WORDS):
        return False
    return key not in MODELS or is_folder(value)


def write_profile(folder: Path, extends: str, values: Mapping[str, Any]) -> Path:
    """Writes `folder/profile.toml`, which extends a profile by settings, and returns its path.

    Paths inside the folder become relative, so that it can be moved.

    Args:
        folder: The folder to write to.
        extends: A name from `configs/` or a file.
        values: Settings by their dotted names.
    """
    base = resolve(extends)
    lines = [f"extends = {json.dumps(base.stem if base.parent == CONFIGS else str(base), ensure_ascii=False)}"]
    sections = _nested({"name": folder.resolve().name, **values})
    lines += [f"{key} = {_toml(value)}" for key, value in sections.items() if not isinstance(value, dict)]
    for section, settings in sections.items():
        if isinstance(settings, dict):
            lines += ["", f"[{section}]"]
            for key, value in settings.items():
                if is_path(f"{section}.{key}", value) and Path(value).resolve().is_relative_to(folder.resolve()):
                    value = f"./{Path(value).resolve().relative_to(folder.resolve()).as_posix()}"
                lines.append(f"{key} = {_toml(value)}")
    path = folder / "profile.toml"
    write_whole(path, ("\n".join(lines) + "\n").encode())
    return path


def _read(path: Path, seen: tuple[Path, ...]) -> tuple[Values, dict[str, object]]:
    """Returns the settings of a file and of those it extends, and the file that each comes from."""
    if path in seen:
        raise ValueError(f"{path}: extends: the profile extends itself")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not TOML: {error}") from error
    values: Values = {}
    origins: dict[str, object] = {}
    extends = table.pop("extends", None)
    if extends is not None:
        if not isinstance(extends, str):
            raise ValueError(f"{path}: extends: must be a name from configs/ or a file, got {extends!r}")
        try:
            base = resolve(extends, path.parent)
        except ValueError as error:
            raise ValueError(f"{path}: extends: {error}") from error
        values, origins = _read(base, (*seen, path))
    values["name"] = path.stem  # not the name of the profile it extends
    for key, value in _flat(table, path).items():
        if is_path(key, value):
            value = os.path.normpath(path.parent / Path(value).expanduser())
        values[key], origins[key] = value, path
    return values, origins


def _flat(table: Mapping[str, Any], where: Path) -> Values:
    values: Values = {}
    for name, value in table.items():
        pairs = {f"{name}.{key}": v for key, v in value.items()} if isinstance(value, dict) else {name: value}
        for key in pairs or {name: value}:
            _check_key(key, where)
        values |= pairs
    return values


def _check_key(key: str, where: object) -> None:
    section, dot, name = key.partition(".")
    field = Profile.model_fields.get(section)
    if field is None:
        raise ValueError(f"{where}: unknown key {key!r}; expected one of {', '.join(Profile.model_fields)}")
    part = field.annotation
    settings = part.model_fields if isinstance(part, type) and issubclass(part, BaseModel) else {}
    if dot and name not in settings:
        raise ValueError(f"{where}: unknown key {key!r}; {section} has {', '.join(settings) or 'no keys'}")
    if not dot and settings:
        raise ValueError(
            f"{where}: {section} is a table; set one of its keys: {', '.join(f'{section}.{k}' for k in settings)}"
        )


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in values.items():
        section, dot, name = key.partition(".")
        if dot:
            nested.setdefault(section, {})[name] = value
        else:
            nested[section] = value
    return nested


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
