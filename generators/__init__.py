"""Generators: what answers a question from its evidence, a chat model or the extractive reader."""
