"""Fine-tunes the generator: samples from our own retrieval, then LoRA on a published chat model."""

import retriever.models  # noqa: F401  first, so that transformers imports even if torchvision does not match PyTorch
