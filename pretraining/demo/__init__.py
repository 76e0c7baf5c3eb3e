"""The embedded knowledge base: the flags of the world, drawn and described by code."""
