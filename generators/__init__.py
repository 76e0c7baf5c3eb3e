"""Generators answer a question from its evidence: a chat model (`chat.py`) or the extractive reader (`reader/`)."""
