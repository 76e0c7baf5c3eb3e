"""The settings of a profile, by table, with their defaults and limits; docs/settings.md describes them."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, field_validator

from omgm.kinds import known_in
from retriever.token_codec import TokenCodec
from serving.settings import ServingSettings


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EncoderSettings(_Table):
    """Step 1's model: a folder, or `org/name` or `org/name@revision` on the hub.

    Attributes:
        kind: `clip`, `qwen3_vl`, `vllm` or `infinity` (on such a server), or another package's.
        model: The dual encoder: CLIP, SigLIP, EVA-CLIP, open_clip or the embedded one.
        base_url: The root of a server's API, such as `http://127.0.0.1:8002/v1`.
        image_model: A second network, for images only: DINOv2 or DINOv3.
        image_share: Its share of the similarity of two images.
        long_texts: `cut` drops the end of a text that is too long for the model, `windows` averages the vectors of its
            pieces.
        key_sizes: Sizes in pixels at which an entity's images are encoded; their mean vector is searched. By default
            the encoder's own size. Only this project's encoders support it.
        fp8: Whether the linear layers of EVA-CLIP's image tower run in FP8, for GPUs of compute capability 8.9 or
            higher; may differ between the build of an index and its use.
    """

    kind: Annotated[str, known_in("omgm.encoders")] = "clip"
    model: str = Field(min_length=1)
    base_url: str = ""
    image_model: str = ""
    image_share: float = Field(default=0.5, ge=0, le=1)
    long_texts: Literal["cut", "windows"] = "cut"
    key_sizes: tuple[Annotated[int, Field(ge=16)], ...] = ()
    fp8: bool = False


class SearchSettings(_Table):
    """Step 1: the number of candidates, and the part of an entity that the image is compared with.

    Attributes:
        k: Number of candidates that step 1 retrieves.
        candidates: What the image is compared with: `summary` (as in the paper), `title`, `article`, `image` (the main
            image), or `combined` (main image and summary).
        image_weight: With `combined`, the weight of the main image, 0 to 1: `sim_c` is `image_weight * image + (1 -
            image_weight) * summary`.
        image_keys: With `image` or `combined`, the maximum number of images searched per entity; the best one counts.
            Above 1, each also has tokens for step 2, and a main image with a transparent background gets a further key.
        trim_borders: Whether uniform borders are cut off query, training and labeled images. With `image_keys` above 1,
            others are searched with and without theirs.
        crops: Whether an image that is not recognized is searched again, turned and in parts.
        words: Whether the text on images is read: those of an index when it is built, and a query's if it is not
            surely recognized, or its text is asked for.
        words_weight: Weight of these words' similarity in steps 1 and 2.
        keypoints: Whether keypoints of images are compared: those of an index are found when it is built, and a
            query's if it is not surely recognized.
        kind: The type of entity index: `flat`, `sq8`, `hnsw`, `ivf-pq`, `auto` (`flat` up to 30,000 entities, then
            `ivf-pq`), `milvus`, `lancedb`, or another package's.
        uri: For `milvus`, the server's address, or a file that ends with `.db`; for `lancedb`, a folder or `s3://…`.
        gpu: The library that searches if the device is a GPU: `torch`, or `faiss`.
    """

    k: int = Field(default=20, ge=1)
    candidates: Literal["summary", "title", "article", "image", "combined"] = "summary"
    image_weight: float = Field(default=0.5, ge=0, le=1)
    image_keys: int = Field(default=1, ge=1)
    trim_borders: bool = False
    crops: bool = False
    words: bool = False
    words_weight: float = Field(default=0.3, ge=0, le=1)
    keypoints: bool = False
    kind: Annotated[str, known_in("omgm.engines")] = "auto"
    uri: str = ""
    gpu: Literal["torch", "faiss"] = "torch"


class IndexSettings(_Table):
    """The contents of an index.

    Attributes:
        drop_sections: Titles of sections to drop, ignoring case; `*` matches any text. By default, encyclopedias
            lose lists such as "References".
        keep_navigation: Whether to keep lists of links, comments and the like on pages and in notes.
    """

    drop_sections: tuple[str, ...] | None = None
    keep_navigation: bool = False


class FusionSettings(_Table):
    """Step 2: its model, how tokens are stored and compared, and the weight of step 1.

    Attributes:
        kind: `qformer`, or a kind of another package.
        model: The fusion encoder, a BLIP-2 Q-Former.
        tokens: Token codec: `float16`, `int8`, `int4` or `bit1` (in `embedded`). A prefix `poolN+`, as in `pool8+int4`,
            first merges a section's tokens into N.
        section_images: Whether a section's tokens are computed from its own image, if it has one, instead of the main
            image.
        score_mode: `cosine` (mean over the query's tokens), `paper` (sum), or `compat` (normalized as in the published
            code, for its weights).
        tuned_for: The `score_mode` that alpha and beta were chosen for; with another one, commands warn.
        recipe: The recipe of `train-reranker`, by default chosen for the model.
        alpha: Weight of step 1, 0 to 1: an entity scores `alpha * sim_c + (1 - alpha) * max sim_m`, over its images if
            several may be searched or some are labeled, else over its sections.
    """

    kind: Annotated[str, known_in("omgm.fusions")] = "qformer"
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
    """When an image counts as recognized, as fitted by `omgm sweep --recognition` (see `retriever.recognition`).

    Attributes:
        fitted_to: A hash of the models and settings that the coefficients were fitted for. If it differs, nothing is
            declined.
        general: Whether an index's own coefficients are better.
        threshold: Questions below this probability are declined; 0 declines nothing.
        crop_threshold: With `search.crops`, the best turn or part counts from this probability on; 1 counts none.
        bias: The constant.
        sim_c: Coefficient of the best entity's score in step 1.
        sim_m: Coefficient of its score in step 2.
        lead_c: Coefficient of its lead over the others in step 1 (negative if step 1 ranked another entity first).
        lead: Coefficient of its lead over the next one in the fused score.
        lead_p: Coefficient of its lead over the others by the second network of step 1's encoder alone.
        lead_a: Coefficient of its lead in how well its image agrees with the query's.
        distance: Coefficient of its distance from the others' mean fused score, in standard deviations.
        images: Coefficient of the logarithm of the number of its images.
        lead_k: Coefficient of its lead in the agreement of keypoints, if these were compared.
        lead_w: Coefficient of its lead in how similar the words on it are to those on the query's, if these were read.
    """

    fitted_to: str = ""
    general: bool = False
    threshold: float = Field(default=0.5, ge=0, le=1)
    crop_threshold: float = Field(default=1, ge=0, le=1)
    bias: float = 0
    sim_c: float = 0
    sim_m: float = 0
    lead_c: float = 0
    lead: float = 0
    lead_p: float = 0
    lead_a: float = 0
    distance: float = 0
    images: float = 0
    lead_w: float = 0
    lead_k: float = 0


class SectionsSettings(_Table):
    """Step 3: the kind of reranker, its model if it has one, and the weight of step 2.

    Attributes:
        kind: `bm25`; `hybrid`, BM25 and the cosine of question and section; `cross_encoder` (transformers); `flag`
            (FlagEmbedding); `rerank` (on vLLM or infinity) or `tei`.
        model: The cross-encoder or Qwen3-Reranker; for `hybrid`, a base model, a folder that `train-sections` wrote, or
            a model of sentence-transformers. BM25 needs none.
        base_url: The root of a server's API, for `hybrid`, too.
        max_tokens: Longest pair of question and section, or encoded part of one, in tokens.
        dtype: Dtype of a cross-encoder's weights; `auto` is that of the profile.
        cosine_weight: `hybrid`: weight of the cosine relative to BM25, 0 to 1.
        beta: Weight of step 2, 0 to 1: a section scores `beta * sim_m + (1 - beta) * sim_t`.
    """

    kind: Annotated[str, known_in("omgm.rerankers")] = "bm25"
    model: str = ""
    base_url: str = ""
    max_tokens: int = Field(default=1024, ge=16)
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    cosine_weight: float = Field(default=0.67, ge=0, le=1)
    beta: float = Field(ge=0, le=1)


class RegionSettings(_Table):
    """The region proposer for agents: Grounding DINO, or without a `model` the encoder's feature map.

    Attributes:
        model: A Grounding DINO model of transformers, such as `IDEA-Research/grounding-dino-tiny`; without it, regions
            come from the encoder's feature map.
        labels: Kinds of objects that the model looks for.
        box_threshold: Minimum score of a region.
        text_threshold: Minimum score of a word in its label.
        most: Maximum number of regions, best first.
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


