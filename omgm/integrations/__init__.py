"""Retrievers for other frameworks that ask a running service: `langchain` and `llamaindex`, each an extra."""
