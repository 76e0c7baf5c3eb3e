"""Hard negatives, losses, encoder and reranker training."""