OmittedField = Literal[
    "max_tokens", "max_completion_tokens", "stream_options", "temperature", "stop", "reasoning_effort", "stream"
]
"""A field that requests to a chat model can do without: `chat_models.refusals.OMITTED`."""


class _ChatModelSettings(_Table):
    """A chat model behind any OpenAI-compatible server; its key is read from OPENAI_API_KEY.

    Attributes:
        kind: `extractive` (a small model that quotes the section, or sentences of the article), or `openai` for any
            OpenAI-compatible server.
        base_url: The root of the server's API, such as `http://127.0.0.1:8001/v1`; a bare host gets `/v1`.
        model: The model's name on the server.
        tokenizer: A folder or hub name with a `tokenizer.json`, to cut texts by; without it, four ASCII characters or
            one other character count as a token.
        max_tokens: Longest answer, in tokens.
        max_context_tokens: Longest section, in tokens; longer ones are cut.
        system_role: `false` puts the system prompt into the user's message, for models without a system role.
        reasoning_effort: Sent to the server if set; `none` turns reasoning off in Ollama and llama.cpp's server.
        omit: Fields of requests that the model is known to refuse, such as `max_tokens`, `temperature`, `stop`,
            `stream_options` or `stream`; by default, its refusals show them.
        timeout_s: Longest time in seconds that the server may stay silent.
        retries: Retries after a failed connection, 408, 409, 425, 429 or 5xx, after the time in Retry-After, else with
            backoff.
        concurrency: Number of requests in flight; 64 for vLLM, 1 on a laptop.
    """

    base_url: str = ""
    model: str = ""
    tokenizer: str = ""
    max_tokens: int = Field(default=128, ge=1)
    max_context_tokens: int = Field(default=3072, ge=1)
    system_role: bool = True
    reasoning_effort: str = ""
    omit: tuple[OmittedField, ...] = ()
    timeout_s: float = Field(default=60, gt=0)
    retries: int = Field(default=3, ge=0)
    concurrency: int = Field(default=8, ge=1)


