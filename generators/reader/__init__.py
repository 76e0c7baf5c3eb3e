"""The extractive reader: finds the answer's words in a section, without a language model. Start at `reader.py`."""
