"""Trains the models: hard negatives, losses, the encoder, the reranker, the reader and the generator."""
