"""The settings of a profile, by table, with their defaults and limits; docs/settings.md describes them."""

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
        key_sizes: Sides in pixels at which entity images are encoded; an image's key is the mean of these vectors.
        fp8: Whether the linear layers of EVA-CLIP's image tower run in FP8.
    """

    model: str = Field(min_length=1)
    long_texts: Literal["cut", "windows"] = "cut"
    key_sizes: tuple[Annotated[int, Field(ge=16)], ...] = ()
    fp8: bool = False


class SearchSettings(_Table):
    """Step 1: the number of candidates, and the part of an entity that the image is compared with.

    Attributes:
        image_weight: Weight of the main image relative to the summary if `candidates` is `combined`.
        image_keys: Maximum number of searched images per entity, the main image first; the best match counts.
        trim_borders: Whether to trim uniform borders of query images (for steps 1 and 2) and of labeled images.
        kind: The kind of entity index; see `indexes.search_kinds`.
        uri: For `milvus`, the server's URL, or a file that ends with `.db`.
        gpu: The library that searches if the device is a GPU.
    """

    k: int = Field(default=20, ge=1)
    candidates: Literal["summary", "title", "article", "image", "combined"] = "summary"
    image_weight: float = Field(default=0.5, ge=0, le=1)
    image_keys: int = Field(default=1, ge=1)
    trim_borders: bool = False
    kind: Literal["auto", "flat", "sq8", "hnsw", "ivf-pq", "milvus"] = "auto"
    uri: str = ""
    gpu: Literal["torch", "faiss"] = "torch"


class IndexSettings(_Table):
    """The contents of an index.

    Attributes:
        drop_sections: Titles of sections to drop, case-insensitive; `*` matches any text. By default, lists such as
            "References" and "See also" of encyclopedias, and for E-VQA's files those that the paper's code drops.
        keep_navigation: Whether to keep lists of links, comments and the like on pages and in notes.
    """

    drop_sections: tuple[str, ...] | None = None
    keep_navigation: bool = False


class FusionSettings(_Table):
    """Step 2: its model, how tokens are stored and compared, and the weight of step 1.

    Attributes:
        section_images: Whether a section's tokens are computed from its own image, if it has one, instead of the
            entity's main image.
        tuned_for: The `score_mode` for which alpha and `sections.beta` were chosen; empty if unknown.
        recipe: How `train-reranker` trains the model; empty for the model's default.
    """

    model: str = Field(min_length=1)
    tokens: str = "float16"
    section_images: bool = False
    score_mode: Literal["cosine", "paper", "compat"] = "cosine"
    tuned_for: Literal["", "cosine", "paper", "compat"] = ""
    recipe: Literal["", "mined", "in-batch", "paper"] = ""
    alpha: float = Field(ge=0, le=1)

    @field_validator("tokens")
    @classmethod
    def _known(cls, name: str) -> str:
        return TokenCodec.parse(name).name


class RecognitionSettings(_Table):
    """When an image counts as recognized, as fitted by `omgm calibrate` (see `retriever.recognition`).

    Attributes:
        fitted_to: Hash of the models, weights, number of image keys and codec that this was fitted to; with others,
            no question is declined.
        general: Whether this was fitted to several knowledge bases, so that what an index finds about itself when it
            is built (`omgm.self_calibration`) is better.
    """

    fitted_to: str = ""
    general: bool = False
    threshold: float = Field(default=0.5, ge=0, le=1)
    bias: float = 0
    sim_c: float = 0
    sim_m: float = 0
    lead_c: float = 0
    lead: float = 0
    distance: float = 0


class SectionsSettings(_Table):
    """Step 3: the kind of reranker, its model if it has one, and the weight of step 2.

    Attributes:
        cosine_weight: For `hybrid`, the weight of the cosine relative to BM25.
        dtype: The dtype of a cross-encoder's weights; "auto" is that of the profile.
    """

    kind: Literal["bm25", "hybrid", "cross_encoder", "flag"] = "bm25"
    model: str = ""
    max_tokens: int = Field(default=1024, ge=16)
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    cosine_weight: float = Field(default=0.67, ge=0, le=1)
    beta: float = Field(ge=0, le=1)


class RegionSettings(_Table):
    """The region proposer for agents: Grounding DINO, or without a `model` the encoder's feature map.

    Attributes:
        labels: Kinds of objects that the model detects.
        box_threshold: Minimum score of a region.
        text_threshold: Minimum score of a word of its label.
        most: Maximum number of regions.
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
        max_words: Maximum length of an extractive summary, in words.
        cache: The file that caches a chat model's summaries; "auto" for `summary_cache.default_cache`, or "none".
    """

    max_words: int = Field(default=64, ge=1)
    max_tokens: int = Field(default=256, ge=1)
    max_context_tokens: int = Field(default=6144, ge=1)
    cache: str = Field(default="auto", min_length=1)


class GeneratorSettings(_ChatModelSettings):
    """The generator, which writes the answers.

    Attributes:
        style: The data set whose prompt in the paper is used; "auto" is that of the data set in question, if any.
    """

    style: Literal["auto", "evqa", "infoseek"] = "auto"
    multimodal: bool = False


class AgentSettings(_Table):
    """Search agents: the limits of a run, and what it may search. The chat model of the generator does the planning.

    Attributes:
        rounds: Maximum number of rounds; by default the policy's own.
        tokens: Maximum number of prompt and completion tokens of all requests to the model.
        seconds: Maximum wall time in seconds.
        money: Maximum price of model and tools; by default unlimited.
        prompt_price: Price per million prompt tokens.
        completion_price: Price per million completion tokens.
        prices: Price per call of a tool, or per query for searches, by the tool's name.
        calls: Maximum number of calls of a tool per run, by the tool's name; by default unlimited.
        context_tokens: The model's context length in tokens.
        runs: Maximum number of concurrent runs in the service.
        search_engine: The web search engine; by default `searxng` if `searxng_url` is set, else none.
        searxng_url: URL of a SearXNG server.
        publish_dir: For image searches with SerpAPI: a folder that a web server makes public.
        publish_url: The public URL of `publish_dir`.
        contact: Contact for the user agent when opening web pages; without it, none are opened.
        screenshots: Whether agents may see screenshots of web pages; needs Chromium and a contact.
        allow_private: Hosts of web pages (`name` or `name:port`) that may be on a private network.
        web_corpus: A folder written by `omgm web record`, which is replayed instead of using the web.
        propose_regions: Whether to propose regions for images that come without any.
        boxes: What coordinates of the model's boxes count: "pixels" of the image as sent, "thousandths", "percent" or
            "unit" parts of its sides; "auto" goes by the family of the model.
        prompts: Whether policies ask in the words of their papers (`omgm download --prompts`) or in ours; by default
            ours for users, and in evaluations the papers' if they were downloaded.
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
    boxes: Literal["auto", "pixels", "thousandths", "percent", "unit"] = "auto"
    prompts: Literal["", "paper", "own"] = ""


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
        """The command-line options that select this profile: `--profile P --set key=value`."""
        return self._options or shlex.join(["--profile", self.name])
