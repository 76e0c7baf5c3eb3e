"""Downloads a knowledge base's images. Start at fetch.py."""
