"""An extractive reader: finds the answer in a section without a language model. Start at `reader.py`."""
