"""Steps of retrieval that ask a chat model, each from a newer paper; a profile lists those that it wants."""
