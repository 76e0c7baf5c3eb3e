"""Offline: read articles, summarize, embed, store. Owns everything on disk."""
