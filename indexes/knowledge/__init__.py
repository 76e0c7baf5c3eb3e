"""Reads a knowledge base: its articles in any format, and the images that belong to them."""
