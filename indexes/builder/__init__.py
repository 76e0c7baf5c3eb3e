"""Builds an index from a knowledge base, in stages that resume after a kill."""