class SummarizerSettings(_ChatModelSettings):
    """The summarizer.

    Attributes:
        max_words: Longest extractive summary, in words.
        max_tokens: Longest summary, in tokens.
        max_context_tokens: Longest article, in tokens; longer ones are cut.
        cache: Cache file for a chat model's summaries: `auto` for `omgm/summaries.sqlite` in the user's cache folder, a
            path on a local disk, or `none`.
    """

    kind: Annotated[str, known_in("omgm.summarizers")] = "extractive"
    max_words: int = Field(default=64, ge=1)
    max_tokens: int = Field(default=256, ge=1)
    max_context_tokens: int = Field(default=6144, ge=1)
    cache: str = Field(default="auto", min_length=1)


class GeneratorSettings(_ChatModelSettings):
    """The generator, which writes the answers.

    Attributes:
        style: The paper's prompt: `evqa` (Table 16), `infoseek` (Table 17), or `auto`, that of the data set.
        multimodal: Whether the image is sent too; needs a multimodal model.
        images: Most images of the section that are named by captions and, if `multimodal`, sent.
    """

    kind: Annotated[str, known_in("omgm.generators")] = "extractive"
    style: Literal["auto", "evqa", "infoseek"] = "auto"
    multimodal: bool = False
    images: int = Field(default=0, ge=0)


