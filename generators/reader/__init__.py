"""An extractive reader: finds the answer in a section without a language model's server. Start at `reader.py`."""

BASE = "all-MiniLM-L6-v2"
"""The base model (`retriever.base_models`) that the reader's weights build on."""
