"""Offline indexing: read articles, summarize, embed, store. Owns everything on disk."""
