"""The network that scores candidate spans, in PyTorch; `generators/reader/model.py` computes the same in NumPy."""

from __future__ import annotations

import torch
from torch import nn

from generators.reader.model import AROUND
from training.reader.examples import Batch
from training.reader.weights import Numbers


class Network(nn.Module):
    """Scores candidates from their features, the classes of the words around them, and the question's kind.

    Args:
        numbers: Vocabulary and scale of the features.
        hidden: Units of the first layer; the second has half as many.
        size: Dimensions of an embedding.
        dropout: Share of the inputs and units that are dropped.
    """

    def __init__(self, numbers: Numbers, hidden: int = 96, size: int = 16, dropout: float = 0.2) -> None:
        super().__init__()
        vocabulary, width = numbers.vocabulary, len(numbers.mean)
        self.classes = nn.Embedding(len(vocabulary.classes) + 1, size)
        self.kinds = nn.Embedding(len(vocabulary.kinds) + 1, size)
        self.focuses = nn.Embedding(len(vocabulary.focuses) + 1, size)
        for table in (self.classes, self.kinds, self.focuses):
            nn.init.normal_(table.weight, std=0.3)
        self.first = nn.Linear(width + (len(AROUND) + 4) * size, hidden)
        self.second = nn.Linear(hidden, hidden // 2)
        self.last = nn.Linear(hidden // 2, 1)
        self.null = nn.Linear(numbers.overview, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the scores of the candidates, [n], and of giving no answer, [questions]."""
        asked = [self.kinds(batch.kind), self.focuses(batch.focus), self.classes(batch.keys).flatten(1)]
        inputs = [batch.features, self.classes(batch.around).flatten(1), torch.cat(asked, 1)[batch.question]]
        hidden = torch.relu(self.first(torch.cat([self.dropout(part) for part in inputs], 1)))
        hidden = torch.relu(self.second(self.dropout(hidden)))
        return self.last(self.dropout(hidden)).squeeze(1), self.null(batch.overview).squeeze(1)
