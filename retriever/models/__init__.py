"""The models of the three steps, their weights and their input."""

from retriever.models.torchvision_operators import declare_missing_operators

declare_missing_operators()  # before any module of this package imports transformers
