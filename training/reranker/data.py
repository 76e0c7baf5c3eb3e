"""The data for training step 2, and how the trained encoder will be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from indexes.article_images import MAIN_ONLY, ImageUse
from indexes.image_source import ImageSource
from indexes.ranked_lists import Order
from indexes.store.article_store import ArticleImages, ArticleStore
from retriever.maxsim import ScoreMode
from training.questions import TrainingQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How the service will use a trained encoder; training and validation do the same.

    Attributes:
        trim_borders: Whether to cut uniform borders off query images.
        use: Which images of an entity will be keys of the index; with `labeled`, those of the questions, too.
        tokens: How the index will store tokens: the name of a `TokenCodec`.
        mode: How step 2 will compare tokens.
    """

    trim_borders: bool = False
    use: ImageUse = MAIN_ONLY
    tokens: str = "float16"
    mode: ScoreMode = "cosine"

    def recorded(self) -> dict[str, object]:
        """Returns the attributes as plain JSON."""
        return {**asdict(self), "use": list(self.use)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankerData:
    """The data that step 2 is trained on: the articles of an index, questions about them and their negatives.

    Attributes:
        index: The articles.
        originals: Where their images are; without it, the index's thumbnails are trained on.
        questions: Questions with their evidence sections, and an error for each row that is none.
        query_image_of: Finds the file of a question's image by its id; returns `None` if there is none.
        negatives: The file that `mine_negatives` wrote, or another system.
        negatives_order: What puts its entities in order, if the file contradicts itself.
        negatives_partial: Whether to accept a file of which less than half is in the index, or that has negatives for
            less than half of the questions.
        serving: How the trained encoder will be used.
        contents: A name for the content of each query image, by its id, the same for copies, which are held out
            together (`indexes.image_copies.content_names`); by default the id.
    """

    index: ArticleStore
    originals: ImageSource | None = None
    questions: Sequence[TrainingQuestion | ValueError]
    query_image_of: Callable[[str], Path | None]
    negatives: Path
    negatives_order: Order | None = None
    negatives_partial: bool = False
    serving: Serving = Serving()
    contents: Mapping[str, str] = field(default_factory=dict)

    @property
    def images(self) -> ArticleImages:
        """The images of the articles."""
        return ArticleImages(self.index, self.originals)