class AgentSettings(_Table):
    """Search agents: the limits of a run, and what it may search. The chat model of the generator does the planning.

    Attributes:
        rounds: Most rounds in a run; by default the policy's own.
        tokens: Most tokens in a run, prompts and replies together.
        seconds: Longest run, in seconds.
        money: Highest cost of a run, in the currency of the prices.
        prompt_price: Price of a million prompt tokens.
        completion_price: Price of a million completion tokens.
        context_tokens: Context length of the model, in tokens.
        cache_seconds: Age in seconds up to which results of searches and pages are used again; 0 for never.
        runs: Most concurrent runs in the service.
        prices: Price per tool call, or per query for searches, by tool name: `{web_search = 0.015}`.
        calls: Maximum number of calls per run, by tool name: `{web_search = 5}`; by default unlimited.
        search_engine: Search engine of `web_search`: `searxng`, `serpapi` (key in `SERPAPI_API_KEY`) or `duckduckgo`.
        searxng_url: Address of a SearXNG server.
        publish_dir: A folder that your web server publishes, for reverse image search with SerpAPI.
        publish_url: Its public address.
        contact: Your email address for the user agent; needed to open web pages.
        screenshots: Whether agents can take screenshots of web pages.
        allow_private: Hosts (`name` or `name:port`) that may be on a private network.
        web_corpus: A folder written by `omgm download --queries`, replayed instead of the web.
        propose_regions: Whether regions are proposed for an image without any.
        boxes: Coordinates of the model's boxes: `pixels`, `thousandths`, `percent` or `unit`; `auto` goes by the
            model's family.
        prompts: `paper`: the words of the papers (`omgm download --prompts`); `own`: ours. By default ours; in
            evaluations the papers' if they were downloaded.
    """

    rounds: int | None = Field(default=None, ge=1)
    tokens: int = Field(default=200_000, ge=1)
    seconds: float = Field(default=300, gt=0)
    money: float | None = Field(default=None, ge=0)
    prompt_price: float = Field(default=0, ge=0)
    completion_price: float = Field(default=0, ge=0)
    context_tokens: int = Field(default=16_384, ge=1024)
    cache_seconds: float = Field(default=3600, ge=0)
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


class StepSettings(BaseModel):
    """A step of retrieval: its kind, and the settings that this kind has, if any.

    Attributes:
        kind: `search`, `fusion`, `sections`, or a kind of another package.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: Annotated[str, known_in("omgm.steps")]


Step = Annotated[StepSettings, BeforeValidator(lambda value: {"kind": value} if isinstance(value, str) else value)]
STEPS = tuple(StepSettings(kind=kind) for kind in ("search", "fusion", "sections"))
"""Steps 1 to 3."""


class Profile(_Table):
    """The model of every step and its settings.

    Attributes:
        name: The profile's name in runs and reports; for a file, defaults to the file name.
        device: `cpu`, `cuda`, or `auto`: the GPU if there is one.
        dtype: `float32`, `bfloat16`, `float16`, or `auto`: `bfloat16` on a GPU, on a CPU with AMX and on an AMD CPU
            with AVX512-BF16, else `float32`.
        cuda_graphs: Whether the models run as CUDA graphs on a GPU.
        steps: The steps in order; one with settings of its own is a table: `{kind = "sections", entities = 5}`.
    """

    name: str
    device: str = Field(default="auto", pattern="^(auto|cpu|cuda)$")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    cuda_graphs: bool = True
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
    steps: tuple[Step, ...] = Field(default=STEPS, min_length=1)
    _options: str = PrivateAttr("")

    @property
    def options(self) -> str:
        """The command-line options that select this profile: `--profile P --set key=value`."""
        return self._options or shlex.join(["--profile", self.name])
