"""Downloading a knowledge base's pictures. Start at fetch.py."""
