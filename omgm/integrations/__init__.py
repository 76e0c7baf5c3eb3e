"""Retrievers of other frameworks that ask a running service: `langchain`, `llamaindex`, each an extra."""
