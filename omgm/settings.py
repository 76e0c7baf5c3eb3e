"""The settings of a profile, table by table, with their defaults and limits; docs/settings.md describes them."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from retriever.token_codec import TokenCodec
from serving.settings import ServingSettings


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EncoderSettings(_Table):
    """Step 1's model: a folder, or `org/name` or `org/name@revision` on the hub.

    Attributes:
        key_sizes: Sides in pixels at which images of entities are read, whose mean vector is searched.
    """

    model: str = Field(min_length=1)
    long_texts: Literal["cut", "windows"] = "cut"
    key_sizes: tuple[Annotated[int, Field(ge=16)], ...] = ()


class SearchSettings(_Table):
    """Step 1: the number of candidates, and the part of an entity that the image is compared with.

    Attributes:
        image_weight: Weight of the main image against the summary if the two are `combined`.
        image_keys: Images of an entity that are searched, at most, the main image first; the best one counts.
        trim_borders: Whether uniform borders are cut off query images, for this step and the next, and off labeled
            images.
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
        fitted_to: Models, weights, number of image keys and codec of the fit; with others, nothing is declined.
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
        web_corpus: A folder that `omgm web record` wrote, replayed instead of using the web.
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
